"""What a claim's judgement is made of: outcomes, a finding, and how single platforms' outcomes become one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from virtoll import units
from virtoll.reference.published import Claim
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison

MARGIN = 0.1
"""Two rates are *as much as* each other where the interval of their ratio stays above 1 - MARGIN."""


class Outcome(StrEnum):
    """What a run says about a claim."""

    SUPPORTED = "supported"
    REFUTED = "not supported"
    INCONCLUSIVE = "not decided"
    UNTESTABLE = "not testable here"


@dataclass(frozen=True)
class ClaimAnswer:
    """The outcome for one platform (or pair), and the numbers that it rests on, in words."""

    outcome: Outcome
    words: str


Predicate = Callable[[Analysis, Sequence[str]], list[ClaimAnswer]]
"""From the analysis and the platforms to look at to one `ClaimAnswer` each; empty where the run has nothing to say."""


@dataclass(frozen=True)
class ClaimResult:
    """One claim, what the run says about it, and what its platforms with a caveat show, which decides nothing."""

    claim: Claim
    outcome: Outcome
    words: str
    functional: str


def judge(claim: Claim, predicate: Predicate | None, analysis: Analysis, needs: str) -> ClaimResult:
    """One finding; `needs` is what a run must have for it, reported where it has not."""
    lacking = f"it needs {needs}, which this run has not"
    if predicate is None:
        return ClaimResult(claim, Outcome.UNTESTABLE, lacking, "")
    measured = {platform for platform, _ in analysis.cells}
    ends = (analysis.data.manifest.baseline, analysis.data.manifest.control)
    looked = [one for one in analysis.platforms if one in measured and one not in ends]
    plain = [one for one in looked if one not in analysis.caveats]
    with_caveat = [one for one in looked if one in analysis.caveats]
    bare = analysis.baseline is None or analysis.baseline not in analysis.caveats
    said = predicate(analysis, plain) if bare else []
    shown = predicate(analysis, with_caveat) if with_caveat else []
    outcome = together([one.outcome for one in said])
    words = "; ".join(one.words for one in said) or lacking
    return ClaimResult(claim, outcome, words, "; ".join(one.words for one in shown if one not in said))


def together(outcomes: Sequence[Outcome]) -> Outcome:
    """A claim on all platforms: refuted by one, supported by all that can be judged and at least one."""
    if not outcomes or all(one is Outcome.UNTESTABLE for one in outcomes):
        return Outcome.UNTESTABLE
    if Outcome.REFUTED in outcomes:
        return Outcome.REFUTED
    judged = [one for one in outcomes if one is not Outcome.UNTESTABLE]
    return Outcome.SUPPORTED if all(one is Outcome.SUPPORTED for one in judged) else Outcome.INCONCLUSIVE


def ordered(low: float, high: float, *, above: float, below: float) -> Outcome:
    """Supported where the whole of an interval is `above`, refuted where the whole is `below`, else not decided."""
    if low >= above:
        return Outcome.SUPPORTED
    return Outcome.REFUTED if high < below else Outcome.INCONCLUSIVE


def as_native(comparison: Comparison) -> Outcome:
    """Whether a platform's rate is as much as the baseline's, within `MARGIN`."""
    interval = comparison.interval
    if interval is None:
        return Outcome.INCONCLUSIVE
    return ordered(interval.low, interval.high, above=1 - MARGIN, below=1 - MARGIN)


def share_words(comparison: Comparison) -> str:
    """'netns 36.3 % (34.0 % to 38.1 %) at 64 B'."""
    interval = comparison.interval
    between = f" ({units.percent(interval.low)} to {units.percent(interval.high)})" if interval else " (one block)"
    share = "–" if comparison.share is None else units.percent(comparison.share)
    return f"{comparison.platform} {share}{between} at {comparison.task.size}"
