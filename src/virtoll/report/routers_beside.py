"""Routers beside other guests in the form of Schlosser et al. 2011, for the page and CSV.

No numbers are computed here: they come from `stats/routers_beside.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from virtoll import units
from virtoll.report.csv_table import CsvTable, mean_cells, mean_columns
from virtoll.report.rows import Shown, TableRow
from virtoll.runfolder.conditions import TRAFFIC_LOADS
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.routers_beside import RouterBeside


def routers_beside_context(analysis: Analysis) -> dict[str, Any] | None:
    """What the template prints; None where no router was measured beside other guests."""
    every = analysis.routers_beside
    if not every:
        return None
    computing = [one for one in every if one.condition.load not in TRAFFIC_LOADS]
    sent = [one for one in every if one.into_other is not None]
    return {
        "changes": _table(analysis, computing, _change),
        "traffic": _table(analysis, sorted(sent, key=_as_they_are_printed), _in_and_out),
    }


def _as_they_are_printed(one: RouterBeside) -> tuple[float, int]:
    """One of the paper's Tables 2 and 3 after the other, each with the largest frames first; sorting is stable."""
    return one.condition.rate_share or 0.0, -one.shape.frame_size_bytes


def _table(analysis: Analysis, own: Sequence[RouterBeside], cell: Callable[[RouterBeside], Shown]) -> dict[str, Any]:
    """A line for each condition and its frames, a column for each platform."""
    platforms = [label for label in analysis.platforms if any(one.platform == label for one in own)]
    lines: dict[tuple[str, str], dict[str, RouterBeside]] = {}
    for one in own:
        lines.setdefault((one.condition.label, one.task.size), {})[one.platform] = one
    rows = [
        TableRow(
            f"{size} frames beside {condition}",
            tuple(cell(there[label]) if label in there else Shown("–") for label in platforms),
        )
        for (condition, size), there in lines.items()
    ]
    return {"platforms": platforms, "rows": rows}


def _change(one: RouterBeside) -> Shown:
    interval = one.change.interval
    small = f"{signed(interval.low)} to {signed(interval.high)}" if interval else ""
    return Shown(signed(one.change.value), small, but=one.caveat or "")


def signed(share: float) -> str:
    """A change as the paper prints it: '+4.20 %', '−18.2 %', '0 %'."""
    return f"+{units.percent(share)}" if share > 0 else units.percent(share)


def _in_and_out(one: RouterBeside) -> Shown:
    return Shown(_mbit(one.out_of_other), f"of {_mbit(one.into_other)}")


def _mbit(estimate: Estimate | None) -> str:
    return "–" if estimate is None else units.significant(estimate.value)


def routers_beside_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """`routers_beside.csv`: a row a platform, condition and frames; none where no router was beside other guests."""
    if not analysis.routers_beside:
        return ()
    header = (
        "platform", "condition", "load", "rate_share", "workload", "parameters", "frame_size_bytes", "sources",
        "blocks", *mean_columns("alone"), *mean_columns("beside"), "change", "change_low", "change_high",
        *mean_columns("into_other"), *mean_columns("out_of_other"), "caveat",
    )  # fmt: skip
    rows = tuple(
        (
            one.platform,
            one.condition.label,
            one.condition.load,
            one.condition.rate_share,
            one.task.workload,
            one.task.parameters,
            one.shape.frame_size_bytes,
            one.shape.sources,
            one.blocks,
            *mean_cells(one.alone),
            *mean_cells(one.beside),
            *mean_cells(one.change),
            *mean_cells(one.into_other),
            *mean_cells(one.out_of_other),
            one.caveat,
        )
        for one in analysis.routers_beside
    )
    return (CsvTable("routers_beside", header, rows),)
