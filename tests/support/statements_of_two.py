"""All that `virtoll compare` says of two runs: verdict, interval, page, comment, `--json`, and its exit code.

`contradictions_of_two` lists what of it does not agree, in words; `exit_code` is what `--fail-if-slower` ends with.
"""

import math
from collections.abc import Iterator
from dataclasses import replace

from tests.support.report_page import read_page, text_of
from tests.support.statements import of_numbers, unlike_share

from virtoll.advise.slower import judge_slower, slower_limit
from virtoll.cli.compare import leave_by
from virtoll.errors import ThresholdMissed, ThresholdNotTold
from virtoll.report import gate_view, words
from virtoll.report.compared import Compared, compared_document, compared_markdown, row_words
from virtoll.report.compared_page import render_comparison
from virtoll.report.rows import VERDICT_CLASS
from virtoll.stats.analysis import Analysis
from virtoll.stats.between_runs import Between, between_runs, common_pairs, side_by_side
from virtoll.stats.compare import DIFFERENT, Comparison, Pair, Verdict

LIMITS = ("1%", "5%", "25%")
OPPOSITE = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
MET, MISSED, UNKNOWN = 0, 3, 4


def comparisons_of(first: Analysis, second: Analysis) -> Iterator[Between]:
    """Both runs by cost and by values."""
    yield replace(between_runs(first, second, common_pairs(first, second, "cost"), "cost"), whole=True)
    yield replace(between_runs(first, second, common_pairs(first, second, "values"), "values"), whole=True)


def contradictions_of_two(first: Analysis, second: Analysis) -> Iterator[str]:
    """Of two runs, of the same two the other way round, of each with itself, and of two platforms of the first."""
    for between, back in zip(comparisons_of(first, second), comparisons_of(second, first), strict=True):
        yield from _of_between(between)
        yield from _of_both_ways(between, back)
    for between in comparisons_of(first, first):
        yield from _of_between(between)
        yield from _of_itself(between)
    labels = [label for label in first.platforms if label not in (first.baseline, first.data.manifest.control)]
    yield from _of_between(side_by_side(first, [Pair(labels[0], labels[1]), Pair(first.baseline or "", labels[0])]))


def exit_code(compared: Compared) -> int:
    """What the command ends with."""
    try:
        leave_by([compared], allow_unknown=False)
    except ThresholdMissed:
        return MISSED
    except ThresholdNotTold:
        return UNKNOWN
    return MET


def judged(between: Between, limit: str) -> Compared:
    """The comparison of A and B, with its gate."""
    gate = gate_view(judge_slower(between, slower_limit(limit), limit))
    return Compared(between, "A", "B", changes=(), gate=gate)


def _of_between(between: Between) -> Iterator[str]:
    how = "side by side" if between.paired else f"by {between.by}"
    for comparison in between.comparisons:
        for problem in (*of_numbers(comparison), *_of_sides(between, comparison)):
            yield f"{how}, {comparison.platform}, {words.task_verdict(comparison)}: {problem}"
    compared = Compared(between, "A", "B", changes=())
    for problem in (*_of_forms(compared), *_of_page(compared), *_of_summary(compared)):
        yield f"{how}: {problem}"
    for limit in LIMITS:
        for problem in _of_gate(judged(between, limit), slower_limit(limit)):
            yield f"{how}, {limit}: {problem}"


def _of_sides(between: Between, comparison: Comparison) -> Iterator[str]:
    """By cost both shares make the ratio; by values both values do, which are durations."""
    first, second = between.samples(comparison)
    assert first.value is not None
    assert second.value is not None
    if between.by == "cost":
        assert first.share is not None
        assert second.share is not None
        yield from unlike_share(comparison, 1 / first.share, 1 / second.share)
    else:
        yield from unlike_share(comparison, first.value.value, second.value.value)
        if (first.share, second.share) != (None, None):
            yield "by values it has shares of the baseline's"


def _of_forms(compared: Compared) -> Iterator[str]:
    """The rows of `--json`, and the lines of a comment."""
    between = compared.between
    (document,) = compared_document([compared])["comparisons"]
    for comparison, row in zip(between.comparisons, document["rows"], strict=True):
        joint, label = comparison.simultaneous, f"{comparison.platform}, {words.task_verdict(comparison)}"
        expected = str(comparison.verdict), comparison.share, comparison.at_least, joint and joint.low
        if (row["verdict"], row["share"], row["at_least"], row["joint_low"]) != expected:
            yield f"{label}: --json has {row}"
        values = [sample.value and sample.value.value for sample in between.samples(comparison)]
        if [row["first_value"], row["second_value"]] != values:
            yield f"{label}: --json has {row['first_value']} and {row['second_value']}, and its sides are {values}"
    shown, _, folded = compared_markdown([compared]).partition("<details>")
    for comparison in between.comparisons:
        line = f"| {comparison.task.label} | {comparison.platform} | {' | '.join(row_words(compared, comparison))} |"
        if line not in (shown if comparison.verdict in DIFFERENT else folded).replace("\\", ""):
            yield f"the comment has no line '{line}' where it should be"


def _of_page(compared: Compared) -> Iterator[str]:
    """Colour, words, share and both sides of each row."""
    page = read_page(render_comparison([compared], [None], ()))
    rows = [row for row in page.part("part-1").iter("tr") if row.find("th") is None or row.find("td") is not None]
    cells = [[cell for cell in row if cell.tag == "td"] for row in rows]
    in_order = [
        comparison
        for task in compared.between.tasks
        for comparison in compared.between.comparisons
        if comparison.task == task
    ]
    for comparison, (label, verdict, *sides) in zip(in_order, cells, strict=True):
        first, second, _ = row_words(compared, comparison)
        sentence = words.said(comparison)
        head = f"{sentence.head} {sentence.tail}".rstrip()
        assert comparison.share is not None
        share = words.share_and_interval(comparison.share, comparison.interval)
        shown = text_of(label), verdict.get("class"), *map(text_of, sides)
        if shown != (comparison.platform, VERDICT_CLASS[comparison.verdict], first, second):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: the page has {shown}"
        if not text_of(verdict).startswith(f"{head} {share} of A"):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: the page says '{text_of(verdict)}'"


def _of_summary(compared: Compared) -> Iterator[str]:
    for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.ALIKE, Verdict.UNKNOWN):
        number = sum(comparison.verdict is verdict for comparison in compared.between.comparisons)
        if (f" {number} {verdict}" in compared.summary) is not bool(number):
            yield f"{number} are {verdict}, and '{compared.summary}' is said"


def _of_gate(compared: Compared, limit: float) -> Iterator[str]:
    """What is missed is slower by more, what is met is not; and the exit code is the worst of them."""
    between, gate = compared.between, compared.gate
    assert gate is not None
    outcomes = [check.outcome for check in gate.checks]
    unsound = {comparison.task for comparison in between.alarms}
    for comparison, outcome in zip(between.comparisons, outcomes, strict=True):
        joint = comparison.simultaneous
        assert joint is not None
        expected = "cannot tell"
        if comparison.task not in unsound and comparison.verdict is Verdict.SLOWER and 1 / joint.high > limit:
            expected = "missed"
        elif comparison.task not in unsound and 1 / joint.low <= limit:
            expected = "met"
        if outcome != expected:
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: the gate says {outcome}"
        slower = comparison.verdict is Verdict.SLOWER and (comparison.at_least or 0.0) > limit
        if outcome == "met" and slower:
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: the gate says that it is met"
    code = exit_code(compared)
    expected_code = MISSED if "missed" in outcomes else UNKNOWN if between.alarms or "cannot tell" in outcomes else MET
    if code != expected_code:
        yield f"the exit code is {code} of {outcomes}"


def _of_both_ways(between: Between, back: Between) -> Iterator[str]:
    """B against A is the opposite of A against B."""
    for comparison, other in zip(between.comparisons, back.comparisons, strict=True):
        label = f"by {between.by}, {comparison.platform}, {words.task_verdict(comparison)}"
        if OPPOSITE.get(comparison.verdict, comparison.verdict) is not other.verdict:
            yield f"{label}: the other way round it is {other.verdict}"
        if comparison.share is None or other.share is None or not math.isclose(comparison.share, 1 / other.share):
            yield f"{label}: the other way round its share is {other.share}"


def _of_itself(between: Between) -> Iterator[str]:
    for comparison in between.comparisons:
        if comparison.verdict in DIFFERENT or not math.isclose(comparison.share or 0.0, 1):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: against itself"
    for limit in LIMITS:
        if exit_code(judged(between, limit)) == MISSED:
            yield f"{limit}: a run is slower than itself"
