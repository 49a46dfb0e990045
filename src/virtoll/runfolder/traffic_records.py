"""Records of traffic: one point of a sweep with the counters of every hop, and calibrations, as frozen dataclasses.

Field by field as docs/run-folder.md gives them. What an agent did not report is None, never zero. No behaviour
lives here.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from virtoll.runfolder.campaign_records import Moment
from virtoll.runfolder.parameters import Parameters
from virtoll.runfolder.slotted import Slotted


class Answered(Slotted):
    """Base of what is made from an agent's answer: keys without a field are kept too, there and in all below it.

    They are attributes that no field declares; `store.to_json` writes them.
    """

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="allow")


@dataclass(frozen=True, slots=True)
class Distribution(Slotted):
    """Times in ns; `coefficient_of_variation` (gaps only) is standard deviation over mean.

    `histogram`: the buckets that are not empty, as (largest value in it, count).
    """

    count: int
    minimum: int | None = None
    maximum: int | None = None
    mean: float | None = None
    p1: int | None = None
    p50: int | None = None
    p90: int | None = None
    p99: int | None = None
    p999: int | None = None
    coefficient_of_variation: float | None = None
    histogram: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class DelayVariation(Slotted):
    """Delay above the smallest one, ns (RFC 5481, PDV)."""

    p50: int | None = None
    p90: int | None = None
    p99: int | None = None
    p999: int | None = None
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class SourceCounts(Slotted):
    """Frames of one traffic source; `offered + unsent == intended`."""

    source: int
    intended_frames: int
    offered_frames: int
    unsent_frames: int
    start_monotonic_ns: int
    end_monotonic_ns: int
    refused_frames: int | None = None
    skipped_frames: int | None = None
    late_frames: int | None = None
    late_ns_max: int | None = None
    batch_frames: int | None = None
    probe_frames: int | None = None
    first_sent_monotonic_ns: int | None = None
    last_sent_monotonic_ns: int | None = None
    gap_ns: Distribution | None = None
    cpu_ns: int | None = None


@dataclass(frozen=True, slots=True)
class SmallCounts(Slotted):
    """Counts of small numbers: `histogram` as (largest value in the bucket, frames), below 64 exact, above by octave.

    `unknown_frames`: reordered frames whose number is not known, since the sink's memory is bounded.
    """

    count: int
    sum: int
    maximum: int
    histogram: tuple[tuple[int, int], ...]
    unknown_frames: int


@dataclass(frozen=True, slots=True)
class LateTime(Slotted):
    """Late times of reordered frames (RFC 4737, 4.3), ns; their count is that of the extents."""

    sum: int
    maximum: int


@dataclass(frozen=True, slots=True)
class Density(Slotted):
    """RFC 5236: frames by displacement (RD) or by frames in the buffer (RBD); `beyond_frames` are in no bucket."""

    threshold_frames: int
    histogram: tuple[tuple[int, int], ...]
    beyond_frames: int


@dataclass(frozen=True, slots=True)
class Reordering(Slotted):
    """The order in which one source's frames arrived; RFC 5236's densities are None where the sink has them not."""

    extent_frames: SmallCounts
    n_reordering: SmallCounts
    late_time_ns: LateTime
    displacement: Density | None = None
    buffer_occupancy: Density | None = None


@dataclass(frozen=True, slots=True)
class SinkCounts(Slotted):
    """Frames of one source at the sink; `forwarded + lost == offered`."""

    source: int
    forwarded_frames: int
    duplicate_frames: int
    reordered_frames: int
    lost_frames: int
    first_received_monotonic_ns: int | None
    last_received_monotonic_ns: int | None
    delay_ns: Distribution | None = None
    packet_delay_variation_ns: DelayVariation | None = None
    reordering: Reordering | None = None


@dataclass(frozen=True, slots=True)
class Sink(Slotted):
    """What the sink saw in one traffic trial; `seen_frames`: all frames that it read, its own or not.

    `delay_reason`: why no delay could be reported, where that is not for want of frames. `forged_frames` say that they
    are the trial's and have a wrong tag, of `tag_bits`; None: frames had no tags, as in models.
    """

    per_source: tuple[SinkCounts, ...]
    foreign_frames: int
    late_trial_frames: int
    kernel_dropped_frames: int | None
    drained: bool
    backend: str | None = None
    backend_reason: str | None = None
    seen_frames: int | None = None
    delay_reason: str | None = None
    forged_frames: int | None = None
    tag_bits: int | None = None


@dataclass(frozen=True, slots=True)
class Processor(Slotted):
    """What one host CPU did during a point, ns, to 10 ms."""

    cpu: int
    user_ns: int
    nice_ns: int
    system_ns: int
    idle_ns: int
    iowait_ns: int
    irq_ns: int
    softirq_ns: int
    steal_ns: int


@dataclass(frozen=True, slots=True)
class ProcessorIdle(Slotted):
    """How long one host CPU was idle, of the time between two readings on that CPU; ns.

    `means`: `timer_list` is exact, in ns; `cpuidle` exact, in µs; `stat` in steps of 10 ms, and sampled on kernels with
    ticks in idle time.
    """

    cpu: int
    between_ns: int
    idle_ns: int
    means: Literal["timer_list", "cpuidle", "stat"]

    @property
    def busy_ns(self) -> int:
        """The rest."""
        return self.between_ns - self.idle_ns


@dataclass(frozen=True, slots=True)
class Cpu(Slotted):
    """CPU time of generator and sink, and what the host's CPUs did meanwhile; `idle`: of those that were asked for."""

    generator_user_ns: int
    generator_system_ns: int
    sink_user_ns: int
    sink_system_ns: int
    generator_cpu_ns: int | None = None
    generator_cores: tuple[int | None, ...] | None = None
    sink_cpu_ns: int | None = None
    sink_core: int | None = None
    sink_ran_on: tuple[int, ...] | None = None
    processors: tuple[Processor, ...] | None = None
    idle: tuple[ProcessorIdle, ...] | None = None


HopRole = Literal["generator", "entry", "port-in", "guest-in", "guest-out", "port-out", "exit", "sink"]


@dataclass(frozen=True, slots=True)
class Hop(Slotted):
    """One interface on the way, with its counters before and after the point.

    `source` is None for what all sources share; in both directions, or with an egress link each, every source has hops
    of its own. `direction` is `out` where traffic leaves the hop's namespace by this interface. A counter that was 0 in
    both readings is left out; `before` or `after` None: it could not be read.
    """

    role: HopRole
    where: Literal["peer", "peer-1", "peer-2", "sink", "sink-1", "sink-2", "lab", "guest"]
    interface: str | None
    direction: Literal["in", "out"]
    source: int | None
    before: dict[str, int] | None
    after: dict[str, int] | None


@dataclass(frozen=True, slots=True)
class Surroundings(Slotted):
    """Counters that belong to no interface, before and after a point: softnet of the host; softnet, IP of the guest."""

    host: dict[str, Any] | None
    guest: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class GeneratorClock(Slotted):
    """What one of several hosts that send said its monotonic clock was, just before the point, ns.

    `asked_monotonic_ns` and `answered_monotonic_ns`: by the controller's clock, before and after. `sources`: its own.
    """

    sources: tuple[int, ...]
    asked_monotonic_ns: int
    monotonic_ns: int
    answered_monotonic_ns: int


@dataclass(frozen=True, slots=True)
class Point(Answered):
    """One point of a rate sweep; an intended rate of None is flat out. `hops` is in the order of the path.

    `wake_ns`: a paced sender woke so often, sent what was due and slept; None: each frame at its own time.
    `shared_link`: the sources are guests of their own, whose frames arrive over one link. `shared_cpus`: such guests
    have no CPUs of their own.
    `generator_clocks`: of several hosts that send; None: there is one.
    """

    intended_rate_frames_per_second: float | None
    duration_ns: Annotated[int, Field(gt=0)]
    frame_size_bytes: int
    backend: str
    sources: tuple[SourceCounts, ...]
    sink: Sink
    backend_reason: str | None = None
    sizes_bytes: tuple[int, ...] | None = None
    cpu: Cpu | None = None
    hops: tuple[Hop, ...] | None = None
    surroundings: Surroundings | None = None
    wake_ns: int | None = None
    shared_link: bool = False
    shared_cpus: bool = False
    generator_clocks: tuple[GeneratorClock, ...] | None = None

    @property
    def is_shared(self) -> bool:
        """Whether each source has more while the others are silent, so that only what all did together is a rate."""
        return self.shared_link or self.shared_cpus


@dataclass(frozen=True, slots=True)
class CalibrationRecord(Answered):
    """Generator and sink back to back: `points` holds one flat out (the ceiling) and one paced (the latency's floor).

    `cpu_points`: pairs of a few frames and many, for what generator and sink cost; None: not measured.
    `parameters` are those of the forward workload that shape its frames; `status` failed has a reason and no points.
    `way`: `lab`, veth pairs inside the lab's own peer; `testbed`, veth pairs in a namespace of the testbed's host.
    """

    when: Literal["start", "end"]
    realtime_ns: Moment
    parameters: Parameters
    status: Literal["ok", "failed"]
    reason: str | None
    points: tuple[Point, ...]
    way: Literal["lab", "testbed"] | None = None
    cpu_points: tuple[Point, ...] | None = None
