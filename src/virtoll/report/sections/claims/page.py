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
from virtoll.report.rows import Shown, TableRow, grouped
from virtoll.report.sections.claims.tables import FUNCTIONAL

OUTCOMES = (Outcome.REFUTED, Outcome.SUPPORTED, Outcome.NOT_SEEN, Outcome.NOT_DECIDED, Outcome.NOT_MEASURED)
OUTCOME_CLASS = {
    Outcome.SUPPORTED: "good",
    Outcome.REFUTED: "bad",
    Outcome.NOT_SEEN: "warn",
    Outcome.NOT_DECIDED: "warn",
    Outcome.NOT_MEASURED: "missing",
}
Tests = tuple[tuple[str, str, tuple[str, ...]], ...]
_TIMES_BELOW = 0.1  # a share that is better said as so many times slower
_MOST_SHOWN = 4  # findings of one test on the page; claims.csv has all


def counts_line(ledger: Sequence[Judged]) -> str:
    """'46 claims: 3 refuted, 9 supported, 4 not decided, 30 not measured.'"""
    return outcomes_line([judged.outcome for judged in ledger])


def outcomes_line(outcomes: Sequence[Outcome]) -> str:
    """The same of outcomes alone."""
    if not outcomes:
        return "There are no claims."
    counts = Counter(outcomes)
    parts = ", ".join(f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome])
    return f"{words.counted(len(outcomes), 'claim')}: {parts}."


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
        "measured": list(map(view, sorted(measured, key=lambda judged: OUTCOMES.index(judged.outcome)))),
        "missing": [_missing(judged) for judged in source.ledger if judged.outcome is Outcome.NOT_MEASURED],
    }


@dataclass(frozen=True)
class ClaimView:
    """A claim as the page prints it: `tests` are (outcome, what it says, findings), and `workloads` those of its tests.

    Of several runs, `runs` are (run, its outcome, its tests), and `error` is the chance to be wrong.
    """

    claim: Claim
    source: str
    outcome: Outcome
    kind: str
    tests: Tests
    workloads: tuple[str, ...]
    runs: tuple[tuple[str, Outcome, Tests], ...] = ()
    error: str = ""


def view(judged: Judged) -> ClaimView:
    """A claim in words, with the findings that its outcome rests on."""
    claim, outcome = judged.claim, judged.outcome
    tests = tuple((str(tested.outcome), _test_words(tested), _shown(tested)) for tested in judged.tests)
    return ClaimView(claim, source_words(claim), outcome, OUTCOME_CLASS[outcome], tests, workloads_of(claim))


def workloads_of(claim: Claim) -> tuple[str, ...]:
    """The workloads that a claim is about; none if it is about all of them."""
    return tuple(dict.fromkeys(name for test in claim.tests for name in test.workloads))


def source_words(claim: Claim) -> str:
    """Who says it and where, and what of it is ours."""
    paper = claim.paper
    if paper is not None and paper in study_names():
        paper = load_study(paper).short
    inferred = "inferred, not said" if claim.inferred else ""
    bounds = "our bounds" if claim.bounds == "ours" else ""
    return words.with_commas(paper, claim.source) + words.bracketed(words.with_commas(inferred, bounds))


def _missing(judged: Judged) -> TableRow:
    claim = judged.claim
    return TableRow(claim.id, (Shown(claim.says, source_words(claim)), Shown(_reasons(judged))))


def _reasons(judged: Judged) -> str:
    """Why it is not measured."""
    return "; ".join(dict.fromkeys(tested.missing for tested in judged.tests))


def _test_words(tested: JudgedTest) -> str:
    """What a test asks for: 'forwards 1500-byte frames as fast as native'; with what is lacking."""
    says, link = tested.test.says, tested.test.link_mbit_per_second
    if link is not None:
        says = f"{says}, of what a link of {link:g} Mbit/s carries"
    return f"{says}: {tested.missing}" if tested.missing else says


def _shown(tested: JudgedTest) -> tuple[str, ...]:
    """The findings that decide come first; of many only some are shown."""
    ordered = sorted(tested.findings, key=lambda finding: (finding.functional, OUTCOMES.index(finding.outcome)))
    texts = [finding_words(tested, finding) for finding in ordered]
    return (*_some(texts), *_some([f"by a faster link, {finding_words(tested, finding)}" for finding in tested.beyond]))


def _some(texts: list[str]) -> list[str]:
    left = len(texts) - _MOST_SHOWN
    return texts if left <= 1 else [*texts[:_MOST_SHOWN], f"and {left} more"]


def finding_words(tested: JudgedTest, finding: Finding) -> str:
    """'netns, IP forwarding 64 B: 36 % of native (34 to 38 %)', and its outcome if that is not the test's."""
    of_several = "all together" if tested.test.together else ""
    what = words.with_commas(finding.platform, finding.task, finding.under, of_several)
    numbers = _numbers(tested, finding)
    outcome = FUNCTIONAL if finding.functional else str(finding.outcome)
    if numbers and outcome == tested.outcome:
        outcome = ""
    return f"{what}: {words.with_commas(numbers, outcome)}{words.bracketed(finding.reason)}"


def _numbers(tested: JudgedTest, finding: Finding) -> str:
    if finding.estimate is None:
        return ""
    ends = (finding.interval.low, finding.interval.high) if finding.interval else None
    if finding.unit == "share":
        between = f"{_error(ends[0])} to {_error(ends[1])}" if ends else ""
        return _error(finding.estimate) + words.bracketed(between)
    if finding.unit:
        estimate = words.estimate(finding.estimate, finding.interval, finding.unit)
        return estimate + words.bracketed(ends and words.outward(*ends, finding.unit))
    if tested.test.times_slower is not None:
        return _times_slower(finding.estimate, ends, f"as long as {finding.against}")
    if finding.estimate < _TIMES_BELOW and not tested.test.relative_to_baseline and tested.test.per is None:
        return _times_slower(finding.estimate, ends, f"slower than {finding.against}")
    share = words.share(finding.estimate, finding.interval)
    if tested.test.relative_to_baseline:
        text = f"relative to the baseline it does {share} of what it does at {finding.against}"
    elif tested.test.per is not None:
        text = f"{share} of {finding.against}, for each of its {tested.test.per.replace('_', ' ')}"
    else:
        text = f"{share} of {finding.against}"
    return text + words.bracketed(ends and words.ends(*ends))


def _error(value: float) -> str:
    """A clock's relative error: '1.20 %', '35 ppm'."""
    if value >= 0.001:
        return units.percent(value)
    return "0" if value < 5e-8 else units.parts_per_million(value).removeprefix("+")


def _times_slower(share: float, ends: tuple[float, float] | None, as_what: str) -> str:
    """How many times as long it takes: '2.3 times as long as native (2.1 to 2.6)'."""
    if ends is None:
        return f"{units.significant(1 / share)} times {as_what}"
    low, high = 1 / ends[1], math.inf if ends[0] <= 0 else 1 / ends[0]
    factor = units.significant(1 / share, units.digits_within(1 / share, low, high))
    return f"{factor} times {as_what} ({words.outward(low, high, '')})"


def claims_lines(ledger: Sequence[Judged]) -> list[str]:
    """The ledger for the terminal, a claim with what it rests on; those not measured are counted by reason."""
    lines = []
    for judged in ledger:
        if judged.outcome is Outcome.NOT_MEASURED:
            continue
        claim = judged.claim
        lines += [f"{claim.id} {judged.outcome}: {claim.says}", f"    {source_words(claim)}"]
        for tested in judged.tests:
            lines += [f"  {tested.outcome}: {_test_words(tested)}", *(f"    {finding}" for finding in _shown(tested))]
    not_measured = (judged for judged in ledger if judged.outcome is Outcome.NOT_MEASURED)
    for reason, missing in grouped(not_measured, _reasons).items():
        lines.append(f"not measured: {', '.join(judged.claim.id for judged in missing)}: {reason}")
    return [*lines, counts_line(ledger)]
