"""`curves.csv`: a row a marker of the figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, caveat, number, of_interval, shared, text
from virtoll.stats.intervals import Interval
from virtoll.stats.over_parameters import OverParameter, ParameterPoint
from virtoll.stats.summaries import CellSummary


@dataclass(frozen=True)
class PointRow:
    """A platform at a value of a panel's parameter."""

    panel: OverParameter
    platform: str
    point: ParameterPoint

    @property
    def cell(self) -> CellSummary | None:
        """The values there."""
        return self.point.cell

    @property
    def interval(self) -> Interval | None:
        """Of their median."""
        return None if self.cell is None else self.cell.interval


def _rows(source: ReportInput) -> Iterator[PointRow]:
    for panel in source.analysis.over_parameters:
        for curve in panel.curves:
            for point in curve.points:
                yield PointRow(panel, curve.platform, point)


POINTS: Final = Table[PointRow](
    "curves",
    "a platform and a value of a numeric parameter, where there are three or more",
    _rows,
    (
        shared("platform", lambda row: row.platform),
        shared("workload", lambda row: row.panel.metric.workload),
        shared("metric", lambda row: row.panel.metric.name),
        shared("unit", lambda row: row.panel.metric.unit),
        text("parameter", "which parameter", lambda row: row.panel.parameter),
        number("value", "", "its value, in the parameter's own unit", lambda row: row.point.value),
        text("others", "the other parameters, which are the same along a curve", lambda row: row.panel.others),
        shared("condition", lambda row: row.panel.condition),
        shared("blocks", lambda row: row.cell.blocks if row.cell else 0),
        shared("median", lambda row: row.cell and row.cell.median),
        *of_interval(
            ("low", "high"),
            "`unit`",
            "the low end of the median's order-statistic interval",
            lambda row: row.interval,
        ),
        number(
            "coverage",
            "share",
            "the confidence that the interval really has",
            lambda row: row.interval and row.interval.coverage,
        ),
        caveat(lambda row: row.platform),
    ),
    optional=True,
)
