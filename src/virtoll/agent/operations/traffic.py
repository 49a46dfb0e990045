"""``traffic``, its halves for two agents, and ``traffic-start`` and ``traffic-stop`` for a load."""

from __future__ import annotations

from typing import Literal

from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.counters import ProcessorTimes
from virtoll.agent.operations.session import Done

Buckets = tuple[tuple[int, int], ...]


class MixPart(Message):
    """One size of a mix, and how often it comes."""

    frame_size_bytes: int
    weight: int


class Capture(Message):
    """A pcap file of the first frames that arrive."""

    path: str
    frames: int


class Destinations(Message):
    """Addresses that are spread over a table of routes."""

    count: int
    routes: int
    seed: int


class Source(Message):
    """One source; a rate of None is flat out. ``number`` is its number in its frames, None for its place.

    ``key``: 32 hexadecimal digits, the secret that this source and the sink have and nothing between them; it is never
    printed. None: the one agent that is both draws it.
    """

    interface: str
    source_mac: str
    destination_mac: str
    source_address: str
    destination_address: str
    source_port: int
    destination_port: int
    rate_frames_per_second: float | None = None
    cpu: int | None = None
    vlan: int | None = None
    flows: int = 1
    destinations: Destinations | None = None
    number: int | None = None
    key: str | None = None

    def __repr__(self) -> str:
        return super().__repr__() if self.key is None else repr(self.but(key=None))


class SinkEnd(Message):
    """Where frames arrive, and what counts them."""

    interfaces: tuple[str, ...]
    cpu: int | None = None
    backend: str = "auto"


class Traffic(Message):
    """One traffic trial, as ``traffic`` and both of its halves are asked for it."""

    trial: int
    frame_size_bytes: int
    duration_ns: int
    backend: str
    sources: tuple[Source, ...]
    sink: SinkEnd
    quiet_ns: int
    drain_limit_ns: int
    residual_ns: int | None = None
    mix: tuple[MixPart, ...] = ()
    batch_frames: int | None = None
    catch_up_ns: int | None = None
    wake_ns: int | None = None
    idle_of: tuple[int, ...] = ()
    delay_ns: int | None = None
    histograms: bool = False
    capture: Capture | None = None


class Distribution(Message):
    """Times in ns; the histogram is reported where it was asked for, as (largest value of the bucket, count)."""

    count: int
    minimum: int
    mean: float
    p50: int
    p90: int
    p99: int
    p999: int
    maximum: int
    p1: int | None = None
    coefficient_of_variation: float | None = None
    histogram: Buckets | None = None


class DelayVariation(Message):
    """Delay above the smallest one (RFC 5481, PDV)."""

    p50: int
    p90: int
    p99: int
    p999: int
    maximum: int


class SentSource(Message):
    """What one source sent: ``offered + unsent == intended``."""

    source: int
    intended_frames: int
    offered_frames: int
    unsent_frames: int
    start_monotonic_ns: int
    end_monotonic_ns: int
    interface: str | None = None
    refused_frames: int | None = None
    skipped_frames: int | None = None
    late_frames: int | None = None
    first_sent_monotonic_ns: int | None = None
    last_sent_monotonic_ns: int | None = None
    late_ns_max: int | None = None
    batch_frames: int | None = None
    probe_frames: int | None = None
    gap_ns: Distribution | None = None
    thread: int | None = None
    cpu_ns: int | None = None


class SmallCounts(Message):
    """Counts of reordered frames by a small number."""

    count: int
    sum: int
    maximum: int
    histogram: Buckets
    unknown_frames: int


class LateTime(Message):
    """Late times of reordered frames, ns."""

    sum: int
    maximum: int


class Density(Message):
    """Frames by displacement or by buffer occupancy (RFC 5236)."""

    threshold_frames: int
    histogram: Buckets
    beyond_frames: int


class Reordering(Message):
    """In which order the frames of a source arrived (RFC 4737)."""

    extent_frames: SmallCounts
    n_reordering: SmallCounts
    late_time_ns: LateTime
    displacement: Density | None = None
    buffer_occupancy: Density | None = None


class ArrivedSource(Message):
    """What arrived of one source: ``forwarded + lost == offered``."""

    source: int | None
    forwarded_frames: int
    duplicate_frames: int
    reordered_frames: int
    lost_frames: int
    first_received_monotonic_ns: int | None
    last_received_monotonic_ns: int | None
    reordering: Reordering | None = None
    delay_ns: Distribution | None = None
    packet_delay_variation_ns: DelayVariation | None = None
    inter_packet_delay_variation_ns: Distribution | None = None


class SinkReply(Message):
    """What the sink saw; ``drained``: it was quiet before the drain's limit.

    ``forged_frames`` say that they are the trial's and have a wrong tag, of ``tag_bits``; None: frames had no tags.
    """

    per_source: tuple[ArrivedSource, ...]
    foreign_frames: int
    late_trial_frames: int
    kernel_dropped_frames: int | None
    drained: bool
    backend: str | None = None
    backend_reason: str | None = None
    seen_frames: int | None = None
    captured_frames: int | None = None
    delay_reason: str | None = None
    forged_frames: int | None = None
    tag_bits: int | None = None


class InterfaceChange(Message):
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


class ProcessorIdle(Message):
    """How long a processor was idle between two readings on it; ``means`` as in docs/protocol.md."""

    cpu: int
    between_ns: int
    idle_ns: int
    means: Literal["timer_list", "cpuidle", "stat"]


class TrafficCpu(Message):
    """CPU times of generator and sink; each half tells its own part."""

    generator_user_ns: int | None = None
    generator_system_ns: int | None = None
    generator_cpu_ns: int | None = None
    generator_cores: tuple[int | None, ...] | None = None
    sink_user_ns: int | None = None
    sink_system_ns: int | None = None
    sink_cpu_ns: int | None = None
    sink_core: int | None = None
    sink_ran_on: tuple[int, ...] | None = None
    processors: tuple[ProcessorTimes, ...] | None = None
    sink_processors: tuple[ProcessorTimes, ...] | None = None
    idle: tuple[ProcessorIdle, ...] | None = None


class SendReply(Message):
    """What the sources sent, by the clock of who generates."""

    backend: str
    frame_size_bytes: int
    sources: tuple[SentSource, ...]
    cpu: TrafficCpu
    backend_reason: str | None = None
    sizes_bytes: tuple[int, ...] | None = None
    interfaces: tuple[InterfaceChange, ...] | None = None


class TrafficReply(SendReply):
    """What the sources sent and what the sink counted."""

    sink: SinkReply


class TrafficRequest(Traffic, Request[TrafficReply], op="traffic"):
    """Generator and sink in one agent."""


class TrafficStartRequest(Traffic, Request[Done], op="traffic-start"):
    """Generator and sink in one agent, while the session goes on; the first frame is due at the answer."""


class TrafficStopRequest(Request[TrafficReply], op="traffic-stop"):
    """Stops that traffic: what was due by now is what was intended."""


class SinkOpenReply(Message):
    """What counts, and why nothing better does."""

    backend: str | None = None
    backend_reason: str | None = None


class SinkOpenRequest(Traffic, Request[SinkOpenReply], op="sink-open"):
    """Counts what arrives, while the session goes on."""


class SendRequest(Traffic, Request[SendReply], op="send"):
    """Sends, and answers when the last frame has left."""


class SourceTotals(Message):
    """What one source sent, for the sink's books."""

    intended_frames: int
    offered_frames: int
    unsent_frames: int


class SinkFinishReply(Message):
    """What the sink counted."""

    sink: SinkReply
    interfaces: tuple[InterfaceChange, ...]
    cpu: TrafficCpu


class SinkFinishRequest(Request[SinkFinishReply], op="sink-finish"):
    """Waits for what the sources offered, then closes the books."""

    sources: tuple[SourceTotals, ...]


class SinkCloseRequest(Request[Done], op="sink-close"):
    """Closes the sink without books."""
