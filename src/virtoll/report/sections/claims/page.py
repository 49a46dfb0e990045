"""The ledger of claims as text, for the page and the terminal. No numbers are computed here."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll import units
from virtoll.claims import Claim, Finding, Judged, JudgedTest, Outcome
from virtoll.reference.published import load_study, study_names
from virtoll.report import words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow
from virtoll.report.sections.claims.tables import FUNCTIONAL

OUTCOMES = (Outcome.REFUTED, Outcome.SUPPORTED, Outcome.NOT_DECIDED, Outcome.NOT_MEASURED)
OUTCOME_CLASS = {
    Outcome.SUPPORTED: "good",
    Outcome.REFUTED: "bad",
    Outcome.NOT_DECIDED: "warn",
    Outcome.NOT_MEASURED: "missing",
}
_TIMES_BELOW = 0.1  # a share that is better told as so many times slower
_MOST_SHOWN = 4  # findings of one test on the page; claims.csv has all


@dataclass(frozen=True)
class ClaimView:
    """One claim of the ledger as the page and the terminal print it: `tests` are (outcome, what it says, findings).

    `workloads`: what its tests are of.
    """

    id: str
    says: str
    source: str
    quotation: str
    note: str
    outcome: str
    kind: str
    tests: tuple[tuple[str, str, tuple[str, ...]], ...]
    workloads: tuple[str, ...]


def counts_line(ledger: Sequence[Judged]) -> str:
    """'46 claims: 3 refuted, 9 supported, 4 not decided, 30 not measured.'"""
    return outcomes_line([one.outcome for one in ledger])


def outcomes_line(outcomes: Sequence[Outcome]) -> str:
    """The same of outcomes alone."""
    found = Counter(outcomes)
    told = ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES if found[outcome])
    return f"{len(outcomes)} claim{'' if len(outcomes) == 1 else 's'}: {told}." if outcomes else "There are no claims."


def outcomes_shown(outcomes: Iterable[Outcome]) -> list[str]:
    """What the page may be filtered by: each outcome of a claim that was measured, once."""
    there = set(outcomes) - {Outcome.NOT_MEASURED}
    return [str(outcome) for outcome in OUTCOMES if outcome in there]


def claims_values(source: ReportInput) -> dict[str, Any] | None:
    """The claims that the run says something about, and why the others are not measured; None if there are none."""
    if not source.ledger:
        return None
    measured = [judged for judged in source.ledger if judged.outcome is not Outcome.NOT_MEASURED]
    return {
        "line": counts_line(source.ledger),
        "measured": [view(judged) for judged in sorted(measured, key=lambda judged: OUTCOMES.index(judged.outcome))],
        "missing": [_missing(judged) for judged in source.ledger if judged.outcome is Outcome.NOT_MEASURED],
    }


def view(judged: Judged) -> ClaimView:
    """A claim in words, with the findings that its outcome rests on."""
    claim = judged.claim
    return ClaimView(
        id=claim.id,
        says=claim.says,
        source=source_words(claim),
        quotation=claim.quotation,
        note=claim.note,
        outcome=str(judged.outcome),
        kind=OUTCOME_CLASS[judged.outcome],
        tests=tuple((str(one.outcome), _asked(one), _shown(one)) for one in judged.tests),
        workloads=workloads_of(judged.claim),
    )


def workloads_of(claim: Claim) -> tuple[str, ...]:
    """The workloads that a claim is about; none if it is about all of them."""
    return tuple(dict.fromkeys(name for one in claim.tests for name in one.workloads))


def source_words(claim: Claim) -> str:
    """Who says it and where, and what of it is ours."""
    known = claim.paper is not None and claim.paper in study_names()
    paper = load_study(claim.paper).short if claim.paper is not None and known else claim.paper
    where = f"{paper}, {claim.source}" if paper else claim.source
    ours = ["inferred, not said"] if claim.inferred else []
    ours += ["our bounds"] if claim.bounds == "ours" else []
    return f"{where} ({', '.join(ours)})" if ours else where


def _missing(judged: Judged) -> TableRow:
    claim = judged.claim
    reasons = dict.fromkeys(one.missing for one in judged.tests)
    return TableRow(claim.id, (Shown(claim.says, source_words(claim)), Shown("; ".join(reasons))))


def _asked(tested: JudgedTest) -> str:
    """What a test asks for: 'forwards 1500-byte frames as fast as native'; with what is lacking."""
    if tested.missing:
        return f"{tested.test.says}: {tested.missing}"
    return tested.test.says


def _shown(tested: JudgedTest) -> tuple[str, ...]:
    """The findings that decide come first; of many only some are shown."""
    ordered = sorted(tested.findings, key=lambda one: (one.functional, OUTCOMES.index(one.outcome)))
    texts = [finding_words(tested, one) for one in ordered]
    left = len(texts) - _MOST_SHOWN
    return tuple(texts if left <= 1 else [*texts[:_MOST_SHOWN], f"and {left} more"])


def finding_words(tested: JudgedTest, found: Finding) -> str:
    """'netns, IP forwarding 64 B: 36 % of native (34 to 38 %)', and its outcome where that is not the test's."""
    of_several = "all together" if tested.test.together else ""
    what = ", ".join(filter(None, (found.platform, found.task, found.under, of_several)))
    said = _numbers(tested, found)
    reason = f" ({found.reason})" if found.reason else ""
    outcome = FUNCTIONAL if found.functional else str(found.outcome)
    told = [said, "" if outcome == tested.outcome and said else outcome]
    return f"{what}: {', '.join(filter(None, told))}{reason}"


def _numbers(tested: JudgedTest, found: Finding) -> str:
    if found.estimate is None:
        return ""
    ends = (found.interval.low, found.interval.high) if found.interval else None
    if found.unit:
        if found.unit != "share":
            one = words.estimate(found.estimate, found.interval, found.unit)
            return one if ends is None else f"{one} ({words.outward(*ends, found.unit)})"
        one = _error(found.estimate)
        return one if ends is None else f"{one} ({_error(ends[0])} to {_error(ends[1])})"
    if tested.test.times_slower is not None:
        return _times_slower(found.estimate, ends, f"as long as {found.against}")
    if found.estimate < _TIMES_BELOW and not tested.test.relative_to_baseline and tested.test.per is None:
        return _times_slower(found.estimate, ends, f"slower than {found.against}")
    share = words.share(found.estimate, found.interval)
    if tested.test.relative_to_baseline:
        told = f"relative to the baseline it does {share} of what it does at {found.against}"
    elif tested.test.per is not None:
        told = f"{share} of {found.against}, for each of its {tested.test.per.replace('_', ' ')}"
    else:
        told = f"{share} of {found.against}"
    return told if ends is None else f"{told} ({words.ends(*ends)})"


def _error(value: float) -> str:
    """A clock's relative error: '1.20 %', '35 ppm'."""
    if value >= 0.001:
        return units.percent(value)
    return "0" if value < 5e-8 else units.parts_per_million(value).removeprefix("+")


def _times_slower(share: float, ends: tuple[float, float] | None, told: str) -> str:
    """How many times as long it takes: '2.3 times as long as native (2.1 to 2.6)'."""
    if ends is None:
        return f"{units.significant(1 / share)} times {told}"
    low, high = 0.0 if math.isinf(ends[1]) else 1 / ends[1], math.inf if ends[0] <= 0 else 1 / ends[0]
    factor = units.significant(1 / share, units.digits_within(1 / share, low, high))
    return f"{factor} times {told} ({words.outward(low, high, '')})"


def claims_lines(ledger: Sequence[Judged]) -> list[str]:
    """The ledger for the terminal, a claim with what it rests on; those not measured are counted by reason."""
    lines = []
    for judged in ledger:
        if judged.outcome is Outcome.NOT_MEASURED:
            continue
        shown = view(judged)
        lines += [f"{shown.id} {shown.outcome}: {shown.says}", f"    {shown.source}"]
        for outcome, says, findings in shown.tests:
            lines += [f"  {outcome}: {says}", *(f"    {one}" for one in findings)]
    untold: dict[str, list[str]] = {}
    for judged in ledger:
        if judged.outcome is Outcome.NOT_MEASURED:
            untold.setdefault("; ".join(dict.fromkeys(one.missing for one in judged.tests)), []).append(judged.claim.id)
    lines += [f"not measured: {', '.join(ids)}: {reason}" for reason, ids in untold.items()]
    return [*lines, counts_line(ledger)]
