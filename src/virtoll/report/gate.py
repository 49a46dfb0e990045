"""What the page, the terminal, the report's document and exports say of a run's thresholds.

Main types: `GateView` and `Judge`, who makes one of an analysis. That is the command line: it alone knows the workloads
that a threshold may name. No numbers are computed here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.stats.analysis import Analysis


@dataclass(frozen=True)
class CheckView:
    """A threshold on one platform: `kind` is *good* (met), *bad* (missed) or *warn* (cannot be told).

    `value`: what was measured, with its interval; empty where nothing was. `rest`: margin, reason, and what would tell.
    """

    threshold: str
    platform: str
    task: str
    outcome: str
    kind: str
    value: str
    rest: tuple[str, ...]


@dataclass(frozen=True)
class GateView:
    """All checks; `kind` as a check's. `doubts`: why the whole run cannot be trusted. `document`: for a program."""

    outcome: str
    kind: str
    checks: tuple[CheckView, ...]
    doubts: tuple[str, ...]
    document: Mapping[str, Any]

    @property
    def words(self) -> str:
        """The outcome in one line: 'Thresholds: missed (1 missed, 2 met)'."""
        if not self.checks:
            return f"Thresholds: none; the A/A control alone is judged: {self.outcome}"
        outcomes = [one.outcome for one in self.checks]
        counts = ", ".join(f"{outcomes.count(one)} {one}" for one in dict.fromkeys(sorted(outcomes, reverse=True)))
        return f"Thresholds: {self.outcome} ({counts})"


Judge = Callable[[Analysis, Sequence[str]], GateView]
"""By an analysis, and what of the run folder is not as it was."""


def gate_lines(view: GateView) -> list[str]:
    """The outcome of each threshold, with what was measured, why it cannot be told, and what would tell."""
    found = [view.words]
    for one in view.checks:
        found += [f"  {one.outcome}: {one.threshold}", f"    {measured_words(one)}"]
        found += [f"    {line}" for line in one.rest]
    return [*found, *(f"  cannot tell: {doubt}" for doubt in view.doubts)]


def measured_words(one: CheckView) -> str:
    """'netns, Super Pi 16384 digits: 2.00x (1.98 to 2.03x) in 5 blocks'."""
    return ": ".join(filter(None, (f"{one.platform}, {one.task}", one.value)))
