"""One-way delay, order and fairness of the frames that arrived, as rows of text for the page.

No numbers are computed here: they come from `stats/wire.py`, `stats/order.py` and `stats/ceilings.py`.
"""

from typing import Any

from virtoll import units
from virtoll.report.rows import UNKNOWN, Shown, TableRow, in_order, known
from virtoll.stats.analysis import Analysis
from virtoll.stats.ceilings import Ceiling, Floor
from virtoll.stats.order import OrderRow, order_rows
from virtoll.stats.wire import DelayRow, FairRow, delay_rows, fair_rows


def delay_values(analysis: Analysis) -> dict[str, Any]:
    """What the template prints of delay, order and several sources."""
    tasks, trials = analysis.tasks, analysis.data.trials
    return {
        "delays": list(map(_delay_row, in_order(analysis, delay_rows(tasks, trials)))),
        "floors": [_floor_row(ceiling, ceiling.floor) for ceiling in analysis.ceilings if ceiling.floor],
        "orders": list(map(_order_row, in_order(analysis, order_rows(tasks, trials)))),
        "fair": list(map(_fair_row, in_order(analysis, fair_rows(tasks, trials)))),
    }


def _delay_row(row: DelayRow) -> TableRow:
    ns = units.nanoseconds
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(units.count(row.target_rate), row.what),
            Shown(ns(row.minimum_ns)),
            Shown(ns(row.p50_ns)),
            Shown(ns(row.p90_ns)),
            Shown(ns(row.p99_ns)),
            Shown(ns(row.maximum_ns)),
            Shown(ns(row.variation_ns)),
            Shown(str(row.samples)),
        ),
    )


def _order_row(row: OrderRow) -> TableRow:
    placed = "" if row.known_frames == row.reordered_frames else f"of {row.known_frames} whose place is known"
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(str(row.reordered_frames), units.percent(row.ratio)),
            known(row.mean_extent, units.significant, placed),
            known(row.largest_extent, str),
            known(row.largest_late_ns, units.nanoseconds),
            Shown(units.percent(row.three_reordered_share) if row.three_reordered_share else "0"),
            known(row.displaced_share, units.percent),
            known(row.largest_displacement, str),
        ),
    )


def _floor_row(ceiling: Ceiling, floor: Floor) -> TableRow:
    ns = units.nanoseconds
    return TableRow(
        "instrument alone",
        (
            Shown(ceiling.shape.description),
            Shown(units.count(floor.rate), f"{ceiling.backend}, {ceiling.sink or 'sink not reported'}"),
            Shown(ns(floor.minimum_ns)),
            Shown(ns(floor.p50_ns)),
            UNKNOWN,
            Shown(ns(floor.p99_ns)),
            Shown(ns(floor.maximum_ns)),
            Shown(ns(floor.p99_ns - floor.minimum_ns)),
            UNKNOWN,
        ),
    )


def _fair_row(row: FairRow) -> TableRow:
    rates = ", ".join(map(units.count, row.rates))
    return TableRow(row.platform, (Shown(row.task.size), Shown(rates), Shown(f"{row.jain:.4f}")))
