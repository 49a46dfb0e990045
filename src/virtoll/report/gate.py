"""What the page, the terminal, the report's document and exports say of a run's thresholds.

Main type: `GateView`; `gate_view` makes it of a gate. No numbers are computed here.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from virtoll import units
from virtoll.advise.gate import Check, Gate
from virtoll.report import words
from virtoll.report.csv_table import record

_KINDS = {"met": "good", "missed": "bad", "cannot tell": "warn"}


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

    @property
    def measured(self) -> str:
        """'netns, Super Pi 16384 digits: 2.00x (1.98 to 2.03x) in 5 blocks'."""
        return ": ".join(filter(None, (f"{self.platform}, {self.task}", self.value)))


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
        outcomes = [check.outcome for check in self.checks]
        counts = ", ".join(
            f"{outcomes.count(outcome)} {outcome}" for outcome in dict.fromkeys(sorted(outcomes, reverse=True))
        )
        return f"Thresholds: {self.outcome} ({counts})"


def gate_lines(view: GateView) -> list[str]:
    """The outcome of each threshold, with what was measured, why it cannot be told, and what would tell."""
    lines = [view.words]
    for check in view.checks:
        lines += [f"  {check.outcome}: {check.threshold}", f"    {check.measured}"]
        lines += [f"    {line}" for line in check.rest]
    return [*lines, *(f"  cannot tell: {doubt}" for doubt in view.doubts)]


def gate_view(judged: Gate) -> GateView:
    """A gate in words."""
    return GateView(
        outcome=str(judged.outcome),
        kind=_KINDS[str(judged.outcome)],
        checks=tuple(
            CheckView(
                threshold=check.threshold,
                platform=check.platform,
                task=check.task,
                outcome=str(check.outcome),
                kind=_KINDS[str(check.outcome)],
                value=_value(check),
                rest=tuple(_rest(check)),
            )
            for check in judged.checks
        ),
        doubts=judged.doubts,
        document=gate_document(judged),
    )


def _value(check: Check) -> str:
    """'2.00x (1.98 to 2.03x) in 5 blocks'; empty where nothing was measured."""
    if check.estimate is None:
        return ""
    ends = words.ends_of(check.low, check.high)
    between = f" ({words.outward(*ends, check.unit)})" if ends else ""
    value = units.estimate(check.estimate, ends, check.unit)
    return f"{value}{between} in {words.counted(check.blocks, 'block')}"


def _rest(check: Check) -> Iterator[str]:
    """The margin, why the run cannot tell, and what would decide it."""

    if check.margin is not None:
        yield f"{_apart(check.margin)} the limit of {units.value(check.limit, check.unit)}"
    if check.reason:
        yield check.reason
    if check.more_blocks is not None:
        blocks = words.counted(check.more_blocks, "more block")
        yield f"by this run's noise, {blocks} would decide it"


def _apart(margin: float) -> str:
    """How far from the limit: '47 % better than', '2.3 times worse than', 'as good as'."""
    much = words.slowdown(max(margin, 1 / margin) if margin > 0 else math.inf)
    if much == "0 %":
        return "as good as"
    return f"{much} better than" if margin > 1 else f"{much} worse than"


def gate_document(judged: Gate) -> dict[str, Any]:
    """The same for a program; an end that is open is null, and a key beside it says so."""
    checks = []
    for check in judged.checks:
        values = {**asdict(check), "outcome": str(check.outcome)}
        checks.append({**values, **record(("low", "high"), (check.low, check.high))})
    return {"outcome": str(judged.outcome), "checks": checks, "doubts": list(judged.doubts)}
