"""The findings as a table: for a terminal, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from virtoll.selftest.findings import Finding, Outcome

HEADER = ("check", "fault", "unit", "injected", "measured", "low", "high", "outcome", "rule", "reason")


def rows(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """For a terminal: text in every cell."""
    return [
        {
            "check": finding.check,
            "fault": finding.what,
            "injected": _number(finding.injected, finding.unit),
            "measured": _number(finding.measured.value, finding.unit) if finding.measured else "",
            "interval (95 %)": _interval(finding),
            "outcome": finding.outcome.value if not finding.reason else f"{finding.outcome.value}: {finding.reason}",
        }
        for finding in findings
    ]


def csv_text(findings: Sequence[Finding]) -> str:
    """The same as CSV, numbers with all their digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for finding in findings:
        measured = finding.measured
        values = (measured.value, measured.low, measured.high) if measured else (None, None, None)
        injected = (finding.check, finding.what, finding.unit, finding.injected)
        writer.writerow((*injected, *values, finding.outcome, finding.rule, finding.reason))
    return out.getvalue()


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same as JSON."""
    return {
        "found_all": found_all(findings),
        "passed": passed(findings),
        "findings": [asdict(finding) for finding in findings],
    }


def found_all(findings: Sequence[Finding]) -> bool:
    """Whether all that was tested was found, and something was tested."""
    return passed(findings) and all(finding.outcome is not Outcome.NOT_DECIDED for finding in findings)


def passed(findings: Sequence[Finding]) -> bool:
    """Whether nothing was missed, and something was found: what a noisy host left too wide is no failure."""
    outcomes = {finding.outcome for finding in findings}
    return Outcome.MISSED not in outcomes and Outcome.FOUND in outcomes


def summary(findings: Sequence[Finding]) -> str:
    """One sentence."""
    counts = {outcome: sum(finding.outcome == outcome for finding in findings) for outcome in Outcome}
    words = ", ".join(f"{number} {outcome.value}" for outcome, number in counts.items() if number)
    return f"selftest: {words or 'nothing was tested'}"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}".rstrip()


def _interval(finding: Finding) -> str:
    measured = finding.measured
    if measured is None or measured.low == measured.high:
        return ""
    return f"{measured.low:.4g} to {measured.high:.4g}"
