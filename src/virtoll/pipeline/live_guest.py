"""A guest that is up, with what is needed to measure it; and several that run together for a while.

Main types: ``LiveGuest``, ``Placement`` (where it is pinned) and ``Slot`` (which of its platform's guests it is).
Must not: start or end guests, which ``guest_start.py`` and ``guest_pool.py`` do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from virtoll.agent.client import TrafficAgents
from virtoll.agent.hand_over import HandOverReader
from virtoll.agent.operations.session import ClocksRequest
from virtoll.agent.path_counters import HopReader
from virtoll.agent.timekeeper import Timekeeper
from virtoll.errors import AgentError, GuestDied, GuestError, NeighbourFailed
from virtoll.experiment.model import WorkloadChoice
from virtoll.host.guest_usage import CpuAround, cpu_around, pids_of
from virtoll.lab.cgroups import MemoryKills
from virtoll.lab.network import GuestNetwork
from virtoll.pipeline.data_directory import DataKeeper
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.requirements import why_not_in_memory
from virtoll.pipeline.standstill import watched
from virtoll.platforms.base import Guest
from virtoll.platforms.host import Site
from virtoll.runfolder.conditions import Affinity
from virtoll.runfolder.scale import ScalePoint
from virtoll.workloads.base import Bench, DataDirectory, Measurement, Needs

_STOPPED = "it was stopped (SIGSTOP) while it was measured; what it did is not known"
_KILLED = "the kernel killed processes of it for want of memory while it was measured: {}; give its guest more memory"


@dataclass(frozen=True)
class Placement:
    """The host CPUs that a guest is pinned to, none for any; its virtual CPUs, and its memory in bytes."""

    cpus: tuple[int, ...]
    vcpus: int
    memory_bytes: int


@dataclass(frozen=True)
class Slot:
    """Which of a platform's guests one is: ``instance`` 0 is its own, others stand beside that.

    ``place``: where it is pinned if not as the experiment says. ``group``: with how many it is started at once.
    ``neighbour_of``: the label of the platform whose measured guest has it as a neighbour. ``affinity``: of guests
    that are measured side by side.
    """

    instance: int = 0
    place: Placement | None = None
    group: ScalePoint | None = None
    neighbour_of: str | None = None
    affinity: Affinity | None = None

    @property
    def words(self) -> str:
        """It as a sentence's subject."""
        if self.group is not None:
            return self.group.guest(self.instance + 1)
        if self.neighbour_of is not None:
            return "it"  # which one is told by whoever needed it
        return "its guest" if self.instance == 0 else f"guest {self.instance + 1} of those side by side"


@dataclass
class LiveGuest:
    """A guest that is up, with what is needed to measure it; ``boot`` is its record's id, ``label`` its platform's.

    ``unlike`` says in what it is not the guest that was asked for: then its trials are invalid. ``no_data`` says why it
    has no data directory although a workload needs one. ``first_rounds``: what whole trials of it measured.
    ``in_turn``: what was measured of it together with another's trial, by the number of its own that follows.
    """

    boot: str
    guest: Guest
    network: GuestNetwork
    timekeeper: Timekeeper
    hops: HopReader
    wire: TrafficAgents
    site: Site
    label: str
    place: Placement
    unlike: tuple[str, ...] = ()
    data: DataKeeper | None = None
    no_data: str | None = None
    receives_apart: bool = False
    instance: int = 0
    first_rounds: dict[WorkloadChoice, Measurement] = field(default_factory=dict)
    in_turn: dict[int, Measurement] = field(default_factory=dict)
    _directory: DataDirectory = field(default_factory=DataDirectory)

    @contextlib.contextmanager
    def prepared(self, workload: str, needs: Needs) -> Iterator[str | None]:
        """The same state at each trial's start, and nothing left to be written back while others are measured.

        Gives why the trial must be skipped instead, or None.
        """
        if needs.data_bytes == 0:
            self._directory = DataDirectory()  # not that of the workload before
            yield None
        elif self.data is None:
            yield self.no_data or "its guest has no data directory"
        elif (reason := self._why_not_in_memory(workload, needs)) is not None:
            yield reason
        else:
            self._directory = self.data.empty()
            yield None
            self.data.empty()

    def _why_not_in_memory(self, workload: str, needs: Needs) -> str | None:
        """As of this machine before; of another host it is known now."""
        volume = None if self.data is None else self.data.volume
        if volume is None or volume.folder is None:
            return None
        return why_not_in_memory(workload, needs, self.place.memory_bytes, volume.file_system)

    def host_cpu(self) -> contextlib.AbstractContextManager[CpuAround | None]:
        """What its processes use of the host's CPUs in the context; None where it has none here, or no counters."""
        return cpu_around(self.guest.host_processes() if self.hops.enabled else None)

    def bench(self, pinning: Pinning, tags: Iterator[int], co_located: tuple[Bench, ...] = ()) -> Bench:
        """What a workload is given; ``co_located``: the same of the guests that are measured together with it."""
        bench = Bench(
            guest=self.guest.agent,
            peer=self.wire,
            timekeeper=self.timekeeper,
            network=self.network,
            generator_cpu=pinning.generator_cpu,
            sink_cpu=pinning.sink_cpu,
            tags=tags,
            hops=self.hops,
            data=self._directory,
            co_located=co_located,
            programs=self.site.programs,
            lab_links=self.site.network.shapable,
            cpus=pinning.cpus if self.site.far is None else (),
            receives_apart=self.receives_apart,
            vcpus=self.place.vcpus,
            hand_overs=self.hand_overs(pinning, [bench.hand_overs for bench in co_located]),
        )
        if self.site.programs is not None and self.site.programs_volume is not None:
            bench = replace(bench, peer_files=DataKeeper(self.site.programs, self.site.programs_volume))
        return bench if self.data is None else replace(bench, data_state=self.data.state)

    def hand_overs(self, pinning: Pinning, co_located: Sequence[HandOverReader | None] = ()) -> HandOverReader | None:
        """Reads the CPUs of a trial of it: generator's, guests' and sink's, as far as they are on its host.

        ``co_located``: the same of the guests that are measured together with it.
        """
        if self.site.counters is None:
            return None
        here = self.site.host.local is not None and self.site.far is None
        cpus = pinning.in_order(self.place.cpus) if here else self.place.cpus
        others = [cpu for reader in co_located if reader is not None for cpu in reader.cpus]
        return HandOverReader(self.site.counters, tuple(dict.fromkeys((*cpus, *others))))


@contextlib.contextmanager
def running(guests: Sequence[LiveGuest], who: Callable[[int], str] | None = None) -> Iterator[None]:
    """Let guests of one host run for the length of the context; parked again after an orderly end only.

    They must answer at both ends: frames that a dead guest did not forward are not frames that were lost. Neither they
    nor the peer may have been stopped meanwhile (``standstill``), and none of their processes may have been killed for
    want of memory: what is left may go on with less work. ``who``: one of several in words, by its number from 1, where
    one that fails is to be named.
    """

    numbered = list(enumerate(guests, start=1))

    def blamed(number: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if who is None else named(who(number), number)

    with guests[0].site.awake():
        for number, live in numbered:
            with blamed(number):
                live.guest.resume()
                live.guest.agent.ask(ClocksRequest())
        guest_pids = {number: _pids(live.guest) for number, live in numbered}
        local = guests[0].site.network.local
        peer = () if local is None else (local.peer_pid,)
        before = {number: MemoryKills.of(pids) for number, pids in guest_pids.items()}
        with watched([*peer, *(pid for pids in guest_pids.values() for pid in pids)]) as stopped:
            try:
                yield
            except GuestDied as error:
                if killed := sum(kills.since() for kills in before.values()):
                    raise GuestDied(f"{error}: {_KILLED.format(killed)}") from error
                raise
        if stopped.intersection(peer):
            raise NeighbourFailed("the network peer", GuestError(_STOPPED))
        for number, live in numbered:
            with blamed(number):
                if killed := before[number].since():
                    raise GuestError(f"{live.boot}: {_KILLED.format(killed)}")
                live.guest.agent.ask(ClocksRequest())
                if stopped.intersection(guest_pids[number]):
                    raise GuestError(f"{live.boot}: {_STOPPED}")
        for number, live in numbered:
            with blamed(number):
                live.guest.park()


def _pids(guest: Guest) -> tuple[int, ...]:
    """Its processes on this machine, before it is asked for work; none for a guest without any."""
    processes = guest.host_processes()
    return () if processes is None else pids_of(processes)


@contextlib.contextmanager
def named(who: str, number: int = 1) -> Iterator[None]:
    """What fails within is this one of several guests: ``NeighbourFailed`` names it.

    What its platform cannot do, the guest being well, stays an ``AgentError``.
    """
    try:
        yield
    except GuestError as error:
        if isinstance(error, AgentError) and error.kind == "unsupported":
            raise
        raise NeighbourFailed(who, error, number) from error
