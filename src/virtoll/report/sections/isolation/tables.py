"""`isolation.csv`: the matrix, a row a cell; `neighbours.csv`: what guests beside did; `routers_beside.csv`."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import (
    Table,
    count,
    family_of,
    mean,
    number,
    of_comparison,
    of_estimate,
    of_task,
    shared,
)
from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.estimates import of_cell
from virtoll.stats.isolation import LoadUse
from virtoll.stats.neighbour_routers import NeighbourRouter
from virtoll.stats.summaries import CellSummary


@dataclass(frozen=True)
class ConditionRow:
    """A comparison with the guest alone: its condition, None of the A/A control, and the values of both."""

    comparison: Comparison
    condition: Condition | None
    alone: CellSummary | None
    cell: CellSummary | None

    @property
    def value(self) -> float | None:
        """Under the condition."""
        return None if self.cell is None else of_cell(self.cell, self.alone, self.comparison).value

    @property
    def neighbour_platform(self) -> str | None:
        """The platform of the guests beside."""
        return (self.condition.platform or self.comparison.platform) if self.condition else None


def _matrix(analysis: Analysis) -> Iterator[ConditionRow]:
    isolation = analysis.isolation
    conditions = {condition.label: condition for condition in isolation.conditions}
    for comparison in (*isolation.control, *isolation.comparisons):
        platform, task = comparison.platform, comparison.task
        yield ConditionRow(
            comparison,
            conditions.get(comparison.condition or ""),
            isolation.cells.get((platform, task, ALONE)),
            isolation.cells.get((platform, task, comparison.condition or ALONE)),
        )


def _matrix_of(source: ReportInput) -> Iterable[ConditionRow] | None:
    return _matrix(source.analysis) if source.analysis.isolation.conditions else None


def _uses_of(source: ReportInput) -> Iterable[LoadUse] | None:
    isolation = source.analysis.isolation
    return isolation.uses if isolation.conditions else None


def _comparison(row: ConditionRow) -> Comparison:
    return row.comparison


MATRIX: Final = Table[ConditionRow](
    "isolation",
    "a guest under a condition, against itself alone",
    _matrix_of,
    (
        *of_comparison("platform", _comparison),
        shared("condition", lambda row: row.comparison.condition),
        shared("load", lambda row: row.condition and row.condition.load),
        shared("affinity", lambda row: row.condition and row.condition.affinity),
        count("guests", "guests beside it", lambda row: row.condition and row.condition.guests),
        shared("beside", lambda row: row.neighbour_platform),
        shared("rate_share", lambda row: row.condition and row.condition.rate_share),
        *of_task(lambda row: row.comparison.task),
        *of_comparison("pairs", _comparison),
        number("alone_median", "`unit`", "the median of the guest alone", lambda row: row.alone and row.alone.median),
        number(
            "value",
            "`unit`",
            "under the condition: the median alone times their ratio; its own median where no share counts",
            lambda row: row.value,
        ),
        *of_comparison("share low high times_slower p_value p_adjusted", _comparison),
        shared("family", lambda row: family_of(row.comparison, control=row.condition is None)),
        *of_comparison("verdict at_least margin smallest_detectable_factor reason caveat", _comparison),
    ),
)

NEIGHBOURS: Final = Table[LoadUse](
    "neighbours",
    "what the guests beside did under a condition",
    _uses_of,
    (
        shared("platform", lambda use: use.platform),
        shared("workload", lambda use: use.task.workload),
        shared("parameters", lambda use: use.task.parameters),
        shared("condition", lambda use: use.condition),
        shared("beside", lambda use: use.neighbour),
        shared("trials", lambda use: use.trials),
        number(
            "maximum_frames_per_second",
            "frames/s",
            "what it forwards at most, beside an idle guest",
            lambda use: use.maximum,
        ),
        number("asked_rate_frames_per_second", "frames/s", "what was to be sent to it", lambda use: use.asked),
        number("offered_rate_frames_per_second", "frames/s", "what was sent to it", lambda use: use.offered),
        number("forwarded_rate_frames_per_second", "frames/s", "what it forwarded", lambda use: use.forwarded),
        number("lost_share", "share", "of the offered frames that it lost", lambda use: use.lost_share),
        number(
            "skipped_share",
            "share",
            "of the asked frames that the generator was too late for",
            lambda use: use.skipped_share,
        ),
        number("cpus", "CPUs", "CPU time of its load by wall time, by that guest's clock", lambda use: use.cpus),
    ),
)

NEIGHBOUR_ROUTERS: Final = Table[NeighbourRouter](
    "routers_beside",
    "a platform as a router, a condition and frames, as Schlosser et al. 2011 print it",
    lambda source: source.analysis.neighbour_routers,
    (
        shared("platform", lambda router: router.platform),
        shared("condition", lambda router: router.condition.label),
        shared("load", lambda router: router.condition.load),
        shared("rate_share", lambda router: router.condition.rate_share),
        shared("workload", lambda router: router.task.workload),
        shared("parameters", lambda router: router.task.parameters),
        shared("frame_size_bytes", lambda router: router.shape.frame_size_bytes),
        shared("sources", lambda router: router.shape.sources),
        shared("blocks", lambda router: router.blocks),
        *mean("alone", "the maximum alone", lambda router: router.alone),
        *mean("beside", "the maximum beside other guests", lambda router: router.with_neighbours),
        *of_estimate(
            ("change", "change_low", "change_high"),
            "share",
            ("beside / alone - 1: the mean over blocks", "the low end of its 95 % t interval"),
            lambda router: router.change,
        ),
        *mean("into_other", "what was sent to the guest beside", lambda router: router.into_other),
        *mean("out_of_other", "what that guest forwarded", lambda router: router.out_of_other),
        shared("caveat", lambda router: router.caveat),
    ),
    optional=True,
)
