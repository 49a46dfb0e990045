"""Routers beside other guests in the form of Schlosser et al. 2011, for the page.

No numbers are computed here: they come from `stats/neighbour_routers.py`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from virtoll import units
from virtoll.report.paper_parts import signed
from virtoll.report.rows import Shown, TableRow, platforms_of
from virtoll.runfolder.conditions import TRAFFIC_LOADS
from virtoll.stats.analysis import Analysis
from virtoll.stats.intervals import Estimate
from virtoll.stats.neighbour_routers import NeighbourRouter


def routers_values(analysis: Analysis) -> dict[str, Any] | None:
    """What the template prints; None where no router was measured beside other guests."""
    every = analysis.neighbour_routers
    if not every:
        return None
    computing = [router for router in every if router.condition.load not in TRAFFIC_LOADS]
    sent = [router for router in every if router.into_other is not None]
    return {
        "changes": _table(analysis, computing, _change),
        "traffic": _table(analysis, sorted(sent, key=_as_they_are_printed), _in_and_out),
    }


def _as_they_are_printed(router: NeighbourRouter) -> tuple[float, int]:
    """One of the paper's Tables 2 and 3 after the other, each with the largest frames first; sorting is stable."""
    return router.condition.rate_share or 0.0, -router.shape.frame_size_bytes


def _table(
    analysis: Analysis, routers: Sequence[NeighbourRouter], cell: Callable[[NeighbourRouter], Shown]
) -> dict[str, Any]:
    """A line for each condition and its frames, a column for each platform."""
    platforms = platforms_of(analysis, routers)
    lines: dict[tuple[str, str], dict[str, NeighbourRouter]] = {}
    for router in routers:
        lines.setdefault((router.condition.label, router.task.size), {})[router.platform] = router
    rows = []
    for (condition, size), there in lines.items():
        cells = (cell(there[label]) if label in there else Shown("–") for label in platforms)
        rows.append(TableRow(f"{size} frames beside {condition}", tuple(cells)))
    return {"platforms": platforms, "rows": rows}


def _change(router: NeighbourRouter) -> Shown:
    interval = router.change.interval
    small = f"{signed(interval.low)} to {signed(interval.high)}" if interval else ""
    return Shown(signed(router.change.value), small, but=router.caveat or "")


def _in_and_out(router: NeighbourRouter) -> Shown:
    return Shown(_mbit(router.out_of_other), f"of {_mbit(router.into_other)}")


def _mbit(estimate: Estimate | None) -> str:
    return "–" if estimate is None else units.significant(estimate.value)
