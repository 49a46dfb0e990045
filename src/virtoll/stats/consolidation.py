"""How many idle guests fit: what each further one took of the host's memory, and so how many fit into a GiB. Pure.

Two measures. *Available*: by how much each start lowered the memory that the host has available. All that the host pays
is in it, and what others on the host did meanwhile. *Processes*: by how much it raised PSS and page tables of all
guests' processes together; the kernel's own share is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from virtoll.runfolder.guest_records import ConsolidationRecord
from virtoll.stats.intervals import Estimate, student

GIB = 2**30


@dataclass(frozen=True)
class Slope:
    """Bytes a guest: the mean over the series' steps with Student's 95 % interval.

    The mean, because it is what the whole series took divided by its guests; noise of single steps cancels in it.
    """

    bytes_per_guest: Estimate

    @property
    def guests_per_gib(self) -> tuple[float, float | None, float | None] | None:
        """GiB / slope, with the interval's ends turned over; None where a guest takes nothing that can be seen.

        An end is None where the slope's interval reaches zero: then that side has no bound.
        """
        value, interval = self.bytes_per_guest.value, self.bytes_per_guest.interval
        if value <= 0:
            return None
        if interval is None:
            return GIB / value, None, None
        return GIB / value, GIB / interval.high, GIB / interval.low if interval.low > 0 else None


@dataclass(frozen=True)
class Consolidation:
    """One platform's series: guests that ran at its end, why it ended, and what each took by either measure."""

    platform: str
    guests: int
    reason: str
    steps: tuple[ConsolidationRecord, ...]
    available: Slope | None
    processes: Slope | None


def consolidations(records: Sequence[ConsolidationRecord]) -> tuple[Consolidation, ...]:
    """One row for each platform, in the order measured."""
    rows = []
    for platform in dict.fromkeys(record.platform for record in records):
        every = [record for record in records if record.platform == platform]
        begins = max((place for place, record in enumerate(every) if record.step == 1), default=0)
        series = every[begins:]  # a series that was broken off is begun anew
        started = tuple(record for record in series if record.status == "ok")
        ended = [record.reason for record in series if record.status != "ok"]
        reason = "the series was not brought to its end"
        if ended:
            reason = ended[-1] or "no reason was stored"
        guests = started[-1].guests if started else 0
        available, processes = _slope(list(map(_taken, started))), _slope(_growth(started))
        rows.append(Consolidation(platform, guests, reason, started, available, processes))
    return tuple(rows)


def _taken(record: ConsolidationRecord) -> int | None:
    if record.available_before_bytes is None or record.available_bytes is None:
        return None
    return record.available_before_bytes - record.available_bytes


def _growth(steps: Sequence[ConsolidationRecord]) -> list[int | None]:
    held = [0, *(record.processes_bytes for record in steps)]
    grown: list[int | None] = []
    for before, after in pairwise(held):
        grown.append(after - before if before is not None and after is not None else None)
    return grown


def _slope(values: Sequence[int | None]) -> Slope | None:
    known = [value for value in values if value is not None]
    return Slope(student(known)) if known and len(known) == len(values) else None
