"""The instrument's account of itself, on points few enough to reckon by hand: losses, pace, delay, shares, CPU time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import SECOND, distribution, plain, point, sink, source, task, through, trial

from virtoll.runfolder.traffic_records import (
    Cpu,
    InTurn,
    Point,
    Processor,
    SourceCounts,
)
from virtoll.stats.hops import Owner, Segment
from virtoll.stats.values import forwarded_rate, joint_ns, maximum_forwarded_rate, offered_rate
from virtoll.stats.wire import (
    BackendUse,
    achieved_rate,
    backend_uses,
    cpu_rows,
    delay_rows,
    fair_rows,
    jain,
    loss_rows,
    pace_rows,
    points_of,
)

SMALL, LARGE = (task("forward", "points", {"size": size}) for size in (64, 1500))
JOB = task("job", "marks")
TASKS = (JOB, SMALL, LARGE)


def test_only_trials_that_can_be_believed_have_points() -> None:
    trials = [
        trial(1, plain(10.0, 10)),
        trial(2, plain(10.0, 10), status="invalid"),
        trial(3),
        trial(4, plain(None, 9), size=9000),
        trial(5, plain(10.0, 10), plain(None, 20), size=1500),
    ]
    found = [(task, own.trial, one.sources[0].offered_frames) for task, own, one in points_of(TASKS, trials)]
    assert found == [(SMALL, 1, 10), (LARGE, 5, 10), (LARGE, 5, 20)]
    twice = replace(SMALL, size="again")
    assert [task for task, _, _ in points_of((SMALL, twice), trials)] == [SMALL], "each point once"


def test_losses_are_added_up_by_cell_paced_and_flat_out_apart() -> None:
    trials = [
        trial(1, plain(10.0, 100, 5), plain(None, 1000, 300)),
        trial(2, plain(10.0, 100, 1), plain(20.0, 200)),
        trial(3, plain(10.0, 50, 2), platform="q", size=1500),
        trial(4, plain(10.0, 60, 3), platform="q"),
    ]
    rows = loss_rows((LARGE, SMALL), trials)
    told = [(row.platform, row.task, row.flat_out, row.offered_frames, row.lost_frames) for row in rows]
    assert told == [
        ("q", LARGE, False, 50, 2),
        ("p", SMALL, False, 400, 6),
        ("q", SMALL, False, 60, 3),
        ("p", SMALL, True, 1000, 300),
    ]
    assert rows[1].by_owner == {Owner.UNLOCATED: 6}
    assert list(rows[1].by_segment.values()) == [6]
    assert rows[1].counters == {}


def dropping(dropped: int) -> Point:
    """100 frames, of which so many vanish where the guest sends them on, as its interface says."""
    return plain(10.0, 100, dropped, hops=through(100, 100 - dropped, dropped=dropped))


def test_the_counters_of_the_first_point_that_lost_there_are_told() -> None:
    (row,) = loss_rows(TASKS, [trial(1, dropping(0), dropping(5)), trial(2, dropping(2))])
    assert row.by_owner == {Owner.PLATFORM: 7}
    assert row.by_segment == {Segment.GUEST_QUEUE: 7}
    assert row.counters == {Segment.GUEST_QUEUE: "i4 tx_dropped +5"}


def test_a_rate_is_between_the_first_and_the_last_frame() -> None:
    """Eleven frames in a second are ten steps."""
    sent = {"first_sent_monotonic_ns": SECOND, "last_sent_monotonic_ns": 2 * SECOND}
    assert achieved_rate(source(intended=11, **sent)) == 10
    assert achieved_rate(source(intended=2, **sent)) == 1
    for missing in ("first_sent_monotonic_ns", "last_sent_monotonic_ns"):
        unknown: dict[str, Any] = sent | {missing: None}
        assert achieved_rate(source(intended=11, **unknown)) is None
        assert offered_rate(point(None, [source(intended=11, **unknown)], [])) is None
    assert achieved_rate(source(intended=1, **sent)) is None
    assert achieved_rate(source(intended=2, **(sent | {"last_sent_monotonic_ns": SECOND}))) is None
    both = point(None, [source(intended=11, **sent), source(1, intended=21, **sent)], [])
    assert offered_rate(both) == 30
    assert offered_rate(point(None, [source(intended=11, **sent), source(1, intended=1, **sent)], [])) is None
    assert offered_rate(point(None, [], [])) is None
    assert offered_rate(point(None, [source(intended=2, **sent)], [])) == 1
    one = {"first_sent_monotonic_ns": 5, "last_sent_monotonic_ns": 6}
    assert offered_rate(point(None, [source(intended=2, **one)], [])) == 1e9
    assert offered_rate(point(None, [source(intended=2, **(one | {"last_sent_monotonic_ns": 5}))], [])) is None


def test_what_took_turns_is_over_the_time_of_its_bursts() -> None:
    """Two bursts of half a second; 12 frames arrived in 0.4 s of them, and the first of a burst takes no time."""
    in_turn = InTurn(guests=3, bursts=2, burst_ns=SECOND // 2, pause_ns=0)
    sent = source(intended=20, bursts_ns=SECOND // 2, first_sent_monotonic_ns=0, last_sent_monotonic_ns=9 * SECOND)
    arrived = sink(forwarded=12, bursts_ns=SECOND * 4 // 10, last_received_monotonic_ns=9 * SECOND)
    assert offered_rate(point(None, [sent], [arrived], in_turn=in_turn)) == 40
    assert forwarded_rate(point(None, [sent], [arrived], in_turn=in_turn)) == 12, "no more than over its whole time"
    slow = arrived.replace(bursts_ns=2 * SECOND)
    assert forwarded_rate(point(None, [sent], [slow], in_turn=in_turn)) == 5
    assert forwarded_rate(point(None, [sent], [slow.replace(forwarded_frames=2)], in_turn=in_turn)) is None
    unknown = arrived.replace(bursts_ns=None)
    assert forwarded_rate(point(None, [sent], [unknown], in_turn=in_turn)) == pytest.approx(10 / 9)


def test_what_was_forwarded_is_over_the_time_of_the_point_at_least() -> None:
    """Source 0: 10 steps in two seconds; source 1: 5 frames at most a second; source 2: nothing arrived."""
    slow = sink(forwarded=11, last_received_monotonic_ns=2 * SECOND)
    burst = sink(1, forwarded=5, last_received_monotonic_ns=SECOND // 10)
    silent = sink(2, forwarded=0, first_received_monotonic_ns=None, last_received_monotonic_ns=None)
    mixed = point(None, [], [slow, burst, silent])
    assert forwarded_rate(mixed) == 5 + 5 + 0
    assert joint_ns(mixed) == 2 * SECOND
    assert joint_ns(point(None, [], [silent])) == SECOND
    later = sink(1, forwarded=5, first_received_monotonic_ns=SECOND, last_received_monotonic_ns=4 * SECOND)
    assert joint_ns(point(None, [], [slow, later])) == 4 * SECOND
    for shared in ({"shared_link": True}, {"shared_cpus": True}):
        assert forwarded_rate(point(None, [], [slow, later], **shared)) == 4
    assert forwarded_rate(point(None, [], [sink(forwarded=2, last_received_monotonic_ns=0)])) is None
    assert forwarded_rate(point(None, [], [sink(forwarded=2)])) == 1
    assert forwarded_rate(point(None, [], [sink(forwarded=1)])) is None
    assert forwarded_rate(point(None, [], [silent, burst])) == 5, "a silent source adds nothing to what comes after it"
    for unknown in (
        sink(forwarded=9, first_received_monotonic_ns=None),
        sink(forwarded=9, last_received_monotonic_ns=None),
    ):
        assert forwarded_rate(point(None, [], [unknown])) is None
        assert joint_ns(point(None, [], [unknown])) == SECOND
    apart = {"first_received_monotonic_ns": SECOND, "last_received_monotonic_ns": 4 * SECOND}
    assert joint_ns(point(None, [], [sink(forwarded=9, **apart)])) == 3 * SECOND
    late_burst = sink(forwarded=5, first_received_monotonic_ns=SECOND * 9 // 10)
    assert maximum_forwarded_rate([plain(None, 9), point(None, [], [late_burst])]) == 8, "a burst is no rate"


def test_the_pace_of_the_sources_that_sent_all_they_should() -> None:
    """Errors 0, +10 and -20 % of 10 frames/s; a fourth source left 5 of its 10 frames unsent, and is in no error."""

    def sent(number: int, last_ns: int, **more: Any) -> SourceCounts:
        return source(number, intended=11, first_sent_monotonic_ns=0, last_sent_monotonic_ns=last_ns, **more)

    def gaps(longest: int, variation: float | None) -> dict[str, Any]:
        return {"gap_ns": distribution(10, maximum=longest, coefficient_of_variation=variation)}

    held = [
        sent(0, SECOND, batch_frames=8, **gaps(7, 0.5)),
        sent(1, SECOND * 10 // 11, batch_frames=4, **gaps(9, 0.1)),
        sent(2, SECOND * 10 // 8, **gaps(8, None)),
    ]
    behind = source(3, intended=10, offered=5, batch_frames=64, **gaps(99, 9.0))
    trials = [
        trial(1, point(10.0, held[:2], []), plain(None, 50)),
        trial(2, point(10.0, [held[2], behind], []), point(5.0, [source(intended=0)], [])),
        trial(3, point(10.0, [source(intended=11, first_sent_monotonic_ns=None)], [], backend="af-xdp"), size=1500),
        trial(4, point(20.0, [source(intended=11)], [], backend="af-packet")),
    ]
    rows = pace_rows((LARGE, SMALL), trials)
    assert [(row.task, row.backend, row.target_rate) for row in rows] == [
        (LARGE, "af-xdp", 10.0),
        (SMALL, "af-packet", 20.0),
        (SMALL, "live-frames", 5.0),
        (SMALL, "live-frames", 10.0),
    ]
    unknown, _, empty, row = rows
    assert (unknown.held, unknown.median_rate, unknown.median_error, unknown.worst_error) == (1, None, None, None)
    assert (unknown.gap_variation, unknown.longest_gap_ns, unknown.batch_frames) == (None, None, None)
    assert empty.unsent_share == 0.0
    assert (row.held, row.missed) == (3, 1)
    assert row.unsent_share == pytest.approx(5 / 43)
    assert row.median_rate == pytest.approx(10)
    assert row.median_error == pytest.approx(0, abs=1e-6)
    assert row.worst_error == pytest.approx(-0.2)
    assert row.gap_variation == pytest.approx(0.3)
    assert (row.longest_gap_ns, row.batch_frames) == (9, 8)


def delays(least: int, middle: int, most: int, count: int = 10) -> dict[str, Any]:
    return {
        "delay_ns": distribution(count, minimum=least, p50=middle, p90=middle + 1, p99=middle + 2, maximum=most),
    }


def test_delays_at_the_lowest_rate_and_at_the_highest_without_loss() -> None:
    """Half a percent may be missing; at 30 frames/s it is more in the median of three trials, at 20 it is just that."""

    def one(rate: float, missing: int, own: dict[str, Any]) -> Point:
        return point(rate, [source(intended=1000)], [sink(forwarded=1000 - missing, lost=missing, **own)])

    trials = [
        trial(number, one(10.0, 0, low), one(20.0, 5, high), one(30.0, lost, high))
        for number, (low, high, lost) in enumerate(
            [
                (delays(1, 50, 900), delays(2, 60, 700), 0),
                (delays(3, 40, 800), delays(4, 80, 600, 5), 6),
                (delays(2, 70, 950), delays(9, 70, 650, 3), 6),
            ]
        )
    ]
    silent = [trial(9, one(10.0, 0, {}), platform="q"), trial(10, plain(None, 9), platform="r")]
    first, second = delay_rows(TASKS, [*trials, *silent])
    assert (first.platform, first.task, first.target_rate, first.what) == ("p", SMALL, 10.0, "lowest rate")
    assert (first.samples, first.minimum_ns, first.maximum_ns) == (30, 1, 950)
    assert (first.p50_ns, first.p90_ns, first.p99_ns) == (50, 51, 52)
    assert first.variation_ns == 51
    assert (second.target_rate, second.what) == (20.0, "highest without loss")
    assert (second.samples, second.minimum_ns, second.p50_ns, second.maximum_ns) == (18, 2, 70, 700)


def test_delays_are_in_the_order_of_the_tasks() -> None:
    one = point(10.0, [source(intended=100)], [sink(forwarded=100, **delays(1, 2, 3))])
    rows = delay_rows((LARGE, SMALL), [trial(1, one), trial(2, one, size=1500), trial(3, one, platform="q")])
    assert [(row.platform, row.task, row.what) for row in rows] == [
        (platform, task, "highest without loss") for platform, task in (("p", LARGE), ("p", SMALL), ("q", SMALL))
    ]


def test_where_every_rate_loses_only_the_lowest_is_told() -> None:
    lossy = point(10.0, [source(intended=100)], [sink(forwarded=99, lost=1, **delays(1, 2, 3))])
    assert [row.what for row in delay_rows(TASKS, [trial(1, lossy)])] == ["lowest rate"]
    never = point(10.0, [source(intended=0)], [sink(forwarded=0, **delays(1, 2, 3))])
    assert [row.what for row in delay_rows(TASKS, [trial(1, never)])] == ["lowest rate"], "nothing was intended"


def test_several_sources_are_compared_flat_out_or_at_the_only_rate() -> None:
    """30 and 10 frames/s: Jain's index is 40^2 / (2 * 1000) = 0.8; of two trials each has its median."""

    def two(rate: float | None, first: int, second: int, **more: Any) -> Point:
        sources = [source(0, intended=50), source(1, intended=50)]
        return point(rate, sources, [sink(1, forwarded=second), sink(0, forwarded=first)], **more)

    trials = [
        trial(1, two(5.0, 1, 1), two(None, 30, 10)),
        trial(2, two(5.0, 1, 1), two(None, 30, 10)),
        trial(3, two(None, 40, 40), platform="q", size=1500),
        trial(4, two(5.0, 20, 20, shared_link=True), platform="r"),
        trial(5, plain(None, 40), platform="s"),
    ]
    rows = fair_rows((LARGE, SMALL), trials)
    assert [(row.platform, row.task, row.rates, row.jain) for row in rows] == [
        ("q", LARGE, (40.0, 40.0), 1.0),
        ("p", SMALL, (10.0, 30.0), pytest.approx(0.8)),
        ("r", SMALL, (20.0, 20.0), 1.0),
    ]
    assert jain([3.0, 1.0, 0.0]) == pytest.approx(16 / 30)


def test_what_drains_after_the_end_is_of_the_time_of_the_point() -> None:
    late = {"last_received_monotonic_ns": 2 * SECOND}
    own = point(
        None, [source(0, intended=50), source(1, intended=50)], [sink(0, forwarded=30, **late), sink(1, forwarded=10)]
    )
    assert fair_rows(TASKS, [trial(1, own)])[0].rates == (30.0, 10.0)
    assert jain([0.0, 0.0]) == 1.0


def test_shares_over_one_link_are_of_the_time_of_all() -> None:
    sources = [source(0, intended=50), source(1, intended=50)]
    late = {"first_received_monotonic_ns": SECOND, "last_received_monotonic_ns": 2 * SECOND}
    shared = point(None, sources, [sink(0, forwarded=30), sink(1, forwarded=10, **late)], shared_link=True)
    assert fair_rows(TASKS, [trial(1, shared)])[0].rates == (15.0, 5.0)


def processor(cpu: int, *times: int) -> Processor:
    """User, nice, system, irq and softirq time; idle, iowait and steal are no work of the guest's."""
    user, nice, system, irq, softirq = times
    idle = {"idle_ns": 1000, "iowait_ns": 2000, "steal_ns": 4000}
    return Processor(cpu, user_ns=user, nice_ns=nice, system_ns=system, irq_ns=irq, softirq_ns=softirq, **idle)


def test_cpu_time_of_a_million_frames() -> None:
    """Two points of 100 offered and 50 forwarded frames each: sums are divided by 200 and 100 frames."""
    older = Cpu(1, 2, 4, 8, processors=(processor(0, 1, 2, 4, 8, 16), processor(1, 99, 99, 99, 99, 99)))
    newer = Cpu(9, 9, 9, 9, generator_cpu_ns=17, sink_cpu_ns=88, processors=(processor(0, 69, 0, 0, 0, 0),))
    trials = [
        trial(1, plain(None, 100, 50, cpu=older), plain(10.0, 100, cpu=newer), plain(None, 70)),
        trial(2, plain(None, 100, 50, cpu=newer)),
        trial(3, plain(None, 100, 50, cpu=Cpu(1, 1, 1, 1)), platform="q"),
        trial(4, plain(None, 100, 100, cpu=newer), platform="r"),
        trial(5, plain(None, 0, cpu=newer), platform="s", size=1500),
        trial(6, plain(None, 100, 50, cpu=older), plain(None, 100, 50, cpu=Cpu(1, 1, 1, 1)), platform="t"),
    ]
    rows = cpu_rows((LARGE, SMALL), trials, [0, 5])
    found = [(row.platform, row.generator_ns, row.sink_ns, row.guest_cores_ns) for row in rows]
    assert found == [
        ("s", None, None, None),
        ("p", 20 * 1e6 / 200, 100 * 1e6 / 100, 100 * 1e6 / 100),
        ("q", 2 * 1e6 / 100, 2 * 1e6 / 50, None),
        ("r", 17 * 1e6 / 100, None, None),
        ("t", 5 * 1e6 / 200, 14 * 1e6 / 100, None),
    ]
    assert [row.task for row in rows] == [LARGE, *[SMALL] * 4]


def test_back_ends_are_counted_and_the_most_used_comes_first() -> None:
    trials = [
        trial(1, plain(None, 9, backend="af-packet", backend_reason="no XDP here"), plain(None, 9, sink="xdp")),
        trial(2, plain(None, 9, sink="xdp"), platform="q"),
        trial(3, plain(None, 9, sink="xdp"), platform="q"),
    ]
    assert backend_uses(TASKS, trials) == (
        BackendUse("generator", "live-frames", 3, ("p", "q"), None),
        BackendUse("sink", "xdp", 3, ("p", "q"), None),
        BackendUse("generator", "af-packet", 1, ("p",), "no XDP here"),
        BackendUse("sink", "not reported", 1, ("p",), None),
    )
