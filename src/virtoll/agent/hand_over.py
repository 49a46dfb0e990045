"""Reads how fast the CPUs of a trial hand a cache line to each other, before and after what is measured on them.

Main types: ``HandOverReader`` (who reads which CPUs) and ``HandOverAround`` (what was read around something). A pair
takes about a millisecond, during which nothing else is measured. What the readings mean is ``stats/hand_over.py``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from virtoll.agent.client import Caller
from virtoll.agent.operations.hand_over import HandOverRequest
from virtoll.errors import AgentError
from virtoll.runfolder.hand_over import HandOver, HandOverSpan

MOST_PAIRS = 8
"""Pairs of one reading, each of which takes a millisecond: a large guest's other CPUs are next to those."""


@dataclass(frozen=True)
class HandOverReader:
    """``agent``: on the host of these ``cpus``, which are read against the first of them: the generator's."""

    agent: Caller
    cpus: tuple[int, ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """What is read; nothing on a single CPU."""
        return tuple((self.cpus[0], cpu) for cpu in self.cpus[1 : 1 + MOST_PAIRS])

    def read(self) -> tuple[HandOver, ...]:
        """A reading of each pair, or its reason; ``AgentError`` where the agent cannot."""
        return self.agent.ask(HandOverRequest(pairs=self.pairs)).readings


@dataclass
class HandOverAround:
    """What was read around something; ``span``: None where nobody could read."""

    span: HandOverSpan | None = None


@contextlib.contextmanager
def hand_over_around(reader: HandOverReader | None) -> Iterator[HandOverAround]:
    """Readings before and after what happens in the context; none after it where that fails."""
    if reader is None:
        yield HandOverAround()
    elif not reader.pairs:
        reason = f"a cache line is handed over between two CPUs, and {len(reader.cpus)} of this host are used"
        yield HandOverAround(HandOverSpan((), (), reason))
    else:
        around = HandOverAround(_read(reader, HandOverSpan((), ())))
        yield around
        if around.span is not None and around.span.before:
            around.span = _read(reader, around.span)


def _read(reader: HandOverReader, span: HandOverSpan) -> HandOverSpan:
    """The span with one more reading: the one before, or else the one after."""
    try:
        readings = reader.read()
    except AgentError as error:
        return span.replace(reason=str(error))
    return span.replace(after=readings) if span.before else span.replace(before=readings)
