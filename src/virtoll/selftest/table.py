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
            "check": one.check,
            "fault": one.what,
            "injected": _number(one.injected, one.unit),
            "measured": _number(one.measured.value, one.unit) if one.measured else "",
            "interval (95 %)": _interval(one),
            "outcome": one.outcome.value if not one.reason else f"{one.outcome.value}: {one.reason}",
        }
        for one in findings
    ]


def csv_text(findings: Sequence[Finding]) -> str:
    """The same as CSV, numbers with all their digits."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(HEADER)
    for one in findings:
        measured = (one.measured.value, one.measured.low, one.measured.high) if one.measured else (None, None, None)
        writer.writerow((one.check, one.what, one.unit, one.injected, *measured, one.outcome, one.rule, one.reason))
    return out.getvalue()


def document(findings: Sequence[Finding]) -> dict[str, Any]:
    """The same as JSON."""
    return {"found_all": found_all(findings), "findings": [asdict(one) for one in findings]}


def found_all(findings: Sequence[Finding]) -> bool:
    """Whether nothing was missed, and something was tested."""
    outcomes = {one.outcome for one in findings}
    return Outcome.MISSED not in outcomes and Outcome.FOUND in outcomes


def summary(findings: Sequence[Finding]) -> str:
    """One sentence."""
    counts = {outcome: sum(one.outcome == outcome for one in findings) for outcome in Outcome}
    words = ", ".join(f"{number} {outcome.value}" for outcome, number in counts.items() if number)
    return f"selftest: {words or 'nothing was tested'}"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.4g} {unit}".rstrip()


def _interval(one: Finding) -> str:
    measured = one.measured
    if measured is None or measured.low == measured.high:
        return ""
    return f"{measured.low:.4g} to {measured.high:.4g}"
