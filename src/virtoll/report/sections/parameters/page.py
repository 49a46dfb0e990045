"""Values over a parameter, for the page: the figures have them."""

from typing import Any

from virtoll.report.report_input import ReportInput


def parameters_values(source: ReportInput) -> dict[str, Any] | None:
    """The panels of all figures; None if no parameter has three values."""
    panels = source.analysis.over_parameters
    return {"panels": panels} if panels else None
