"""A host whose ``xl`` answers from what is written down: for tests of what Xen's driver asks of dom0."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.support.agents import recorded_reply

from virtoll.agent.client import PROTOCOL
from virtoll.errors import GuestError
from virtoll.lab.inside import Lab
from virtoll.lab.network import GuestNetwork, Link

LAB = "virtoll-0123456789ab"
Answer = str | GuestError
ROLES = frozenset(
    {"console", "disk", "dom0", "domain", "domains", "end", "logs", "network", "park", "probe", "resume", "router"}
    | {"NICs", "vfio", "guest xen/3", "guest probe-xen"}
)
"""What the record of a run says that each command was for."""
NOTHING = (
    "Name                                        ID   Mem VCPUs\tState\tTime(s)\nDomain-0  0  1024  2  r-----  21.2\n"
)
TTY = "/dev/pts/4"
IMAGE = SimpleNamespace(
    kernel=SimpleNamespace(vmlinuz=Path("/i/vmlinuz"), vmlinux=Path("/i/vmlinux")),
    initramfs=Path("/i/small"),
    disk_initramfs=Path("/i/large"),
    needs_disk=False,
    name="tiny",
)


class GuestConsole:
    """A guest's agent behind its console: it greets, answers as a real one did, and keeps what it is ``asked``."""

    def __init__(self) -> None:
        """Answers in a thread of its own, until the guest is stopped or it is ended."""
        self.asked: list[str] = []
        self.ours, self._theirs = socket.socketpair()
        self._thread = threading.Thread(target=self._answer_each)
        self._thread.start()

    def end(self) -> None:
        """Hang up, if the guest was not stopped."""
        with suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def _answer_each(self) -> None:
        ready = json.dumps({"event": "ready", "protocol": PROTOCOL})
        with suppress(ConnectionError), self._theirs, self._theirs.makefile("rw") as stream:
            print("a kernel's last word", ready, sep="\n", file=stream, flush=True)
            for line in stream:
                request = json.loads(line)
                self.asked.append(request["op"])
                print(json.dumps({"id": request["id"], "ok": recorded_reply(request["op"])}), file=stream, flush=True)


class Bridges:
    """A host's network that makes nothing; its removal is among what was ``asked``."""

    def __init__(self, asked: list[list[str]] | None = None) -> None:
        self.asked = [] if asked is None else asked
        self.ports: dict[str, str | None] = {}
        self.removed: list[GuestNetwork] = []

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        assert link.attachment == "bridge"
        self.ports[link.name] = port
        return f"virtoll-{link.name}"

    def remove(self, network: GuestNetwork) -> None:
        self.removed.append(network)
        self.asked.append(["the network is removed"])


class Dom0(Lab):
    """``said``: what ``xl``'s commands print, ``others`` what other programs do. It has a domain that is created until
    it is destroyed, except the ``undying``; it keeps what was run, written and promised, and how long each ``xl`` was
    waited for; pins are seen by ``vcpu-list``, as ``affinity`` (hard, soft) by vCPU. Consoles are at ``TTY``.
    """

    def __init__(self, said: dict[str, Answer], scratch: Path = Path("/nowhere"), lab_id: str = LAB) -> None:
        super().__init__(lab_id, scratch)
        self.said = said
        self.asked: list[list[str]] = []
        self.written: dict[Path, str] = {}
        self.files = {"/proc/sys/net/ipv4/conf/all/rp_filter": "0\n"}
        self.promised: list[list[str]] = []
        self.undying: set[str] = set()
        self.others: dict[str, str | Callable[[], str]] = {}
        self.affinity: dict[str, tuple[str, str]] = {}
        self.consoles: list[GuestConsole] = []
        self.waited: dict[str, float] = {}

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        assert role in ROLES
        assert deadline_seconds > 0
        self.asked.append([*argv, *([stdin.decode()] if stdin else [])])
        if argv[0] != "xl":
            other = self.others.get(argv[0], "")
            return other() if callable(other) else other
        self.waited[argv[1]] = deadline_seconds
        if argv[1] == "create" and "create" not in self.said:
            self.said["list"] = f"{self.said['list']}{self.configuration()['name']}  7  256  1  --p---  0.0\n"
            return ""
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
        answer = self.said.get(argv[1], "7\n" if argv[1] == "domid" else "")
        if isinstance(answer, GuestError):
            raise answer
        return answer

    def connect(self, path: Path, who: str, deadline_seconds: float = 60.0) -> socket.socket:
        assert (str(path), who in ("xen/3", "probe-xen"), deadline_seconds > 0) == (TTY, True, True)
        self.asked.append(["its console is held"])
        self.consoles.append(GuestConsole())
        return self.consoles[-1].ours

    def read(self, path: Path) -> bytes:
        if str(path) not in self.files:
            raise GuestError(f"{path} cannot be read")
        return self.files[str(path)].encode()

    def write(self, path: Path, content: bytes) -> None:
        self.written[path] = content.decode()

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """What is promised now; the newest last."""
        one = list(argv)
        self.promised.append(one)
        return lambda: self.promised.remove(one)

    def configuration(self) -> dict[str, Any]:
        """What ``xl create`` was given."""
        lines = next(text for path, text in self.written.items() if path.name == "domain.cfg").splitlines()
        return {key: json.loads(value) for key, _, value in (line.partition(" = ") for line in lines)}
