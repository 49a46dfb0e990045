"""How rates go with routes and with guests side by side, for the page."""

from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import UNKNOWN, Shown, TableRow, known
from virtoll.stats.scaling import FACTORS, Scaling, Step


def scaling_values(source: ReportInput) -> dict[str, Any]:
    """What the template prints: for each factor the rows of all its steps."""
    factors = []
    for factor, title in FACTORS.items():
        scalings = [scaling for scaling in source.analysis.scalings if scaling.factor == factor]
        rows = [_row(scaling, step) for scaling in scalings for step in scaling.steps]
        if rows:
            factors.append({"name": factor, "title": title, "rows": rows, "side_by_side": factor != "routes"})
    return {"factors": factors}


def _row(scaling: Scaling, step: Step) -> TableRow:
    last = [known(step.median_load_ns, units.nanoseconds)]
    if step.factor != "routes":
        shares = Shown(", ".join(map(units.count, step.shares))) if step.shares else UNKNOWN
        last = [shares, known(step.jain, "{:.4f}".format)]
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
        return UNKNOWN
    low, high = min(step.ratios), max(step.ratios)
    return Shown(units.percent_estimate(step.ratio), f"{words.between(low, high)}, n = {len(step.ratios)}")
