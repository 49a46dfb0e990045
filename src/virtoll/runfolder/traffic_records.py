"""Records of traffic: one point of a sweep with the counters of every hop, and calibrations.

Field by field as docs/run-folder.md gives them. What an agent did not report is None, never zero. No behaviour
lives here.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec.structs import force_setattr

from virtoll.runfolder.campaign_records import Moment
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.runfolder.parameters import shared
from virtoll.runfolder.record import Record

Buckets = tuple[tuple[int, int], ...]
"""A histogram: the largest value of each bucket, and its count."""


class Distribution(Record):
    """Times in ns; `coefficient_of_variation` (gaps only) is standard deviation over mean.

    `histogram`: the buckets that are not empty, where they were requested.
    """

    count: int
    minimum: int
    maximum: int
    mean: float
    p50: int
    p90: int
    p99: int
    p999: int
    p1: int | None = None
    coefficient_of_variation: float | None = None
    histogram: Buckets | None = None


class DelayVariation(Record):
    """Delay above the smallest one, ns (RFC 5481, PDV)."""

    p50: int
    p90: int
    p99: int
    p999: int
    maximum: int


class SourceCounts(Record):
    """Frames of one traffic source; `offered + unsent == intended`.

    `thread`: which of the generator's threads sent them. `cpu_ns`: the CPU time of that thread, `waited_ns`: how long
    it was ready to run and had no CPU; None: its kernel does not say. `bursts_ns`: how long its bursts took; None: it
    took no turns.
    """

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
    waited_ns: int | None = None
    interface: str | None = None
    thread: int | None = None
    bursts_ns: int | None = None


class SmallCounts(Record):
    """Counts of small numbers: `histogram` as (largest value in the bucket, frames), below 64 exact, above by octave.

    `unknown_frames`: reordered frames whose number is not known, since the sink's memory is bounded.
    """

    count: int
    sum: int
    maximum: int
    histogram: Buckets
    unknown_frames: int


class LateTime(Record):
    """Late times of reordered frames (RFC 4737, 4.3), ns; their count is that of the extents."""

    sum: int
    maximum: int


class Density(Record):
    """RFC 5236: frames by displacement (RD) or by frames in the buffer (RBD); `beyond_frames` are in no bucket."""

    threshold_frames: int
    histogram: Buckets
    beyond_frames: int


class Reordering(Record):
    """The order in which one source's frames arrived; RFC 5236's densities are None where the sink has them not."""

    extent_frames: SmallCounts
    n_reordering: SmallCounts
    late_time_ns: LateTime
    displacement: Density | None = None
    buffer_occupancy: Density | None = None


class SinkCounts(Record):
    """Frames of one source at the sink; `forwarded + lost == offered`.

    `bursts_ns`: how long its bursts arrived; None: it took no turns, or the sink does not know.
    """

    source: int
    forwarded_frames: int
    duplicate_frames: int
    reordered_frames: int
    lost_frames: int
    first_received_monotonic_ns: int | None
    last_received_monotonic_ns: int | None
    delay_ns: Distribution | None = None
    packet_delay_variation_ns: DelayVariation | None = None
    inter_packet_delay_variation_ns: Distribution | None = None
    reordering: Reordering | None = None
    bursts_ns: int | None = None


class Sink(Record):
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
    captured_frames: int | None = None


class Processor(Record):
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


class ProcessorIdle(Record):
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


class Cpu(Record):
    """CPU time of generator and sink, and what the host's CPUs did meanwhile; `idle`: of those that were requested.

    Each half of a trial by two agents reports its own part.
    """

    generator_user_ns: int | None = None
    generator_system_ns: int | None = None
    sink_user_ns: int | None = None
    sink_system_ns: int | None = None
    generator_cpu_ns: int | None = None
    generator_cores: tuple[int | None, ...] | None = None
    sink_cpu_ns: int | None = None
    sink_waited_ns: int | None = None
    sink_core: int | None = None
    sink_ran_on: tuple[int, ...] | None = None
    processors: tuple[Processor, ...] | None = None
    sink_processors: tuple[Processor, ...] | None = None
    idle: tuple[ProcessorIdle, ...] | None = None


HopRole = Literal["generator", "entry", "port-in", "guest-in", "guest-out", "port-out", "exit", "sink"]


class Hop(Record):
    """One interface on the way, with its counters before and after the point.

    `source` is None for what all sources share; in both directions, or with an egress link each, every source has hops
    of its own. `direction` is `out` where traffic leaves the hop's namespace by this interface. A counter that was 0 in
    both readings is left out; `before` or `after` None: it could not be read.
    """

    role: HopRole
    where: Annotated[str, msgspec.Meta(pattern="^((peer|sink)(-[0-9]+)?|lab|guest)$")]
    interface: str | None
    direction: Literal["in", "out"]
    source: int | None
    before: dict[str, int] | None
    after: dict[str, int] | None


class Softnet(Record):
    """A line of /proc/net/softnet_stat; older kernels have fewer columns."""

    cpu: int
    processed: int | None = None
    dropped: int | None = None
    time_squeeze: int | None = None
    received_rps: int | None = None
    flow_limit: int | None = None
    backlog: int | None = None


class KernelCounters(Record):
    """Counters of a kernel that belong to no interface; None if the kernel has none of that kind."""

    softnet: tuple[Softnet, ...] | None = None
    snmp: dict[str, dict[str, int]] | None = None
    snmp6: dict[str, int] | None = None
    processors: tuple[Processor, ...] | None = None


class KernelSpan(Record):
    """Two readings around a point."""

    before: KernelCounters
    after: KernelCounters


class Surroundings(Record):
    """What belongs to no interface, around a point: of the host softnet alone, which is the whole machine's."""

    host: KernelSpan | None
    guest: KernelSpan | None


class GeneratorClock(Record):
    """What one of several hosts that send said its monotonic clock was, just before the point, ns.

    `asked_monotonic_ns` and `answered_monotonic_ns`: by the controller's clock, before and after. `sources`: its own.
    """

    sources: tuple[int, ...]
    asked_monotonic_ns: int
    monotonic_ns: int
    answered_monotonic_ns: int


class InterfaceChange(Record):
    """How much an interface's counters grew, by the kernel's names; None where it has no such counter."""

    interface: str
    rx_packets: int | None = None
    tx_packets: int | None = None
    rx_bytes: int | None = None
    tx_bytes: int | None = None
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None
    rx_over_errors: int | None = None
    rx_fifo_errors: int | None = None
    rx_missed_errors: int | None = None
    tx_fifo_errors: int | None = None
    rx_nohandler: int | None = None
    rx_otherhost_dropped: int | None = None


class SendReply(Record):
    """What the sources sent, by the clock of who generates."""

    backend: str
    frame_size_bytes: int
    sources: tuple[SourceCounts, ...]
    cpu: Cpu
    backend_reason: str | None = None
    sizes_bytes: tuple[int, ...] | None = None
    interfaces: tuple[InterfaceChange, ...] | None = None


class TrafficReply(SendReply, kw_only=True):
    """What the sources sent and what the sink counted."""

    sink: Sink


class InTurn(Record):
    """How the guests of a round took turns: each sent `bursts` bursts of so many ns, with a pause after each.

    `guests`: how many took turns. Nothing was sent in a pause, so that what queues held left them.
    """

    guests: int
    bursts: int
    burst_ns: int
    pause_ns: int


class Discarded(Record):
    """A measurement of a point that was disturbed, so that it was made again.

    `cpu_share`: the share of its time for which generator and sink had their CPUs. `moved`: whether the CPUs of a
    frame's way were at another distance after it than before. None: not known.
    """

    cpu_share: float | None
    moved: bool | None


class Point(TrafficReply, kw_only=True):
    """One point of a rate sweep, as the agent replied to it; an intended rate of None is flat out.

    `hops`: in the order of the path. `wake_ns`: a paced sender woke so often, sent what was due and slept; None: each
    frame at its own time. `shared_link`: the sources are guests of their own, whose frames arrive over one link.
    `shared_cpus`: such guests have no CPUs of their own. `generator_clocks`: of several hosts that send; None: there is
    one. `guests_cpu`: of several guests that send, each by its own clock. `hand_over`: how far apart the CPUs of
    generator, guest and sink were just before and after; None: not read. `discarded`: the earlier measurements of
    this point that were disturbed. `in_turn`: it is one guest's part of what was measured of several in turn;
    `duration_ns` is then the time of its own bursts.
    """

    intended_rate_frames_per_second: float | None
    duration_ns: Annotated[int, msgspec.Meta(gt=0)]
    hops: tuple[Hop, ...] | None = None
    surroundings: Surroundings | None = None
    wake_ns: int | None = None
    shared_link: bool = False
    shared_cpus: bool = False
    generator_clocks: tuple[GeneratorClock, ...] | None = None
    guests_cpu: tuple[Cpu, ...] | None = None
    hand_over: HandOverSpan | None = None
    discarded: tuple[Discarded, ...] = ()
    in_turn: InTurn | None = None

    @property
    def is_shared(self) -> bool:
        """Whether each source has more while the others are silent, so that only what all did together is a rate."""
        return self.shared_link or self.shared_cpus


class CalibrationRecord(Record):
    """Generator and sink back to back: `points` holds one flat out (the ceiling) and one paced (the latency's floor).

    `cpu_points`: pairs of a few frames and many, for what generator and sink cost; None: not measured.
    `parameters` are those of the forward workload that shape its frames; `status` failed has a reason and no points.
    `way`: `lab`, veth pairs inside the lab's own peer; `testbed`, veth pairs in a namespace of the testbed's host.
    """

    when: Literal["start", "end"]
    realtime_ns: Moment
    parameters: dict[str, Any]
    status: Literal["ok", "failed"]
    reason: str | None
    points: tuple[Point, ...]
    way: Literal["lab", "testbed"] | None = None
    cpu_points: tuple[Point, ...] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", shared(self.parameters))
