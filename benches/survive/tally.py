"""What became of the cases of each kind: counted, and printed as one Markdown table.

Main types: ``Case`` (one command and what is wrong with how it ended) and ``Tally``.
"""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import hypothesis
from benches.survive.watched import Outcome
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

MOST_SECONDS = 300.0  # of CPU time: a digest of 10 GB takes 20 to 70 s
MOST_BYTES = 1 << 30
_SHOWN = 3  # of those that are wrong alike


@dataclass
class Tally:
    """The cases of one kind. ``wrong``: each that did what it should not, with what was done to its input."""

    kind: str
    cases: int = 0
    accepted: int = 0
    refused: int = 0
    told: int = 0
    tracebacks: int = 0
    outside: int = 0
    memory_bytes: int = 0
    cpu_seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, how: str, outcome: Outcome, codes: tuple[int, ...] = (0, 2), named: str = "") -> list[str]:
        """Count one; what is wrong with it.

        ``codes``: what the command may end with; where it refuses, its sentence names ``named``.
        """
        self.cases += 1
        self.accepted += outcome.code == 0
        self.refused += outcome.code == 2
        self.told += outcome.code in codes and outcome.code not in (0, 2)
        self.tracebacks += outcome.has_traceback
        self.outside += bool(outcome.changed)
        self.memory_bytes = max(self.memory_bytes, outcome.memory_bytes)
        self.cpu_seconds = max(self.cpu_seconds, outcome.cpu_seconds)
        found = complaints(outcome, codes, named)
        if found:
            self.fail(found[0], f"{self.kind}: {how}: {'; '.join(found)}\n{outcome.told()}")
        return found

    def fail(self, reason: str, case: str) -> None:
        """Keep one that is wrong, and say so at once."""
        self.reasons[reason[:100]] += 1
        self.wrong.append(case)
        if self.reasons[reason[:100]] <= _SHOWN:
            print(f"{case}\n", file=sys.stderr, flush=True)

    def row(self) -> str:
        """Of the table."""
        numbers = (self.cases, self.accepted, self.refused, self.told, self.tracebacks, self.outside)
        held = f"{self.memory_bytes / 2**20:.0f} MiB"
        cells = (self.kind, *map(str, numbers), str(sum(self.reasons.values())), held, f"{self.cpu_seconds:.1f} s")
        return f"| {' | '.join(cells)} |"


HEAD = (
    "| kind | cases | accepted | refused (exit 2) | other exit code | traceback | wrote outside | wrong in any way "
    "| most memory | most CPU time |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def complaints(outcome: Outcome, codes: tuple[int, ...], named: str) -> list[str]:
    """What is wrong with how a command ended; nothing where it is as documented."""
    found = []
    if outcome.has_traceback:
        found.append(f"traceback: {outcome.err.strip().splitlines()[-1][:150]}")
    if outcome.code not in codes:
        found.append(f"exit code {outcome.code}" if outcome.code is not None else f"ended: {outcome.ended_by}")
    if outcome.controls:
        found.append(f"control characters: {outcome.controls!r}")
    if outcome.changed:
        found.append(f"changed: {', '.join(outcome.changed[:3])}")
    if outcome.started:
        found.append(f"started: {', '.join(outcome.started[:3])}")
    if outcome.code not in (0, None) and not outcome.err.strip() and outcome.code == 2:
        found.append("no sentence")
    if outcome.code == 2 and named not in outcome.err:
        found.append(f"its sentence does not name {named}")
    if len(outcome.err) > 64 << 10:
        found.append(f"{len(outcome.err)} characters of complaint")
    if outcome.cpu_seconds > MOST_SECONDS:
        found.append(f"{outcome.cpu_seconds:.0f} s of CPU time")
    if outcome.memory_bytes > MOST_BYTES:
        found.append(f"{outcome.memory_bytes >> 20} MiB of memory")
    return found


class _TimeIsUp(Exception):
    """No more cases are begun."""


@dataclass(frozen=True)
class Extent:
    """How many cases of a part, drawn with which seed; ``seconds``: no more are begun after so many of them."""

    seed: int
    count: int
    seconds: float = math.inf


def drawn(extent: Extent, strategy: SearchStrategy[Any], case: Callable[[Any], None]) -> None:
    """Give so many cases of a strategy, the same for the same seed."""
    end = time.monotonic() + extent.seconds

    @hypothesis.seed(extent.seed)
    @hypothesis.settings(
        max_examples=extent.count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(strategy)
    def each(one: Any) -> None:
        if time.monotonic() >= end:
            raise _TimeIsUp
        case(one)

    with contextlib.suppress(_TimeIsUp):
        each()


def table(tallies: list[Tally]) -> str:
    """All of it."""
    return "\n".join([HEAD, *(one.row() for one in tallies)])


def wrong(tallies: list[Tally]) -> list[str]:
    """What is wrong, each with how often."""
    return [f"{one.kind}: {number} x {reason}" for one in tallies for reason, number in one.reasons.most_common()]
