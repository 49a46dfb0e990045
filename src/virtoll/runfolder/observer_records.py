"""Records of what the instrument itself used, as frozen dataclasses (docs/run-folder.md): raw readings."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ObserverReading:
    """CPU time so far (user and system, ns) at one moment: the controller, its ended children, its agents by role."""

    monotonic_ns: int
    controller_cpu_ns: int
    children_cpu_ns: int
    agents_cpu_ns: dict[str, int | None]


@dataclass(frozen=True)
class Observed:
    """Two readings around something."""

    before: ObserverReading
    after: ObserverReading


@dataclass(frozen=True)
class ObserverCost:
    """Readings around a whole trial, and around each request in it whose answer is what is measured.

    `counters`: whether hops and the guest's processes were read around the latter.
    """

    counters: bool
    trial: Observed
    measured: tuple[Observed, ...]
