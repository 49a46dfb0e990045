"""What the host did on the guest's CPUs, whoever for: softirqs, interrupts, and their time, by /proc.

Whatever else runs on these CPUs is in it: the frames' own way through the kernel, ksoftirqd and kworkers, and what has
nothing to do with the guest. Sources: proc(5); the kernel's ``filesystems/proc.rst``.
"""

from __future__ import annotations

import os
from typing import ClassVar

from virtoll.host.observe.base import CounterObserver
from virtoll.host.readings import read_text

_TICK_NS = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
_TIMES = {5: "interrupt_ns", 6: "softirq_ns", 7: "steal_ns"}
_INTERRUPTS = " interrupts"


class MachineCounters(CounterObserver):
    """Needs no right."""

    name: ClassVar[str] = "machine"
    counts: ClassVar[tuple[str, ...]] = ("softirqs", "interrupts", *_TIMES.values())

    def available(self) -> str | None:
        """Where the guest is pinned: of all the host's CPUs the counts would be anybody's."""
        return None if self.watched.cpus else "its guest is pinned to no CPU, and all of the host's do anybody's work"

    def read(self) -> dict[str, int]:
        """Sums over the guest's CPUs."""
        counters = {f"softirqs:{name}": count for name, count in self._table("softirqs").items()}
        counters |= {f"interrupts:{name}": count for name, count in self._table("interrupts").items()}
        cpus = {f"cpu{cpu}" for cpu in self.watched.cpus}
        for line in (read_text(self.watched.proc / "stat") or "").splitlines():
            name, *words = line.split()
            for place, counter in _TIMES.items() if name in cpus and len(words) > max(_TIMES) else ():
                counters[counter] = counters.get(counter, 0) + int(words[place]) * _TICK_NS
        return counters

    def _table(self, name: str) -> dict[str, int]:
        """A table with a column for each CPU; interrupts are called what they are, and not by number."""
        lines = (read_text(self.watched.proc / name) or "").splitlines()
        if not lines:
            return {}
        columns = [place for place, head in enumerate(lines[0].split()) if head in self._heads]
        counts: dict[str, int] = {}
        for line in lines[1:]:
            label, _, rest = line.partition(":")
            words = rest.split()
            width = len(lines[0].split())
            if len(words) < width or not all(word.isdigit() for word in words[:width]):
                continue  # a count of no CPU, such as ERR
            named = " ".join(words[width:]).removesuffix(_INTERRUPTS)
            kind = label.strip() if not named else named.split()[-1] if label.strip().isdigit() else named
            counts[kind] = counts.get(kind, 0) + sum(int(words[place]) for place in columns)
        return counts

    @property
    def _heads(self) -> set[str]:
        return {f"CPU{cpu}" for cpu in self.watched.cpus}
