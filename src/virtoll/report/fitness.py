"""How far a run's host can be believed, for a program: of a report, and of each run that is compared."""

from typing import Any

from virtoll.report.headline import host_line
from virtoll.stats.analysis import Analysis
from virtoll.stats.fitness import FitnessReading


def fitness_document(analysis: Analysis) -> dict[str, Any]:
    """Level, the line of the page, reasons, and each reading with its limits."""
    return {
        "level": str(analysis.fitness.level),
        "words": host_line(analysis),
        "reasons": list(analysis.fitness.reasons),
        "readings": list(map(_reading, analysis.fitness.findings)),
    }


def _reading(finding: FitnessReading) -> dict[str, object]:
    return {
        "name": finding.threshold.name,
        "meaning": finding.threshold.meaning,
        "value": finding.value,
        "degraded_from": finding.threshold.degraded,
        "unfit_from": finding.threshold.unfit,
        "level": finding.level and str(finding.level),
    }
