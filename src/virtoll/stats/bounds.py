"""Rates that are lower bounds, and what two of them do not say.

Where a platform lost nothing flat out, or came within 10 % of what generator and sink reach, it may be able to forward
more than was seen. So it is where a search for a rate ended at the generator's limit. The ratio of two such rates is
anything: it says what the sender can, and has no verdict. Pure.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from virtoll.stats.ceilings import Headroom
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.conditional_throughput import ThroughputRow
from virtoll.stats.sweeps import Curve
from virtoll.stats.values import Task

TWO_BOUNDS = "two lower bounds"


def lower_bounds(
    tasks: Sequence[Task],
    curves: Sequence[Curve],
    headrooms: Mapping[tuple[str, Task], Headroom],
    searches: Sequence[ThroughputRow],
) -> set[tuple[str, Task]]:
    """(platform, task) of the cells whose rate is a lower bound: of a sweep, or of a search without an upper one."""
    lossless = {(curve.platform, curve.parameters) for curve in curves if curve.lossless}
    swept = [task for task in tasks if task.metric.source == "points"]
    found = {(label, task) for task in swept for label, parameters in lossless if task.parameters == parameters}
    found |= {cell for cell, one in headrooms.items() if one.generator_bound}
    return found | {(row.platform, row.task) for row in searches if row.upper is None}


def without_two_bounds(
    comparisons: Sequence[Comparison], bounds: Collection[tuple[str, Task]], baseline: str | None
) -> list[Comparison]:
    """The same comparisons, those of two lower bounds with that as their caveat: they are not tested."""

    def told(one: Comparison) -> Comparison:
        both = all((label, one.task) in bounds for label in (one.platform, baseline))
        if one.verdict is not Verdict.UNKNOWN or not both:
            return one
        reason = "both lost nothing flat out or reached the generator's limit, so that either may forward more"
        return replace(one, caveat=TWO_BOUNDS, reason=reason)

    return [told(one) for one in comparisons]
