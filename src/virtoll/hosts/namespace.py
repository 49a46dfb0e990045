"""A network namespace of this machine that stands for a host, by name (``ip netns``) or a process in it: for tests."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from virtoll.errors import UsageError

_NAMED = Path("/run/netns")


class NamespaceHost:
    """Programs run in the namespace; files are this machine's own."""

    copies = False

    def __init__(self, namespace: str) -> None:
        """``namespace``: a name below /run/netns, or a process's number."""
        self.name = f"netns {namespace}"
        self._path = Path("/proc") / namespace / "ns/net" if namespace.isdigit() else _NAMED / namespace
        if not self._path.exists():
            raise UsageError(
                f"testbed: {self.name} is not there; make it with 'ip netns add', or give a process's number"
            )

    def command(self, argv: Sequence[str]) -> list[str]:
        """``nsenter`` into the network namespace."""
        return ["nsenter", f"--net={self._path}", "--", *argv]

    def put(self, path: Path) -> str:
        """It is there already."""
        return str(path)

    def drop(self, path: str) -> None:
        """Nothing was copied."""
