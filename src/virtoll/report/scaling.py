"""The page's part on how rates go with routes and with guests side by side, and its CSV table.

No numbers are computed here: they come from ``stats/scaling.py``.
"""

from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.csv_table import CsvTable, Row
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.scaling import FACTORS, Scaling, Step

_UNKNOWN = Shown("–", kind="missing")


def scaling_context(analysis: Analysis) -> dict[str, Any]:
    """What ``scaling.html.j2`` prints: for each factor the rows of all its steps."""
    factors = []
    for factor, title in FACTORS.items():
        own = [one for one in analysis.scalings if one.factor == factor]
        if own:
            rows = [_row(one, step) for one in own for step in one.steps]
            factors.append({"name": factor, "title": title, "rows": rows, "side_by_side": factor != "routes"})
    return {"factors": factors}


def _row(scaling: Scaling, step: Step) -> TableRow:
    last: tuple[Shown, ...]
    if step.factor == "routes":
        loads = sorted(step.load_ns)
        last = (Shown(units.nanoseconds(loads[len(loads) // 2])) if loads else _UNKNOWN,)
    else:
        last = (
            Shown(", ".join(map(units.count, step.shares))) if step.shares else _UNKNOWN,
            Shown(f"{step.jain:.4f}") if step.jain is not None else _UNKNOWN,
        )
    return TableRow(
        scaling.platform,
        (
            Shown(f"{step.size:,}".replace(",", "\u00a0"), scaling.words),
            Shown(units.count(step.rate), f"{units.count(min(step.rates))} to {units.count(max(step.rates))}"),
            _ratio(step),
            *last,
        ),
    )


def _ratio(step: Step) -> Shown:
    if step.ratio is None:
        return _UNKNOWN
    low, high = min(step.ratios), max(step.ratios)
    return Shown(units.percent_estimate(step.ratio), f"{words.between(low, high)}, n = {len(step.ratios)}")


def scaling_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a platform and size; nothing where no factor has two sizes."""
    header = (
        "platform",
        "factor",
        "size",
        "parameters",
        "blocks",
        "rate_frames_per_second",
        "rate_low",
        "rate_high",
        "share_of_smallest",
        "share_low",
        "share_high",
        "load_ns",
        "jain",
        "caveat",
    )
    rows: list[Row] = []
    for one in analysis.scalings:
        for step in one.steps:
            loads = sorted(step.load_ns)
            rows.append(
                (
                    one.platform,
                    one.factor,
                    step.size,
                    step.task.parameters,
                    len(step.rates),
                    step.rate,
                    min(step.rates),
                    max(step.rates),
                    step.ratio,
                    min(step.ratios, default=None),
                    max(step.ratios, default=None),
                    loads[len(loads) // 2] if loads else None,
                    step.jain,
                    analysis.caveats.get(one.platform),
                )
            )
    return (CsvTable("scaling", header, tuple(rows)),) if rows else ()
