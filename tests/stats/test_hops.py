"""Losses are booked where the counters say that frames vanished, to the frame, and on nobody where they do not say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import Point, Surroundings
from virtoll.stats.hops import Loss, Owner, Segment, locate

BRIDGED = ("generator", "entry", "port-in", "guest-in", "guest-out", "port-out", "exit", "sink")
OUTWARD = frozenset({"generator", "port-in", "guest-out", "exit"})
START = 1_000_000


def hop(
    role: str, frames: int | None, dropped: int = 0, source: int | None = None, where: str = "lab"
) -> dict[str, Any]:
    """One hop that passed so many frames; None: could not be read. Counters do not start at zero."""
    way = "out" if role in OUTWARD else "in"
    counter = "tx_packets" if way == "out" else "rx_packets"
    shared = role in ("guest-out", "port-out", "exit", "sink")
    before = None if frames is None else {counter: START, "tx_dropped": 3}
    after = None if frames is None else {counter: START + frames, "tx_dropped": 3 + dropped}
    return {
        "role": role,
        "where": where,
        "interface": f"if-{role}",
        "direction": way,
        "source": None if shared else source or 0,
        "before": before,
        "after": after,
    }


def point(offered: list[int], forwarded: list[int], hops: list[dict[str, Any]] | None, **sink: Any) -> Point:
    """A point of so many sources, read as a run folder's is."""
    reported = {
        "intended_rate_frames_per_second": 1.0,
        "duration_ns": 1,
        "frame_size_bytes": 64,
        "backend": "af-packet",
        "sources": [
            {
                "source": n,
                "intended_frames": count,
                "offered_frames": count,
                "unsent_frames": 0,
                "start_monotonic_ns": 0,
                "end_monotonic_ns": 1,
            }
            for n, count in enumerate(offered)
        ],
        "sink": {
            "per_source": [
                {
                    "source": n,
                    "forwarded_frames": count,
                    "duplicate_frames": 0,
                    "reordered_frames": 0,
                    "lost_frames": offered[n] - count,
                    "first_received_monotonic_ns": None,
                    "last_received_monotonic_ns": None,
                }
                for n, count in enumerate(forwarded)
            ],
            "foreign_frames": 0,
            "late_trial_frames": 0,
            "kernel_dropped_frames": 0,
            "drained": True,
            **sink,
        },
        "hops": hops,
    }
    record = {
        "trial": 0,
        "block": 0,
        "platform": "p",
        "workload": "forward",
        "parameters": {},
        "boot": None,
        "attempt": 1,
        "status": "ok",
        "reason": None,
        "started_realtime_ns": 0,
        "ended_realtime_ns": 0,
        "clock": None,
        "result": None,
        "check": None,
        "points": [reported],
        "evidence": [],
    }
    points = parse_record(TrialRecord, record).points
    assert points is not None
    return points[0]


def bridged(frames: Sequence[int | None], dropped: dict[str, int] | None = None) -> list[dict[str, Any]]:
    return [hop(role, count, (dropped or {}).get(role, 0)) for role, count in zip(BRIDGED, frames, strict=True)]


def both_ways(there: Sequence[int | None], back: Sequence[int | None]) -> list[dict[str, Any]]:
    """The hops of both directions; each has its own."""
    return [{**one, "source": 0} for one in bridged(there)] + [{**one, "source": 1} for one in bridged(back)]


def test_each_direction_is_located_by_its_own_hops() -> None:
    hops = both_ways([90, 90, 90, 90, 80, 80, 80, 80], [100, 100, 70, 70, 70, 70, 70, 60])
    assert reported(locate(point([100, 100], [80, 60], hops))) == [
        (0, Segment.GENERATOR, 10),
        (0, Segment.GUEST, 10),
        (1, Segment.ATTACHMENT_IN, 30),
        (1, Segment.SINK_RING, 10),
    ]


@given(st.integers(0, 500), st.integers(0, 500), st.booleans())
def test_in_both_directions_losses_add_up_to_the_books(there: int, back: int, known: bool) -> None:
    """Whatever the counters say: here they say nothing, or that all was lost at another place each."""
    hops = both_ways([1000] * 4 + [1000 - there] * 4, [1000] * 2 + [1000 - back] * 6) if known else None
    losses = locate(point([1000, 1000], [1000 - there, 1000 - back], hops))
    assert [sum(loss.frames for loss in losses if loss.source == number) for number in (0, 1)] == [there, back]


def test_strangers_of_one_way_are_not_taken_from_the_counts_of_another() -> None:
    """The sink counts strangers of all its interfaces together; by the second way only what it received came."""
    hops = both_ways([120] * 8, [100, 100, 100, 100, 100, 100, 90, 90])
    found = locate(point([100, 100], [100, 90], hops, foreign_frames=20))
    assert reported(found) == [(1, Segment.ATTACHMENT_OUT, 10)]


def test_what_the_stack_counts_is_set_against_the_losses_of_all_ways() -> None:
    lossy = point([100, 100], [90, 80], both_ways([100] * 4 + [90] * 4, [100] * 4 + [80] * 4))
    snmp = {"Ip": {"InReceives": 200, "InDiscards": 25}}
    guest = {"before": {"snmp": {"Ip": {"InReceives": 0}}}, "after": {"snmp": snmp}}
    found = locate(replace(lossy, surroundings=Surroundings(host=None, guest=guest)))
    assert [loss.counters for loss in found] == [
        ("guest's stack Ip InDiscards +25", "5 in no counter of the guest's stack")
    ] * 2


def reported(losses: tuple[Loss, ...]) -> list[tuple[int, str, int]]:
    return [(loss.source, loss.words, loss.frames) for loss in losses]


def test_nothing_lost_is_nothing_told() -> None:
    assert locate(point([100], [100], bridged([100] * 8))) == ()


def test_each_place_is_found() -> None:
    expected = {
        1: Segment.ENTRY_RING,
        2: Segment.ATTACHMENT_IN,
        3: Segment.GUEST_NIC,
        4: Segment.GUEST,
        5: Segment.GUEST_QUEUE,
        6: Segment.ATTACHMENT_OUT,
        7: Segment.SINK_RING,
        8: Segment.SINK,
    }
    for position, place in expected.items():
        counts: list[int | None] = [*[100] * position, *[77] * (8 - position)]
        losses = locate(point([100], [77], bridged(counts)))
        assert reported(losses) == [(0, place, 23)], position
        assert losses[0].owner is (Owner.HOST if place in (Segment.SINK_RING, Segment.SINK) else Owner.PLATFORM)


def test_a_queue_that_says_what_it_dropped_is_believed() -> None:
    """The tap's queue dropped 23; a probe frame of the generator's own stands in the counts before it."""
    losses = locate(point([100], [77], bridged([101, 101, 78, 78, 77, 77, 77, 77], {"port-in": 23})))
    assert reported(losses) == [(0, Segment.PORT, 23)]
    assert losses[0].counters == ("if-port-in tx_dropped +23",)


def test_a_macvtap_counts_what_the_machine_did_not_take() -> None:
    """It is the guest's own end: 23 of 100 came in by it and were dropped before its monitor read them."""
    hops = bridged([100, 100, 100, 77, 77, 77, 77, 77])
    hops[2] |= {"direction": "in", "before": {}, "after": {"rx_packets": 100, "rx_dropped": 23}}
    hops[5] |= {"direction": "out", "before": {}, "after": {"tx_packets": 77}}
    losses = locate(point([100], [77], hops))
    assert reported(losses) == [(0, Segment.PORT, 23)]
    assert losses[0].counters == ("if-port-in rx_dropped +23",)


@pytest.mark.parametrize("upper", ["guest-out", "port-out"])
def test_a_drop_below_a_macvlan_is_one_drop_and_the_lower_ones(upper: str) -> None:
    """The macvlan reports as its own what the interface under it dropped because the sink's ring was full."""
    between = ("port-out",) if upper == "port-out" else ()
    roles = ("generator", "entry", "guest-in", "guest-out", *between, "exit", "sink")
    hops = [hop(role, 77 if role in (upper, "exit", "sink") else 100) for role in roles]
    for one in hops:
        if one["role"] in (upper, "exit"):
            one |= {"direction": "out", "before": {}, "after": {"tx_packets": 77, "tx_dropped": 23}}
    losses = locate(point([100], [77], hops))
    assert reported(losses) == [(0, Segment.SINK_RING, 23)]
    assert losses[0].owner is Owner.HOST


def test_what_the_sinks_ring_dropped_is_the_hosts_own() -> None:
    losses = locate(point([100], [77], bridged([100, 100, 100, 100, 100, 100, 77, 77], {"exit": 23})))
    assert reported(losses) == [(0, Segment.SINK_RING, 23)]
    assert losses[0].owner is Owner.HOST


def test_the_generators_interface_is_the_hosts_own() -> None:
    losses = locate(point([100], [77], bridged([77] * 8)))
    assert [(loss.words, loss.owner) for loss in losses] == [(Segment.GENERATOR, Owner.HOST)]


def test_the_native_hosts_router_is_the_platform() -> None:
    hops = [
        hop("generator", 100, where="peer"),
        hop("guest-in", 100, where="guest"),
        hop("exit", 80, where="guest"),
        hop("sink", 80, where="peer"),
    ]
    losses = locate(point([100], [80], hops))
    assert [(loss.words, loss.frames, loss.owner) for loss in losses] == [(Segment.GUEST, 20, Owner.PLATFORM)]


def test_without_the_guests_counters_the_platform_is_still_told_from_the_host() -> None:
    losses = locate(point([100], [70], bridged([100, 100, 100, None, None, 80, 80, 70])))
    assert [(loss.owner, loss.frames) for loss in losses] == [(Owner.PLATFORM, 20), (Owner.HOST, 10)]
    assert losses[0].words == f"{Segment.GUEST_NIC} to {Segment.GUEST_QUEUE}"


def test_without_any_counter_a_loss_is_unlocated() -> None:
    for hops in (None, bridged([None] * 8)):
        losses = locate(point([100], [70], hops))
        assert [(loss.owner, loss.frames) for loss in losses] == [(Owner.UNLOCATED, 30)]


def test_an_interface_that_misses_frames_is_not_believed() -> None:
    """Frames do not come out of nothing: 40 000 of 100 000 at one hop and 90 000 behind it is that counter's fault."""
    losses = locate(point([100_000], [90_000], bridged([100_000, 40_000, 100_000, *[90_000] * 5])))
    assert reported(losses) == [(0, Segment.GUEST_NIC, 10_000)]


def test_foreign_frames_and_duplicates_hide_no_loss() -> None:
    """7 lost in the guest; 5 foreign frames came out of it as well."""
    counts: list[int | None] = [100, 100, 100, 100, 98, 98, 98, 98]
    losses = locate(point([100], [93], bridged(counts), foreign_frames=5))
    assert reported(losses) == [(0, Segment.GUEST, 7)]
    assert losses[0].owner is Owner.PLATFORM


def test_sources_are_told_apart_until_they_share_the_way() -> None:
    """Source 0 loses 10 in its own port; both lose in the guest, 45 together, by what they had left."""
    own = [
        [
            hop("generator", 100, source=n),
            hop("entry", 100, source=n),
            hop("port-in", passed, dropped, source=n),
            hop("guest-in", passed, source=n),
        ]
        for n, (passed, dropped) in enumerate([(90, 10), (100, 0)])
    ]
    shared = [hop(role, 145) for role in ("guest-out", "port-out", "exit", "sink")]
    losses = locate(point([100, 100], [60, 85], [*own[0], *own[1], *shared]))
    assert reported(losses) == [(0, Segment.PORT, 10), (0, Segment.GUEST, 30), (1, Segment.GUEST, 15)]


@settings(deadline=None)  # no wall time in a test
@given(st.data())
def test_the_losses_are_always_the_books(data: st.DataObject) -> None:
    """Whatever the counters say, wild ones too: each source's losses add up to its lost frames, none is negative."""
    count = st.integers(0, 10_000)
    sources = data.draw(st.integers(1, 3))
    offered = [data.draw(count) for _ in range(sources)]
    forwarded = [data.draw(st.integers(0, most)) for most in offered]
    hops = [
        hop(role, data.draw(st.none() | count), data.draw(count), n) for n in range(sources) for role in BRIDGED[:4]
    ]
    hops += [hop(role, data.draw(st.none() | count), data.draw(count)) for role in BRIDGED[4:]]
    kept = data.draw(st.lists(st.sampled_from(hops), unique_by=id)) if data.draw(st.booleans()) else hops
    losses = locate(point(offered, forwarded, [one for one in hops if one in kept]))
    assert all(loss.frames > 0 for loss in losses)
    for number in range(sources):
        assert sum(loss.frames for loss in losses if loss.source == number) == offered[number] - forwarded[number]
