"""What a workload is: something that is run in a guest, and how its result is read and checked.

Main types: ``Workload`` (the base class of all), ``Bench`` (what a workload is given: guest, peer, timekeeper, links),
``Measurement`` (the raw outcome, in the run folder's words), ``Metric`` and ``TimedJobWorkload`` (the shape that all
built-in jobs share). A workload must not know on which platform it runs, and computes nothing that it does not also
store.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, Self, TypeVar

from virtoll.agent.client import Caller, TrafficAgents
from virtoll.errors import GuestCannot
from virtoll.experiment.model import Image, Parameters
from virtoll.lab.network import GuestNetwork, Link
from virtoll.lab.shaping import Shape
from virtoll.runfolder.conditions import Affinity
from virtoll.runfolder.records import Check, Clock
from virtoll.runfolder.traffic_records import Point

Figures = dict[str, Any]
"""What a workload reads from a result, by the names of its metrics and more: stored beside the result as it is."""

if TYPE_CHECKING:
    from virtoll.agent.hand_over import HandOverReader
    from virtoll.agent.path_counters import HopReader
    from virtoll.agent.timekeeper import Timekeeper


@dataclass(frozen=True)
class Metric:
    """One value of a workload: ``source`` says where the run folder holds it.

    ``marks``: the duration by the outside clock; ``points``: a rate; ``cpu_points``: the CPU time of a frame;
    ``figures``: the number of this name in the result's figures, read from what the guest said of itself, by its own
    clock where it is a time. A workload whose figures are by another clock says so.
    """

    name: str
    unit: str
    better: str
    source: str

    @property
    def words(self) -> str:
        """Name, unit and direction: "duration in ns, lower is better"."""
        unit = f" in {self.unit}" if self.unit else ""
        return f"{self.name}{unit}, {self.better} is better"


DURATION = Metric("duration", "ns", "lower", "marks")
SIZED_NS = 200_000_000
"""A job that can be repeated is, until the host takes so long for it (``virtoll.pipeline.sizing``)."""


@dataclass(frozen=True)
class Needs:
    """What a guest must have for a workload. Where it cannot have it, the trial is skipped with the reason.

    ``memory_bytes``: of the guest's, without page cache and without the files of its data directory, and
    ``memory_bytes_a_vcpu`` more for each virtual CPU; ``data_bytes``: room in its data directory, on a disk;
    ``features``: names of ``FEATURES``; ``guests``: how many of the platform's guests stand side by side and are
    measured together. ``affinity``: on which host CPUs these are: all on one guest's, each on its own, or on any.
    ``bare_host``: it is a reference of the host itself, and of nothing else. ``peer_data_bytes``: room for files of the
    peer's programs, on a disk.

    ``sources``, ``sinks``: links that traffic enters each guest by, and leaves it by; ``mtu_bytes``: the least MTU of
    all its links, 0 for any; ``shared_nic``: a link to the NIC that all guests share. All guests of an experiment are
    started with the largest of each that one of its workloads needs.
    """

    memory_bytes: int = 0
    memory_bytes_a_vcpu: int = 0
    vcpus: int = 1
    data_bytes: int = 0
    features: frozenset[str] = frozenset()
    guests: int = 1
    affinity: Affinity = "shared"
    sources: int = 1
    sinks: int = 1
    mtu_bytes: int = 0
    shared_nic: bool = False
    bare_host: bool = False
    peer_data_bytes: int = 0


# What some platforms lack and some workloads need, in words for the reason of a skipped trial.
FEATURES: Final[dict[str, str]] = {
    "io-uring": "asynchronous input and output by io_uring",
    "direct-io": "files opened with O_DIRECT, past the guest's page cache",
    "network-stack": "a network stack of each guest's own",
    "address-space": "more than a few GiB of address space for a process",
}


@dataclass(frozen=True)
class DataDirectory:
    """The guest's folder for files that a workload makes; empty at each trial's start.

    ``file_system``: as the guest names it; ``reach``: how far a write that was synced gets, in words.
    """

    path: str = "/tmp"  # noqa: S108 - in the guest, where nobody else is
    file_system: str = "tmpfs"
    reach: str = "the guest's memory"


def _no_data_state(evict: bool) -> dict[str, Any]:
    """A guest without a data directory on a disk."""
    del evict
    return {}


class LabLinks(Protocol):
    """Makes a link slower, longer or lossy, and chooses who receives: ``virtoll.hosts.links.ShapedLinks``."""

    def shaped(self, link: Link, shape: Shape) -> contextlib.AbstractContextManager[str | None]:
        """The link so within the context; yields what shapes it, None where nothing is asked for."""
        ...

    def steered(self, links: Sequence[Link]) -> contextlib.AbstractContextManager[None]:
        """What the peer's servers and clients send is received on the guest's CPUs, where that can be."""
        ...


class Files(Protocol):
    """A data directory of programs that run elsewhere than in the guest."""

    def empty(self) -> DataDirectory:
        """Remove all that is in it; what it is."""
        ...

    def state(self, evict: bool) -> dict[str, Any]:
        """As ``Bench.data_state``."""
        ...


class GuestGroup(Protocol):
    """The guests that do the same at once; ``number``: which of them this one is, from 0."""

    guests: int
    number: int

    def meet(self) -> None:
        """Wait until all are there; ``GuestError`` where one of them failed. All meet equally often."""
        ...


@dataclass(frozen=True)
class Bench:
    """One guest as a workload sees it. CPUs are host CPU numbers, or None where nothing is pinned.

    ``data_state``: what is in the data directory and in the page caches now, for the record. Called with True it first
    has everything written back and forgotten, so that what a workload made ready is read from the disk. ``co_located``:
    the other guests of its platform that the workload needs, as many as it said, each on links of its own.
    ``programs``: an agent in the peer's network namespace on the root of the guests' image, for what runs there; None
    where the image holds none, or cannot be brought to the peer's host. ``peer_files``: their data directory; None
    where no workload of the experiment needs one. ``lab_links``: None where the ends of links take no discipline.
    ``repeats``: how often a job runs between its marks; 1 for a workload that cannot be repeated. ``cpus``: the host
    CPUs of guest, generator and sink; where nothing is pinned all of them, and none where the host is another.
    ``group``: those that it is measured together with in the scenario ``scale``; None: it is measured by itself.
    ``receives_apart``: its links queue frames for threads of the kernel, so that what they refuse it has turned away.
    ``vcpus``: the guest's virtual CPUs. ``hand_overs`` reads how far apart the CPUs of generator, guests and sink are;
    None where no agent is on their host.
    """

    guest: Caller
    peer: TrafficAgents
    timekeeper: Timekeeper
    network: GuestNetwork
    generator_cpu: int | None
    sink_cpu: int | None
    tags: Iterator[int]
    hops: HopReader
    data: DataDirectory = DataDirectory()
    data_state: Callable[[bool], dict[str, Any]] = _no_data_state
    co_located: tuple[Bench, ...] = ()
    programs: Caller | None = None
    lab_links: LabLinks | None = None
    repeats: int = 1
    cpus: tuple[int, ...] = ()
    receives_apart: bool = False
    group: GuestGroup | None = None
    peer_files: Files | None = None
    vcpus: int = 1
    hand_overs: HandOverReader | None = None

    def require_sources(self) -> None:
        """``GuestCannot`` where the guest has no link that traffic could come from."""
        if not self.network.sources:
            raise GuestCannot("it has no NIC for traffic; name its NICs, and this machine's that face them")

    def next_tag(self) -> int:
        """A 16-bit number that distinguishes this traffic trial's frames from any earlier one's."""
        return next(self.tags) % 2**16


@dataclass(frozen=True)
class Measurement:
    """The raw outcome of one trial; ``problem`` is why it cannot be believed, or None."""

    clock: Clock | None = None
    result: dict[str, Any] | None = None
    check: Check | None = None
    points: Sequence[Point] | None = None
    problem: str | None = None
    cpu_points: Sequence[Point] | None = None


_SHOWN = 80  # characters of a value that is wrong, in the sentence that says so


def compared(value: str, expected: str | None, problem: str | None = None) -> tuple[Check, str | None]:
    """The check of a trial, and why it cannot be believed: a wrong value, or else the ``problem`` it has anyway.

    ``expected`` None: which value is right is not known.
    """
    right = expected is None or value == expected
    if not right:
        problem = f"the check value is wrong: {value[:_SHOWN]!r} instead of {str(expected)[:_SHOWN]!r}"
    return Check(value, expected, right), problem


_BESIDES_SECONDS = 0.1  # of a timed job: the path's delay is measured twice

P_co = TypeVar("P_co", bound=Parameters, covariant=True)


class Workload(ABC, Generic[P_co]):
    """One workload with its parameters. A subclass names their model as type argument and as ``parameter_model``.

    ``loads_peer``: whether the peer's CPU works for it while it is measured (it generates, counts, serves or asks).
    ``name``: in experiments and records; ``title``: in tables; ``about``: what is measured, in a few words for who
    chooses; ``origin``: whose experiment it was, empty where it is in no paper; ``resource``: what of a host it
    stresses, in a word.
    ``metrics``: the first is its primary one, which verdicts are about; the others describe the same trials.
    ``image``: the smallest guest image that holds what it runs. ``packages``: Debian packages of that image it uses.
    ``repeatable``: whether its job may run several times between its marks, each time from the same state.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    origin: ClassVar[str] = ""
    resource: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]]
    image: ClassVar[Image] = "tiny"
    packages: ClassVar[tuple[str, ...]] = ()
    repeatable: ClassVar[bool] = False
    loads_peer: ClassVar[bool] = False
    parameter_model: type[P_co]  # of the class, but a ClassVar cannot name a type variable

    def __init__(self, parameters: P_co) -> None:
        self.parameters: Final = parameters

    @classmethod
    def with_parameters(cls, parameters: object) -> Self:
        """The workload with these parameters: as a file has them, or as its model.

        Raises pydantic's ``ValidationError`` for values that are not allowed, and for another workload's model.
        """
        return cls(cls.parameter_model.model_validate(parameters))

    def needs(self) -> Needs:
        """What a guest must have for it; by default nothing but the image."""
        return Needs()

    @abstractmethod
    def estimate_seconds(self, slowdown: float) -> float:
        """How long one trial takes, in seconds, where the CPU is ``slowdown`` times slower than a bare host."""

    @abstractmethod
    def measure(self, bench: Bench) -> Measurement:
        """Run one trial; raises ``GuestError`` when guest or job did not end."""

    def measure_later(self, bench: Bench, first: Measurement) -> Measurement | None:
        """What a later round of a block measures, after ``first`` in the same guest; None: a whole trial."""
        del bench, first
        return None

    def has_turns(self) -> bool:
        """Whether guests may take turns in later rounds, as far as the parameters say."""
        return False

    def takes_turns(self, bench: Bench, first: Measurement) -> bool:
        """Whether a later round of this guest may measure it in turn with others, after ``first`` in it."""
        del bench, first
        return False

    def measure_in_turn(self, benches: Sequence[Bench]) -> list[Measurement]:
        """What a later round measures of several guests that take turns, in their order."""
        raise NotImplementedError

    def later_seconds(self, slowdown: float) -> float:
        """How long that takes, in seconds; ``slowdown`` as in ``estimate_seconds``."""
        return self.estimate_seconds(slowdown)

    def warm_up(self, bench: Bench) -> Measurement:
        """What comes before the rounds of a block: a trial, unless a part of one touches all that it touches."""
        return self.measure(bench)

    def warm_up_seconds(self, slowdown: float) -> float:
        """How long that takes, in seconds; ``slowdown`` as in ``estimate_seconds``."""
        return self.estimate_seconds(slowdown)


class TimedJobWorkload(Workload[P_co]):
    """A job of the agent between two marks; a subclass names the job, its expected check value and its native cost."""

    job: ClassVar[str]
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION,)

    @abstractmethod
    def native_seconds(self) -> float:
        """About how long the job takes on a bare host, in seconds: for estimates and deadlines only."""

    def job_parameters(self, bench: Bench) -> dict[str, object]:
        """The job's own parameters, as docs/protocol.md has them."""
        del bench
        return dict(self.parameters.model_dump(mode="json"))

    @abstractmethod
    def expected_check(self) -> str | None:
        """The check value that a right answer has, or None where it is not known beforehand."""

    def figures(self, result: Mapping[str, Any]) -> Figures | None:
        """What is read from the job's own result, by the guest's clock; None where the duration is all."""
        del result
        return None

    def estimate_seconds(self, slowdown: float) -> float:
        """Native cost times the platform's slowdown, and the path's delay measured twice; repeats as in ``sizing``."""
        native_seconds, sized_seconds = self.native_seconds(), SIZED_NS / 1e9
        if self.repeatable and native_seconds * slowdown < sized_seconds:
            native_seconds = max(native_seconds, sized_seconds)
        return _BESIDES_SECONDS + native_seconds * slowdown

    def warm_up_seconds(self, slowdown: float) -> float:
        """The job once."""
        return _BESIDES_SECONDS + self.native_seconds() * slowdown

    def measure(self, bench: Bench) -> Measurement:
        """Run the job between two marks and compare its check value."""
        deadline = 60.0 + 1000.0 * self.native_seconds() * bench.repeats
        timed = bench.timekeeper.time_job(self.job, self.job_parameters(bench), deadline, bench.repeats)
        check, problem = compared(timed.check, self.expected_check(), timed.problem)
        figures = self.figures(timed.result)
        result = timed.result if figures is None else {**timed.result, "figures": figures}
        return Measurement(timed.clock, result, check, None, problem)
