"""Whether what is compared became slower by more than a limit: `virtoll compare --fail-if-slower`. Pure.

A comparison is *met* where its whole simultaneous interval is within the limit, *missed* where it is beyond, and else
it cannot be told, as `gate` does. Primary metrics are judged. If the host of one of two runs was unfit, nothing can be
told: its load may be what looks like a platform's cost. What the first run has and the second has not cannot be told;
what is new in the second is not asked for. Main functions: `slower_limit`, `judge_slower`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from virtoll.advise.gate import Check, Gate, Outcome, inverse
from virtoll.stats.between_runs import Between
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.values import Task

_LIMIT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(%|x)")


def slower_limit(text: str) -> float:
    """The factor of '5%' (1.05) or of '1.05x'; ValueError in words."""
    matched = _LIMIT.fullmatch(text.strip())
    if matched is not None:
        factor = 1 + float(matched[1]) / 100 if matched[2] == "%" else float(matched[1])
        if factor > 1:
            return factor
    raise ValueError(f"'{text}' is no slowdown; give percent, such as '5%', or a factor above 1, such as '1.05x'")


def judge_slower(between: Between, limit: float, text: str, damage: Sequence[str] = ()) -> Gate:
    """Each comparison of a primary metric; `limit`: a factor above 1, `text`: as it was given.

    `damage`: what of the run folders is not as it was when the runs ended.
    """
    doubts, doubt = [], ""
    for run in between.unfit:
        doubt = "the host of a run was unfit"
        doubts.append(f"the host of run {run.data.manifest.run} was unfit: {'; '.join(run.fitness.reasons)}")
    if damage:
        doubt = "a run folder is not as it was when its run ended"
        doubts.insert(0, f"{doubt}: {'; '.join(damage)}")
    unsound = {comparison.task for comparison in between.alarms}
    if unsound:
        doubts.append(f"the A/A control differs: {', '.join(comparison.task.label for comparison in between.alarms)}")
    threshold = f"--fail-if-slower {text}"
    checks = [
        _checked(between, comparison, limit, threshold, doubt, unsound)
        for comparison in between.comparisons
        if comparison.task.metric.primary and not _is_new(between, comparison)
    ]
    reason = "the second run has no such platform"
    checks += [
        Check(threshold, label, "all its workloads", Outcome.UNKNOWN, limit, "x", reason=reason)
        for label in between.alone_in_first
        if between.whole
    ]
    return Gate(tuple(checks), tuple(doubts))


def _is_new(between: Between, comparison: Comparison) -> bool:
    return comparison.verdict is Verdict.NOT_MEASURED and between.is_new(comparison.task)


def _checked(
    between: Between, comparison: Comparison, limit: float, threshold: str, doubt: str, unsound: set[Task]
) -> Check:
    """`doubt`: why nothing of both runs can be told, in words; empty: it can."""
    blocks = min(each.blocks for each in between.samples(comparison))
    check = Check(threshold, comparison.platform, comparison.task.label, Outcome.UNKNOWN, limit, "x", blocks=blocks)
    if comparison.share is None:
        return replace(check, reason=comparison.reason)
    slowdown = 1 / comparison.share
    check = replace(check, estimate=slowdown, margin=limit / slowdown)
    joint = inverse(comparison.simultaneous)
    if joint is None or comparison.caveat is not None:
        return replace(check, reason=comparison.reason)
    check = replace(check, low=joint.low, high=joint.high)
    if doubt:
        return replace(check, reason=doubt)
    if comparison.task in unsound:
        return replace(check, reason="the A/A control differs in this workload")
    if comparison.verdict is Verdict.UNKNOWN and not joint.low <= 1 <= joint.high:
        return replace(check, reason=comparison.reason)
    if joint.low > limit:
        return replace(check, outcome=Outcome.MISSED)
    if joint.high <= limit:
        return replace(check, outcome=Outcome.MET)
    return replace(check, reason="the interval has values on both sides of the limit")
