"""Losses are booked where the counters say that frames vanished, to the frame, and on nobody where they do not say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import by_hand
from tests.support.facts import assert_facts

from virtoll.runfolder.traffic_records import Hop, KernelCounters, KernelSpan, Point, Surroundings
from virtoll.stats.hops import Loss, Owner, Segment, _divide, locate  # _divide: a table of whole frames

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
    """A point of so many sources; `sink`: what else the sink counted."""
    sources = [by_hand.source(number, intended=sent) for number, sent in enumerate(offered)]
    sinks = [
        by_hand.sink(number, forwarded=came, lost=sent - came)
        for number, (sent, came) in enumerate(zip(offered, forwarded, strict=True))
    ]
    made = by_hand.point(1.0, sources, sinks, hops=None if hops is None else tuple(Hop(**one) for one in hops))
    return made.replace(sink=made.sink.replace(**sink))


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
    guest = KernelSpan(KernelCounters(snmp={"Ip": {"InReceives": 0}}), KernelCounters(snmp=snmp))
    found = locate(lossy.replace(surroundings=Surroundings(host=None, guest=guest)))
    assert len(found) == 2
    for loss in found:
        counted, uncounted = loss.counters
        assert_facts(counted, "guest's stack", "Ip InDiscards +25")
        assert_facts(uncounted, 5, "no counter")


def reported(losses: tuple[Loss, ...]) -> list[tuple[int, str, int]]:
    return [(loss.source, loss.words, loss.frames) for loss in losses]


def test_each_place_is_found() -> None:
    assert locate(point([100], [100], bridged([100] * 8))) == (), "nothing was lost"
    expected = {
        0: Segment.GENERATOR,
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
        of_the_host = place in (Segment.GENERATOR, Segment.SINK_RING, Segment.SINK)
        assert losses[0].owner is (Owner.HOST if of_the_host else Owner.PLATFORM)


def test_a_queue_that_says_what_it_dropped_is_believed() -> None:
    """The tap's queue dropped 23; a probe frame of the generator's own stands in the counts before it."""
    losses = locate(point([100], [77], bridged([101, 101, 78, 78, 77, 77, 77, 77], {"port-in": 23})))
    assert reported(losses) == [(0, Segment.PORT, 23)]
    assert losses[0].counters == ("if-port-in tx_dropped +23",)


@pytest.mark.parametrize("lost", [23, 10])
@pytest.mark.parametrize("upper", ["guest-out", "port-out"])
@pytest.mark.parametrize(
    ("counter", "place"), [("tx_dropped", Segment.SINK_RING), ("queue_dropped", Segment.ATTACHMENT_OUT)]
)
def test_a_drop_below_a_macvlan_is_one_drop_and_the_lower_ones(
    upper: str, lost: int, counter: str, place: Segment
) -> None:
    """The macvlan reports as its own what the interface under it dropped because the sink's ring was full."""
    between = ("port-out",) if upper == "port-out" else ()
    roles = ("generator", "entry", "guest-in", "guest-out", *between, "exit", "sink")
    hops = [hop(role, 100 - lost if role in (upper, "exit", "sink") else 100) for role in roles]
    for one in hops:
        if one["role"] in (upper, "exit"):
            one |= {"direction": "out", "before": {}, "after": {"tx_packets": 100 - lost, counter: lost}}
    losses = locate(point([100], [100 - lost], hops))
    assert reported(losses) == [(0, place, lost)]
    assert losses[0].counters == (f"if-exit {counter} +{lost}",)


def test_the_native_hosts_router_is_the_platform() -> None:
    hops = [
        hop("generator", 100, where="peer"),
        hop("guest-in", 100, where="guest"),
        hop("exit", 80, where="guest"),
        hop("sink", 80, where="peer"),
    ]
    losses = locate(point([100], [80], hops))
    assert [(loss.words, loss.frames, loss.owner) for loss in losses] == [(Segment.GUEST, 20, Owner.PLATFORM)]


def test_without_the_guests_counters_platform_and_host_are_told_apart() -> None:
    losses = locate(point([100], [70], bridged([100, 100, 100, None, None, 80, 80, 70])))
    assert [(loss.owner, loss.frames) for loss in losses] == [(Owner.PLATFORM, 20), (Owner.HOST, 10)]
    assert losses[0].words == f"{Segment.GUEST_NIC} to {Segment.GUEST_QUEUE}"


def test_without_any_counter_a_loss_is_unlocated() -> None:
    for hops in (None, bridged([None] * 8)):
        losses = locate(point([100], [70], hops))
        assert [(loss.owner, loss.frames) for loss in losses] == [(Owner.UNLOCATED, 30)]


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


def counted(one: dict[str, Any], **after: int) -> dict[str, Any]:
    """The hop with these counters alone, which were 7 each."""
    return {**one, "before": dict.fromkeys(after, 7), "after": {name: 7 + count for name, count in after.items()}}


def with_counters(frames: Sequence[int | None], role: str, **after: int) -> list[dict[str, Any]]:
    return [counted(one, **after) if one["role"] == role else one for one in bridged(frames)]


@pytest.mark.parametrize(
    ("role", "way", "queue", "interface"),
    [
        ("generator", "out", Segment.GENERATOR, Segment.ENTRY_RING),
        ("port-in", "out", Segment.PORT, Segment.PORT),
        ("guest-out", "out", Segment.GUEST_QUEUE, Segment.GUEST_QUEUE),
        ("port-out", "out", Segment.GUEST_QUEUE, Segment.ATTACHMENT_OUT),
        ("exit", "out", Segment.ATTACHMENT_OUT, Segment.SINK_RING),
        ("exit", "guest", Segment.GUEST_QUEUE, Segment.SINK_RING),
    ],
)
def test_a_queue_and_an_interface_say_where_they_drop(role: str, way: str, queue: Segment, interface: Segment) -> None:
    """23 of 100, at the one hop or before: the queueing discipline stands before the interface's own count."""
    place = BRIDGED.index(role)
    counts = [100] * place + [77] * (8 - place)
    for counter, segment in (("queue_dropped", queue), ("tx_dropped", interface)):
        hops = with_counters(counts, role, tx_packets=77, **{counter: 23})
        fewer = with_counters(counts, role, tx_packets=77, **{counter: 20})
        for own in (hops, fewer):
            own[place] |= {"direction": "out", "where": "guest" if way == "guest" else "lab"}
            if role == "port-out":
                del own[6]  # else it is stacked on the exit
        losses = locate(point([100], [77], hops))
        assert reported(losses) == [(0, segment, 23)]
        assert losses[0].counters == (f"if-{role} {counter} +23",)
        assert sum(loss.frames for loss in locate(point([100], [77], fewer))) == 23


def test_what_the_sinks_socket_dropped_is_told_of_losses_at_the_sink() -> None:
    lossy = bridged([100] * 4 + [90] * 4)
    for dropped, told in ((5, ("sink's socket dropped +5",)), (0, ()), (None, ())):
        found = locate(point([100], [70], lossy, kernel_dropped_frames=dropped))
        assert [(loss.words, loss.counters) for loss in found] == [(Segment.GUEST, ()), (Segment.SINK, told)]
        (unlocated,) = locate(point([100, 50], [70, 50], None, kernel_dropped_frames=dropped))
        assert (unlocated.source, unlocated.frames, unlocated.counters) == (0, 30, told)
        assert unlocated.segments == tuple(Segment)
    uncounted = bridged([100] * 7 + [None])
    (behind,) = locate(point([100], [70], uncounted, kernel_dropped_frames=5))
    assert (behind.words, behind.owner) == (f"{Segment.SINK_RING} to {Segment.SINK}", Owner.HOST)
    assert behind.counters == ("sink's socket dropped +5",)


def test_all_that_is_not_the_trials_own_passed_beyond_the_guest_too() -> None:
    """3 foreign frames, 2 of an earlier trial, 1 forged and 4 duplicates: 10 more than the 60 forwarded at each hop."""
    hops = bridged([100, 100, 100, 100, 70, 70, 70, 70])
    strangers = {"foreign_frames": 3, "late_trial_frames": 2}
    seen = point([100], [60], hops, **strangers, forged_frames=1)
    (own,) = seen.sink.per_source
    seen = seen.replace(sink=seen.sink.replace(per_source=(own.replace(duplicate_frames=4),)))
    assert reported(locate(seen)) == [(0, Segment.GUEST, 40)]
    hops[6] = counted(hops[6], tx_packets=60, tx_dropped=6, queue_dropped=4)
    hops[7] = hop("sink", 60)
    told = point([100], [50], hops, **strangers, forged_frames=None)
    (own,) = told.sink.per_source
    told = told.replace(sink=told.sink.replace(per_source=(own.replace(duplicate_frames=5),)))
    assert reported(locate(told)) == [
        (0, Segment.GUEST, 40),
        (0, Segment.ATTACHMENT_OUT, 4),
        (0, Segment.SINK_RING, 6),
    ]


def test_no_more_strangers_came_by_a_way_than_it_received_besides_its_own() -> None:
    """Of 20 strangers 6 came by the way of source 0: 90 received are 80 of its own, 4 duplicates, and 6."""
    there = bridged([100, 100, 100, 100, 100, 100, 90, 90])
    back = [{**one, "source": 1} for one in bridged([100] * 4 + [114] * 4)]
    seen = point([100, 100], [80, 100], [{**one, "source": 0} for one in there] + back, foreign_frames=20)
    first, second = seen.sink.per_source
    sinks = first.replace(duplicate_frames=4), second
    assert reported(locate(seen.replace(sink=seen.sink.replace(per_source=sinks)))) == [
        (0, Segment.GUEST, 10),
        (0, Segment.ATTACHMENT_OUT, 10),
    ]


def test_where_there_is_one_way_all_strangers_came_by_it() -> None:
    """Also where the sink's interface says that it received none: 65 are 60 of its own and 5."""
    assert reported(locate(point([100], [60], bridged([100] * 4 + [65] * 3 + [60]), foreign_frames=5))) == [
        (0, Segment.GUEST, 40)
    ]


@pytest.mark.parametrize(
    ("missed", "place"), [(16, Segment.ENTRY_RING), (17, f"{Segment.ENTRY_RING} to {Segment.GUEST_NIC}")]
)
def test_a_count_below_a_later_one_by_more_than_chatter_is_left_out(missed: int, place: str) -> None:
    """Two counts before one of 900 have fewer: up to 16 frames there may be nobody's; with more, they are no counts."""
    few = 900 - missed
    losses = locate(point([1000], [900], bridged([1000, few, few, 900, 900, 900, 900, 900])))
    assert reported(losses) == [(0, place, 100)]


def test_a_count_above_what_was_offered_leaves_the_others_as_they_are() -> None:
    losses = locate(point([100], [70], bridged([100, 100, 90, 100_000, 70, 70, 70, 70])))
    assert reported(losses) == [(0, Segment.ATTACHMENT_IN, 10), (0, Segment.GUEST, 20)]


def test_a_reading_that_is_missing_is_no_count() -> None:
    for missing in ("before", "after"):
        hops = bridged([100, 100, 100, 100, 77, 77, 77, 77])
        hops[2] |= {missing: None}
        hops[3] |= {missing: None}
        hops[4] |= {missing: None}
        (found,) = locate(point([100], [77], hops))
        assert found.words == f"{Segment.ATTACHMENT_IN} to {Segment.GUEST_QUEUE}"
        assert found.segments == tuple(Segment)[2:7]
        assert found.counters == ()


def test_a_macvtap_that_cannot_be_read_leaves_both_its_places_open() -> None:
    hops = bridged([100, 100, 100, 77, 77, 77, 77, 77])
    hops[2] |= {"direction": "in", "before": None, "after": None}
    assert [loss.segments for loss in locate(point([100], [77], hops))] == [
        (Segment.ATTACHMENT_IN, Segment.PORT, Segment.GUEST_NIC)
    ]
    hops[2] |= {"before": {"rx_dropped": 7}, "after": {"rx_packets": 95, "rx_dropped": 25}}
    assert reported(locate(point([100], [77], hops))) == [(0, Segment.ATTACHMENT_IN, 5), (0, Segment.PORT, 18)]


@pytest.mark.parametrize(
    ("frames", "left", "forwarded", "shares"),
    [
        (10, {0: 10, 1: 10, 2: 10}, {0: 0, 1: 0, 2: 0}, {0: 4, 1: 3, 2: 3}),
        (2, {0: 5, 1: 5, 2: 5}, {0: 4, 1: 4, 2: 4}, {0: 1, 1: 1, 2: 0}),
        (9, {0: 100, 1: 50}, {0: 80, 1: 40}, {0: 6, 1: 3}),
        (5, {0: 1, 1: 5}, {0: 0, 1: 0}, {0: 1, 1: 4}),
        (29, {0: 20, 1: 10}, {0: 0, 1: 0}, {0: 20, 1: 9}),
        (5, {0: 3, 1: 3}, {0: 3, 1: 3}, {0: 0, 1: 0}),
        (0, {0: 3}, {0: 1}, {0: 0}),
        (12, {0: 5, 1: 50}, {0: 0, 1: 0}, {0: 1, 1: 11}),
        (5, {0: 2, 1: 2, 2: 2}, {0: 0, 1: 0, 2: 0}, {0: 2, 1: 2, 2: 1}),
    ],
)
def test_a_shared_loss_is_divided_by_what_each_had_left(
    frames: int, left: dict[int, int], forwarded: dict[int, int], shares: dict[int, int]
) -> None:
    """Whole frames, down; what remains goes to whoever has most left, the first of those alike."""
    assert _divide(frames, left, forwarded) == shares


def test_the_drop_counters_of_an_interface_are_told_by_their_words() -> None:
    """Of the sink's: those that grew and are of frames that were dropped; XDP drops are what a sink took."""
    grown = {
        "rx_packets": 77,
        "rx_dropped": 1,
        "rx_errors": 2,
        "rx_missed": 3,
        "rx_fifo": 4,
        "rx_no_buffer_count": 5,
        "rx_xdp_drops": 6,
        "rx_nobuffer": 7,
    }
    hops = with_counters([100] * 7 + [77], "sink", **grown)
    hops[7]["before"] |= {"rx_frame_errors": 9, "rx_over_errors": 4}
    hops[7]["after"] |= {"rx_frame_errors": 9, "rx_over_errors": 3}
    (found,) = locate(point([100], [77], hops))
    assert found.words == Segment.SINK_RING
    names = ("dropped", "errors", "missed", "fifo", "no_buffer_count")
    assert found.counters == tuple(f"if-sink rx_{name} +{count}" for count, name in enumerate(names, start=1))


def test_an_interface_drops_behind_its_count_on_receipt_too() -> None:
    """What the ring into the lab dropped after it counted it is lost behind it. A NIC's in the guest is the stack's."""
    hops = with_counters([100, 100, 77, 77, 77, 70, 70, 70], "entry", rx_packets=100, rx_dropped=23)
    hops[3] = counted(hops[3], rx_packets=77, rx_dropped=7)
    found = locate(point([100], [70], hops))
    assert [(loss.words, loss.counters) for loss in found] == [
        (Segment.ATTACHMENT_IN, ("if-entry rx_dropped +23",)),
        (Segment.GUEST_QUEUE, ()),
    ]


def test_a_drop_that_has_its_place_is_not_told_of_the_next_one() -> None:
    """The port's queue dropped 10, and 5 more were lost at the guest's NIC; the ring before it dropped too."""
    hops = with_counters([100, 100, 90, 85, 85, 85, 85, 85], "port-in", tx_packets=90, tx_dropped=10)
    hops[1] = counted(hops[1], rx_packets=100, rx_dropped=3)
    found = locate(point([100], [85], hops))
    assert reported(found) == [(0, Segment.PORT, 10), (0, Segment.GUEST_NIC, 5)]
    assert [loss.counters for loss in found] == [("if-port-in tx_dropped +10",), ()]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_one_source_leaves_open_is_open_for_the_loss_that_all_share(order: tuple[int, int]) -> None:
    """The NIC of one of two sources cannot be read: what is missing behind may have vanished there, in either order."""
    counts: dict[int, list[int | None]] = {0: [100, 100, 100, None], 1: [100, 100, 100, 100]}
    own = [
        hop(role, passed, source=place)
        for place, number in enumerate(order)
        for role, passed in zip(BRIDGED[:4], counts[number], strict=True)
    ]
    shared = [hop(role, 160) for role in BRIDGED[4:]]
    losses = locate(point([100, 100], [80, 80], [*own, *shared]))
    assert reported(losses) == [(source, f"{Segment.GUEST_NIC} to {Segment.GUEST}", 20) for source in (0, 1)]


def snmp(ip: dict[str, int], ext: dict[str, int], six: dict[str, int] | None) -> dict[str, Any]:
    named = None if six is None else {f"Ip6{name}": count for name, count in six.items()}
    return {"snmp": {"Ip": ip, "IpExt": ext}, "snmp6": named}


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (
            snmp({"InReceives": 5, "InDiscards": 4}, {"InCsumErrors": 0}, None),
            snmp({"InReceives": 105, "InDiscards": 10, "OutNoRoutes": 3}, {"InCsumErrors": 1}, {"InDiscards": 99}),
            ["Ip InDiscards +6", "Ip OutNoRoutes +3", "IpExt InCsumErrors +1", 10],
        ),
        (
            snmp({"InReceives": 5, "InDiscards": 4}, {}, {"InReceives": 1}),
            snmp({"InReceives": 9, "InDiscards": 9}, {}, {"InReceives": 101, "InTooBigErrors": 20}),
            ["Ip6 InTooBigErrors +20", 0],
        ),
        (
            snmp({"InReceives": 1, "FragFails": 30}, {}, {"InReceives": 1}),
            snmp({"InReceives": 2, "FragFails": 40, "ForwDatagrams": 7}, {}, {"InReceives": 2, "OutDiscards": 9}),
            ["Ip FragFails +10", 10],
        ),
        (
            snmp({"InHdrErrors": 9}, {}, None),
            snmp({"InHdrErrors": 2, "InAddrErrors": 1}, {}, None),
            ["Ip InAddrErrors +1", 19],
        ),
        (snmp({"InReceives": 0}, {}, None), {"snmp": {"Ip": {"InReceives": 9}}}, [20]),
        ({"snmp": {}}, snmp({"InDiscards": 9}, {}, None), []),
        (snmp({"InDiscards": 9}, {}, None), {"snmp": {}}, []),
        ({}, snmp({"InDiscards": 9}, {}, None), []),
    ],
)
def test_the_stack_of_the_frames_family_is_asked(before: Any, after: Any, told: list[Any]) -> None:
    """Of 20 frames lost inside the guest: which of its counters grew, and how many are in none. 10 were lost before."""
    lossy = point([100], [70], bridged([100, 100, 90, 90, 70, 70, 70, 70]))
    read = Surroundings(host=None, guest=KernelSpan(KernelCounters(**before), KernelCounters(**after)))
    attachment, inside = locate(lossy.replace(surroundings=read))
    assert (attachment.words, attachment.counters) == (Segment.ATTACHMENT_IN, ())
    expected = [one for one in told if one]
    assert len(inside.counters) == len(expected)
    for counter, one in zip(inside.counters, expected, strict=True):
        assert_facts(counter, "guest's stack", *([one] if isinstance(one, str) else [one, "no counter"]))
    for nothing in (None, Surroundings(host=None, guest=None)):
        assert [loss.counters for loss in locate(lossy.replace(surroundings=nothing))] == [(), ()]


def test_what_a_macvtap_dropped_is_its_own_place_alone() -> None:
    """It dropped none, or 23 and then 7 more were lost; and 30 of frames that all came in, which were none of these."""

    def macvtap(counts: Sequence[int | None], **after: int) -> tuple[Loss, ...]:
        hops = bridged(counts)
        hops[2] |= {"direction": "in", "before": {}, "after": after}
        return locate(point([100], [counts[7] or 0], hops))

    assert reported(macvtap([100, 100, 100, 90, 90, 90, 90, 90], rx_packets=100)) == [(0, Segment.GUEST_NIC, 10)]
    found = macvtap([100, 100, 100, 70, 70, 70, 70, 70], rx_packets=100, rx_dropped=23)
    assert reported(found) == [(0, Segment.PORT, 23), (0, Segment.GUEST_NIC, 7)]
    assert [loss.counters for loss in found] == [("if-port-in rx_dropped +23",), ()]
    others = macvtap([100, 100, 100, 100, 77, 77, 77, 77], rx_packets=100, rx_dropped=30)
    assert reported(others) == [(0, Segment.GUEST, 23)]
