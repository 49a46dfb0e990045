"""A look at a run that is measured "until decided" (`runfolder/looks.py`): which verdicts are known. Pure."""

from collections.abc import Iterable

from virtoll.runfolder.records import LookRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DECIDED, Comparison, Verdict
from virtoll.stats.isolation import ALONE_WORDS


def undecided(comparisons: Iterable[Comparison]) -> list[Comparison]:
    """The comparisons of primary metrics that more blocks might decide: neither different nor alike.

    What is not measured or *functional only* waits for nothing. The comparisons are those of an analysis at the look's
    own level (`analyse` takes it from the manifest).
    """
    return [
        comparison
        for comparison in comparisons
        if comparison.task.metric.primary and comparison.verdict is Verdict.UNKNOWN and comparison.caveat is None
    ]


def decided(comparisons: Iterable[Comparison]) -> bool:
    """Whether all comparisons of primary metrics are, and there is one: such a run needs no further block."""
    primary = [comparison for comparison in comparisons if comparison.task.metric.primary]
    return not undecided(primary) and any(comparison.verdict in DECIDED for comparison in primary)


def look(analysis: Analysis, blocks: int) -> LookRecord:
    """The record of a look after so many blocks, at whose level the analysis was made."""
    every = (*analysis.comparisons, *analysis.isolation.comparisons, *analysis.at_once.comparisons)
    words = ((comparison.platform, comparison.task.label, _under(comparison)) for comparison in undecided(every))
    left = [", ".join(filter(None, parts)) for parts in words]
    return LookRecord(blocks, analysis.level, tuple(left), ended=decided(every))


def _under(comparison: Comparison) -> str:
    """Under what it was measured, in words; empty for one guest alone."""
    if comparison.condition is None:
        return ""
    return f"beside {comparison.condition}" if comparison.against == ALONE_WORDS else f"{comparison.condition} at once"
