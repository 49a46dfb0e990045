"""The operations of the agent's protocol: one type for each request and each reply, as docs/protocol.md specifies them.

A field of a request that the protocol lets be left out has a default here. A field of a reply has one if the
agent may leave it out.
"""
