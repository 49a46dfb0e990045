"""CSV tables of sweeps over a list of rates, in Mbit/s; no numbers are computed here (`stats/listed_rates.py`)."""

from virtoll.report.csv_table import CsvTable, Row, mean_cells, mean_columns
from virtoll.stats.analysis import Analysis


def listed_rate_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a platform and rate, and one a platform and number of sources; none where no sweep is over a list."""
    found = analysis.listed_rates
    points: list[Row] = [
        (
            curve.platform,
            curve.task.workload,
            curve.task.parameters,
            curve.shape.frame_size_bytes,
            curve.shape.sources,
            point.target_mbit_per_second,
            int(point.target_mbit_per_second is None),
            point.blocks,
            *mean_cells(point.offered),
            *mean_cells(point.forwarded),
            analysis.caveats.get(curve.platform),
        )
        for curve in found.curves
        for point in curve.points
    ]
    accumulated: list[Row] = [
        (
            one.platform,
            one.task.workload,
            one.task.parameters,
            one.shape.frame_size_bytes,
            one.shape.sources,
            one.blocks,
            *mean_cells(one.rate),
            analysis.caveats.get(one.platform),
        )
        for one in found.accumulated
    ]
    common = ("platform", "workload", "parameters", "frame_size_bytes", "sources")
    tables = (
        CsvTable(
            "listed_rates",
            (
                *common,
                "target_mbit_per_second",
                "flat_out",
                "blocks",
                *mean_columns("offered"),
                *mean_columns("forwarded"),
                "caveat",
            ),
            tuple(points),
        ),
        CsvTable("sources", (*common, "blocks", *mean_columns("forwarded_at_most"), "caveat"), tuple(accumulated)),
    )
    return tuple(table for table in tables if table.rows)
