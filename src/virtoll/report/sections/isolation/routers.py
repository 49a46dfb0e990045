"""Routers beside other guests in the form of Schlosser et al. 2011, for the page.

No numbers are computed here: they come from `stats/routers_beside.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from virtoll import units
from virtoll.report.rows import Shown, TableRow
from virtoll.runfolder.conditions import TRAFFIC_LOADS
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.routers_beside import RouterBeside


def routers_values(analysis: Analysis) -> dict[str, Any] | None:
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
