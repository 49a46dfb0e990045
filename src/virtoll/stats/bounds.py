"""Rates that are lower bounds or the sender's, and what they do not say.

Where a platform lost nothing flat out, or came within 10 % of what generator and sink reach, it may be able to forward
more than was seen. So it is where a search for a rate ended at the generator's limit, or by its time. The ratio of two
such rates is anything: it says what the sender can, and has no verdict. Against one such rate *slower* holds, and of
one such rate *faster*, and no more. A rate that a router reached on the sender's own core, which had to send as well,
has no verdict either. The rate of guests that send is their own, whatever was lost.

A search ends with two bounds, and its rate is anywhere between them. So is the maximum of a sweep where overload does
harm: between the rate that forwarded most and the next that was tried. The intervals of a comparison hold all of that
(`within_search_bounds`): blocks that ended on the same step of a grid are not sure to a fraction of the step. Pure.
"""

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from virtoll import units
from virtoll.runfolder.frame_shape import OVERLOAD_HARMS
from virtoll.runfolder.records import BootRecord
from virtoll.stats.ceilings import Headroom
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.conditional_throughput import ThroughputRow
from virtoll.stats.intervals import Interval
from virtoll.stats.summaries import CellSummary, known
from virtoll.stats.sweeps import LOSSLESS_SHARE, Curve, PointValue
from virtoll.stats.values import Task, grouped
from virtoll.stats.verdicts import MARGINS

TWO_BOUNDS = "two lower bounds"
NOT_PINNED = "not forwarded on the guest's CPUs"
MAY_FORWARD_MORE = (
    "lost nothing flat out, reached the generator's limit or ended its search by the time limit, so that it may "
    "forward more"
)
_ROUNDING = 1e-9
_SENDERS, _KERNELS = "the core that sends", "CPUs of the kernel's choice"


def lower_bounds(
    tasks: Sequence[Task],
    curves: Sequence[Curve],
    headrooms: Mapping[tuple[str, Task], Headroom],
    searches: Sequence[ThroughputRow],
) -> set[tuple[str, Task]]:
    """(platform, task) of the cells whose rate is a lower bound: of a sweep, or of a search without an upper one.

    A search that ran out of time is one of these: what it lost above its lower bound was seen too seldom.
    """
    lossless = {(curve.platform, curve.parameters) for curve in curves if curve.lossless}
    swept = [task for task in tasks if task.metric.source == "points"]
    bounded = {(label, task) for task in swept for label, parameters in lossless if task.parameters == parameters}
    bounded |= {cell for cell, headroom in headrooms.items() if headroom.generator_bound}
    return bounded | {(row.platform, row.task) for row in searches if row.is_lower_bound}


def without_two_bounds(
    comparisons: Sequence[Comparison], bounds: Collection[tuple[str, Task]], baseline: str | None
) -> list[Comparison]:
    """The same comparisons, those of two lower bounds with that as their caveat: they are not tested."""

    def marked(comparison: Comparison) -> Comparison:
        both = all((label, comparison.task) in bounds for label in (comparison.platform, baseline))
        if comparison.verdict is not Verdict.UNKNOWN or not both or comparison.caveat:
            return comparison
        reason = f"each of both {MAY_FORWARD_MORE}"
        return replace(comparison, caveat=TWO_BOUNDS, reason=reason)

    return [marked(comparison) for comparison in comparisons]


def against_lower_bounds(
    comparisons: Sequence[Comparison], bounds: Collection[tuple[str, Task]], baseline: str | None = None
) -> list[Comparison]:
    """The same comparisons with their verdicts, but for those that rates which are lower bounds do not bear.

    What is slower than a lower bound is slower by at least so much. What is alike or faster may yet be slower than the
    base really is. The other way round, a lower bound that is slower or alike may yet be faster. ``baseline``: whose
    rates they are compared with; None: with the same platform's alone.
    """
    return [_as_bounds_bear(comparison, bounds, baseline) for comparison in comparisons]


def _as_bounds_bear(comparison: Comparison, bounds: Collection[tuple[str, Task]], baseline: str | None) -> Comparison:
    base, verdict = baseline or comparison.platform, comparison.verdict
    if (base, comparison.task) in bounds and verdict in (Verdict.ALIKE, Verdict.FASTER):
        return undecided(comparison, f"{comparison.against} {MAY_FORWARD_MORE}", low=0.0)
    is_platform_bound = baseline is not None and (comparison.platform, comparison.task) in bounds
    if is_platform_bound and verdict in (Verdict.ALIKE, Verdict.SLOWER):
        return undecided(comparison, f"{comparison.platform} {MAY_FORWARD_MORE}", high=math.inf)
    return comparison


def undecided(
    comparison: Comparison, reason: str, *, low: float | None = None, high: float | None = None
) -> Comparison:
    """The comparison without its verdict, for this reason. ``low``, ``high``: open ends of the joint interval."""
    joint = comparison.simultaneous
    if joint is not None and low is not None:
        joint = replace(joint, low=low)
    if joint is not None and high is not None:
        joint = replace(joint, high=high)
    return replace(comparison, verdict=Verdict.UNKNOWN, margin=None, at_least=None, simultaneous=joint, reason=reason)


def rate_widths(
    cells: Mapping[tuple[str, Task], CellSummary], points: Sequence[PointValue], searches: Sequence[ThroughputRow]
) -> dict[tuple[str, Task], float]:
    """By platform and task, how far above its rate the upper bound of its search or sweep is, as a logarithm.

    Of a sweep it is the mean over whole trials, as far as there are some over those whose values are in the cell.
    """
    swept = grouped(points, lambda point: (point.platform, point.parameters))
    widths: dict[tuple[str, Task], float] = {}
    for (platform, task), cell in cells.items():
        if task.metric.source == "points":
            sweeps = grouped(swept.get((platform, task.parameters), ()), lambda point: point.trial)
            counted = (sweeps.get(observation.trial, ()) for observation in cell.observations)
            of_trials = known(map(grid_width, counted)) or known(map(grid_width, sweeps.values()))
            widths[platform, task] = statistics.fmean(of_trials or [0.0])
    for row in searches:
        widths[row.platform, row.task] = row.log_width
    return widths


def grid_width(points: Sequence[PointValue]) -> float | None:
    """How far above the largest rate of one sweep the next is that was tried and not kept up with, as a logarithm.

    0 of a sweep whose overload does no harm: flat out it forwards what it can, whatever the grid. None of one that has
    no point flat out, as the best point of an earlier one that is measured again.
    """
    flat_out = max(map(_forwarded, filter(_is_flat_out, points)), default=0.0)
    if not flat_out:
        return None
    most = max(map(_forwarded, points))
    if most <= OVERLOAD_HARMS * flat_out:
        return 0.0
    beyond = math.inf
    for point in points:
        offered = point.offered_rate or 0.0
        falls_behind = (point.turned_away or 0.0) > LOSSLESS_SHARE or offered > OVERLOAD_HARMS * _forwarded(point)
        if offered > most and falls_behind:
            beyond = min(beyond, offered)
    return 0.0 if math.isinf(beyond) else math.log(beyond / most)


def _forwarded(point: PointValue) -> float:
    return point.forwarded_rate or 0.0


def _is_flat_out(point: PointValue) -> bool:
    return point.flat_out


def within_search_bounds(comparison: Comparison, below: float, above: float, margin: float) -> Comparison:
    """The comparison with intervals that hold all rates between the bounds of both searches or sweeps, and what they
    leave of its verdict.

    ``below`` and ``above``: by how much the share may be smaller and larger, as logarithms: the width of what it is a
    share of, and its own. ``margin``: the experiment's. Two one-sided tests are stricter here than elsewhere: the whole
    interval of this comparison has to be within the margin.
    """
    interval, simultaneous = comparison.interval, comparison.simultaneous
    if not (below or above) or interval is None or simultaneous is None:
        return comparison
    interval, simultaneous = widened(interval, below, above), widened(simultaneous, below, above)
    smallest = comparison.smallest and comparison.smallest * math.exp(max(below, above))
    comparison = replace(comparison, interval=interval, simultaneous=simultaneous, smallest=smallest)
    match comparison.verdict:
        case Verdict.SLOWER:
            at_least = 1 / simultaneous.high
        case Verdict.FASTER:
            at_least = simultaneous.low
        case Verdict.ALIKE:
            apart = max(interval.high, 1 / interval.low) - 1
            kept = next((limit for limit in (*MARGINS, margin) if apart < limit <= margin), None)
            return (
                replace(comparison, margin=kept) if kept is not None else undecided(comparison, _anything(comparison))
            )
        case _:
            return comparison
    if at_least <= 1 + _ROUNDING:
        return undecided(comparison, _anything(comparison))
    return replace(comparison, at_least=at_least)


def all_within_search_bounds(
    comparisons: Sequence[Comparison], widths: Mapping[tuple[str, Task], float], baseline: str | None, margin: float
) -> list[Comparison]:
    """All of them so, against the baseline; ``widths``: `rate_widths`."""
    within = []
    for comparison in comparisons:
        below = widths.get((baseline or "", comparison.task), 0.0)
        above = widths.get((comparison.platform, comparison.task), 0.0)
        within.append(within_search_bounds(comparison, below, above, margin))
    return within


def widened(interval: Interval, below: float, above: float) -> Interval:
    """The interval with its ends so much further apart, as logarithms."""
    return replace(interval, low=interval.low * math.exp(-below), high=interval.high * math.exp(above))


def _anything(comparison: Comparison) -> str:
    assert comparison.simultaneous is not None
    shown = units.percent_between(comparison.simultaneous.low, comparison.simultaneous.high)
    return f"anything from {shown} of {comparison.against} is between the bounds of both searches or sweeps"


def forwarded_elsewhere(boots: Sequence[BootRecord]) -> dict[str, str]:
    """Platforms of which the host's kernel does not forward on the guest's CPUs: where it does, and why."""
    elsewhere = {}
    for boot in boots:
        if boot.forwarding is not None and boot.forwarding.cpus is None:
            where = _KERNELS if boot.forwarding.by_threads else _SENDERS
            elsewhere[boot.platform] = f"on {where} ({boot.forwarding.reason or 'the reason is not known'})"
    return elsewhere


def receiving_apart(boots: Sequence[BootRecord]) -> frozenset[str]:
    """Platforms whose links queue what they are sent, for the host's kernel to forward by threads of its own."""
    return frozenset(boot.platform for boot in boots if boot.forwarding is not None and boot.forwarding.by_threads)


def without_unpinned(
    comparisons: Sequence[Comparison], elsewhere: Mapping[str, str], baseline: str | None
) -> list[Comparison]:
    """The same comparisons, those of rates of such platforms (or of such a baseline) with that as their caveat."""

    def marked(comparison: Comparison) -> Comparison:
        labels = [label for label in (comparison.platform, baseline) if label is not None]
        unpinned = [(label, elsewhere[label]) for label in labels if label in elsewhere]
        if comparison.verdict is not Verdict.UNKNOWN or comparison.caveat:
            return comparison
        if not unpinned or not comparison.task.is_forwarding_rate:
            return comparison
        label, where = unpinned[0]
        reason = f"{label} forwards {where}; the CPU time per frame does not depend on that"
        return replace(comparison, caveat=NOT_PINNED, reason=reason)

    return [marked(comparison) for comparison in comparisons]
