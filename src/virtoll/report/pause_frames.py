"""Pause frames of the NICs on the way: rows of the page's table, and the CSV table (`stats/pause_frames.py`)."""

from virtoll.report.csv_table import CsvTable
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.pause_frames import PauseRow, pause_counts, pause_rows


def pause_table_rows(analysis: Analysis) -> list[TableRow]:
    """One row a platform, task and interface, paced and flat out apart; empty where no interface counts any."""
    rows = pause_rows(pause_counts(analysis.tasks, analysis.data.trials))
    ordered = sorted(rows, key=lambda row: (analysis.tasks.index(row.task), analysis.platforms.index(row.platform)))
    return [_row(row) for row in ordered]


def _row(row: PauseRow) -> TableRow:
    return TableRow(
        row.platform,
        (
            Shown(row.task.size, "flat out" if row.flat_out else "paced, all rates"),
            Shown(row.interface, row.where),
            _frames(row.received_frames),
            _frames(row.sent_frames),
            Shown(str(row.points)),
        ),
    )


def _frames(count: int | None) -> Shown:
    return Shown("–", hint="its driver does not count them", kind="missing") if count is None else Shown(str(count))


def pause_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row an interface and point; nothing where no interface on the way counts pause frames."""
    header = (
        "trial",
        "block",
        "platform",
        "workload",
        "parameters",
        "point",
        "flat_out",
        "role",
        "where",
        "interface",
        "source",
        "received_frames",
        "sent_frames",
        "caveat",
    )
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.platform,
            one.task.workload,
            one.task.parameters,
            one.point,
            int(one.flat_out),
            one.role,
            one.where,
            one.interface,
            one.source,
            one.received_frames,
            one.sent_frames,
            analysis.caveats.get(one.platform),
        )
        for one in pause_counts(analysis.tasks, analysis.data.trials)
    )
    return (CsvTable("pause_frames", header, rows),) if rows else ()
