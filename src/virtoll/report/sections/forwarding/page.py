"""What the section prints on the page; no numbers are computed here."""

from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, in_order, known
from virtoll.report.sections.forwarding.delay import delay_values
from virtoll.report.sections.forwarding.instrument import instrument_values
from virtoll.report.sections.forwarding.losses import loss_values
from virtoll.report.sections.forwarding.testbed import wiring_words
from virtoll.stats.far_rates import FarRate, far_rates


def forwarding_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if guests were measured at once."""
    analysis = source.analysis
    if analysis.at_once.points:
        return None
    lengths = sorted({point.duration_ns for point in analysis.points})
    return {
        "testbed": wiring_words(analysis.data.manifest),
        "cautions": analysis.cautions,
        "point_lengths": " and ".join(map(units.nanoseconds, lengths)),
        "far": list(map(_far_row, in_order(analysis, far_rates(analysis.observations)))),
        **loss_values(analysis),
        **delay_values(analysis),
        **instrument_values(analysis),
    }


def _far_row(rate: FarRate) -> TableRow:
    def value(number: float) -> str:
        return units.value(number, rate.task.metric.unit)

    return TableRow(
        rate.platform,
        (
            Shown(rate.task.label),
            known(rate.near, value, words.counted(rate.near_trials, "trial")),
            known(rate.far, value, words.counted(rate.far_trials, "trial")),
            known(rate.share, units.percent),
            Shown(str(rate.changed_trials)),
            Shown(str(rate.left_out)),
            known(rate.explained, units.percent),
        ),
    )
