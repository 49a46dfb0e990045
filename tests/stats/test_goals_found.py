"""NDR and PDR of trials by hand: bounds over blocks, the delay below them, and percentiles of several histograms."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import distribution, plain, point, sink, source, task, trial

from virtoll.runfolder.records import TrialRecord
from virtoll.stats.conditional_throughput import (
    BoundFound,
    DelayBelow,
    GoalFound,
    ThroughputRow,
    delays_below,
    goals_of,
    pooled_percentiles,
    throughput_rows,
)

NDR, PDR = (task("throughput", "figures", {"size": 64}, name=name, better="higher") for name in ("ndr", "pdr"))


def bound(rate: float, trial_ns: int = 10) -> BoundFound:
    return BoundFound(rate, trial_ns, (0, 2))


def goal(
    name: str = "ndr", lower: BoundFound | None = None, upper: BoundFound | None = None, **changed: Any
) -> GoalFound:
    given = {"ended": "width", "conditional_throughput_frames_per_second": None, **changed}
    return GoalFound(name, 0.0, 0.5, 0.02, 5.0, lower=lower, upper=upper, **given)


def told(one: GoalFound) -> dict[str, Any]:
    """As a record has it."""
    own = {name: getattr(one, name) for name in one.__dataclass_fields__}
    return {name: dict(vars(value)) if isinstance(value, BoundFound) else value for name, value in own.items()}


def searched(number: int, *goals: GoalFound, platform: str = "p", **changed: Any) -> TrialRecord:
    points = changed.pop("points", ())
    result: dict[str, Any] = {"goals": [told(one) for one in goals], **changed.pop("result", {})}
    return trial(number, *points, platform=platform, **{"workload": "throughput", "result": result, **changed})


def test_only_trials_of_throughput_that_can_be_believed_have_goals() -> None:
    found = goal(lower=bound(7.0), upper=bound(8.0, 20), conditional_throughput_frames_per_second=6.5)
    assert goals_of(searched(1, found, goal("pdr"))) == (found, goal("pdr"))
    assert goals_of(searched(1, found, workload="forward")) == ()
    assert goals_of(searched(1, found, status="invalid")) == ()
    without: list[dict[str, Any] | None] = [None, {}]
    for result in without:
        assert goals_of(trial(1, workload="throughput", result=result)) == ()


def test_a_row_is_a_platform_and_a_goal_with_one_finding_a_trial() -> None:
    first, second, pdr = goal(lower=bound(1.0)), goal(lower=bound(2.0)), goal("pdr")
    trials = [
        searched(1, first, pdr),
        searched(2, first, platform="q"),
        searched(3, second),
        searched(4, second, status="failed"),
        searched(5, second, workload="forward"),
        searched(6, second, size=128),
        trial(7, workload="throughput", platform="r"),
    ]
    assert throughput_rows((PDR, NDR), trials) == (
        ThroughputRow("p", PDR, (pdr,)),
        ThroughputRow("p", NDR, (first, second)),
        ThroughputRow("q", NDR, (first,)),
    )


def test_medians_are_of_blocks_with_a_bound_and_need_every_upper_one() -> None:
    def row(*found: GoalFound) -> ThroughputRow:
        return ThroughputRow("p", NDR, found)

    one, two = (
        goal(lower=bound(low), upper=bound(high, 20), conditional_throughput_frames_per_second=rate)
        for low, high, rate in ((10.0, 30.0, 9.0), (20.0, 50.0, 17.0))
    )
    bounded = goal(lower=bound(90.0, 5), ended="generator-bound")
    full = row(one, two)
    assert (full.lower, full.upper, full.conditional_throughput) == (15, 40, 13)
    assert (full.ended, full.trial_ns) == (("width",), (10, 20))
    half = row(bounded, one, two)
    assert (half.lower, half.upper, half.conditional_throughput) == (20, None, 13)
    assert (half.ended, half.trial_ns) == (("generator-bound", "width"), (5, 10, 20))
    none = row(goal(ended="least-rate"))
    assert (none.lower, none.upper, none.conditional_throughput, none.trial_ns) == (None, None, None, ())


def test_a_search_out_of_time_is_a_lower_bound_and_each_has_a_width() -> None:
    one = goal(lower=bound(10.0), upper=bound(12.0), conditional_throughput_frames_per_second=10.0)
    two = goal(lower=bound(10.0), upper=bound(15.0), conditional_throughput_frames_per_second=10.0)
    assert not ThroughputRow("p", NDR, (one, two)).is_lower_bound
    assert ThroughputRow("p", NDR, (one, two)).log_width == pytest.approx(math.log(1.2 * 1.5) / 2)
    assert ThroughputRow("p", NDR, (one, replace(two, ended="time-limit"))).is_lower_bound
    unbounded = goal(lower=bound(10.0), ended="generator-bound", conditional_throughput_frames_per_second=10.0)
    assert ThroughputRow("p", NDR, (one, unbounded)).is_lower_bound
    assert ThroughputRow("p", NDR, (one, unbounded)).log_width == pytest.approx(math.log(1.2))
    assert ThroughputRow("p", NDR, (unbounded, goal(ended="least-rate", upper=bound(1.0)))).log_width == 0


def delayed(rate: float | None, *histograms: tuple[tuple[int, int], ...] | None, lost: int = 0) -> Any:
    """A point of so many sources, whose sinks saw these delays."""
    sinks = [
        sink(number, forwarded=9, lost=lost, delay_ns=distribution(sum(n for _, n in own), histogram=own))
        if own is not None
        else sink(number, forwarded=9, lost=100)
        for number, own in enumerate(histograms)
    ]
    return point(rate, [source(number, intended=9) for number in range(len(histograms))], sinks)


def test_the_delay_below_is_of_all_frames_of_all_blocks_together() -> None:
    """Ten thousand frames in two blocks: 5000 of 10 ns, 4000 of 20, 900 of 30, 90 of 40 and 10 of 50."""
    asked = [{"point": 1, "share_of_pdr": 0.5}, {"point": 2, "share_of_pdr": 0.9}]
    first = delayed(100.0, ((10, 2000), (20, 4000)), ((10, 3000),), lost=3)
    second = delayed(200.0, ((30, 900), (40, 90), (50, 10)), None, lost=4)
    other = delayed(700.0, ((7, 1),))
    trials = [
        searched(1, goal("pdr"), points=(plain(1.0, 9), first, other), result={"delays": asked}),
        searched(2, goal("pdr"), points=(plain(1.0, 9), second, delayed(600.0, ())), result={"delays": asked}),
        searched(3, goal("pdr")),
        searched(4, goal("pdr"), points=(first,), result={"delays": [{"point": 0, "share_of_pdr": 0.5}]}, size=128),
        searched(5, points=(first,), result={"delays": [{"point": 0, "share_of_pdr": 0.5}]}),
        searched(6, goal("pdr"), points=(other,), result={"delays": [{"point": 0, "share_of_pdr": 0.5}]}, platform="q"),
    ]
    assert delays_below((NDR, PDR), trials) == (
        DelayBelow("p", PDR, 0.5, 200.0, (10, 20, 30, 40), samples=10_000, lost_frames=10),
        DelayBelow("p", PDR, 0.9, 700.0, (7, 7, 7, 7), samples=1, lost_frames=0),
        DelayBelow("q", PDR, 0.5, 700.0, (7, 7, 7, 7), samples=1, lost_frames=0),
    )
    assert delays_below((NDR,), trials) == ()


@pytest.mark.parametrize(
    ("histograms", "shares", "found"),
    [
        ([((5, 1), (9, 1))], (0.5, 0.51), (5, 9)),
        ([((9, 2),), ((5, 1), (9, 1))], (0.25, 0.26, 1.0), (5, 9, 9)),
        ([((9, 3), (5, 1))], (0.9, 0.1), (5, 9)),
        ([None, ()], (0.5,), ()),
    ],
)
def test_a_percentile_is_the_bucket_that_holds_it(histograms: list[Any], shares: Any, found: Any) -> None:
    assert pooled_percentiles([distribution(1, histogram=one) for one in histograms], shares) == found
