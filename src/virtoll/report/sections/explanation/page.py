"""Why it costs that: what observers counted, for the page, for the terminal and for a program."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from virtoll.report.headline import CAVEAT_SIGN
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, grouped, or_dash
from virtoll.report.sections.explanation.sentences import (
    alone_sentence,
    amount,
    counter_words,
    interval_words,
    sentence,
    uncounted_lines,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.explanation import Explanation, explanations

_MOST = 6  # differences of one workload and platform in the terminal; all are on the page and in explanation.csv
_MOST_ALONE = 2  # and of what the baseline has not


def explained(analysis: Analysis) -> tuple[Explanation, ...]:
    """What was observed of the run."""
    return explanations(analysis.data.observed, analysis.tasks, analysis.platforms, analysis.data.manifest.baseline)


def _title(explanation: Explanation) -> str:
    return explanation.title


def explanation_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if nothing was observed."""
    every = explained(source.analysis)
    if not every:
        return None
    baseline = source.analysis.data.manifest.baseline
    return {
        "parts": [_part(title, of_title, baseline) for title, of_title in grouped(every, _title).items()],
        "uncounted": uncounted_lines(every),
        "trials": _most_trials(every),
    }


def _most_trials(every: Sequence[Explanation]) -> int:
    return max(explanation.trials for explanation in every)


def _part(title: str, of_title: Sequence[Explanation], baseline: str | None) -> dict[str, Any]:
    """A workload: each platform's largest difference in a sentence, all of them in rows, and why trials were lost."""
    largest, rows, lost = [], [], []
    for explanation in of_title:
        platform = explanation.platform
        differing = explanation.different or explanation.likely
        if differing:
            largest.append((platform, sentence(differing[0], explanation, baseline)))
        rows += _rows(explanation, baseline)
        lost += [(platform, why) for why in explanation.lost]
    return {"title": title, "unit": of_title[0].unit, "largest": largest, "rows": rows, "lost": lost}


def _rows(explanation: Explanation, baseline: str | None) -> list[TableRow]:
    """A row for each counter that differs: the platform, by how much, both values, the interval; none of the baseline.

    Those whose difference may be zero are in `explanation.csv`.
    """
    if explanation.platform == baseline:
        return []
    rows = []
    for counted in (*explanation.different, *explanation.likely, *explanation.single, *explanation.only_here):
        name, amount_of = counted.name, partial(amount, counted.name)
        difference = counted.difference.value if counted.difference is not None else None
        if difference == 0:
            continue
        cells = (
            Shown(counter_words(name).removeprefix("of "), "probably" if counted.is_likely else "", kind="text"),
            or_dash(difference, amount_of),
            Shown(amount_of(counted.each)),
            or_dash(counted.baseline, amount_of),
            Shown(interval_words(counted)),
        )
        rows.append(TableRow(explanation.platform, cells))
    return rows


def explanation_lines(analysis: Analysis) -> list[str]:
    """For the terminal; whoever prints a line folds it."""
    every = explained(analysis)
    if not every:
        return ["no trial with observers on is stored"]
    baseline = analysis.data.manifest.baseline
    compared = f", compared with {baseline}" if baseline else ""
    lines: list[str] = []
    for title, of_title in grouped(every, _title).items():
        lines.append(f"{title}: what a {of_title[0].unit} makes this host do{compared}")
        for explanation in of_title:
            lines += _platform_lines(analysis, explanation, baseline)
        lines.append("")
    uncounted = uncounted_lines(every)
    if uncounted:
        lines += ["Not counted", *(f"  {line}" for line in uncounted), ""]
    return [*lines, _reading(every, baseline)]


def _platform_lines(analysis: Analysis, explanation: Explanation, baseline: str | None) -> list[str]:
    """The largest differences of one platform; of the baseline nothing but what was lost."""
    sign = f" {CAVEAT_SIGN}" if explanation.platform in analysis.caveats else ""
    lines, left = [], 0
    if explanation.platform != baseline:
        compared = (*explanation.different, *explanation.likely) or explanation.single
        alone = explanation.only_here
        lines = [sentence(counted, explanation, baseline) for counted in compared[:_MOST]]
        lines += [alone_sentence(counted, explanation) for counted in alone[:_MOST_ALONE]]
        left = len(compared) + len(alone) - len(lines)
    if not lines and explanation.open:
        lines = [f"nothing that is certain to differ from {baseline}"]
    lines += [f"trials gave nothing: {why}" for why in explanation.lost]
    if left > 0:
        lines.append(f"{left} smaller {'one is' if left == 1 else 'ones are'} on the page")
    return [f"  {explanation.platform}{sign}: {line}" for line in lines]


def _reading(every: Sequence[Explanation], baseline: str | None) -> str:
    trials, lost = _most_trials(every), ""
    if any(explanation.unit == "frame" for explanation in every):
        lost = "Work for lost frames is included. "
    if baseline is None:
        return "This run has no baseline, so there are no differences: only what a platform's guests made the host do."
    if trials < 2:
        return "One trial each, so that no difference has an interval: 'virtoll explain --trials 3' adds trials."
    return (
        f"Differences of up to {trials} trials with observers on that are certain for all counters of a platform "
        "together (Holm, 5 %): events, then times, then bytes, the largest first. Probably: the 95 % interval by "
        f"itself leaves out zero. In brackets: the platform's value against {baseline}'s, their ratio, and the "
        f"interval of the difference. {lost}No trial with observers on is a result."
    )


def explanation_document(analysis: Analysis) -> dict[str, Any]:
    """All of it for a program."""
    return {
        "run": analysis.data.manifest.run,
        "baseline": analysis.data.manifest.baseline,
        "explanations": explanation_records(analysis),
    }


def explanation_records(analysis: Analysis) -> list[dict[str, Any]]:
    """What was observed of each workload on each platform, for a program; none if nothing was observed."""
    return [_record(analysis, explanation) for explanation in explained(analysis)]


def _record(analysis: Analysis, explanation: Explanation) -> dict[str, Any]:
    baseline = analysis.data.manifest.baseline
    lead = f"{explanation.platform}: "
    compared = (*explanation.different, *explanation.likely, *explanation.single)
    sentences = [lead + sentence(counted, explanation, baseline) for counted in compared]
    sentences += [lead + alone_sentence(counted, explanation) for counted in explanation.only_here]
    return {
        **asdict(explanation),
        "uncounted": [{"counter": name, "reason": reason} for name, reason in explanation.uncounted.items()],
        "caveat": analysis.caveats.get(explanation.platform),
        "sentences": sentences,
    }
