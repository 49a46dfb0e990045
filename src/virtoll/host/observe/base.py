"""What an observer is: it counts what a guest makes its host do, around what is measured of a trial.

Main types: ``CounterObserver`` (one source of counters) and ``Watched`` (the guest that is observed). An observer says
what it counts, whether it can here, and reads all its counters twice. Nothing is subtracted: that is
``stats/explanation.py``. Observers are on in trials of their own, never in one that is timed for a result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from virtoll.host.guest_usage import GuestProcesses


def _nothing() -> Mapping[str, int]:
    return {}


@dataclass(frozen=True)
class Watched:
    """The guest that is observed, and by what means; several guests that are measured together are one.

    ``processes``: theirs on this host; none for a model and for a guest elsewhere. ``cpus``: the host's that it is
    pinned to, none for any. ``interfaces``: the host's own ends of its links, by name. ``platform``: reads what the
    platform itself counts of it. ``run``: runs a program to its end, for a role; a ``GuestError`` where it fails.
    ``scratch``: where files may be mounted. ``host_proc``: the host's own /proc, whose processes are all of the host's;
    None where the lab was not given it. ``since_ticks``: when the guest's threads of the kernel are at least as young,
    in the host's ticks since its boot. ``root``: where /proc and /sys are.
    """

    processes: tuple[GuestProcesses, ...] = ()
    cpus: tuple[int, ...] = ()
    interfaces: tuple[str, ...] = ()
    platform: Callable[[], Mapping[str, int]] = _nothing
    run: Callable[[Sequence[str], str], object] | None = None
    scratch: Path = Path("/run")
    host_proc: Path | None = None
    since_ticks: int = 0
    root: Path = field(default_factory=lambda: Path("/"))

    @property
    def proc(self) -> Path:
        """/proc as this process sees it."""
        return self.root / "proc"


class CounterObserver(ABC):
    """One source of counters.

    ``counts``: names of ``runfolder.explain_records.COUNTERS`` that it may read. ``uncounted``: those that it found
    missing while it read, with the reason.
    """

    name: ClassVar[str]
    counts: ClassVar[tuple[str, ...]]

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        self.uncounted: dict[str, str] = {}

    def applies(self) -> bool:
        """Whether there is such a thing to count of this guest; by default of each that has processes here."""
        return bool(self.watched.processes)

    @abstractmethod
    def available(self) -> str | None:
        """Why it cannot count here, in one sentence by what was tried; None where it can. What it holds is opened."""

    @abstractmethod
    def read(self) -> dict[str, int]:
        """Its counters now, each counted from some fixed moment on; one that cannot be read is left out."""

    def read_again(self, before: Mapping[str, int]) -> dict[str, int]:
        """The second reading around something, after ``before``; without counters whose difference would be wrong."""
        del before
        return self.read()

    def close(self) -> None:  # noqa: B027 - most observers hold nothing
        """Give back what was opened."""
