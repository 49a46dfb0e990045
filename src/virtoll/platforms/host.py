"""Where guests are started: a host, its network, and what a run has opened there.

Main types: ``GuestHost`` (protocol: run, spawn and reach programs on a host), ``HostNetwork`` (protocol: make links
there) and ``Site`` (one host of a run with its network, image and network peer).
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from virtoll.agent.client import Caller
from virtoll.errors import GuestError
from virtoll.hosts.remote_peer import FarPeer
from virtoll.image import GuestImage
from virtoll.lab.attachments import Port, Way
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.enter import Enter
from virtoll.lab.network import GuestNetwork, Link


class CommandRunner(Protocol):
    """A host on which programs are run to their end: as much as a product's own commands need."""

    @property
    def name(self) -> str:
        """As messages and records name it: ``this machine``, ``ssh user@host``, ``nested xen``."""
        ...

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 30.0, stdin: bytes | None = None) -> str:
        """Run a program there to its end; its output, or a ``GuestError`` with the end of its complaint."""
        ...


class GuestHost(CommandRunner, Protocol):
    """The one seam between a driver and the machine its guests run on: ``virtoll.lab.inside.Lab`` is this machine,
    ``virtoll.hosts.RemoteHost`` another one or a nested testbed.

    Links are attached by ``Site.network``; a console is reached by ``connect``, or is a file, or a pipe of ``spawn``.
    Paths are there, not here. A driver that needs a process's number or a descriptor refuses a host that is ``remote``.
    """

    scratch: Path

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

    def spawn(
        self,
        argv: Sequence[str],
        role: str,
        *,
        enter: Enter | None = None,
        cpus: Sequence[int] = (),
        group: Group | None = None,
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start a program there, pinned and in a cgroup from its first instruction on, behind ``enter``.

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
    """How a guest's links are made on its host: ``virtoll.lab.network.Network`` here, ``virtoll.hosts`` elsewhere.

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


Resource = TypeVar("Resource")


@dataclass
class SharedResources:
    """What guests of one host use together, one of each type: an engine's daemon, a dom0 that is pinned elsewhere."""

    _held: dict[type, object] = field(default_factory=dict)
    _ends: dict[type, Callable[[], object]] = field(default_factory=dict)

    def find(self, kind: type[Resource]) -> Resource | None:
        """The resource of this type; None where there is none now."""
        held = self._held.get(kind)
        return held if isinstance(held, kind) else None

    def keep(self, resource: object, end: Callable[[], object] | None = None) -> None:
        """From now on guests find it; ``end`` ends it with the site, if nobody has dropped it before."""
        self._held[type(resource)] = resource
        if end is not None:
            self._ends[type(resource)] = end

    def drop(self, kind: type) -> None:
        """Guests find it no more, and whoever drops it has ended it."""
        self._held.pop(kind, None)
        self._ends.pop(kind, None)

    def close(self) -> None:
        """End what is left."""
        for end in list(self._ends.values()):
            with contextlib.suppress(GuestError, OSError):
                end()
        self._held.clear()
        self._ends.clear()


@dataclass
class Site:
    """Where guests are started: the host, the image, the host's network and the peer at its other end.

    ``counters`` is an agent in the host's own namespace; ``far`` generator and sink on another host, None without.
    ``cpus``: those of a host that is not this machine, on which guests are pinned; None: as the run pins them here.
    ``sleeper``: a host that is stopped while nothing is done on it. ``programs``: an agent in the peer's network
    namespace on the root of the image, that starts the image's programs there; None where the image has none.
    ``is_model``: nothing of it is real (``platforms.fake.site``): no image, no agent and nothing to calibrate.
    """

    host: GuestHost
    image: GuestImage
    peer: Caller
    network: HostNetwork
    counters: Caller | None = None
    far: FarPeer | None = None
    cpus: tuple[int, ...] | None = None
    sleeper: Sleeper | None = None
    programs: Caller | None = None
    is_model: bool = False
    shared: SharedResources = field(default_factory=SharedResources)
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
