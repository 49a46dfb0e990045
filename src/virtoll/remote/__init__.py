"""Another host that holds guests, seen from inside the lab: over SSH, or a nested testbed, which is that as well.

Main types: ``RemoteHost`` (the ``GuestHost`` of ``platforms/base.py`` over a command prefix) and ``RemoteNetwork`` (its
``HostNetwork``, on NICs that lead to this machine's network peer). What must go when this controller dies is told to
the agent's ``undo`` over there, which notices the end of its connection.
"""

from virtoll.remote.cabled import CabledNetwork
from virtoll.remote.host import Connection, RemoteHost, open_remote
from virtoll.remote.network import FarNic, RemoteNetwork

__all__ = ["CabledNetwork", "Connection", "FarNic", "RemoteHost", "RemoteNetwork", "open_remote"]
