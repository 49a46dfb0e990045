"""The condition of a trial: which guests run beside the measured one, what they do, and on which CPUs.

Main types: ``Condition`` (what an experiment asks for and a record names), ``NeighbourRecord`` (what one guest beside
it did during a trial), ``MaximumRecord`` (what a guest that forwards as a load forwards at most). A trial without a
condition is measured *alone*: guests that are not measured are stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Point

Load = Literal["idle", "light", "heavy", "memory-bandwidth", "cache", "disk", "processes", "forward", "network-flood"]
Affinity = Literal["shared", "apart", "unpinned"]
ALONE: Final = "alone"
TRAFFIC_LOADS: Final = frozenset({"forward", "network-flood"})
LOAD_WORDS: Final[Mapping[str, str]] = {
    "idle": "idle guest",
    "light": "light load",
    "heavy": "heavy load",
    "memory-bandwidth": "memory bandwidth",
    "cache": "cache",
    "disk": "disk",
    "processes": "process storm",
    "forward": "forwarding",
    "network-flood": "network flood",
}
AFFINITY_WORDS: Final[Mapping[str, str]] = {"shared": "same CPUs", "apart": "other CPUs", "unpinned": "not pinned"}


class Condition(Record):
    """The guests beside the measured one: how many, each with this load; ``platform``: their label, None for its own.

    ``affinity``: on the measured guest's CPUs, on others, or on any. ``memory_bytes``: of each, None for as much as the
    measured one has. ``rate_share``: what it forwards, as a share of its own maximum; None where it forwards nothing.
    """

    load: Load
    affinity: Affinity = "shared"
    guests: int = 1
    platform: str | None = None
    memory_bytes: int | None = None
    rate_share: float | None = None

    @property
    def label(self) -> str:
        """In a few words, different for each condition: 'heavy load, same CPUs'."""
        words = LOAD_WORDS[self.load]
        if self.rate_share is not None:
            words += f" at {self.rate_share * 100:g} %"
        parts = [f"{self.guests} x {words}" if self.guests > 1 else words]
        if self.platform is not None:
            parts.append(f"in {self.platform}")
        if self.memory_bytes is not None:
            parts.append(f"with {self.memory_bytes / 2**20:g} MiB")
        return ", ".join([*parts, AFFINITY_WORDS[self.affinity]])

    def guest(self, number: int) -> str:
        """One of the guests beside in words; `number`: from 1."""
        which = f"guest {number} of {self.guests}" if self.guests > 1 else "the guest"
        return f"{which} beside it ({self.label})"


class Progress(Record):
    """CPU time that a load's processes have used, in ns to 10 ms, by the clock of the guest that they run in."""

    monotonic_ns: int
    cpu_ns: int
    processes: int


def readings_through(readings: Sequence[Progress], window: tuple[int, int]) -> tuple[Progress, ...]:
    """From the last reading at a window's begin or before to the first at its end or after; none where one is missing.

    `window`: by the clock of the readings, ns; they are in the order of time.
    """
    begin, end = window
    before = [place for place, reading in enumerate(readings) if reading.monotonic_ns <= begin]
    after = [place for place, reading in enumerate(readings) if reading.monotonic_ns >= end]
    return tuple(readings[before[-1] : after[0] + 1]) if before and after else ()


class NeighbourRecord(Record):
    """One guest beside the measured one during a trial; ``cpus``: the host's that it is pinned to, none for any.

    ``argv``: the program that loads it, with its readings and the end of what it wrote; ``traffic``: what it was sent
    instead, the answer as it came, and ``maximum_frames_per_second`` what it forwards alone. ``window``: when the
    trial began and ended, by the clock of the readings (of the guest, or of the host for traffic), ns.
    """

    boot: str
    platform: str
    cpus: tuple[int, ...]
    window: tuple[int, int]
    argv: tuple[str, ...] = ()
    progress: tuple[Progress, ...] = ()
    output: str = ""
    traffic: Point | None = None
    maximum_frames_per_second: float | None = None


class MaximumRecord(Record):
    """What a guest that forwards as a load forwards at most, alone, and the points of the sweep that say so."""

    boot: str
    platform: str
    frame_size_bytes: int
    points: tuple[Point, ...]
    maximum_frames_per_second: float
