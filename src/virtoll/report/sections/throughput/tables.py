"""`conditional_throughput.csv`: what each search found; `delay_below_pdr.csv`: the delay at shares of the PDR."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Column, Table, count, number, shared, text
from virtoll.stats.conditional_throughput import (
    PERCENTILES,
    BoundFound,
    DelayBelow,
    GoalFound,
    ThroughputRow,
    delays_below,
)


@dataclass(frozen=True)
class Search:
    """A goal of a platform, and what the search of a block found."""

    row: ThroughputRow
    goal: GoalFound


def _searches(rows: Iterable[ThroughputRow]) -> Iterator[Search]:
    for row in rows:
        for goal in row.found:
            yield Search(row, goal)


def _searches_of(source: ReportInput) -> Iterable[Search] | None:
    rows = source.analysis.searches
    return _searches(rows) if rows else None


def _delays_of(source: ReportInput) -> Iterable[DelayBelow] | None:
    analysis = source.analysis
    return delays_below(analysis.tasks, analysis.data.trials) if analysis.searches else None


def _of_bound(name: str, meaning: str, bound: Callable[[Search], BoundFound | None]) -> tuple[Column[Search], ...]:
    """Rate, length and number of the trials at a bound of each search; empty if it has no such bound."""

    def of(value: Callable[[BoundFound], float]) -> Callable[[Search], float | None]:
        def cell(search: Search) -> float | None:
            limit = bound(search)
            return None if limit is None else value(limit)

        return cell

    return (
        number(f"{name}_frames_per_second", "frames/s", meaning, of(lambda limit: limit.rate_frames_per_second)),
        number(f"{name}_trial_ns", "ns", "how long each of its trials took", of(lambda limit: limit.trial_ns)),
        count(f"{name}_trials", "how many", of(lambda limit: len(limit.points))),
    )


def _percentile(name: str, share: float, meaning: str) -> Column[DelayBelow]:
    place = PERCENTILES.index(share)
    return number(name, "ns", meaning, lambda delay: delay.percentiles_ns[place])


CONDITIONAL_THROUGHPUT: Final = Table[Search](
    "conditional_throughput",
    "a search and goal (NDR, PDR)",
    _searches_of,
    (
        shared("platform", lambda search: search.row.platform),
        shared("parameters", lambda search: search.row.task.parameters),
        text("goal", "ndr or pdr", lambda search: search.goal.name),
        number("loss_ratio", "share", "of frames that may be lost", lambda search: search.goal.loss_ratio),
        number("exceed_ratio", "share", "of trials that may lose more", lambda search: search.goal.exceed_ratio),
        number(
            "relative_width",
            "share",
            "how far apart the bounds may be at the end",
            lambda search: search.goal.relative_width,
        ),
        number("sum_seconds", "s", "how long a bound's trials take together", lambda search: search.goal.sum_seconds),
        text("ended", "why the search ended", lambda search: search.goal.ended),
        number(
            "conditional_throughput_frames_per_second",
            "frames/s",
            "what the lower bound forwards at the least",
            lambda search: search.goal.conditional_throughput_frames_per_second,
        ),
        *_of_bound("lower", "the highest rate that keeps to the goal", lambda search: search.goal.lower),
        *_of_bound("upper", "the lowest rate that does not", lambda search: search.goal.upper),
    ),
)

DELAY_BELOW_PDR: Final = Table[DelayBelow](
    "delay_below_pdr",
    "a platform and a share of its partial drop rate: the delay of all frames",
    _delays_of,
    (
        shared("platform", lambda delay: delay.platform),
        shared("parameters", lambda delay: delay.task.parameters),
        number("share_of_pdr", "share", "of the partial drop rate that was sent", lambda delay: delay.share_of_pdr),
        number("rate", "frames/s", "the rate that this is", lambda delay: delay.rate),
        _percentile("p50_ns", 0.5, "half of the frames took no longer"),
        _percentile("p90_ns", 0.9, "90 % of them"),
        _percentile("p99_ns", 0.99, "99 % of them"),
        _percentile("p99_9_ns", 0.999, "99.9 % of them"),
        number("samples", "frames", "whose delay was measured", lambda delay: delay.samples),
        number("lost_frames", "frames", "that never arrived", lambda delay: delay.lost_frames),
    ),
)
