"""``virtoll selftest``: does the instrument find what is known to be there?

Guests with a known fault (``platforms/altered``) are measured as any guest is, by experiments of this room
(``experiments``). What the statistics say of them is compared with what was put in (``checks``, by the rules of
``findings``), and told as a table (``table``). It must not start anything, and must not know how a fault is made.
"""
