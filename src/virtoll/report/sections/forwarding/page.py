"""What the section prints on the page; no numbers are computed here."""

from typing import Any

from virtoll import units
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.forwarding.delay import delay_values
from virtoll.report.sections.forwarding.instrument import instrument_values
from virtoll.report.sections.forwarding.losses import loss_values
from virtoll.report.sections.forwarding.testbed import wiring_words


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
        **loss_values(analysis),
        **delay_values(analysis),
        **instrument_values(analysis),
    }
