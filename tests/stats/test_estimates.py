"""The values that stand beside shares: each is one estimate with its share."""

from dataclasses import replace

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.estimates import beside, of_cell
from virtoll.stats.intervals import Interval
from virtoll.stats.values import Task


def measured(workload: str, blocks: int = 3, **values: float) -> tuple[Analysis, Task]:
    """A run of these platforms, by their value, and its task."""
    made = [Made(label.replace("_", "-"), workload, value=value, spread=0.02) for label, value in values.items()]
    analysis = analyse(made_up_run({one.platform: {} for one in made}, made, blocks=blocks, rounds=3))
    return analysis, next(task for task in analysis.tasks if task.metric.primary)


@pytest.mark.parametrize("workload", ["superpi", "forward"])
def test_the_quotient_of_two_values_is_the_share(workload: str) -> None:
    """Of durations the baseline's by the platform's, of rates the other way round; the A/A control's too."""
    analysis, task = measured(workload, native=1e6, native_again=1e6, netns=1.1e6, runc=2e6)
    base = analysis.estimates["native", task]
    cell = analysis.cells["native", task]
    assert (base.value, base.interval, base.blocks, base.of_share) == (cell.median, cell.interval, 3, False)
    for platform in ("native-again", "netns", "runc"):
        told, comparison = analysis.estimates[platform, task], analysis.comparison(platform, task)
        assert comparison is not None
        assert comparison.interval is not None
        assert told.interval is not None
        assert (told.of_share, told.blocks) == (True, 3)
        values = told.value, told.interval.low, told.interval.high
        shares = [value / base.value if workload == "forward" else base.value / value for value in values]
        ends = (comparison.interval.low, comparison.interval.high)
        assert shares == pytest.approx([comparison.share, *(ends if workload == "forward" else reversed(ends))])


def test_what_has_no_share_that_counts_has_its_own_median() -> None:
    analysis, task = measured("superpi", native=1e6, runc=2e6)
    cell, base = analysis.cells["runc", task], analysis.cells["native", task]
    (comparison,) = (one for one in analysis.comparisons if one.task == task)
    functional = replace(comparison, verdict=Verdict.FUNCTIONAL, caveat="nested")
    for told in (
        of_cell(cell, None, comparison),
        of_cell(cell, base, None),
        of_cell(cell, base, replace(comparison, share=None)),
        of_cell(cell, base, functional),
    ):
        assert (told.value, told.interval, told.of_share) == (cell.median, cell.interval, False)
    without = analyse(replace(analysis.data, manifest=analysis.data.manifest.replace(baseline=None)))
    assert not any(told.of_share for told in without.estimates.values())


def test_one_block_gives_no_interval_and_nothing_known_neither() -> None:
    analysis, task = measured("superpi", blocks=1, native=1e6, runc=2e6)
    told = analysis.estimates["runc", task]
    assert (told.of_share, told.interval) == (True, None)
    (comparison,) = (one for one in analysis.comparisons if one.task == task)
    open_ended = replace(comparison, interval=Interval(1e-304, 1e304, 0.95, "t"))
    assert beside(1e6, open_ended).interval is None
