"""``traffic``, its halves for two agents, and ``traffic-start`` and ``traffic-stop`` for a load."""

from __future__ import annotations

from virtoll.agent.operations.session import Done
from virtoll.agent.request import Message, Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Cpu, InterfaceChange, SendReply, Sink, TrafficReply


class MixPart(Message):
    """One size of a mix, and how often it comes."""

    frame_size_bytes: int
    weight: int


class Capture(Message):
    """A pcap file of the first frames that arrive."""

    path: str
    frames: int


class Bursts(Message):
    """Sources that send flat out in turn, each ``count`` times for a burst; nobody sends for a pause after each."""

    burst_ns: int
    pause_ns: int
    count: int


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
        return super().__repr__() if self.key is None else repr(self.replace(key=None))


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
    bursts: Bursts | None = None
    idle_of: tuple[int, ...] = ()
    delay_ns: int | None = None
    histograms: bool = False
    capture: Capture | None = None


class TrafficRequest(Traffic, Request[TrafficReply], tag="traffic"):
    """Generator and sink in one agent."""


class TrafficStartRequest(Traffic, Request[Done], tag="traffic-start"):
    """Generator and sink in one agent, while the session goes on; the first frame is due at the answer."""


class TrafficStopRequest(Request[TrafficReply], tag="traffic-stop"):
    """Stops that traffic: what was due by now is what was intended."""


class SinkOpenReply(Record):
    """What counts, and why nothing better does."""

    backend: str | None = None
    backend_reason: str | None = None


class SinkOpenRequest(Traffic, Request[SinkOpenReply], tag="sink-open"):
    """Counts what arrives, while the session goes on."""


class SendRequest(Traffic, Request[SendReply], tag="send"):
    """Sends, and answers when the last frame has left."""


class SourceTotals(Message):
    """What one source sent, for the sink's books."""

    intended_frames: int
    offered_frames: int
    unsent_frames: int


class SinkFinishReply(Record):
    """What the sink counted."""

    sink: Sink
    interfaces: tuple[InterfaceChange, ...]
    cpu: Cpu


class SinkFinishRequest(Request[SinkFinishReply], tag="sink-finish"):
    """Waits for what the sources offered, then closes the books."""

    sources: tuple[SourceTotals, ...]


class SinkCloseRequest(Request[Done], tag="sink-close"):
    """Closes the sink without books."""
