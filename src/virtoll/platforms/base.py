"""What a platform is: a way to run a guest, behind one small interface.

Main types: ``Platform`` and ``Guest`` (protocols that the pipeline uses), ``GuestRequest`` (what every guest is given),
``Site`` (where it is started: the lab, its network, the network peer), ``Probe`` (what was found out by trying) and
``AgentGuest`` (the part that all real guests share: a process and a session with its agent).

A platform must not know a workload, nor what its guests will be used for.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from virtoll.agent import AgentClient, Caller
from virtoll.errors import GuestError, ImageError
from virtoll.experiment import Parameters
from virtoll.farpeer import FarPeer
from virtoll.footprint import GuestProcesses
from virtoll.image import FormName, GuestImage, image_form
from virtoll.lab.attachments import Port, Way
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.data import DataRoom
from virtoll.lab.inside import end_process
from virtoll.lab.network import GuestNetwork, Link
from virtoll.platforms.last_words import with_last_words

Evidence = Literal["real", "nested: functional only", "simulator", "stand-in", "record only", "model", "not stated"]
"""What shows that a platform's driver works: the tests' guests ran on the product itself; on it, in a host that was
emulated; against the maker's simulator; against programs that take the documented commands (never run on the real
platform); there is no driver, only what others published; or it is a model and no platform."""
EVIDENCE_WORDS: dict[Evidence, str] = {
    "stand-in": "stand-in: never run on the real platform",
    "simulator": "simulator: never run on the real platform",
}


def evidence_of(kind: type[Platform]) -> Evidence:
    """A platform's own class attribute ``evidence``."""
    found: Evidence = getattr(kind, "evidence", "not stated")
    return found


DataBy = Literal["folder", "disk"]
DATA_PATH = "/data"
"""Where a guest finds its data directory; the image has the place to mount it on."""


def data_by(kind: type[Platform]) -> DataBy | None:
    """How a platform's guests get a data directory on their host's disk; a class attribute, None where they do not."""
    found: DataBy | None = getattr(kind, "data_by", None)
    return found


@dataclass(frozen=True)
class Probe:
    """What ``probe`` found out.

    Usable or not, the product's version, and if not why and what to do, in one sentence.
    """

    available: bool
    version: str | None
    reason: str | None


class GuestStartError(GuestError):
    """A guest that did not start: the sentence, and what its console said."""

    def __init__(self, message: str, evidence: dict[str, bytes]) -> None:
        """``evidence`` maps file names to their content."""
        super().__init__(message)
        self.evidence = evidence


def lacks_of(kind: type[Platform]) -> Mapping[str, str]:
    """What its guests cannot do: a platform's own class attribute ``lacks``, feature -> why, in a few words.

    The features' names are the workloads' (``workloads.base.FEATURES``).
    """
    found: Mapping[str, str] = getattr(kind, "lacks", {})
    return found


def most_vcpus_of(kind: type[Platform]) -> int | None:
    """How many CPUs its guests can have: its own class attribute ``most_vcpus``; None: as many as the host."""
    found: int | None = getattr(kind, "most_vcpus", None)
    return found


@dataclass(frozen=True)
class GuestRequest:
    """What a guest is given: the same for every platform. ``cpus`` are host CPUs that it is pinned to.

    ``cpu_quota``: CPU time per wall time in CPUs (0.2: a fifth of one), for all of the guest; None: no limit.
    ``data``: room on the host's disk to be found at ``DATA_PATH``; only for a platform that says how (``data_by``).
    """

    name: str
    vcpus: int
    memory_bytes: int
    cpus: tuple[int, ...]
    network: GuestNetwork
    deadline_seconds: float = 120.0
    cpu_quota: float | None = None
    data: DataRoom | None = None

    @property
    def data_bytes(self) -> int:
        """Room for workloads' files, in bytes; 0 without a data directory."""
        return self.data.size_bytes if self.data is not None else 0

    @property
    def data_folder(self) -> Path | None:
        """The host's folder to be mounted at ``DATA_PATH``; None where there is none, or it is a disk."""
        return self.data.folder if self.data is not None else None

    @property
    def data_disk(self) -> int | None:
        """The descriptor of the file of a disk to be mounted at ``DATA_PATH``."""
        return self.data.descriptor if self.data is not None else None

    def limits(self, *, memory: bool) -> Limits:
        """The cgroup's limits; ``memory`` only where the guest has no memory of its own that bounds it."""
        return Limits(self.memory_bytes if memory else None, self.cpu_quota, self.cpus)


class GuestHost(Protocol):
    """The one seam between a driver and the machine its guests run on: ``virtoll.lab.inside.Lab`` is this machine,
    ``virtoll.remote.RemoteHost`` another one or a nested testbed.

    Links are attached by ``Site.network``; a console is reached by ``connect``, or is a file, or a pipe of ``spawn``.
    Paths are there, not here. A driver that needs a process's number or a descriptor refuses a host that is ``remote``.
    """

    scratch: Path

    @property
    def name(self) -> str:
        """As messages and records name it: ``this machine``, ``ssh user@host``, ``nested xen``."""
        ...

    @property
    def lab_id(self) -> str:
        """``virtoll-`` and 12 hex digits: what the names of all begin with that a run makes on a host."""
        ...

    @property
    def remote(self) -> bool:
        """Whether this machine's processes, descriptors and paths mean nothing there."""
        ...

    @property
    def is_root(self) -> bool:
        """Whether it may use what the kernel keeps for the host's own root."""
        ...

    @property
    def cgroup(self) -> str | None:
        """The name below which the lab's cgroups go, for runtimes that make their own; None where none may be made."""
        ...

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        """Run a program there to its end; its output, or a ``GuestError`` with the end of its complaint."""
        ...

    def spawn(
        self,
        argv: Sequence[str],
        role: str,
        *,
        cpus: Sequence[int] = (),
        group: Group | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program there, pinned and in a cgroup from its first instruction on.

        It ends with the process here.
        """
        ...

    def connect(self, path: Path, who: str, deadline_seconds: float = 10.0) -> socket.socket:
        """A byte stream to a Unix socket or a character device there (set raw), waited for until it can be opened."""
        ...

    def read(self, path: Path) -> bytes:
        """A file there; a ``GuestError`` where it cannot be read."""
        ...

    def write(self, path: Path, content: bytes) -> None:
        """Make a file there."""
        ...

    def guard(self, argv: Sequence[str]) -> Callable[[], None]:
        """Have a program run there should this controller die before the returned function withdraws it.

        For what no process of ours holds: a domain of Xen, a machine that VirtualBox has registered, an interface.
        """
        ...

    def group(self, name: str, limits: Limits) -> Group | None:
        """A cgroup for a guest, or None where none may be made and none is needed."""
        ...

    def put(self, path: Path) -> Path:
        """Make a file of this machine available there; returns where."""
        ...

    def nameless_copy(self, path: Path) -> int:
        """A descriptor, for ``spawn``, of a copy of a file on a disk there: gone with the last process that has it."""
        ...

    def guest_folder(self, name: str) -> Path:
        """A fresh folder there for one guest's sockets and files, gone with the lab."""
        ...


class Sleeper(Protocol):
    """A host that can be stopped as a whole and go on later: a nested testbed."""

    def park(self) -> None:
        """Stop it."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...


class HostNetwork(Protocol):
    """How a guest's links are made on its host: ``virtoll.lab.network.Network`` here, ``virtoll.remote`` elsewhere.

    Every ``GuestError`` names the link.
    """

    def host_port(self, link: Link) -> None:
        """The link ends at the host itself."""
        ...

    def tap_port(self, link: Link, device: str | None = None) -> Port:
        """The link ends at a tap, or is a PCI device."""
        ...

    def raw_port(self, link: Link) -> str:
        """The link ends at an interface for a program that opens it by a packet socket; its name."""
        ...

    def namespace_port(self, link: Link, pid: int) -> None:
        """The link ends in the network namespace of a process of this machine."""
        ...

    def bridge_port(self, link: Link, port: str | None = None) -> str:
        """The link ends at a bridge, to which the product attaches its interface ``port``; the bridge's name."""
        ...

    def ways(self, network: GuestNetwork) -> dict[str, Way]:
        """The host's interfaces on each link, by the link's name."""
        ...

    def reach(self, network: GuestNetwork) -> GuestNetwork:
        """A guest's links as they lead to this host."""
        ...

    def remove(self, network: GuestNetwork) -> None:
        """Remove a guest's links, whatever of them is there."""
        ...

    def back_to_back(self, names: tuple[str, str], macs: tuple[str, str], mtu_bytes: int) -> None:
        """A pair of interfaces at the peer with nothing between."""
        ...


@dataclass
class Site:
    """Where guests are started; the network exists once the peer has been started.

    ``counters`` is an agent in the host's own namespace; ``far`` generator and sink on another host, None without.
    ``cpus``: those of a host that is not this machine, on which guests are pinned; None: as the run pins them here.
    ``sleeper``: a host that is stopped while nothing is done on it. ``programs``: an agent in the peer's network
    namespace on the root of the image, that starts the image's programs there; None where the image has none.
    """

    lab: GuestHost
    image: GuestImage
    peer: Caller | None = None
    network: HostNetwork | None = None
    counters: Caller | None = None
    far: FarPeer | None = None
    cpus: tuple[int, ...] | None = None
    sleeper: Sleeper | None = None
    programs: Caller | None = None
    _awake: int = 0

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Have the host run for the length of the context; between them an emulated one uses no CPU of this machine."""
        if self.sleeper is not None and self._awake == 0:
            self.sleeper.resume()
        self._awake += 1
        try:
            yield
        finally:
            self._awake -= 1
            if self.sleeper is not None and self._awake == 0:
                self.sleeper.park()

    def pinned(self, vcpus: int, here: tuple[int, ...]) -> tuple[int, ...]:
        """The host's CPUs that a guest is pinned to: ``here`` on this machine; elsewhere the first, if one is left."""
        if self.cpus is None:
            return here
        return self.cpus[:vcpus] if len(self.cpus) > vcpus else ()

    def require_peer(self) -> Caller:
        """The network peer; a ``GuestError`` says that it is not there yet."""
        if self.peer is None:
            raise GuestError("the network peer is not up; start it first")
        return self.peer

    def require_network(self) -> HostNetwork:
        """The lab's network; a ``GuestError`` says that it is not there yet."""
        if self.network is None:
            raise GuestError("the lab's network is not up; start the network peer first")
        return self.network


class Guest(Protocol):
    """One live instance. ``attachment`` says how its links reach it, ``peer`` who generates and times for it."""

    attachment: str
    spawned_monotonic_ns: int
    ready_monotonic_ns: int

    @property
    def agent(self) -> Caller:
        """The session with the agent inside it."""
        ...

    @property
    def peer(self) -> Caller:
        """The session with whoever generates and times for it."""
        ...

    def park(self) -> None:
        """Stop it from using the CPU while others are measured."""
        ...

    def resume(self) -> None:
        """Let it run again."""
        ...

    def stop(self) -> None:
        """End it and remove all that it had; harmless when it has ended already."""
        ...

    def evidence(self) -> dict[str, bytes]:
        """Console and logs by file name, for a guest that failed."""
        ...

    def host_processes(self) -> GuestProcesses | None:
        """Where its processes are found on its host; None where it has none there."""
        ...


class Platform(Protocol):
    """One way to run a guest, with its parameters."""

    def __init__(self, parameters: Parameters) -> None:
        """Take the checked parameters; starts nothing."""
        ...

    name: ClassVar[str]
    family: ClassVar[str]
    title: ClassVar[str]
    parameter_model: ClassVar[type[Parameters]]
    boot_seconds: ClassVar[float]
    slowdown: ClassVar[float]
    control_of: ClassVar[str | None]
    needs_lab: ClassVar[bool]

    def probe(self, site: Site | None) -> Probe:
        """Find out by trying whether this platform works here; never raises."""
        ...

    def depends_on(self) -> str | None:
        """What a slow probe's outcome depends on besides host boot and image; None: the probe is quick, try always."""
        ...

    def start(self, request: GuestRequest, site: Site | None) -> Guest:
        """Start a guest and wait until its agent is ready; a ``GuestError`` carries the evidence when it is not."""
        ...


@dataclass
class AgentGuest:
    """A guest whose agent is reached over a pair of file descriptors; ``cleanup`` runs last, in reverse order.

    ``inner_group`` is the process group of what runs inside, where it is not the started process's own; ``shared`` are
    processes that serve several guests (an engine's daemon), by name. ``host``: where its files are; None: here. On
    another host ``process`` is the connection that the guest ends with. ``flushes``: whether what it syncs on its disks
    is synced on the host too.
    """

    agent: AgentClient
    peer: Caller
    process: subprocess.Popen[bytes]
    attachment: str
    console_file: Path
    spawned_monotonic_ns: int
    ready_monotonic_ns: int = 0
    inner_group: int | None = None
    shared: tuple[tuple[str, int], ...] = ()
    cleanup: list[Callable[[], object]] = field(default_factory=list)
    host: GuestHost | None = None
    flushes: bool = True

    def wait_ready(self, deadline_seconds: float) -> None:
        """Wait for the agent; on failure everything is removed and the console is handed out with the error."""
        try:
            self.agent.wait_ready(deadline_seconds)
        except GuestError as error:
            evidence = self.evidence()
            self.stop()
            raise GuestStartError(with_last_words(str(error), evidence), evidence) from error
        self.ready_monotonic_ns = time.monotonic_ns()

    def park(self) -> None:
        """Stop every process of the guest's session."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue every process of the guest's session."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Ask the agent to leave, then end the process, then undo what the start did, whatever state it is in."""
        with contextlib.suppress(GuestError):
            self.resume()
        if self.process.poll() is None and not self.agent.ended:
            with contextlib.suppress(GuestError, subprocess.TimeoutExpired):
                self.agent.call("shutdown", deadline_seconds=2.0)
                self.process.wait(2.0)
        self.agent.close()
        end_process(self.process)
        while self.cleanup:
            with contextlib.suppress(GuestError, OSError):
                self.cleanup.pop()()

    def evidence(self) -> dict[str, bytes]:
        """The console file, and what came over the agent's channel that was not the protocol."""
        found = {"console.txt": bytes(self.agent.console)}
        with contextlib.suppress(OSError, GuestError):
            said = self.host.read(self.console_file) if self.host else self.console_file.read_bytes()
            found["console.txt"] = said + found["console.txt"]
        return found

    def host_processes(self) -> GuestProcesses | None:
        """The started process, what runs inside, the daemons that it shares, and its folder; None on another host."""
        if self.host is not None and self.host.remote:
            return None
        return GuestProcesses(self.process.pid, self.inner_group, self.shared, self.console_file.parent)

    def _signal(self, number: int) -> None:
        if self.process.poll() is None:
            for group in (self.process.pid, self.inner_group):
                with contextlib.suppress(ProcessLookupError):
                    if group is not None:
                        os.killpg(group, number)


def root_disk(image: GuestImage, file_system: FormName = "erofs") -> Path:
    """The image as a disk, which is only read; a ``GuestError`` where it cannot be made."""
    try:
        return image_form(image, file_system).file
    except ImageError as error:
        raise GuestError(str(error)) from error


def require_site(site: Site | None) -> Site:
    """The site of a platform that cannot do without one."""
    if site is None:
        raise GuestError("this platform needs a lab; start it through the 'virtoll' command line")
    return site


def connect_stdio(process: subprocess.Popen[bytes], who: str) -> AgentClient:
    """A session over the standard input and output of a process that ``Lab.spawn`` started with pipes."""
    if process.stdin is None or process.stdout is None:
        raise GuestError(f"{who} was started without pipes")
    reader, writer = os.dup(process.stdout.fileno()), os.dup(process.stdin.fileno())
    process.stdout.close()
    process.stdin.close()
    return AgentClient(reader, writer, who)


def socket_session(who: str) -> tuple[AgentClient, socket.socket]:
    """A session over a socket pair, and the end that the guest's monitor is to be given."""
    ours, theirs = socket.socketpair()
    descriptor = ours.detach()
    return AgentClient(descriptor, descriptor, who), theirs


def network_request(network: GuestNetwork) -> dict[str, Any]:
    """The agent's ``network`` operation for a guest with these links: addresses, permanent neighbours, forwarding."""
    return {
        "interfaces": [
            {
                "mac": link.guest_mac,
                "name": None,
                "mtu": link.mtu_bytes,
                "address": f"{link.guest_address}/24",
                "neighbours": [{"address": link.peer_address, "mac": link.guest_next_hop_mac}],
            }
            for link in network.links
        ],
        "routes": [],
        "ip_forward": True,
    }


def peer_request(network: GuestNetwork) -> dict[str, Any]:
    """The same for the peer's ends: up, and without an address, so that its kernel answers and forwards nothing."""
    interfaces: list[dict[str, Any]] = [
        {"mac": link.peer_mac, "name": None, "mtu": link.mtu_bytes, "address": None, "neighbours": []}
        for link in network.links
    ]
    return {"interfaces": interfaces, "routes": [], "ip_forward": None}
