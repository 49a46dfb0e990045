"""The values that stand beside shares: each is one estimate with its share."""

from dataclasses import replace

import pytest
from tests.support.made_up_run import Made, made_up_run
from tests.support.report_tables import csv_rows

from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.estimates import beside, of_cell
from virtoll.stats.intervals import Interval
from virtoll.stats.values import Task

LABELS = ("native", "netns")


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


def fits(row: dict[str, str], base: float, value: float) -> bool:
    """Durations whose quotient is the row's share."""
    return base / value == pytest.approx(float(row["share"]), rel=1e-6)


def test_guests_at_once_have_values_that_fit_their_shares() -> None:
    """Of jobs: one guest's value and what all do together, against as many processes of the host."""
    point = ScalePoint(2, 1, 256 << 20)
    costs = {"native": 1e9, "native-again": 1e9, "runc": 1.1e9}
    made = [Made(label, "superpi", value=value, scale=point, spread=0.1) for label, value in costs.items()]
    analysis = analyse(made_up_run({label: {} for label in costs}, made, blocks=3, rounds=3))
    rows = {row["platform"]: row for row in csv_rows(analysis, "scale")}
    base = rows.pop("native")
    assert {*rows} == {"native-again", "runc"}
    for row in rows.values():
        assert fits(row, float(base["each"]), float(row["each"]))
        assert fits(row, float(row["together"]), float(base["together"]))


def test_a_guest_beside_others_has_a_value_that_fits_its_share() -> None:
    conditions = (None, Condition("heavy"))
    made = [Made(label, "superpi", condition=one, spread=0.1) for label in LABELS for one in conditions]
    analysis = analyse(made_up_run({label: {} for label in LABELS}, made, rounds=3))
    rows = csv_rows(analysis, "isolation")
    assert len(rows) == 4, "each with its A/A control"
    assert all(fits(row, float(row["alone_median"]), float(row["value"])) for row in rows)
