"""A host whose ``xl`` answers from what is written down: for tests of what Xen's driver asks of dom0."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from virtoll.errors import GuestError
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork, Link

LAB = "virtoll-0123456789ab"
Answer = str | GuestError
NOTHING = (
    "Name                                        ID   Mem VCPUs\tState\tTime(s)\nDomain-0  0  1024  2  r-----  21.2\n"
)
IMAGE = SimpleNamespace(
    kernel=SimpleNamespace(vmlinuz=Path("/i/vmlinuz"), vmlinux=Path("/i/vmlinux")),
    initramfs=Path("/i/small"),
    disk_initramfs=Path("/i/large"),
    needs_disk=False,
    name="tiny",
)


class Bridges:
    """A host's network that makes nothing."""

    def __init__(self) -> None:
        self.ports: dict[str, str | None] = {}
        self.removed: list[GuestNetwork] = []

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        assert link.attachment == "bridge"
        self.ports[link.name] = port
        return f"virtoll-{link.name}"

    def remove(self, network: GuestNetwork) -> None:
        self.removed.append(network)


class Dom0(Lab):
    """``said``: what ``xl``'s commands print, ``others`` what other programs do. It forgets a domain that is destroyed,
    except the ``undying``; it keeps what was run, written and promised; pins are seen by ``vcpu-list``, as ``affinity``
    (hard, soft) by vCPU.
    """

    def __init__(self, said: dict[str, Answer], scratch: Path = Path("/nowhere"), lab_id: str = LAB) -> None:
        super().__init__(lab_id, scratch)
        self.said = said
        self.asked: list[list[str]] = []
        self.written: dict[str, str] = {}
        self.files = {"/proc/sys/net/ipv4/conf/all/rp_filter": "0\n"}
        self.promised: list[list[str]] = []
        self.undying: set[str] = set()
        self.others: dict[str, str] = {}
        self.affinity: dict[str, tuple[str, str]] = {}

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        assert role
        assert deadline_seconds > 0
        self.asked.append([*argv, *([stdin.decode()] if stdin else [])])
        if argv[0] != "xl":
            return self.others.get(argv[0], "")
        if argv[1] == "destroy":
            rows = str(self.said["list"]).splitlines(keepends=True)
            if argv[2] in self.undying:
                raise GuestError(f"'xl destroy {argv[2]}' ended with 1: it does not go")
            self.said["list"] = "".join(row for row in rows if row.split()[0] != argv[2])
            return ""
        if argv[1] == "vcpu-pin" and "vcpu-pin" not in self.said:
            wanted, hard, soft = argv[3], argv[4], argv[5] if len(argv) > 5 else "-"
            for number, (_, before) in self.affinity.items():
                if wanted in ("all", number):
                    self.affinity[number] = (hard, before if soft == "-" else soft)
            return ""
        if argv[1] == "vcpu-list" and "vcpu-list" not in self.said:
            head = "Name                                ID  VCPU   CPU State   Time(s) Affinity (Hard / Soft)\n"
            return head + "".join(
                f"Domain-0                             0  {number:>4}    {number}   -b-      20.7  {hard} / {soft}\n"
                for number, (hard, soft) in self.affinity.items()
            )
        answer = self.said[argv[1]]
        if isinstance(answer, GuestError):
            raise answer
        return answer

    def read(self, path: Path) -> bytes:
        return self.files[str(path)].encode()

    def write(self, path: Path, content: bytes) -> None:
        self.written[path.name] = content.decode()

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """What is promised now; the newest last."""
        one = list(argv)
        self.promised.append(one)
        return lambda: self.promised.remove(one)

    def configuration(self) -> dict[str, Any]:
        """What ``xl create`` was given."""
        lines = self.written["domain.cfg"].splitlines()
        return {key: json.loads(value) for key, _, value in (line.partition(" = ") for line in lines)}
