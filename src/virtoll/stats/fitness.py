"""The host's level: `fit`, `degraded` or `unfit`, from its state between trials, with the reason of each mark.

`THRESHOLDS` is the one table of limits; the report prints it.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from virtoll import units
from virtoll.runfolder.records import LAB_MESSAGE, FitnessRecord


class FitnessLevel(StrEnum):
    """How far the host can be believed."""

    FIT = "fit"
    DEGRADED = "degraded"
    UNFIT = "unfit"


@dataclass(frozen=True)
class Threshold:
    """One quantity of the host: at `degraded` and above it degrades the run, at `unfit` (None: never) it spoils it."""

    name: str
    meaning: str
    degraded: float
    unfit: float | None
    show: Callable[[float], str]


@dataclass(frozen=True)
class FitnessReading:
    """One threshold with the value found; None: it was not recorded on this host."""

    threshold: Threshold
    value: float | None
    level: FitnessLevel | None


@dataclass(frozen=True)
class HostFitness:
    """The level of the whole run, why, each quantity, and the kernel's new messages (but the lab's own)."""

    level: FitnessLevel
    reasons: tuple[str, ...]
    findings: tuple[FitnessReading, ...]
    kernel_messages: tuple[str, ...]
    samples: int

    @property
    def load(self) -> float | None:
        """The load average per CPU before the first trial; None: it was not recorded."""
        return next((finding.value for finding in self.findings if finding.threshold is _LOAD), None)


def _whole(value: float) -> str:
    return f"{value:.0f}"


_LOAD = Threshold("other load", "load average per CPU before the first trial", 0.5, 1.5, units.significant)
THRESHOLDS: tuple[Threshold, ...] = (
    Threshold("steal", "CPU time that the hypervisor below took away, share of the run", 0.005, 0.05, units.percent),
    Threshold(
        "memory pressure", "time in which some task waited for memory, share of the run", 0.001, 0.05, units.percent
    ),
    Threshold(
        "disk pressure", "time in which some task waited for the disk, share of the run", 0.10, 0.50, units.percent
    ),
    Threshold("swap", "pages swapped in and out during the run", 1, 10_000, _whole),
    Threshold("throttling", "thermal throttle events during the run", 1, 100, _whole),
    Threshold(
        "kernel messages", "new kernel messages during the run, but for those of the lab's own links", 1, None, _whole
    ),
    _LOAD,
    Threshold("memory in use", "largest share of the host's memory not available", 0.90, 0.98, units.percent),
    Threshold("nested", "the host is itself a virtual machine: relative numbers only", 1, None, _whole),
)


def host_fitness(samples: Sequence[FitnessRecord], host: Mapping[str, Any], *, merged: bool = False) -> HostFitness:
    """Brand a run from the samples between its trials (cumulative counters) and the manifest's host block.

    ``merged``: the samples of several parts stand one behind the other, each part beginning with one before a trial;
    nothing is counted from one part to the next.
    """
    values = _quantities(_sessions(samples) if merged else [samples], host)
    findings = tuple(_find(threshold, values.get(threshold.name)) for threshold in THRESHOLDS)
    reasons = [
        _reason(finding.threshold, finding.value, host)
        for finding in findings
        if finding.value is not None and finding.level in (FitnessLevel.DEGRADED, FitnessLevel.UNFIT)
    ]
    levels = [finding.level for finding in findings if finding.level is not None]
    if len(samples) < 2:
        reasons.append("the host's state was not recorded between trials")
        levels.append(FitnessLevel.DEGRADED)
    level = max(levels, key=list(FitnessLevel).index, default=FitnessLevel.FIT)
    return HostFitness(level, tuple(reasons), findings, _messages(samples), len(samples))


def _find(threshold: Threshold, value: float | None) -> FitnessReading:
    if value is None:
        return FitnessReading(threshold, None, None)
    if threshold.unfit is not None and value >= threshold.unfit:
        return FitnessReading(threshold, value, FitnessLevel.UNFIT)
    return FitnessReading(threshold, value, FitnessLevel.DEGRADED if value >= threshold.degraded else FitnessLevel.FIT)


def _reason(threshold: Threshold, value: float, host: Mapping[str, Any]) -> str:
    if threshold.name == "nested":
        return f"the host is itself a virtual machine ({host['hypervisor']}): relative numbers only"
    return f"{threshold.name} {threshold.show(value)} ({threshold.meaning})"


def _sessions(samples: Sequence[FitnessRecord]) -> list[Sequence[FitnessRecord]]:
    """The samples of each time that something was measured: the first of each is before any trial."""
    begins = [place for place, sample in enumerate(samples) if sample.after_trial is None and place]
    return [samples[begin:end] for begin, end in itertools.pairwise([0, *begins, len(samples)])]


def _quantities(sessions: Sequence[Sequence[FitnessRecord]], host: Mapping[str, Any]) -> dict[str, float | None]:
    """Each threshold's value by name; None, or no name, where this host did not give it."""
    values = _grown(sessions)
    samples = [sample for session in sessions for sample in session]
    cpus, installed = host.get("cpus"), host.get("memory_bytes")
    if samples:
        values["kernel messages"] = float(len(_messages(samples)))
    loads = [session[0].load_1m for session in sessions if session and session[0].load_1m is not None]
    if loads and cpus:
        values["other load"] = max(loads) / cpus
    available = [sample.memory_available_bytes for sample in samples if sample.memory_available_bytes is not None]
    if available and installed:
        values["memory in use"] = 1 - min(available) / installed
    if "hypervisor" in host:
        values["nested"] = float(host["hypervisor"] is not None)
    return values


def _grown(sessions: Sequence[Sequence[FitnessRecord]]) -> dict[str, float | None]:
    """The values that are differences of cumulative counters."""

    def growth(of: Callable[[FitnessRecord], float | None]) -> float | None:
        known = [grown for session in sessions if (grown := _growth(session, of)) is not None]
        return sum(known) if known else None

    passed = growth(lambda sample: sample.monotonic_ns)
    steal = growth(lambda sample: sample.steal_ns)
    swapped_in, swapped_out = growth(lambda sample: sample.swap_in_pages), growth(lambda sample: sample.swap_out_pages)
    memory = growth(lambda sample: sample.pressure.memory_some_us if sample.pressure else None)
    disk = growth(lambda sample: sample.pressure.io_some_us if sample.pressure else None)
    total = _sum(steal, growth(lambda sample: sample.busy_ns), growth(lambda sample: sample.idle_ns))
    return {
        "steal": _share(steal, total),
        "memory pressure": _share(memory, passed, 1000),
        "disk pressure": _share(disk, passed, 1000),
        "swap": _sum(swapped_in, swapped_out),
        "throttling": growth(lambda sample: sample.throttle_count),
    }


def _sum(*parts: float | None) -> float | None:
    """None where one of them is not known."""
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _growth(samples: Sequence[FitnessRecord], of: Callable[[FitnessRecord], float | None]) -> float | None:
    """How far a cumulative counter grew; a decrease (a resumed run on a rebooted host) starts anew. None below two."""
    values = [value for value in map(of, samples) if value is not None]
    if len(values) < 2:
        return None
    return sum(max(after - before, 0) for before, after in itertools.pairwise(values))


def _share(part: float | None, whole: float | None, scale: float = 1.0) -> float | None:
    return None if part is None or not whole else part * scale / whole


def _messages(samples: Sequence[FitnessRecord]) -> tuple[str, ...]:
    """Every kernel message of the samples but the lab's own, once."""
    messages = dict.fromkeys(message for sample in samples for message in sample.kernel_messages)
    return tuple(message for message in messages if not LAB_MESSAGE.search(message))
