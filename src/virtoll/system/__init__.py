"""What Virtoll needs of Linux and of Python, and what must be safe on a machine with other users.

``python`` starts modules of Virtoll in an isolated Python; ``private`` opens folders and files that belong to one user;
``locks`` waits for a lock for a bounded time and names who holds it. Every room may use these; they know no other room
than ``errors``.
"""
