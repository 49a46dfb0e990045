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


def gate_view(judged: Gate) -> GateView:
    """A gate in words."""
    return GateView(
        outcome=str(judged.outcome),
        kind=_KINDS[str(judged.outcome)],
        checks=tuple(
            CheckView(
                threshold=one.threshold,
                platform=one.platform,
                task=one.task,
                outcome=str(one.outcome),
                kind=_KINDS[str(one.outcome)],
                value=_value(one),
                rest=tuple(_rest(one)),
            )
            for one in judged.checks
        ),
        doubts=judged.doubts,
        document=gate_document(judged),
    )


def _value(one: Check) -> str:
    """'2.00x (1.98 to 2.03x) in 5 blocks'; empty where nothing was measured."""
    if one.estimate is None:
        return ""
    ends = (one.low, one.high) if one.low is not None and one.high is not None else None
    between = "" if ends is None else f" ({words.outward(*ends, one.unit)})"
    value = units.estimate(one.estimate, ends, one.unit)
    return f"{value}{between} in {one.blocks} block{'' if one.blocks == 1 else 's'}"


def _rest(one: Check) -> Iterator[str]:
    """The margin, why the run cannot tell, and what would decide it."""

    if one.margin is not None:
        yield f"{_apart(one.margin)} the limit of {units.value(one.limit, one.unit)}"
    if one.reason:
        yield one.reason
    if one.more_blocks is not None:
        yield f"by this run's noise, {one.more_blocks} more block{'' if one.more_blocks == 1 else 's'} would decide it"


def _apart(margin: float) -> str:
    """How far from the limit: '47 % better than', '2.3 times worse than', 'as good as'."""
    much = words.slowdown(max(margin, 1 / margin) if margin > 0 else math.inf)
    return "as good as" if much == "0 %" else f"{much} {'better' if margin > 1 else 'worse'} than"


def gate_document(judged: Gate) -> dict[str, Any]:
    """The same for a program; an end that is open is null, and a key beside it says so."""
    checks = []
    for one in judged.checks:
        told = {**asdict(one), "outcome": str(one.outcome)}
        checks.append({**told, **record(("low", "high"), (one.low, one.high))})
    return {"outcome": str(judged.outcome), "checks": checks, "doubts": list(judged.doubts)}
