"""Where guests are started: a host, its network, and what a run has opened there.

Main type: ``Site`` (one host of a run with its network, image and network peer). What a host can do is
``hosts/base.py``, what its network can ``hosts/links.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from virtoll.agent.client import Caller
from virtoll.errors import GuestError
from virtoll.hosts.base import GuestHost, LocalHost
from virtoll.hosts.links import Links, LocalPorts
from virtoll.hosts.remote_peer import RemotePeer
from virtoll.image import GuestImage
from virtoll.lab.data import DataVolume


class Sleeper(Protocol):
    """A host that can be stopped as a whole and go on later, as a nested host can."""

    def park(self) -> None:
        """Stop it."""
        ...

    def resume(self) -> None:
        """Let it go on."""
        ...


@dataclass
class Sleep:
    """Whether somebody needs the host now; one that can be stopped (``host``) is while nobody does."""

    host: Sleeper | None = None
    _awake: int = 0

    @contextlib.contextmanager
    def awake(self) -> Iterator[None]:
        """Have it run for the length of the context."""
        if self.host is not None and self._awake == 0:
            self.host.resume()
        self._awake += 1
        try:
            yield
        finally:
            self._awake -= 1
            if self.host is not None and self._awake == 0:
                self.host.park()


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
    ``sleep``: of a host that is stopped while nothing is done on it. ``programs``: an agent in the peer's network
    namespace (or on its host) on the root of the image, that starts the image's programs there; None without them.
    ``programs_volume``: room for their files; None where no workload needs it.
    ``builds``: files of programs by name that come before PATH for its guests, of another build than this machine's.
    ``is_model``: nothing of it is real (``platforms.fake.site``): no image, no agent and nothing to calibrate.
    """

    host: GuestHost
    image: GuestImage
    peer: Caller
    network: Links
    counters: Caller | None = None
    far: RemotePeer | None = None
    cpus: tuple[int, ...] | None = None
    programs: Caller | None = None
    programs_volume: DataVolume | None = None
    is_model: bool = False
    builds: Mapping[str, Path] = field(default_factory=dict)
    shared: SharedResources = field(default_factory=SharedResources)
    sleep: Sleep = field(default_factory=Sleep)

    @property
    def this_machine(self) -> LocalHost:
        """The host of guests that are processes of this machine; a ``GuestError`` where it is another one."""
        local = self.host.local
        if local is None:
            raise GuestError(f"its guests are started on this machine only; run Virtoll on {self.host.name} itself")
        return local

    @property
    def local_ports(self) -> LocalPorts:
        """The network that ends in namespaces of this machine; a ``GuestError`` where the links lead elsewhere."""
        ports = self.network.local
        if ports is None:
            raise GuestError("its links end in namespaces of this machine, and those of its host lead to another one")
        return ports

    def with_builds(self, programs: Mapping[str, Path]) -> Site:
        """The same for guests that are started with these programs; what they share and keep is theirs alone."""
        host = self.this_machine.with_programs(programs)
        return replace(self, host=host, builds=dict(programs), shared=SharedResources())

    def awake(self) -> contextlib.AbstractContextManager[None]:
        """Have the host run for the length of the context; between them an emulated one uses no CPU of this machine."""
        return self.sleep.awake()

    def pinned(self, vcpus: int, here: tuple[int, ...]) -> tuple[int, ...]:
        """The host's CPUs that a guest is pinned to: ``here`` on this machine; elsewhere the first, if one is left."""
        if self.cpus is None:
            return here
        return self.cpus[:vcpus] if len(self.cpus) > vcpus else ()
