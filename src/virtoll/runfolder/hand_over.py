"""Records of how fast two CPUs hand a cache line to each other: the distance that they are at now.

On a host of several L3 caches or sockets it belongs to the chosen CPUs. A virtual CPU has no fixed place: its
hypervisor may run two of them on neighbouring cores in one second and on distant ones in the next.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

from virtoll.runfolder.record import Record

FAR_RATIO: Final = 2.0
"""Two readings of a pair whose ratio is larger are of two distances.

Cores that share an L3 cache, those of two and those of two sockets are further apart than that; readings at one
distance are within a factor of 1.7 (48 to 80 ns and 274 to 345 ns on the machine that this was tried on).
"""


class Distance(StrEnum):
    """How far CPUs were from each other around what was measured; of several pairs, the furthest."""

    NEAR = "near"
    FAR = "far"
    CHANGED = "changed"


class HandOver(Record):
    """One reading of a pair of CPUs; `monotonic_ns`: when it began, by the clock of the CPUs' host.

    `least_batch_ns` and `median_batch_ns`: the shortest of `batches` batches of `batch_round_trips` and the middle one.
    None: there is no reading, for the `reason`.
    """

    cpus: tuple[int, int]
    monotonic_ns: int
    batch_round_trips: int
    batches: int
    least_batch_ns: int | None
    median_batch_ns: int | None
    reason: str | None

    @property
    def round_trip_ns(self) -> float | None:
        """The least mean of a batch: from one CPU to the other and back."""
        return None if self.least_batch_ns is None else self.least_batch_ns / self.batch_round_trips


class HandOverSpan(Record):
    """The readings around a point or a trial, one of each pair; `after` is empty for a trial that failed before.

    `reason`: why there is no pair to read, and then both are empty.
    """

    before: tuple[HandOver, ...]
    after: tuple[HandOver, ...]
    reason: str | None = None

    @property
    def changed(self) -> bool | None:
        """Whether the distance of a pair changed in between; None: no pair has a reading at both ends."""
        after = {reading.cpus: reading.round_trip_ns for reading in self.after}
        ratios = []
        for reading in self.before:
            earlier, later = reading.round_trip_ns, after.get(reading.cpus)
            if earlier and later:
                ratios.append(max(earlier, later) / min(earlier, later))
        return max(ratios) > FAR_RATIO if ratios else None

    @property
    def before_ns(self) -> float | None:
        """The round trip of the furthest pair before it; None without any."""
        return _furthest_ns(self.before)

    @property
    def after_ns(self) -> float | None:
        """The round trip of the furthest pair after it; None without any."""
        return _furthest_ns(self.after)


def _furthest_ns(readings: Sequence[HandOver]) -> float | None:
    known = [reading.round_trip_ns for reading in readings]
    return max((value for value in known if value is not None), default=None)
