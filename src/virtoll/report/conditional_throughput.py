"""The page's part on NDR and PDR and the delay below them, and its CSV tables.

No numbers are computed here: they come from ``stats/conditional_throughput.py``.
"""

from typing import Any

from virtoll import units
from virtoll.report.csv_table import CsvTable, Row
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.conditional_throughput import (
    PERCENTILES,
    DelayBelow,
    ThroughputRow,
    delays_below,
)

_UNKNOWN = Shown("–", kind="missing")


def throughput_context(analysis: Analysis) -> dict[str, Any]:
    """What ``conditional_throughput.html.j2`` prints."""
    return {
        "rows": [_row(one) for one in analysis.searches],
        "delays": [_delay_row(one) for one in delays_below(analysis.tasks, analysis.data.trials)],
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
            _rate(row.conditional_throughput, "at least " if generator_bound else ""),
            _rate(row.lower),
            upper,
            Shown(" to ".join(map(units.nanoseconds, dict.fromkeys((*row.trial_ns[:1], *row.trial_ns[-1:])))) or "–"),
            Shown(f"{goal.exceed_ratio:g}"),
            Shown(", ".join(row.ended), f"n = {len(row.found)}"),
        ),
    )


def _rate(rate: float | None, before: str = "") -> Shown:
    return _UNKNOWN if rate is None else Shown(before + units.count(rate))


def _delay_row(row: DelayBelow) -> TableRow:
    return TableRow(
        row.platform,
        (
            Shown(row.task.size),
            Shown(units.percent(row.share_of_pdr), f"{units.count(row.rate)} frames/s"),
            *(Shown(units.nanoseconds(one)) for one in row.percentiles_ns),
            Shown(units.count(row.samples), f"{row.lost_frames} lost"),
        ),
    )


def throughput_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a search and goal, and one a platform and share of the PDR; nothing where none was searched for."""
    if not analysis.searches:
        return ()
    bounds = [
        f"{bound}_{value}" for bound in ("lower", "upper") for value in ("frames_per_second", "trial_ns", "trials")
    ]
    header = (
        "platform",
        "parameters",
        "goal",
        "loss_ratio",
        "exceed_ratio",
        "relative_width",
        "sum_seconds",
        "ended",
        "conditional_throughput_frames_per_second",
        *bounds,
    )
    rows: list[Row] = []
    for row in analysis.searches:
        for one in row.found:
            ends = [
                (bound.rate_frames_per_second, bound.trial_ns, len(bound.points)) if bound else (None, None, None)
                for bound in (one.lower, one.upper)
            ]
            rows.append(
                (
                    row.platform,
                    row.task.parameters,
                    one.name,
                    one.loss_ratio,
                    one.exceed_ratio,
                    one.relative_width,
                    one.sum_seconds,
                    one.ended,
                    one.conditional_throughput_frames_per_second,
                    *ends[0],
                    *ends[1],
                )
            )
    names = tuple(f"p{share * 100:g}_ns".replace(".", "_") for share in PERCENTILES)
    delay_header = ("platform", "parameters", "share_of_pdr", "rate", *names, "samples", "lost_frames")
    delay_rows: list[Row] = [
        (d.platform, d.task.parameters, d.share_of_pdr, d.rate, *d.percentiles_ns, d.samples, d.lost_frames)
        for d in delays_below(analysis.tasks, analysis.data.trials)
    ]
    return (
        CsvTable("conditional_throughput", header, tuple(rows)),
        CsvTable("delay_below_pdr", delay_header, tuple(delay_rows)),
    )
