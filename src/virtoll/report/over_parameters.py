"""CSV table of the values over a parameter; no numbers are computed here (`stats/over_parameters.py`)."""

from virtoll.report.csv_table import CsvTable, Row
from virtoll.stats.analysis import Analysis


def parameter_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a marker of the figures; none where no parameter has three values."""
    rows: list[Row] = []
    for one in analysis.over_parameters:
        for curve in one.curves:
            for point in curve.points:
                cell = point.cell
                interval = cell.interval if cell is not None else None
                rows.append(
                    (
                        curve.platform,
                        one.metric.workload,
                        one.metric.name,
                        one.metric.unit,
                        one.parameter,
                        point.value,
                        one.others,
                        one.condition,
                        cell.blocks if cell is not None else 0,
                        cell.median if cell is not None else None,
                        interval.low if interval is not None else None,
                        interval.high if interval is not None else None,
                        interval.coverage if interval is not None else None,
                        analysis.caveats.get(curve.platform),
                    )
                )
    header = (
        "platform", "workload", "metric", "unit", "parameter", "value", "others", "condition", "blocks", "median",
        "low", "high", "coverage", "caveat",
    )  # fmt: skip
    return (CsvTable("curves", header, tuple(rows)),) if rows else ()
