"""A network namespace of this machine that stands for a host, by name (``ip netns``) or a process in it: for tests."""

from __future__ import annotations

from pathlib import Path

from virtoll.errors import GuestError
from virtoll.lab.commands import ConnectedHost, Connection

_NAMED = Path("/run/netns")


def namespace_host(namespace: str) -> ConnectedHost:
    """Programs run in the namespace, files are this machine's own; ``namespace``: a name, or a process's number."""
    path = Path("/proc") / namespace / "ns/net" if namespace.isdigit() else _NAMED / namespace
    if not path.exists():
        raise GuestError(f"netns {namespace} is not there; make it with 'ip netns add', or give a process's number")
    return ConnectedHost(Connection(f"netns {namespace}", ("nsenter", f"--net={path}", "--")))
