"""Rates without loss (NDR and PDR) and the delay below them, for the page.

No numbers are computed here: they come from `stats/conditional_throughput.py`.
"""

from typing import Any

from virtoll import units
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, known
from virtoll.stats.conditional_throughput import PERCENTILES, DelayBelow, ThroughputRow, delays_below


def throughput_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if nothing was searched for."""
    analysis = source.analysis
    if not analysis.searches:
        return None
    return {
        "rows": list(map(_row, analysis.searches)),
        "delays": list(map(_delay_row, delays_below(analysis.tasks, analysis.data.trials))),
        "percentiles": [f"p{share * 100:g}" for share in PERCENTILES],
    }


def _row(row: ThroughputRow) -> TableRow:
    goal = row.found[0]
    generator_bound = "generator-bound" in row.ended
    upper = Shown("not known", "generator-bound") if generator_bound and row.upper is None else _rate(row.upper)
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(goal.name.upper(), f"loss at most {units.percent(goal.loss_ratio)}"),
            _rate(row.conditional_throughput, "at least " if row.is_lower_bound else ""),
            _rate(row.lower),
            upper,
            Shown(" to ".join(map(units.nanoseconds, dict.fromkeys((*row.trial_ns[:1], *row.trial_ns[-1:])))) or "–"),
            Shown(f"{goal.exceed_ratio:g}"),
            Shown(", ".join(row.ended), f"n = {len(row.found)}"),
        ),
    )


def _rate(rate: float | None, before: str = "") -> Shown:
    return known(rate, lambda there: before + units.count(there))


def _delay_row(row: DelayBelow) -> TableRow:
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(units.percent(row.share_of_pdr), f"{units.count(row.rate)} frames/s"),
            *(Shown(units.nanoseconds(value)) for value in row.percentiles_ns),
            Shown(units.count(row.samples), f"{row.lost_frames} lost"),
        ),
    )
