"""Random runs, and all that Virtoll says of a comparison: page, terminal, CSV, document, gate, claims and advice.

`contradictions` lists what of it does not agree, in words; the suite asks for some runs, `benches/statements.py` for
many. What the page says is asked in `statements_of_page`, what two runs say in `statements_of_two`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.made_up_run import Made, made_up_run
from tests.support.statements_of_page import of_page

from virtoll.advise import Answer, advise, parse_needs
from virtoll.advise.gate import Outcome, judge_gate, parse_threshold
from virtoll.api.needs import known_workloads
from virtoll.claims import Outcome as ClaimOutcome
from virtoll.claims import judge_claims, parse_claims
from virtoll.report import words
from virtoll.report.answer import cost_to_know_line, not_known, ranked
from virtoll.report.document import report_document
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import comparison_cell
from virtoll.report.sections.cost.tables import COMPARISONS
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.intervals import Interval

KNOWN = known_workloads()
PLATFORMS = ("netns", "runc", "lxc", "uml")
DIGITS = (4096, 16384, 65536)
SPEED = 1.45
SHAPES = ("one speed", "the host alone at two speeds", "the machine at two speeds", "constant values")
CLAIM = """- id: own
  source: a test
  says: something
  tests:
    - {{says: as fast, workload: superpi, where: {{digits: {digits}}}, platforms: {{label: {label}}}, against: baseline,
       share: {{at_least: 1}}}}
    - {{says: no faster, workload: superpi, where: {{digits: {digits}}}, platforms: {{label: {label}}},
       against: baseline, share: {{at_most: 1}}}}
"""


def random_run(seed: int) -> Analysis:
    """Three blocks of five rounds of three tasks; costs of 0.8 to 1.3, and noise of 1 to 15 %, of each platform."""
    dice = random.Random(seed)
    shape = SHAPES[seed % len(SHAPES)]
    made = []
    for label in ("native", "native-again", *PLATFORMS):
        spread = 0.0 if shape == "constant values" and dice.random() < 0.5 else dice.choice((0.01, 0.03, 0.05, 0.15))
        cost = 1.0 if label.startswith("native") else dice.choice((1.0, 1.02, dice.uniform(0.8, 1.3), 2.5))
        made += [Made(label, "superpi", {"digits": size}, 1e5 * size * cost, spread=spread) for size in DIGITS]
    data = made_up_run({one.platform: {} for one in made}, made, blocks=3, rounds=5, seed=seed)
    slow = ("native", "native-again", *(PLATFORMS if shape == "the machine at two speeds" else ()))
    if "two speeds" in shape:
        slowed = [trial.platform in slow and dice.random() < 0.3 for trial in data.trials]
        trials = (_slower(trial) if is_slow else trial for trial, is_slow in zip(data.trials, slowed, strict=True))
        data = replace(data, trials=tuple(trials))
    return analyse(data)


def _slower(trial: TrialRecord) -> TrialRecord:
    clock = trial.clock
    if clock is None or clock.marks is None:
        return trial
    begin, end = clock.marks.start_ns, clock.marks.end_ns
    return trial.replace(clock=clock.replace(marks=clock.marks.replace(end_ns=begin + round(SPEED * (end - begin)))))


def contradictions(analysis: Analysis) -> Iterator[str]:
    """What is said of one comparison and does not agree with what is said of it elsewhere."""
    table = COMPARISONS.csv(ReportInput(analysis))
    records = [] if table is None else [dict(zip(table.header, row, strict=True)) for row in table.rows]
    rows = {(record["platform"], record["label"]): record for record in records}
    for comparison in analysis.comparisons:
        for problem in (*of_numbers(comparison), *_of_gate(analysis, comparison), *_of_claims(analysis, comparison)):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: {problem}"
        row = rows[comparison.platform, comparison.task.label]
        joint = comparison.simultaneous
        shown = (row["verdict"], row["at_least"], row["joint_low"], row["joint_high"])
        if shown != (str(comparison.verdict), comparison.at_least, joint and joint.low, joint and joint.high):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: its row has {shown}"
    for comparison in (*analysis.comparisons, *analysis.control):
        for problem in _of_values(analysis, comparison, rows[comparison.platform, comparison.task.label]):
            yield f"{comparison.platform}, {words.task_verdict(comparison)}: {problem}"
    yield from _of_ranks(analysis)
    yield from _of_advice(analysis)
    yield from of_page(analysis)
    open_ones = sum(comparison.verdict is Verdict.UNKNOWN for comparison in analysis.comparisons)
    if len(not_known(analysis)) != open_ones:
        yield f"{open_ones} are not known, and {len(not_known(analysis))} are counted"
    if open_ones > 1 and not cost_to_know_line(analysis).startswith(f"{open_ones} comparisons"):
        yield "the line of what is not known has another number"


def of_numbers(comparison: Comparison) -> Iterator[str]:
    """Verdict, both intervals, bound and words."""
    joint, single, verdict = comparison.simultaneous, comparison.interval, comparison.verdict
    if joint is None or single is None or comparison.share is None:
        yield "it has no interval"
        return
    sides = {Verdict.SLOWER: joint.high < 1, Verdict.FASTER: joint.low > 1}
    if not sides.get(verdict, joint.low <= 1 <= joint.high):
        yield f"its range is {joint}"
    if not {Verdict.SLOWER: single.high < 1, Verdict.FASTER: single.low > 1}.get(verdict, True):
        yield f"its own interval is {single}"
    if not joint.low <= comparison.share <= joint.high:
        yield "its share is outside its range"
    if verdict in sides:
        near = 1 / joint.high if verdict is Verdict.SLOWER else joint.low
        if comparison.at_least is None or abs(comparison.at_least / near - 1) > 1e-9:
            yield f"at least {comparison.at_least} and a range of {joint}"
    elif comparison.at_least is not None:
        yield "it has a bound without a side"
    shown = comparison_cell(comparison)
    if "a little" in words.said(comparison).text or str(verdict) not in shown.main:
        yield f"its words are {shown}"


def _of_values(analysis: Analysis, comparison: Comparison, row: dict[str, Any]) -> Iterator[str]:
    """A platform's value by the baseline's is the share that stands in the same row, and both intervals are one."""
    told, baseline = analysis.estimates[comparison.platform, comparison.task], analysis.baseline or ""
    base = analysis.estimates[baseline, comparison.task]
    if row["platform_value"] != told.value or row["baseline_median"] != base.value:
        yield f"its row has the values {row['platform_value']} and {row['baseline_median']}"
    yield from unlike_share(comparison, base.value, told.value)
    if told.interval is not None and comparison.interval is not None:
        ends = base.value / told.interval.high, base.value / told.interval.low
        if not _is_near(ends, (comparison.interval.low, comparison.interval.high)):
            yield f"its value is {told} of {base}"
    printed = [words.told_value(analysis, label, comparison.task) for label in (baseline, comparison.platform)]
    first, second = map(_printed_ns, printed)
    shares = first[0] / second[1], first[1] / second[0]
    if not shares[0] <= (comparison.share or 0.0) <= shares[1]:
        yield f"{' and '.join(printed)} are printed"


def unlike_share(comparison: Comparison, base: float, value: float) -> Iterator[str]:
    """Durations whose quotient is not the comparison's share, or outside of its intervals."""
    share = base / value
    if comparison.share is None or not _is_near((share,), (comparison.share,)):
        yield f"its values are {base} and {value}"
    for interval in (comparison.interval, comparison.simultaneous):
        if interval is not None and not _holds(interval, share):
            yield f"its values are {base} and {value}, and its interval is {interval}"


def _holds(interval: Interval, share: float) -> bool:
    return interval.low * (1 - 1e-9) <= share <= interval.high * (1 + 1e-9)


def _is_near(found: Sequence[float], expected: Sequence[float]) -> bool:
    return all(abs(one / other - 1) < 1e-9 for one, other in zip(found, expected, strict=True))


def _printed_ns(text: str) -> tuple[float, float]:
    """Between which values one is that is printed so: '5.94 ms' is at least 5.935 and at most 5.945."""
    number, unit = text.split()
    last = 10.0 ** -len(number.partition(".")[2])
    if "." not in number:
        last = 10.0 ** (len(number) - len(number.rstrip("0")))
    scale = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9}[unit]
    return (float(number) - last / 2) * scale, (float(number) + last / 2) * scale


def _of_gate(analysis: Analysis, comparison: Comparison) -> Iterator[str]:
    where = f"{comparison.platform}:superpi digits={_digits(comparison)}"
    texts = [(f"{where} slowdown>1x", True), (f"{where} slowdown<1x", False), (f"{where} slowdown<1.1x", False)]
    thresholds = [parse_threshold(text, KNOWN, fails=fails) for text, fails in texts]
    outcomes = [check.outcome for check in judge_gate(analysis, thresholds).checks]
    if analysis.alarms:
        return
    expected = {Verdict.SLOWER: Outcome.MISSED, Verdict.FASTER: Outcome.MET}.get(comparison.verdict, Outcome.UNKNOWN)
    if outcomes[:2] != [expected] * 2:
        yield f"the gate says {outcomes[0]} and {outcomes[1]}"
    if outcomes[2] is Outcome.MISSED and comparison.verdict is not Verdict.SLOWER:
        yield "the gate says that it is more than 1.1 times slower"
    least = comparison.at_least or 1.0
    if comparison.verdict is Verdict.SLOWER and least > 1.1 and outcomes[2] is not Outcome.MISSED:
        yield "the gate does not say that it is more than 1.1 times slower"


def _of_claims(analysis: Analysis, comparison: Comparison) -> Iterator[str]:
    text = CLAIM.format(digits=_digits(comparison), label=comparison.platform)
    (judged,) = judge_claims(analysis, parse_claims(text, "claims.yaml"))
    if all(test.missing for test in judged.tests):
        return  # the run decides no claim, and says why
    as_fast, no_faster = (test.outcome for test in judged.tests)
    expected = {
        Verdict.SLOWER: (ClaimOutcome.REFUTED, ClaimOutcome.SUPPORTED),
        Verdict.FASTER: (ClaimOutcome.SUPPORTED, ClaimOutcome.REFUTED),
    }.get(comparison.verdict)
    if expected is None and ClaimOutcome.REFUTED in (as_fast, no_faster):
        yield f"a claim says {as_fast} and {no_faster}"
    if expected is not None and (as_fast, no_faster) != expected:
        yield f"a claim says {as_fast} and {no_faster}"


def _of_ranks(analysis: Analysis) -> Iterator[str]:
    """A platform that is surely slower than the baseline stands after it; terminal and document say the same."""
    document = report_document(analysis, (), folder=Path("run"), page=Path("page"), damage=())
    for task, shown in zip(document["answer"], ranked(analysis), strict=True):
        placed = {entry["platform"]: entry for entry in task["placed"]}
        base = placed[analysis.baseline]
        for entry, line in zip(task["placed"], shown.platforms, strict=True):
            label = f"{entry['platform']} in {task['label']}"
            if entry["verdict"] == "slower" and (entry["first_place"] < 2 or base["last_place"] >= len(placed)):
                yield f"{label} is slower and may have place {entry['first_place']}"
            if entry["verdict"] == "faster" and (base["first_place"] < 2 or entry["last_place"] >= len(placed)):
                yield f"{label} is faster and may have place {entry['last_place']}"
            if entry["verdict"] in ("alike", "not known") and not entry["share_low"] <= 1 <= entry["share_high"]:
                yield f"{label} is {entry['verdict']} from {entry['share_low']} to {entry['share_high']}"
            if entry["platform"] != analysis.baseline and line.words != entry["words"]:
                yield f"{label}: {line.words}, and in the document {entry['words']}"


def _of_advice(analysis: Analysis) -> Iterator[str]:
    """A need that just the host's median meets: what is slower cannot meet it where the host does not."""
    for task in analysis.tasks:
        digits = task.size.split()[0]
        limit = analysis.cells["native", task].median / 1e9
        needs = parse_needs([f"superpi digits={digits} duration<{limit:.9f}s"], KNOWN)
        answers = {entry.platform: entry.answer for entry in advise(analysis, needs, KNOWN).platforms}
        for comparison in analysis.comparisons:
            if comparison.task != task:
                continue
            pair = answers["native"], answers[comparison.platform]
            if comparison.verdict is Verdict.SLOWER and pair == (Answer.FAILS, Answer.MEETS):
                yield f"{comparison.platform} is slower in {task.label} and meets what the host does not"
            if comparison.verdict is Verdict.FASTER and pair == (Answer.MEETS, Answer.FAILS):
                yield f"{comparison.platform} is faster in {task.label} and does not meet what the host does"


def _digits(comparison: Comparison) -> str:
    return comparison.task.size.split()[0]
