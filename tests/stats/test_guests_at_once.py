"""Several guests at once: what one of them did not report costs that metric's value of the trial, and no other."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import SECOND, boot_record, clock, held, process, reading, task, trial
from tests.support.facts import assert_facts

from virtoll.runfolder.guest_records import HostCpu
from virtoll.runfolder.records import Check, Clock, GuestRun, TrialRecord
from virtoll.runfolder.scale import GroupRecord, ScalePoint
from virtoll.stats.compare import Verdict
from virtoll.stats.guests_at_once import AtOnce, each_guest, guests_at_once, guests_of
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Rules

JOB = task("job", "marks")
OPS = task("job", "figures", name="ops", unit="ops/s", better="higher", primary=False)
LATENCY = task("job", "figures", name="latency", unit="ns", better="lower", primary=False)
TASKS = (JOB, OPS, LATENCY)
ONE, TWO, LARGE = ScalePoint(1, 1, 128), ScalePoint(2, 1, 64), ScalePoint(2, 4, 64)


def guest(duration_ns: int | None, *, begin_ns: int = 0, cpu: int | None = None, **figures: float) -> GuestRun:
    """What one guest did, and what its one process took of the host's CPUs for it."""
    spent = None if cpu is None else HostCpu(reading(0, 100), reading(0, 100 + cpu))
    timed = None if duration_ns is None else clock(duration_ns, begin_ns)
    return GuestRun("p/0", timed, {"figures": figures}, Check(1, 1, ok=True), None, spent)


def at_once(number: int, point: ScalePoint, *members: GuestRun, platform: str = "p", **more: Any) -> TrialRecord:
    told = {"workload": "job", "points": None, "scale": point, "members": members} | more
    return trial(number, platform=platform, size=None, **told)


def found(trials: Sequence[TrialRecord], tasks: Sequence[Task] = TASKS, **more: Any) -> AtOnce:
    given = {"platforms": ("base", "p"), "baseline": None, "control": None, "caveats": {}, "rules": Rules()} | more
    return guests_at_once(
        trials, tasks, given.pop("groups", ()), given.pop("boots", ()), given.pop("footprints", ()), **given
    )


def test_a_run_of_single_guests_has_none() -> None:
    assert found([]) == AtOnce()


def test_guests_together_do_the_sum_of_what_each_does() -> None:
    """2 and 6 s: 1/2 + 1/6 = 2/3 of a job a second, as by two guests of 3 s each, of whom one alone takes 2 s.

    Their rates are as 3 to 1: Jain's index is (3 + 1)^2 / (2 x (9 + 1)) = 0.8.
    """
    alone = at_once(1, ONE, guest(2 * SECOND, cpu=9, ops=10.0, latency=5.0))
    both = at_once(
        2,
        TWO,
        guest(2 * SECOND, begin_ns=SECOND, cpu=3, ops=4.0, latency=5.0),
        guest(6 * SECOND, begin_ns=SECOND * 3 // 2, cpu=8, ops=8.0, latency=9.0),
    )
    rows = found([both, alone])
    assert rows.points == (ONE, TWO)
    assert rows.tasks == TASKS
    first, row = (rows.row("p", JOB, point) for point in (ONE, TWO))
    assert first is not None
    assert row is not None
    assert (first.each, first.together, first.speedup) == (2e9, 0.5, 1)
    assert (first.jain, first.slowest, first.skew, first.finished_ns, first.cpu_ns) == (1, 1, 0, 2 * SECOND, 9)
    assert (row.each, row.together, row.trials) == (3e9, 2e9 / 3e9, 1)
    assert row.together_unit == "jobs/s"
    assert row.speedup == pytest.approx(2 * 2 / 3)
    assert row.jain == pytest.approx(0.8)
    assert (row.slowest, row.skew, row.finished_ns, row.cpu_ns) == (3, 0.25, SECOND * 13 // 2, 5.5)
    ops, latency = (rows.row("p", own, TWO) for own in (OPS, LATENCY))
    assert ops is not None
    assert latency is not None
    assert (ops.each, ops.together, ops.speedup, ops.together_unit) == (6, 12, 1.2, "ops/s")
    assert (latency.each, latency.together, latency.speedup) == (7, None, None), "of latencies there is no sum"
    assert {key: cell.median for key, cell in rows.cells.items() if key[1] is JOB} == {
        ("p", JOB, ONE): 2e9,
        ("p", JOB, TWO): 3e9,
    }
    assert [(one.trial, one.position, one.value) for one in rows.observations if one.task is JOB] == [
        (1, 0, 2e9),
        (2, 1, 3e9),
    ]


def test_how_even_guests_are_is_of_their_rates() -> None:
    """1, 1 and 2 s are rates as 2 to 2 to 1: (2 + 2 + 1)^2 / (3 x (4 + 4 + 1)) = 25/27; of the times it is 24/27."""
    row = found([at_once(1, ScalePoint(3, 1, 64), guest(1), guest(1), guest(2))]).row("p", JOB, ScalePoint(3, 1, 64))
    assert row is not None
    assert row.jain == pytest.approx(25 / 27)


def test_a_speedup_is_over_blocks_that_have_both_and_of_guests_as_large() -> None:
    """Block 0: 2 x 4/8; block 1: 2 x 6/3; block 2 has no guest alone. One guest of four CPUs is another guest."""
    trials = [
        at_once(1, ONE, guest(4)),
        at_once(2, ONE, guest(6), block=1),
        at_once(3, ScalePoint(1, 4, 64), guest(100)),
        at_once(4, TWO, guest(8), guest(8)),
        at_once(5, TWO, guest(3), guest(3), block=1),
        at_once(6, TWO, guest(1), guest(1), block=2),
        at_once(7, LARGE, guest(50), guest(50)),
        at_once(8, ScalePoint(2, 2, 64), guest(50), guest(50)),
    ]
    rows = found(trials, (JOB,))
    told = {row.point: (row.each, row.speedup, row.trials) for row in rows.rows}
    assert told[TWO] == (3, 2.5, 3)
    assert told[LARGE] == (50, 4, 1)
    assert told[ScalePoint(2, 2, 64)] == (50, None, 1)
    assert rows.points[:2] == (ONE, ScalePoint(1, 4, 64)), "by guests, then by CPUs"
    assert [re.findall(r"\d+", rows.words(point)) for point in rows.points] == [
        *map(list, ("11", "14", "21", "22", "24"))
    ]
    assert re.findall(r"\d+", found(trials[:2]).words(ONE)) == ["1"]


@pytest.mark.parametrize("unknown", [None, "no marks", 0])
def test_what_one_guest_did_not_tell_is_known_of_no_guest(unknown: int | str | None) -> None:
    """Its figures are; how even they were, and when all had ended, is not."""
    lacking = guest(None if unknown is None else 0, ops=8.0)
    if unknown == "no marks":
        lacking = lacking.replace(clock=clock(1).replace(marks=None))
    trials = [at_once(1, TWO, guest(9, ops=4.0), lacking), at_once(2, TWO, guest(1, ops=4.0), guest(2, ops=8.0))]
    first, whole = found(trials[:1]), found(trials)
    row, both = first.row("p", OPS, TWO), whole.row("p", OPS, TWO)
    assert row is not None
    assert both is not None
    assert (row.each, row.jain, row.slowest, row.skew, row.cpu_ns) == (6, None, None, None, None)
    assert row.finished_ns == (9 if unknown == 0 else None)
    assert (both.slowest, both.skew) == (2, 0), "of the trial that is known"
    assert first.row("p", JOB, TWO) is None
    job = whole.row("p", JOB, TWO)
    assert job is not None
    assert job.trials == 1
    assert job.each == pytest.approx(4 / 3)
    gaps = [gap for gap in first.gaps if "latency" not in gap.reason]
    assert [gap.trial for gap in gaps] == [1]


def test_a_figure_that_one_guest_lacks_costs_no_duration() -> None:
    """Nor anything of other points."""
    found_of = found([at_once(1, TWO, guest(3, ops=4.0), guest(3)), at_once(2, ONE, guest(3, ops=4.0))], (JOB, OPS))
    assert [(row.task, row.point, row.each) for row in found_of.rows] == [(JOB, ONE, 3), (JOB, TWO, 3), (OPS, ONE, 4)]
    (gap,) = found_of.gaps
    assert gap.trial == 1
    assert_facts(gap.reason, "'ops'")


def test_a_gap_is_told_once_whichever_guests_have_it() -> None:
    (first, second) = found([at_once(1, TWO, guest(None), guest(None)), at_once(2, ONE, guest(None))], (JOB,)).gaps
    assert (first.trial, second.trial) == (1, 2)
    assert found([at_once(1, TWO, guest(None), guest(3))], (JOB,)).gaps == (first,)
    assert found([at_once(1, TWO, guest(3), guest(None)), at_once(9, ONE)], (JOB,)).gaps == (first,)


def in_blocks(first: int, point: ScalePoint, each_ns: int, *, platform: str, **more: Any) -> list[TrialRecord]:
    """Three trials of nearly as much in each guest."""
    return [
        at_once(first + block, point, *[guest(each_ns + block)] * point.guests, platform=platform, block=block, **more)
        for block in range(3)
    ]


def test_a_platform_is_compared_with_as_many_guests_of_the_baseline() -> None:
    """At two guests half as fast, at one alike; the control is in the baseline's entries, and stands against it."""
    trials = [
        *in_blocks(1, ONE, 10_000, platform="base"),
        *in_blocks(10, TWO, 20_000, platform="base"),
        *in_blocks(20, ONE, 10_000, platform="again"),
        *in_blocks(30, TWO, 80_000, platform="again"),
        *in_blocks(40, ONE, 10_000, platform="p"),
        *in_blocks(50, TWO, 80_000, platform="p"),
        *in_blocks(60, ONE, 10_000, platform="lost", status="failed", reason="it died"),
    ]
    given = {"platforms": ("base", "again", "p", "lost"), "baseline": "base", "control": "again"}
    rows = found(trials, (JOB,), **given)
    told = [(one.platform, one.condition, one.verdict) for one in (*rows.comparisons, *rows.control)]
    assert told == [
        ("p", "1 guest", Verdict.ALIKE),
        ("p", "2 guests", Verdict.SLOWER),
        ("lost", "1 guest", Verdict.NOT_MEASURED),
        ("lost", "2 guests", Verdict.NOT_MEASURED),
        ("again", "1 guest", Verdict.ALIKE),
        ("again", "2 guests", Verdict.SLOWER),
    ]
    for one in (*rows.comparisons, *rows.control):
        assert_facts(one.against, "baseline", one.condition or "")
    died, untried = (one.reason for one in rows.comparisons if one.platform == "lost")
    assert_facts(died, "failed", "it died")
    assert_facts(untried, "no round", "baseline")
    at_two = rows.comparison("p", JOB, TWO)
    assert at_two is rows.comparisons[1]
    assert [share for _, share in at_two.pairs] == pytest.approx([0.5] * 3, rel=1e-4), "of sqrt(20 x 80) = 40 us"
    against_base = rows.comparison("again", JOB, TWO)
    assert against_base is rows.control[1]
    assert [share for _, share in against_base.pairs] == pytest.approx([0.25] * 3, rel=1e-3)
    assert rows.family == 2
    apart = found(trials, (JOB,), **given, control_counts=False)
    assert apart.comparisons[1].share == pytest.approx(0.25, rel=1e-3), "of the baseline's 20 us alone"
    assert [one.pairs for one in apart.control] == [one.pairs for one in rows.control]
    assert [one.verdict for one in apart.control] == [one.verdict for one in rows.control]
    alone = found(trials, (JOB,), **given | {"control": None})
    assert [one.platform for one in alone.comparisons] == ["again"] * 2 + ["p"] * 2 + ["lost"] * 2
    assert alone.comparisons[3].share == pytest.approx(0.25, rel=1e-3)
    assert found(trials, (JOB,), **given | {"baseline": None}).comparisons == ()
    untold = [one for one in trials if one.platform != "again"]
    assert found(untold, (JOB,), **given).comparisons[0].verdict is Verdict.ALIKE, "a control without a value"
    without = [one for one in trials if one.platform != "base"]
    assert {one.verdict for one in found(without, (JOB,), **given).comparisons} == {Verdict.NOT_MEASURED}


def test_caveats_rules_and_states_hold_at_every_number_of_guests() -> None:
    trials = [*in_blocks(1, TWO, 20_000, platform="base"), *in_blocks(10, TWO, 26_000, platform="p")]

    def told(**more: Any) -> Verdict:
        (one,) = found(trials, (JOB,), baseline="base", **more).comparisons
        return one.verdict

    assert told() is Verdict.SLOWER
    assert [told(caveats={label: "nested"}) for label in ("base", "p", "q")] == [
        Verdict.FUNCTIONAL,
        Verdict.FUNCTIONAL,
        Verdict.SLOWER,
    ]
    assert told(rules=Rules(level=1e-12, margin=0.5)) is Verdict.ALIKE
    assert told(states=[TwoStates(JOB, 1.5, 0.3)]) is Verdict.UNKNOWN
    second = found(trials, (replace(JOB, metric=JOB.metric.replace(primary=False)),), baseline="base")
    assert (second.family, len(second.comparisons)) == (0, 1)


def test_what_each_guest_did_is_as_a_trial_of_one() -> None:
    first, second = guest(5, ops=1.0), guest(7, ops=2.0).replace(boot="p/0/2", problem="slow")
    both, none = at_once(1, TWO, first, second), at_once(2, TWO, boot="p/9")
    (number, boot, problem, own), (number_2, boot_2, problem_2, other) = guests_of(both)
    assert (number, boot, problem) == (1, "p/0", None)
    assert (number_2, boot_2, problem_2) == (2, "p/0/2", "slow")
    assert own == both.replace(clock=first.clock, result={"figures": {"ops": 1.0}}, check=first.check)
    assert other == both.replace(clock=second.clock, result={"figures": {"ops": 2.0}}, check=second.check)
    assert each_guest([none, both]) == [own, other]
    assert guests_of(none) == [(None, "p/9", None, none)]
    assert isinstance(other.clock, Clock)


def group(*boots: str, platform: str = "p", point: ScalePoint = TWO, **more: Any) -> GroupRecord:
    unknown: dict[str, Any] = {
        "block": 0,
        "status": "ok",
        "reason": None,
        "began_monotonic_ns": 100,
        "up_monotonic_ns": None,
    }
    unknown |= {"available_before_bytes": None, "available_idle_bytes": None}
    return GroupRecord(platform=platform, scale=point, boots=boots, **(unknown | more))


def test_how_guests_came_up_together_and_what_they_hold() -> None:
    """Two starts: 10 and 30 ns, then 20 and 50; all were up 40 and 60 ns after they began; memory 2 x 50, 2 x 70."""
    boots = [
        boot_record(None, boot=name, spawn_monotonic_ns=spawned, ready_monotonic_ns=ready)
        for name, spawned, ready in (
            ("a", 5, 15),
            ("b", 6, 36),
            ("c", 7, 27),
            ("d", 8, 58),
            ("e", 1, None),
            ("f", None, 9),
        )
    ]
    groups = [
        group("x", platform="q", point=ONE),
        group("e", "f", "gone", point=LARGE),
        group("a", "b", up_monotonic_ns=140, available_before_bytes=1000, available_idle_bytes=900),
        group("c", "d", up_monotonic_ns=160, available_before_bytes=1000, available_idle_bytes=860),
        group("e", "f", available_before_bytes=9),
        group("a", available_idle_bytes=9, status="failed"),
        group("a", "f", point=ONE, up_monotonic_ns=101),
    ]
    footprints = [held(boot, process(pss, 1)) for boot, pss in (("a", 10), ("b", 20), ("c", 40), ("d", 50))]
    footprints += [held("d", process(999, 1), when="after-work")]
    rows = found([], groups=groups, boots=boots, footprints=footprints, platforms=("base", "p", "q"))
    assert rows.points == (ONE, TWO, LARGE)
    told = [(one.platform, one.point, one.starts, one.failed) for one in rows.groups]
    assert told == [("p", ONE, 1, 0), ("p", TWO, 3, 1), ("p", LARGE, 1, 0), ("q", ONE, 1, 0)]
    assert [(one.first_ns, one.last_ns, one.up_ns, one.taken_bytes, one.held_bytes) for one in rows.groups] == [
        (10, 10, 1, None, 11),
        (15, 40, 50, 60, 31),
        (None,) * 5,
        (None,) * 5,
    ]
