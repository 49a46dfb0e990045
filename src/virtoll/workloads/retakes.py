"""Points that are measured again: their generator or sink had no CPU, or their CPUs were moved meanwhile.

Main functions: ``retaken``, and ``retaken_unobserved`` for points that nothing else reads around.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from virtoll.runfolder.traffic_records import Discarded, Point
from virtoll.workloads.starvation import LEAST_CPU_SHARE, cpu_share

MOST_RETAKES: Final = 3
FIRST_PAUSE_SECONDS: Final = 0.1
"""Before the first retake, and twice as long before each other: what disturbs a point may end meanwhile."""


class Disturbed(Exception):
    """A point that is to be measured again, and what its record keeps of it."""

    def __init__(self, discarded: Discarded) -> None:
        super().__init__(discarded)
        self.discarded = discarded


RequireCalm = Callable[[Point], None]
"""Raises `Disturbed` for a point that is to be measured again, which ends what observes it without a record."""


def retaken(measure: Callable[[RequireCalm], Point]) -> Point:
    """A point during which generator and sink had their CPUs and these stayed where they were; or the last of four.

    ``measure`` gives its point to what it is called with, before it ends what observes it.
    """
    discarded: list[Discarded] = []
    while len(discarded) < MOST_RETAKES:
        try:
            return measure(_require_calm).replace(discarded=tuple(discarded))
        except Disturbed as disturbed:
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** len(discarded))
            discarded.append(disturbed.discarded)
    return measure(_accept).replace(discarded=tuple(discarded))


def retaken_unobserved(measure: Callable[[], Point]) -> Point:
    """The same of a point without anything that observes it."""

    def required(require_calm: RequireCalm) -> Point:
        point = measure()
        require_calm(point)
        return point

    return retaken(required)


def _require_calm(point: Point) -> None:
    share = cpu_share(point)
    moved = point.hand_over.changed if point.hand_over is not None else None
    if moved or (share is not None and share < LEAST_CPU_SHARE):
        raise Disturbed(Discarded(None if share is None else round(share, 4), moved))


def _accept(point: Point) -> None:
    """The last measurement stands as it is."""
