"""Ways to libvirt's drivers, all by ``virsh``: one command after another, or one ``virsh`` that is held.

Main types: ``Virsh`` (its commands, run by a host where a daemon holds the domains) and ``HeldShell`` (runs them in one
process, whose own driver holds them: ``qemu:///embed``, ``test:///default``).
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.errors import GuestDied, GuestError, HostUnreachable
from virtoll.host.packages import how_to_install
from virtoll.hosts.base import CommandRunner, LocalHost
from virtoll.lab.cgroups import Group
from virtoll.lab.commands import PIPED, RUN_SECONDS
from virtoll.lab.enter import Bind, Enter, Mount
from virtoll.lab.inside import end_process
from virtoll.platforms.last_words import last_line

DEBIAN = ("libvirt-clients", "libvirt-daemon", "libvirt-daemon-driver-qemu")
_CHUNK_BYTES = 65536
# A driver of the lab's own changes no owners, and gives no process rights of another user.
_QEMU_CONF = """\
stdio_handler = "file"
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
"""
_DRIVERS_USER = "libvirt-qemu"  # that the driver looks for before it reads its configuration


@dataclass
class HeldShell:
    """One interactive ``virsh``, whose libvirt holds the domain; ``folder`` is where that keeps its files.

    A ``CommandRunner`` for virsh's own commands.
    """

    name: str
    process: subprocess.Popen[bytes]
    who: str
    folder: Path
    _tokens: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def run(
        self, argv: Sequence[str], role: str, deadline_seconds: float = RUN_SECONDS, stdin: bytes | None = None
    ) -> str:
        """One command's output: what comes before a line that it is asked to print next."""
        if stdin is not None:
            raise GuestError(f"{role} of {self.who}: virsh takes commands over its standard input, and nothing else")
        # Two words, which it prints with one space between: what it echoes of its input is never taken for them.
        number = next(self._tokens)
        commands = f"{shlex.join(argv)}\necho virtoll-done  {number}.\n".encode()
        answer = self._exchange(commands, f"virtoll-done {number}.".encode(), " ".join(argv[:2]), deadline_seconds)
        output = answer.decode(errors="replace").replace("\r", "")
        echoed = {shlex.join(argv), ""}
        lines = [line for line in output.splitlines() if line not in echoed and not line.startswith("virsh # ")]
        complaints = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if complaints:
            raise GuestError(f"virsh {argv[0]}: {complaints[-1]}")
        return "".join(f"{line}\n" for line in lines)

    def _exchange(self, commands: bytes, until: bytes, what: str, deadline_seconds: float) -> bytes:
        if self.process.stdin is None or self.process.stdout is None:
            raise GuestError(f"{self.who}: virsh was started without pipes")
        if self.process.stdout.closed:
            raise GuestDied(f"{self.who}: virsh ended")
        deadline, answer = time.monotonic() + deadline_seconds, b""
        output = self.process.stdout.fileno()
        with contextlib.suppress(BrokenPipeError):
            os.write(self.process.stdin.fileno(), commands)
        while until not in answer:
            ready, _, _ = select.select([output], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise GuestDied(
                    f"{self.who}: virsh did not answer '{what}' within {deadline_seconds:g} s{_it_said(answer)}"
                )
            new = os.read(output, _CHUNK_BYTES)
            if not new:
                raise GuestDied(f"{self.who}: virsh ended{_it_said(answer)}")
            answer += new
        return answer.partition(until)[0]

    def close(self) -> None:
        """End it."""
        end_process(self.process)
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            with contextlib.suppress(OSError):
                pipe.close()


@dataclass(frozen=True)
class Virsh:
    """libvirt's commands at ``uri``: a program for each on ``host``, or all by the ``shell`` that is held there."""

    host: CommandRunner
    uri: str
    shell: HeldShell | None = None

    def run(self, *arguments: str, deadline_seconds: float = 60.0) -> str:
        """One command's output; a ``GuestError`` with the end of its complaint and what to do."""
        runner, argv = (self.host, self.argv(*arguments)) if self.shell is None else (self.shell, arguments)
        try:
            return runner.run(argv, "libvirt", deadline_seconds)
        except (GuestDied, HostUnreachable):
            raise
        except GuestError as error:
            raise GuestError(explained(str(error), self.uri, self.host)) from error

    def argv(self, *arguments: str) -> list[str]:
        """The argument list of one command."""
        return ["virsh", "--quiet", "--connect", self.uri, *arguments]

    def close(self) -> None:
        """End the shell, where one is held."""
        if self.shell is not None:
            self.shell.close()


def held_virsh(host: LocalHost, uri: str, who: str, folder: Path, group: Group | None = None) -> Virsh:
    """libvirt by an interactive ``virsh`` that keeps its history and settings in ``folder``."""
    settings = [f"XDG_{kind}_HOME={folder}" for kind in ("CACHE", "CONFIG", "DATA")]
    command = ["env", *settings, "virsh", "--quiet", "--connect", uri]
    enter = own_mounts(drivers_user(folder)) if uri.startswith("qemu:") else None
    options = replace(PIPED, enter=enter, group=group, stderr=subprocess.STDOUT)
    process = host.spawn(command, f"libvirt of {who}", options)
    virsh = Virsh(host, uri, HeldShell(host.name, process, who, folder))
    try:
        virsh.run("version")
    except GuestDied as error:
        virsh.close()
        raise GuestError(explained(str(error), uri, host)) from error
    except GuestError:
        virsh.close()
        raise
    return virsh


def embedded_virsh(host: LocalHost, who: str, folder: Path, group: Group | None = None) -> Virsh:
    """libvirt's driver for QEMU in a ``virsh`` of the guest's own, with all its files below ``folder``."""
    (folder / "etc").mkdir()
    host.write(folder / "etc/qemu.conf", private_driver(cgroups=False).encode())
    return held_virsh(host, f"qemu:///embed?root={folder}", who, folder, group)


def private_driver(*, cgroups: bool) -> str:
    """The settings of a driver for QEMU that is the lab's own; ``cgroups``: whether it makes some for a domain."""
    return _QEMU_CONF if cgroups else f"{_QEMU_CONF}cgroup_controllers = []\n"


def drivers_user(folder: Path) -> list[Bind]:
    """Files of the lab's own in place of the host's: the driver does not start where its user is unknown.

    That user is added for it alone, and nothing runs as it.
    """
    places: list[Bind] = []
    for name, line in (("passwd", f"{_DRIVERS_USER}:x:0:0::/:/bin/false"), ("group", f"{_DRIVERS_USER}:x:0:")):
        known = Path("/etc") / name
        lines = [
            entry for entry in known.read_text(encoding="utf-8").splitlines() if not entry.startswith(_DRIVERS_USER)
        ]
        (folder / name).write_text("\n".join([*lines, line, ""]), encoding="utf-8")
        places.append(Bind(folder / name, known))
    return places


def own_mounts(mounts: Sequence[Mount]) -> Enter:
    """For programs that have the places of their files built in; what is there stays as it is for everybody else.

    Daemons that the program leaves are reaped at once: libvirt waits for a machine to vanish, not to die.
    """
    return Enter(namespaces=("mount",), mounts=tuple(mounts), reap=True)


def _it_said(output: bytes) -> str:
    line = last_line(output)
    return f"; it said: {line.removeprefix('error: ')}" if line else ""


def explained(complaint: str, uri: str, host: CommandRunner) -> str:
    """libvirt's complaint, and for those that have a remedy what to do."""
    all_of_it = how_to_install(*DEBIAN, here=False)
    remedies = (
        ("virsh: not found", all_of_it),
        ("virsh': No such file", all_of_it),
        ("authentication unavailable", f"{uri} needs rights on {host.name}: log in as root, or join the group libvirt"),
        ("Permission denied", f"{uri} needs rights on {host.name}: log in as root, or join the group libvirt"),
        ("access denied", f"{uri} needs rights on {host.name}: log in as root, or join the group libvirt"),
        (
            "Failed to connect socket",
            f"start its daemon on {host.name} (systemctl start libvirtd) or use qemu:///embed",
        ),
        ("already exists with uuid", "this run did not make that domain; 'virsh list --all' shows it"),
        ("already active", "this run did not make that domain; 'virsh list --all' shows it"),
        (
            "could not get preferred machine",
            f"the domain type is not there: {how_to_install(*DEBIAN, 'qemu-system-x86', here=False)}",
        ),
        ("could not find capabilities", "the domain type is not there; choose another 'domain_type'"),
        ("Cannot get interface MTU", "the bridge is not on the host that the daemon runs on"),
        ("no connection driver available for lxc", how_to_install("libvirt-daemon-driver-lxc", here=False)),
        ("no connection driver available", f"the driver is not installed: {all_of_it}"),
        ("Network not found", "the network is missing there"),
    )
    advice = next((remedy for text, remedy in remedies if text.lower() in complaint.lower()), None)
    return f"{complaint}: {advice}" if advice else complaint
