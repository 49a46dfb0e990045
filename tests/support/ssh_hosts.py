"""Two hosts that are reached by the real SSH: namespaces with an sshd each, and one for the launcher.

Everything is in namespaces of the test's own: networks, mounts (the hosts have their own /tmp and /run, the launcher
its own /etc/ssh/ssh_config.d), and on the hosts processes, which all end with their sshd. Keys are made for the test.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.support import machine
from tests.support.commands import DEADLINE_SECONDS, VIRTOLL, environment
from tests.support.facts import Fact, assert_facts
from tests.support.real_run import measuring
from tests.support.repository import ROOT

from virtoll.runfolder.store import RunFolder

SSHD = "/usr/sbin/sshd"
# A host: own /run with the keys and the folder that sshd wants, own /tmp; sshd once its interface is there.
HOST = (
    'mount -t tmpfs -o mode=755 none /run && mkdir /run/sshd && cp -r "$1" /run/keys && chmod 600 /run/keys/* '
    f"&& mount -t tmpfs none /tmp && echo there && read go && exec {SSHD} -D -e -f /run/keys/sshd_config"
)
LAUNCHER = 'mount -t tmpfs none /etc/ssh/ssh_config.d && cp "$1" /etc/ssh/ssh_config.d/ && echo there && exec cat'
SSHD_CONFIG = """
ListenAddress {address}
HostKey /run/keys/host
AuthorizedKeysFile /run/keys/user.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
PidFile none
KexAlgorithms curve25519-sha256
"""
SSH_CONFIG = """
Host {name}
  HostName {address}
  User root
  IdentityFile {keys}/{key}
  IdentitiesOnly yes
  UserKnownHostsFile {keys}/known_hosts
  Port {port}
"""


@dataclass(frozen=True)
class SshHosts:
    """``launcher`` and ``hosts`` are processes in the namespaces; names of hosts are those of the launcher's ssh."""

    launcher: int
    hosts: dict[str, int] = field(default_factory=dict)

    def wire(self, pairs: Sequence[tuple[str, str, str]]) -> None:
        """New pairs: the launcher's interface, the host, its interface.

        Those of a run are in its lab, whose namespaces the kernel clears away when it likes, often a minute after the
        last process has ended. So each pair is removed at the end that is still there.
        """
        for pid, name in self._still_there(pairs):
            with contextlib.suppress(subprocess.CalledProcessError):  # it is gone with its other end
                ip(pid, "link", "del", name)
        left, _ = machine.poll_until_empty(lambda: [name for _, name in self._still_there(pairs)])
        assert left == []
        for near, host, far in pairs:
            added = ["link", "add", near, "type", "veth", "peer", "name", far, "netns", str(self.hosts[host])]
            ip(self.launcher, *added)

    def _still_there(self, pairs: Sequence[tuple[str, str, str]]) -> list[tuple[int, str]]:
        """Interfaces of these names on the launcher and the hosts, each after a process that sees it."""
        ends = [(self.launcher, near) for near, _, _ in pairs] + [(self.hosts[host], far) for _, host, far in pairs]
        there = {pid: machine.interfaces_of(pid) for pid in {pid for pid, _ in ends}}
        return [(pid, name) for pid, name in ends if name in there[pid]]

    def inside(self, command: Sequence[str | Path]) -> list[str]:
        """A command where the launcher is."""
        enter = ["nsenter", f"--target={self.launcher}", "--net", "--mount", f"--wd={ROOT}", "--"]
        return [*enter, *map(str, command)]

    def start(self, *arguments: str | Path, variables: Mapping[str, str]) -> subprocess.Popen[str]:
        """``virtoll ARGUMENTS`` on the launcher; the process is its own."""
        return subprocess.Popen(
            self.inside([*VIRTOLL, *arguments]),
            env=environment(**variables),
            stdin=subprocess.DEVNULL,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def virtoll(self, *arguments: str | Path, runs: Path) -> tuple[int, str]:
        """The same to its end: exit code and standard error."""
        with self.start(*arguments, variables={"VIRTOLL_RUNS": str(runs)}) as process:
            try:
                _, complaint = process.communicate(timeout=DEADLINE_SECONDS)
            finally:
                process.kill()
        return process.returncode, complaint

    def measure(self, file: Path) -> RunFolder:
        """The one block of the experiment in this file, without a report."""
        arguments, folder = measuring(file)
        code, complaint = self.virtoll(*arguments, runs=file.parent)
        assert code == 0, complaint
        return RunFolder.open(folder)

    def refuses(self, file: Path, *facts: Fact) -> None:
        """The experiment in this file is refused with these facts, and nothing of it is left anywhere."""
        code, complaint = self.virtoll("run", file, "--into", file.parent / "run", runs=file.parent)
        assert code == 2, complaint
        assert_facts(complaint, *facts)
        # Below a sentence on the file stand the line that it is about, and a caret.
        assert len([line for line in complaint.strip().splitlines() if not line.startswith(" ")]) == 1
        assert not (file.parent / "run").exists()

    def agents(self, host: str, word: str = "") -> list[int]:
        """Agents that run on a host, as processes of this test's own namespace; ``word``: in their arguments."""
        network, found = Path(f"/proc/{self.hosts[host]}/ns/net").stat().st_ino, []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                program, *arguments = (process / "cmdline").read_bytes().split(b"\0")
                right = b"/virtoll-agent-" in program and (not word or word.encode() in arguments)
                if right and (process / "ns/net").stat().st_ino == network:
                    found.append(int(process.name))
        return found

    def copies(self, host: str) -> list[str]:
        """Files in a host's /tmp."""
        return [path.name for path in Path(f"/proc/{self.hosts[host]}/root/tmp").iterdir()]

    def left(self, host: str) -> list[str]:
        """Programs, files, network namespaces and interfaces on a host that are not its own."""
        pid, found = self.hosts[host], self.copies(host)
        network = Path(f"/proc/{pid}/ns/net").stat().st_ino
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                if (process / "ns/net").stat().st_ino == network and "sshd" not in words:
                    found.append(words)
        lent = Path(f"/proc/{pid}/root/run/netns")
        found += [path.name for path in lent.iterdir()] if lent.is_dir() else []
        return [*found, *(name for name in machine.interfaces_of(pid) if name.startswith("virtoll"))]

    def assert_nothing_left(self) -> None:
        """A host notices the end of its connection; what the connection was for ends and goes."""
        left, _ = machine.poll_until_empty(lambda: [f"{host}: {one}" for host in self.hosts for one in self.left(host)])
        assert left == []


def ip(pid: int, *arguments: str) -> None:
    """``ip`` in the network of a process."""
    subprocess.run(["nsenter", f"--target={pid}", "--net", "--", "ip", *arguments], check=True, capture_output=True)


@contextlib.contextmanager
def ssh_hosts(
    folder: Path, names: Sequence[str] = ("alpha", "beta"), behaviour: str | None = None
) -> Iterator[SshHosts]:
    """The hosts, each with an sshd that listens; ``<name>-closed`` and ``<name>-stranger`` are the ways that fail.

    ``behaviour``: a shell script that every command goes through, which is in SSH_ORIGINAL_COMMAND; it is the file
    ``/run/keys/behaviour`` on each host.
    """
    if shutil.which("sshd") is None or shutil.which("ssh") is None:
        pytest.skip("ssh or sshd is missing: apt-get install openssh-server openssh-client")
    with contextlib.ExitStack() as stack:
        keys = folder / "keys"
        keys.mkdir()
        for key in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(keys / key)], check=True)
        host_key = (keys / "host.pub").read_text(encoding="utf-8")
        config, known = "", ""
        for number, name in enumerate(names):
            address = f"10.99.{number}.2"
            for suffix, key, port in (("", "user", 22), ("-closed", "user", 1), ("-stranger", "stranger", 22)):
                config += SSH_CONFIG.format(name=name + suffix, address=address, keys=keys, key=key, port=port)
            known += f"{address},[{address}]:1 {host_key}"
        (keys / "known_hosts").write_text(known, encoding="utf-8")
        (folder / "hosts.conf").write_text(config, encoding="utf-8")
        launcher = stack.enter_context(_namespaces(LAUNCHER, folder / "hosts.conf", []))
        made = SshHosts(launcher.pid)
        for number, name in enumerate(names):
            configured = SSHD_CONFIG.format(address=f"10.99.{number}.2")
            if behaviour is not None:
                (keys / "behaviour").write_text(behaviour, encoding="utf-8")
                configured += "ForceCommand sh /run/keys/behaviour\n"
            (keys / "sshd_config").write_text(configured, encoding="utf-8")
            own_processes = ["--pid", "--fork", "--kill-child"]
            host = stack.enter_context(_namespaces(HOST, keys, own_processes))
            made.hosts[name] = host.pid
            made.wire([(f"way{number}", name, "way")])
            for pid, interface, last in ((launcher.pid, f"way{number}", 1), (host.pid, "way", 2)):
                ip(pid, "address", "add", f"10.99.{number}.{last}/24", "dev", interface)
                ip(pid, "link", "set", interface, "up")
            _listen(host)
        yield made


@contextlib.contextmanager
def _namespaces(script: str, argument: Path, more: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A shell in namespaces of its own, which has said that it is there."""
    unshare = ["unshare", "--net", "--mount", "--propagation", "private", *more, "--"]
    with subprocess.Popen(
        [*unshare, "sh", "-c", script, "sh", str(argument)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"there\n"
            yield process
        finally:
            process.kill()


def _listen(host: subprocess.Popen[bytes]) -> None:
    """Let sshd start and wait until it says that it listens."""
    assert host.stdin is not None
    assert host.stderr is not None
    host.stdin.write(b"go\n")
    host.stdin.flush()
    said = []
    while line := host.stderr.readline():
        said.append(line)
        if b"listening" in line:
            return
    raise AssertionError(f"sshd did not start: {said}")
