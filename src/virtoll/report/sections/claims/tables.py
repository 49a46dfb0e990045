"""`claims.csv`: a row a claim; `claims_findings.csv`: all that the outcomes rest on. The same for a program."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from virtoll.claims import Claim, Finding, Judged, JudgedTest
from virtoll.report.csv_table import record
from virtoll.report.table import Column, Table, answer, count, number, of_interval, of_part, shared, text
from virtoll.stats.compare import Verdict

FUNCTIONAL: Final = str(Verdict.FUNCTIONAL)
_SHARE: Final = "share of performance"


@dataclass(frozen=True)
class FindingRow:
    """A finding of a claim's test; None if something of the test was not measured."""

    claim: Claim
    place: int
    tested: JudgedTest
    finding: Finding | None


def finding_rows(ledger: Sequence[Judged]) -> Iterator[FindingRow]:
    """Every finding in the ledger's order, and a row without one for each test that has none."""
    for judged in ledger:
        for place, tested in enumerate(judged.tests):
            for finding in tested.findings or (None,):
                yield FindingRow(judged.claim, place, tested, finding)


def _reason(row: FindingRow) -> str | None:
    return row.tested.missing if row.finding is None else row.finding.reason or None


CLAIMS: Final = Table[Judged](
    "claims",
    "a claim",
    lambda source: source.ledger,
    (
        shared("claim", lambda judged: judged.claim.id),
        shared("paper", lambda judged: judged.claim.paper),
        shared("source", lambda judged: judged.claim.source),
        shared("says", lambda judged: judged.claim.says),
        text(
            "bounds",
            "printed: the source prints the numbers that its tests ask for; ours: it does not",
            lambda judged: judged.claim.bounds,
        ),
        answer(
            "inferred",
            "whether it follows from the source, which does not say it",
            lambda judged: judged.claim.inferred,
        ),
        shared("outcome", lambda judged: str(judged.outcome)),
    ),
    optional=True,
)

_OF_TEST: Final[tuple[Column[FindingRow], ...]] = (
    shared("claim", lambda row: row.claim.id),
    count("test", "the test's number within the claim, from 0", lambda row: row.place),
    shared("says", lambda row: row.tested.test.says),
    number(
        "at_least",
        "as the estimate",
        "the bound from below that is asked for",
        lambda row: row.tested.test.asked.at_least,
    ),
    number("at_most", "as the estimate", "the bound from above", lambda row: row.tested.test.asked.at_most),
    text("test_outcome", "of the whole test", lambda row: str(row.tested.outcome)),
)
_OF_FINDING: Final[tuple[Column[Finding], ...]] = (
    shared("platform", lambda finding: finding.platform),
    shared("task", lambda finding: finding.task),
    shared("under", lambda finding: finding.under or None),
    shared("against", lambda finding: finding.against or None),
    text("unit", "of the estimate: share, or a metric's unit", lambda finding: finding.unit or _SHARE),
    shared("blocks", lambda finding: finding.blocks),
    number("estimate", "`unit`", "the ratio or the value", lambda finding: finding.estimate),
    shared("interval_low", lambda finding: finding.interval and finding.interval.low),
    shared("interval_high", lambda finding: finding.interval and finding.interval.high),
    *of_interval(
        ("simultaneous_low", "simultaneous_high"),
        "`unit`",
        "the low end of the interval that holds with all others of the claim",
        lambda finding: finding.simultaneous,
    ),
    text(
        "method",
        "how the intervals were made",
        lambda finding: finding.interval and finding.interval.method,
    ),
    shared("caveat", lambda finding: finding.caveat),
    shared("outcome", lambda finding: FUNCTIONAL if finding.functional else str(finding.outcome)),
)

FINDINGS: Final = Table[FindingRow](
    "claims_findings",
    "a ratio or value that a claim's test rests on",
    lambda source: finding_rows(source.ledger) if source.ledger else None,
    (*_OF_TEST, *of_part(_OF_FINDING, lambda row: row.finding), shared("reason", _reason)),
)


def claims_document(ledger: Sequence[Judged]) -> list[dict[str, Any]]:
    """The ledger for a program: each claim with its tests, and each test with its findings; an open end is null."""
    return [
        {
            "claim": judged.claim.model_dump(
                include={"id", "paper", "source", "quotation", "says", "note", "bounds", "inferred"}
            ),
            "outcome": str(judged.outcome),
            "tests": list(map(_test_document, judged.tests)),
        }
        for judged in ledger
    ]


def _test_document(tested: JudgedTest) -> dict[str, Any]:
    return {
        "says": tested.test.says,
        "asked": {"at_least": tested.test.asked.at_least, "at_most": tested.test.asked.at_most},
        "outcome": str(tested.outcome),
        "missing": tested.missing or None,
        "findings": list(map(_finding_record, tested.findings)),
        "link_mbit_per_second": tested.test.link_mbit_per_second,
        "beyond_link": list(map(_finding_record, tested.beyond)),
    }


def _finding_record(finding: Finding) -> dict[str, Any]:
    """The cells of a finding; a share of performance has no end below, so that its low end of zero is an open one."""
    cells = {column.name: column.value(finding) for column in _OF_FINDING}
    if cells["unit"] == _SHARE:
        for name in ("interval_low", "simultaneous_low"):
            cells[name] = -math.inf if cells[name] == 0 else cells[name]
    cells["reason"] = finding.reason or None
    return record(tuple(cells), tuple(cells.values()))
