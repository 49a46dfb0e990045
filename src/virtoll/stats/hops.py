"""Where frames were lost: from the counters of every hop to the place where each source's frames vanished. Pure.

The way is a chain of *stations*, each a count of frames that passed it: the generator's own count, each interface's
(docs/run-folder.md, `hops`), the sink's own. What is missing between two neighbours was lost between them. Rules:

- Frames do not come out of nothing. A station that counts fewer frames than a later one (beyond the chatter of a link)
  does not count all of them. It is left out, as one that could not be read is.
- Counts are held between what was offered and what was forwarded, so the losses add up to the books' own loss exactly.
- What an interface, or the queueing discipline in front of it, says it dropped on sending is believed before the
  difference of two counts.
- What vanished inside the guest, between its two interfaces, is set against the counters of its stack. Those that grew
  are reported, and how many frames are in none of them (netfilter, for one, has none).
- Where a station is left out, the loss lies somewhere between its neighbours. If those places have not all the same
  owner, it is *unlocated*.
- A device that is stacked on another hands its frames on within one call and reports the lower one's drops as its own.
  There only the lower one is asked (a macvlan's way out).
- From where sources share the way, a loss is divided among them by what they had left, to whole frames.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from virtoll.runfolder.traffic_records import Hop, KernelCounters, Point, SourceCounts

CHATTER_FRAMES = 16  # neighbour discovery, multicast reports, a generator's probe: frames of nobody's trial in a point
_DROP_WORDS = ("drop", "error", "missed", "fifo", "no_buffer")


class Owner(StrEnum):
    """On whose account a loss is booked."""

    PLATFORM = "the platform"
    HOST = "the host's own"
    UNLOCATED = "unlocated"


class Segment(StrEnum):
    """The segments between two stations, in the order of the path."""

    GENERATOR = "generator's interface"
    ENTRY_RING = "ring into the lab"
    ATTACHMENT_IN = "attachment, inward"
    PORT = "queue towards the guest"
    GUEST_NIC = "guest's NIC, inward"
    GUEST = "inside the guest"
    GUEST_QUEUE = "guest's NIC, outward"
    ATTACHMENT_OUT = "attachment, outward"
    SINK_RING = "ring of the sink's interface"
    SINK = "sink"


HOSTS_OWN = (Segment.GENERATOR, Segment.SINK_RING, Segment.SINK)
_ANYWHERE = tuple(Segment)


class Loss(NamedTuple):
    """Frames of one source that vanished at one place, or between the first and the last of several.

    `counters`: the drop counters that grew there, as `interface counter +n`. A tuple as `sweeps.PointValue` is.
    """

    source: int
    segments: tuple[Segment, ...]
    frames: int
    counters: tuple[str, ...]

    @property
    def owner(self) -> Owner:
        """The host's own, the platform's, or unlocated where the segments are not all the same one's."""
        return _owner_of(self.segments)

    @property
    def words(self) -> str:
        """The place in words."""
        first, last = self.segments[0], self.segments[-1]
        return first if first == last else f"{first} to {last}"


@cache
def _owner_of(segments: tuple[Segment, ...]) -> Owner:
    of_host = sum(segment in HOSTS_OWN for segment in segments)
    if 0 < of_host < len(segments):
        return Owner.UNLOCATED
    return Owner.HOST if of_host else Owner.PLATFORM


@dataclass(frozen=True)
class _Station:
    """A count of frames at the end of a place; `dropped`: what the interface itself says was lost in that place.

    `hop`: whose drop counters may be of that place, or of the next one where it does not say itself what it dropped.
    """

    segment: Segment
    frames: int | None = None
    dropped: int | None = None
    hop: Hop | None = None


def locate(point: Point) -> tuple[Loss, ...]:
    """Every loss of a point, by source and in the order of the path; empty where nothing was lost.

    The frames of a source add up to its `lost_frames`.
    """
    if not any(counts.lost_frames for counts in point.sink.per_source):
        return ()
    losses = [loss for sources, hops in _ways(point) for loss in _locate(point, sources, hops)]
    # The stack's counters are the whole guest's, so they are set against what all ways through it lost.
    stack = _stack(point, sum(loss.frames for loss in losses if Segment.GUEST in loss.segments))
    for place, loss in enumerate(losses):
        if Segment.GUEST in loss.segments:
            losses[place] = loss._replace(counters=(*loss.counters, *stack))
    return tuple(losses)


def _ways(point: Point) -> list[tuple[Sequence[SourceCounts], Sequence[Hop]]]:
    """The sources that share a way out of the guest, with its hops: all of them.

    Each is alone in both directions, and where each has an egress link of its own.
    """
    hops = point.hops or ()
    if any(hop.role == "sink" and hop.source is not None for hop in hops):
        return [([source], _hops_of(source, hops)) for source in point.sources]
    return [(point.sources, hops)]


def _hops_of(source: SourceCounts, hops: Sequence[Hop]) -> list[Hop]:
    return [hop for hop in hops if hop.source == source.source]


def _locate(point: Point, sources: Sequence[SourceCounts], hops: Sequence[Hop]) -> list[Loss]:
    forwarded = {counts.source: counts.forwarded_frames for counts in point.sink.per_source}
    dropped = point.sink.kernel_dropped_frames
    socket = (f"sink's socket dropped +{dropped}",) if dropped else ()
    if not hops:
        lost = {source.source: source.offered_frames - forwarded[source.source] for source in sources}
        return [Loss(number, _ANYWHERE, frames, socket) for number, frames in lost.items() if frames > 0]
    losses: list[Loss] = []
    left: dict[int, int] = {}
    uncounted: set[Segment] = set()
    for source in sources:
        number = source.source
        stations = _inward_stations(_hops_of(source, hops))
        missing, left[number], pending = _walk(stations, source.offered_frames, forwarded[number])
        uncounted.update(pending)
        losses += [Loss(number, *lost_here) for lost_here in missing]
    total = sum(forwarded[number] for number in left)
    shared = _shared_stations(hops, _noise(point, left, hops))
    shared.append(_Station(Segment.SINK, total))
    pending = [segment for segment in Segment if segment in uncounted]
    missing, _, _ = _walk(shared, sum(left.values()), total, pending)
    for segments, frames, reported in missing:
        counters = (*reported, *socket) if Segment.SINK in segments else reported
        losses += _shared_losses(Loss(0, segments, frames, counters), left, forwarded)
    return losses


def _shared_losses(loss: Loss, left: dict[int, int], forwarded: Mapping[int, int]) -> Iterator[Loss]:
    """A loss on the shared way, by source; what each has `left` falls by its part."""
    for number, frames in _divide(loss.frames, left, forwarded).items():
        left[number] -= frames
        if frames:
            yield loss._replace(source=number, frames=frames)


def _noise(point: Point, sources: Collection[int], hops: Sequence[Hop]) -> int:
    """Frames that reached the sink by this way and are in no source's forwarded count: they passed all of it too.

    The sink counts strangers of all its interfaces together. No more of them came by this one than it received besides.
    """
    sinks = [counts for counts in point.sink.per_source if counts.source in sources]
    again = sum(counts.duplicate_frames for counts in sinks)
    strangers = point.sink.foreign_frames + point.sink.late_trial_frames + (point.sink.forged_frames or 0)
    received = [growth(hop, "rx_packets") for hop in hops if hop.role == "sink"]
    if len(sinks) < len(point.sink.per_source) and received and received[0] is not None:
        strangers = min(strangers, max(0, received[0] - again - sum(counts.forwarded_frames for counts in sinks)))
    return strangers + again


BEYOND_THE_GUEST = ("guest-out", "port-out", "exit", "sink")  # roles of hops beyond the guest
_INWARD = {
    "entry": Segment.ENTRY_RING,
    "guest-in": Segment.GUEST_NIC,
    "port-out": Segment.GUEST_QUEUE,
    "sink": Segment.SINK_RING,
}
_OUTWARD = {
    "generator": (Segment.GENERATOR, Segment.ENTRY_RING),
    "port-in": (Segment.ATTACHMENT_IN, Segment.PORT),
    "guest-out": (Segment.GUEST, Segment.GUEST_QUEUE),
    "port-out": (Segment.GUEST_QUEUE, Segment.ATTACHMENT_OUT),
    "exit": (Segment.ATTACHMENT_OUT, Segment.SINK_RING),
}


def _inward_stations(hops: Sequence[Hop]) -> list[_Station]:
    """The stations of one source's way into the guest."""
    return [station for hop in hops if hop.role not in BEYOND_THE_GUEST for station in _stations(hop, 0)]


def _shared_stations(hops: Sequence[Hop], noise: int) -> list[_Station]:
    """The stations of the way that all sources share; a device stacked on the last one only counts what it got."""
    beyond = [hop for hop in hops if hop.role in BEYOND_THE_GUEST]
    shared: list[_Station] = []
    for hop, below in itertools.zip_longest(beyond, beyond[1:]):
        stations = _stations(hop, noise)
        stacked = hop.direction == "out" and below is not None and below.role == "exit"
        shared += stations[:1] if stacked else stations
    return shared


def _stations(hop: Hop, noise: int) -> list[_Station]:
    """One station where frames come in; three where they go out: handed to the interface, out of its queue, taken on.

    A macvtap is the guest's own end, so what comes in by it goes to the guest: two, by its counters of receipt.
    """
    if hop.direction == "in" and hop.role in _INWARD:
        count = growth(hop, "rx_packets")
        return [_Station(_INWARD[hop.role], None if count is None else count - noise, None, hop)]
    before, after = _OUTWARD[hop.role]
    queue = after if hop.role in ("port-in", "guest-out") else before
    if hop.role == "exit" and hop.where == "guest":
        before, queue = Segment.GUEST, Segment.GUEST_QUEUE
    if hop.direction == "in":
        received = growth(hop, "rx_packets")
        if received is None:
            return [_Station(before), _Station(after)]
        # What was dropped on receipt has been counted as received.
        lost = growth(hop, "rx_dropped") or 0
        return [_Station(before, received), _Station(after, received - lost, lost, hop)]
    sent = growth(hop, "tx_packets")
    if sent is None:
        return [_Station(before), _Station(queue), _Station(after)]
    dropped, queued = growth(hop, "tx_dropped") or 0, growth(hop, "queue_dropped") or 0
    return [
        _Station(before, sent + dropped + queued - noise),
        _Station(queue, sent + dropped - noise, queued, hop),
        _Station(after, sent - noise, dropped, hop),
    ]


def growth(hop: Hop, counter: str) -> int | None:
    """How much a counter grew over the point; one that is in neither reading was 0 in both. None: not read."""
    if hop.before is None or hop.after is None:
        return None
    return hop.after.get(counter, 0) - hop.before.get(counter, 0)


_Found = tuple[tuple[Segment, ...], int, tuple[str, ...]]


def _walk(
    stations: Sequence[_Station], offered: int, forwarded: int, pending: Sequence[Segment] = ()
) -> tuple[list[_Found], int, list[Segment]]:
    """Losses between neighbours, what is left at the last station, and the segments after the last that was counted."""
    largest, with_later = forwarded, list[tuple[_Station, int]]()
    for station in reversed(stations):
        with_later.append((station, largest))
        largest = max(largest, station.frames or forwarded)
    running, waiting, hops, losses = offered, list(pending), list[Hop](), list[_Found]()
    for station, largest_later in reversed(with_later):
        if station.segment not in waiting:
            waiting.append(station.segment)
        if station.hop is not None:
            hops.append(station.hop)
        if station.frames is None or station.frames + CHATTER_FRAMES < min(largest_later, offered):
            continue
        reached = station.frames if station.dropped is None else running - station.dropped
        reached = max(min(reached, running), forwarded)
        if reached < running:
            losses.append((tuple(waiting), running - reached, _drop_counters(hops)))
        running, waiting, hops = reached, [], []
        # What an interface drops on receipt, it has counted as received, unless it says itself that it has not.
        if station.hop is not None and station.dropped is None:
            hops.append(station.hop)
    return losses, running, waiting


# Counters of the guest's stack that a packet which is routed can end in; Linux keeps IPv4's in two groups.
_STACK = {
    "Ip": ("InHdrErrors", "InAddrErrors", "InDiscards", "OutDiscards", "OutNoRoutes", "FragFails"),
    "IpExt": ("InNoRoutes", "InTruncatedPkts", "InCsumErrors"),
    "Ip6": (
        "InHdrErrors",
        "InTooBigErrors",
        "InNoRoutes",
        "InAddrErrors",
        "InDiscards",
        "OutDiscards",
        "OutNoRoutes",
        "FragFails",
        "InTruncatedPkts",
    ),
}
_FAMILIES = (("Ip", "IpExt"), ("Ip6",))


def _stack(point: Point, frames: int) -> tuple[str, ...]:
    """The counters of the guest's stack that grew, and how many of these frames are in none; empty where not read."""
    read = point.surroundings.guest if point.surroundings else None
    if read is None or not read.before.snmp or not read.after.snmp:
        return ()

    def grown(protocol: str, name: str) -> int:
        first, then = _protocol(read.before, protocol), _protocol(read.after, protocol)
        return then.get(name, 0) - first.get(name, 0)

    # The family that the trial's frames were of; the other one's counters hold neighbour discovery and its like.
    family = max(_FAMILIES, key=lambda protocols: grown(protocols[0], "InReceives"))
    every = {f"{protocol} {name}": grown(protocol, name) for protocol in family for name in _STACK[protocol]}
    counts = {name: count for name, count in every.items() if count > 0}
    reported = [f"guest's stack {name} +{count}" for name, count in counts.items()]
    counted = sum(counts.values())
    if counted < frames:
        reported.append(f"{frames - counted} in no counter of the guest's stack")
    return tuple(reported)


def _protocol(read: KernelCounters, protocol: str) -> Mapping[str, int]:
    if protocol == "Ip6":
        return {name.removeprefix("Ip6"): count for name, count in (read.snmp6 or {}).items()}
    return (read.snmp or {}).get(protocol) or {}


def _drop_counters(hops: Sequence[Hop]) -> tuple[str, ...]:
    reported = []
    for hop in hops:
        for counter in hop.after or {}:
            grown = growth(hop, counter) or 0
            if grown > 0 and any(word in counter for word in _DROP_WORDS) and "xdp_drops" not in counter:
                reported.append(f"{hop.interface} {counter} +{grown}")
    return tuple(dict.fromkeys(reported))


def _divide(frames: int, left: dict[int, int], forwarded: Mapping[int, int]) -> dict[int, int]:
    """A loss on the shared way by source, in proportion to what each has yet to lose; whole frames, exact in sum."""
    open_frames = {number: left[number] - forwarded[number] for number in left}
    total = sum(open_frames.values())
    if not total:
        return dict.fromkeys(left, 0)
    shares = {number: frames * remaining // total for number, remaining in open_frames.items()}
    rest = frames - sum(shares.values())
    for number in sorted(open_frames, key=lambda number: (shares[number] - open_frames[number], number)):
        more = min(rest, open_frames[number] - shares[number])
        shares[number] += more
        rest -= more
    return shares
