"""What guests beside do to the measured one, on values few enough to reckon by hand."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from tests.support.by_hand import job, plain, point, sink, source, task, trial
from tests.support.facts import assert_facts

from virtoll.runfolder.conditions import ALONE, Condition, NeighbourRecord, Progress
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.bounds import NOT_PINNED
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.isolation import ALONE_WORDS, SENDER_BOUND, Isolation, LoadUse, isolation
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Rules

IDLE, HEAVY, FLOOD = Condition("idle"), Condition("heavy"), Condition("network-flood", rate_share=0.5)
JOB = task("job", "marks")
FIGURE = task("job", "figures", name="ops", better="higher", primary=False)
SMALL = {"size": 64}
FORWARD = task("forward", "points", SMALL, name="maximum_forwarding_rate")
DELAY = task("forward", "figures", SMALL, name="delay", better="lower", primary=False)
COST = task("forward", "cpu_points", SMALL, name="cpu_per_frame", better="lower")
SEND = task("forward", "points", SMALL, name="transmission_rate")
NOISE = (1.0, 1.01, 0.99)  # of the blocks
LITTLE = (1.0, 1.0001, 0.9999)  # of the blocks: where nothing varies, the noise is not known
ALIKE = [(1000.0, 1001.0, 1002.0), (1002.0, 1000.0, 1001.0), (1001.0, 1002.0, 1000.0)]


def alone(own: Task, *values: Sequence[float], platform: str = "p") -> list[Observation]:
    """Of each block, in one round, what was first, in the middle and last; told, and numbered, in another order."""
    found = [
        Observation(own, platform, 100 * block + (1, 0, 2, 3)[place], block, 10 * block + place, value)
        for block, entries in enumerate(values)
        for place, value in enumerate(entries)
    ]
    return found[::-1]


def beside(condition: Condition, *durations: float, platform: str = "p", **more: Any) -> list[TrialRecord]:
    """A job of so many ns in each block."""
    first = 1000 * (1 + [IDLE, HEAVY, FLOOD].index(condition)) + (0 if platform == "p" else 500)
    return [
        job(first + block, round(one), platform=platform, block=block, condition=condition, **more)
        for block, one in enumerate(durations)
    ]


def matrix(
    trials: Sequence[TrialRecord],
    values: Sequence[Observation],
    tasks: Sequence[Task] = (JOB,),
    *,
    platforms: Sequence[str] = ("p",),
    labels: Sequence[str] = (HEAVY.label, IDLE.label),
    caveats: Mapping[str, str] | None = None,
    rules: Rules | None = None,
    **more: Any,
) -> Isolation:
    return isolation(
        trials, tasks, values, platforms=platforms, labels=labels, caveats=caveats or {}, rules=rules or Rules(), **more
    )


def told(found: Isolation, own: Task, condition: Condition, platform: str = "p") -> Comparison:
    one = found.comparison(platform, own, condition.label)
    assert one is not None
    return one


def test_without_others_there_is_no_matrix() -> None:
    assert matrix([], alone(JOB, (10, 10, 10))) == Isolation()


def test_a_condition_is_a_share_of_the_guest_alone() -> None:
    """100, 110 and 125 ms alone: their median is 110, and beside a heavy load 220 are a half of it.

    The middle is set against the geometric mean of the ends, sqrt(100 x 121) = 110: alike in each block.
    """
    entries = [(100e6 * one, 110e6 * one, 121e6 * one) for one in NOISE]
    noisy = [one * little for one, little in zip(NOISE, LITTLE, strict=True)]
    trials = [*beside(IDLE, *(110e6 * one for one in noisy)), *beside(HEAVY, *(220e6 * one for one in noisy))]
    found = matrix(trials, alone(JOB, *entries))
    assert [one.label for one in found.conditions] == [HEAVY.label, IDLE.label], "in the experiment's order"
    heavy, idle = told(found, JOB, HEAVY), told(found, JOB, IDLE)
    assert [block for block, _ in heavy.pairs] == [0, 1, 2]
    assert [share for _, share in heavy.pairs] == pytest.approx([0.5] * 3, rel=2e-4)
    assert [share for _, share in idle.pairs] == pytest.approx([1.0] * 3, rel=2e-4)
    assert (heavy.verdict, idle.verdict) == (Verdict.SLOWER, Verdict.ALIKE)
    assert (heavy.condition, heavy.against) == (HEAVY.label, ALONE_WORDS)
    assert found.comparisons == (heavy, idle)
    assert found.family == 2
    (control,) = found.control
    assert found.comparison("p", JOB, ALONE) is control
    assert (control.platform, control.condition, control.against) == ("p", ALONE, ALONE_WORDS)
    assert [share for _, share in control.pairs] == pytest.approx([1.0] * 3)
    assert control.verdict is Verdict.ALIKE
    assert {key: cell.median for key, cell in found.cells.items()} == {
        ("p", JOB, IDLE.label): 110e6,
        ("p", JOB, HEAVY.label): 220e6,
        ("p", JOB, ALONE): 110e6,
    }
    assert [one.trial for one in found.observations] == [1000, 1001, 1002, 2000, 2001, 2002]
    assert found.gaps == ()


def test_the_middle_is_that_of_whole_rounds_only() -> None:
    """Of two entries, or of four, there is no middle; each round of a block has its own."""
    three = [(100, 150, 225), (100, 100), (100, 300, 100, 100)]
    second = [one._replace(round=1, value=2 * one.value, trial=one.trial + 7) for one in alone(JOB, (300, 100, 300))]
    values = [*alone(JOB, *three), *second]
    (control,) = matrix(beside(IDLE, 100, 100), values).control
    # Round 0: 150 against sqrt(100 x 225) = 150, the same; round 1: 200 against 600, three times as fast.
    ((block, share),) = control.pairs
    assert (block, round(share, 9)) == (0, round(math.sqrt(3), 9))
    assert matrix(beside(IDLE, 100, 100), alone(JOB, (100, 100))).control == ()


def test_conditions_that_the_experiment_does_not_name_come_last() -> None:
    trials = [*beside(FLOOD, 100), *beside(IDLE, 100), *beside(HEAVY, 100)]
    found = matrix(trials, alone(JOB, (100, 100, 100)), labels=["never run", HEAVY.label])
    assert found.conditions == (HEAVY, FLOOD, IDLE)
    assert [one.condition for one in found.comparisons] == [one.label for one in (HEAVY, FLOOD, IDLE)]


def test_each_platform_and_metric_is_set_against_its_own() -> None:
    """Half as fast by its duration, 0.8 by its figure; the figure is in no family of the primary metrics."""
    figures: dict[str, Any] = {"result": {"figures": {"ops": 80.0}}}
    trials = [
        *beside(HEAVY, *(200 * one for one in NOISE), **figures),
        *beside(HEAVY, 60, 60, 60, platform="q", **figures),
    ]
    values = [
        *alone(JOB, *[(100, 100, 100)] * 3),
        *alone(FIGURE, *[(100, 100, 100)] * 3),
        *alone(JOB, *[(30, 30, 30)] * 3, platform="q"),
        *alone(COST, *[(30, 30, 30)] * 3),
    ]
    found = matrix(trials, values, (JOB, COST, FIGURE), platforms=("q", "p"))
    rows = [(one.platform, one.task, round(one.share, 2) if one.share else None) for one in found.comparisons]
    assert rows == [("q", JOB, 0.5), ("q", FIGURE, None), ("p", JOB, 0.5), ("p", FIGURE, 0.8)]
    assert [(one.platform, one.task) for one in found.control] == [("q", JOB), ("p", JOB), ("p", FIGURE)]
    assert found.family == 2, "of the primary metric"
    assert told(found, FIGURE, HEAVY).p_value is not None
    assert {own for _, own, _ in found.cells} == {JOB, FIGURE}
    assert found.comparison("q", FIGURE, ALONE) is None


def test_the_first_record_that_failed_says_why_there_is_nothing() -> None:
    failed = [*beside(HEAVY, 200, status="invalid", reason="too hot"), *beside(HEAVY, 1, status="failed", reason="no")]
    found = matrix([*failed, *beside(IDLE, 100, platform="q")], alone(JOB, (100, 100, 100)), platforms=("p", "q"))
    assert [one.platform for one in found.comparisons] == ["p", "p", "q", "q"]
    assert {one.verdict for one in found.comparisons} == {Verdict.NOT_MEASURED}
    failed_one, *others = found.comparisons
    assert_facts(failed_one.reason, "invalid", "too hot")
    for one in others:
        assert_facts(one.reason, "no round", "baseline")


def test_a_caveat_marks_all_of_a_platform() -> None:
    trials = [*beside(HEAVY, *[2000, 2002, 1998]), *beside(HEAVY, *[2000, 2002, 1998], platform="q")]
    values = [*alone(JOB, *ALIKE), *alone(JOB, *ALIKE, platform="q")]
    found = matrix(trials, values, platforms=("p", "q"), labels=[HEAVY.label], caveats={"p": "nested"})
    assert [(one.platform, one.verdict, one.caveat) for one in (*found.comparisons, *found.control)] == [
        ("p", Verdict.FUNCTIONAL, "nested"),
        ("q", Verdict.SLOWER, None),
        ("p", Verdict.FUNCTIONAL, "nested"),
        ("q", Verdict.ALIKE, None),
    ]


def test_verdicts_keep_to_the_rules_and_to_the_hosts_states() -> None:
    """0.8 of the guest alone is slower, or alike within 25 %, or not known of a host with two states 1.5 apart."""
    trials, values = beside(HEAVY, *(125 * 1e3 * one for one in NOISE)), alone(JOB, *[(1e5, 1e5, 1e5)] * 3)
    assert told(matrix(trials, values), JOB, HEAVY).verdict is Verdict.SLOWER
    never = Rules(level=1e-12, alarm_level=1e-12, margin=0.5)
    assert told(matrix(trials, values, rules=never), JOB, HEAVY).verdict is Verdict.ALIKE
    unsteady = told(matrix(trials, values, states=[TwoStates(JOB, 1.5, 0.3)]), JOB, HEAVY)
    assert unsteady.verdict is Verdict.UNKNOWN
    assert_facts(unsteady.reason, "two speeds", "1.50")


def swept(condition: Condition, offered: int, lost: int, *, platform: str = "p", **more: Any) -> list[TrialRecord]:
    """In three blocks: of 100 frames paced all arrive, and flat out, of `offered`, all but those `lost`."""
    flat = point(None, [source(intended=offered, **more)], [sink(forwarded=offered - lost, lost=lost)])
    number = 3000 + 100 * [IDLE, HEAVY, FLOOD].index(condition)
    return [
        trial(
            number + block,
            plain(100.0, 100 + block),
            flat,
            platform=platform,
            block=block,
            condition=condition,
            result={"figures": {"delay": 9.0 + block}},
        )
        for block in range(3)
    ]


RATES = alone(FORWARD, *[(1000.0 * one, 1000.0 * one, 1000.0 * one) for one in LITTLE])


def test_where_nothing_was_lost_a_rate_beside_others_has_no_verdict() -> None:
    """Nor is that said of the other condition, where a tenth was lost, of a delay, or of a rate that guests send."""
    trials = [*swept(IDLE, 1001, 0), *swept(HEAVY, 501, 50)]
    values = [*RATES, *alone(DELAY, *[(9.0, 9.0, 9.0)] * 3)]
    found = matrix(trials, values, (FORWARD, DELAY))
    idle = told(found, FORWARD, IDLE)
    assert (idle.caveat, idle.verdict, idle.p_value) == (SENDER_BOUND, Verdict.UNKNOWN, None)
    assert_facts(idle.reason, "lost", "largest rate")
    heavy = told(found, FORWARD, HEAVY)
    assert (heavy.caveat, heavy.verdict) == (None, Verdict.SLOWER)
    assert [share for _, share in heavy.pairs] == pytest.approx([0.45] * 3, rel=2e-4)
    assert told(found, DELAY, IDLE).caveat is None
    sent = [one._replace(task=SEND) for one in RATES]
    (of_guests, _) = reversed(matrix(trials, sent, (SEND,)).comparisons)
    assert (of_guests.condition, of_guests.caveat, of_guests.verdict) == (IDLE.label, None, Verdict.ALIKE)
    nested = told(matrix(trials, RATES, (FORWARD,), caveats={"p": "nested"}), FORWARD, IDLE)
    assert (nested.caveat, nested.verdict) == ("nested", Verdict.FUNCTIONAL)


def test_refused_frames_are_lost_where_the_host_receives_apart() -> None:
    trials = swept(IDLE, 1001, 0, refused_frames=100)
    bound = told(matrix(trials, RATES, (FORWARD,), apart=["q"]), FORWARD, IDLE)
    assert bound.caveat == SENDER_BOUND
    assert told(matrix(trials, RATES, (FORWARD,), apart=["p"]), FORWARD, IDLE).verdict is Verdict.ALIKE


def test_rates_that_say_less_than_they_seem_to() -> None:
    """Where another core forwards neither condition nor control has a verdict; a bound alone bears no "alike"."""
    trials = [*swept(IDLE, 1112, 111), *swept(HEAVY, 501, 50)]
    found = matrix(trials, RATES, (FORWARD,), elsewhere={"p": "on the core that sends"})
    assert {one.caveat for one in (*found.comparisons, *found.control)} == {NOT_PINNED}
    assert len(found.control) == 1
    found = matrix(trials, RATES, (FORWARD,), bounds={("p", FORWARD)})
    assert [one.verdict for one in found.comparisons] == [Verdict.SLOWER, Verdict.UNKNOWN]
    assert_facts(told(found, FORWARD, IDLE).reason, ALONE_WORDS, "generator's limit")
    plainly = matrix(trials, RATES, (FORWARD,))
    assert [one.verdict for one in plainly.comparisons] == [Verdict.SLOWER, Verdict.ALIKE]


def program(platform: str, *readings: tuple[int, int], window: tuple[int, int] = (10, 20)) -> NeighbourRecord:
    """A guest whose program had used so much CPU time at each moment, ns."""
    progress = tuple(Progress(moment, used, 1) for moment, used in readings)
    return NeighbourRecord("n/0/2", platform, (0,), window, progress=progress)


def router(most: float | None, rate: float, *sent: tuple[int, int, int, int]) -> NeighbourRecord:
    """A guest that was sent frames by sources of so many (intended, skipped, refused, lost); the rest arrived."""
    sources = [
        source(
            at, intended=intended, offered=intended - skipped, skipped_frames=skipped or None, refused_frames=refused
        )
        for at, (intended, skipped, refused, _) in enumerate(sent)
    ]
    sinks = [
        sink(at, forwarded=intended - skipped - lost, lost=lost) for at, (intended, skipped, _, lost) in enumerate(sent)
    ]
    return NeighbourRecord(
        "n/0/2", "q", (0,), (10, 20), traffic=point(rate, sources, sinks), maximum_frames_per_second=most
    )


def uses(records: Sequence[Sequence[NeighbourRecord]], *, apart: Collection[str] = (), **more: Any) -> list[LoadUse]:
    """Of trials that had these beside them."""
    trials = [job(number, 100, condition=HEAVY, neighbours=tuple(own)) for number, own in enumerate(records)]
    return list(matrix(trials, [], platforms=("p", "q"), apart=apart, **more).uses)


def test_what_a_program_beside_used_is_cpu_time_by_wall_time() -> None:
    """From the last reading before the trial to the first after it: 6 ns of 20, 8 of 20, and 2 of 20."""
    readings = (0, 1), (5, 2), (15, 5), (25, 8), (30, 100)
    known = [program("p", *readings), program("p", (0, 0), (20, 8)), program("p", (10, 7), (30, 9))]
    unknown = [program("p"), program("p", (10, 3), window=(10, 10)), program("p", (15, 1), (25, 2))]
    (one,) = uses([known, unknown])
    assert one.cpus == pytest.approx(0.3)
    assert one.trials == 2
    assert (one.platform, one.task, one.condition, one.neighbour) == ("p", JOB, HEAVY.label, "p")
    rest = (one.maximum, one.asked, one.offered, one.forwarded, one.lost_share, one.skipped_share)
    assert rest == (None,) * 6
    (none,) = uses([unknown])
    assert none.cpus is None


def test_what_a_router_beside_was_sent_and_forwarded() -> None:
    """Rates are medians over trials; shares are of all frames of all trials.

    110 + 200 frames were asked for, and of these 10 skipped: 300 were offered, and 30 lost. With 100 that were refused
    before, where the host receives apart, 130 of 400.
    """
    records = [[router(50.0, 20.0, (110, 10, 40, 20))], [router(70.0, 40.0, (200, 0, 60, 10))]]
    (one,) = uses(records)
    assert (one.neighbour, one.trials, one.maximum, one.asked) == ("q", 2, 60.0, 30.0)
    assert one.offered == (99 + 199) / 2
    assert one.forwarded == (79 + 189) / 2
    assert one.lost_share == pytest.approx(30 / 300)
    assert one.skipped_share == pytest.approx(10 / 310)
    assert one.cpus is None
    (apart,) = uses(records, apart=["q"])
    assert apart.lost_share == pytest.approx(130 / 400)
    assert apart.skipped_share == one.skipped_share
    (two,) = uses([[router(None, 10.0, (11, 0, 0, 0), (21, 1, 0, 4))]])
    assert (two.maximum, two.offered, two.forwarded) == (None, 10 + 19, 10 + 15)
    assert two.lost_share == pytest.approx(4 / 31)
    assert two.skipped_share == pytest.approx(1 / 32)
    (nothing,) = uses([[router(5.0, 1.0, (0, 0, 0, 0))]], apart=["q"])
    assert (nothing.lost_share, nothing.skipped_share) == (None, None), "of no frames there is no share"


def test_uses_are_of_trials_that_are_believed_in_the_experiments_order() -> None:
    """One row for a job, however many metrics it has; nothing of trials that failed or of what no task is of."""
    both = (program("q", (10, 0), (20, 5)), program("p", (10, 0), (20, 5)))
    figures: dict[str, Any] = {"result": {"figures": {"ops": 80.0}}, "neighbours": both}
    trials = [
        *beside(IDLE, 100, 100, platform="q", **figures),
        *beside(HEAVY, 100, platform="q", **figures),
        *beside(HEAVY, 100, **figures),
        job(9999, 100, status="invalid", reason="no", condition=HEAVY, **figures),
        *swept(HEAVY, 1001, 0),
        trial(9, platform="p", size=9000, condition=HEAVY, neighbours=both),
        trial(10, plain(None, 10), platform="p", condition=HEAVY, neighbours=both),
    ]
    found = matrix(trials, [], (JOB, FIGURE, FORWARD), platforms=("q", "p")).uses
    assert [(one.platform, one.task, one.condition, one.neighbour, one.trials) for one in found] == [
        ("q", JOB, HEAVY.label, "q", 1),
        ("q", JOB, HEAVY.label, "p", 1),
        ("q", JOB, IDLE.label, "q", 2),
        ("q", JOB, IDLE.label, "p", 2),
        ("p", JOB, HEAVY.label, "q", 1),
        ("p", JOB, HEAVY.label, "p", 1),
        ("p", FORWARD, HEAVY.label, "q", 1),
        ("p", FORWARD, HEAVY.label, "p", 1),
    ]
    assert {one.cpus for one in found} == {0.5}


def test_a_value_that_is_missing_is_told() -> None:
    trials = [*beside(HEAVY, 100), job(77, None, condition=HEAVY)]
    (gap,) = matrix(trials, alone(JOB, (100, 100, 100))).gaps
    assert gap.trial == 77
