"""The verdicts of a run's comparisons, as far as bounds of its rates allow one. Main function: `decided`. Pure."""

from collections.abc import Mapping, Sequence

from virtoll.stats.bounds import (
    against_lower_bounds,
    all_within_search_bounds,
    forwarded_elsewhere,
    without_two_bounds,
    without_unpinned,
)
from virtoll.stats.compare import Comparison
from virtoll.stats.run_data import RunData
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Rules, decide_families


def decided(
    data: RunData,
    untested: tuple[Sequence[Comparison], Sequence[Comparison]],
    bounds: frozenset[tuple[str, Task]],
    widths: Mapping[tuple[str, Task], float],
    rules: Rules,
    states: Sequence[TwoStates],
) -> tuple[tuple[Comparison, ...], tuple[Comparison, ...]]:
    """The comparisons and the A/A control with their verdicts, as far as bounds allow one."""
    baseline, elsewhere = data.manifest.baseline, forwarded_elsewhere(data.boots)
    comparisons, control = (without_unpinned(family, elsewhere, baseline) for family in untested)
    comparisons = without_two_bounds(comparisons, bounds, baseline)

    def width(comparison: Comparison) -> float:
        below = widths.get((baseline or "", comparison.task), 0.0)
        return below + widths.get((comparison.platform, comparison.task), 0.0)

    comparisons, control = (
        all_within_search_bounds(family, widths, baseline, rules.margin)
        for family in decide_families(comparisons, control, rules, states, width)
    )
    return tuple(against_lower_bounds(comparisons, bounds, baseline)), tuple(control)
