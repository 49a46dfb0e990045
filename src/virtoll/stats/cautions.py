"""What a reader of results must be warned of: a closed list, each kind with its advice. Pure.

Those of forwarding are found here, those of programs in `idle_programs`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from virtoll.stats.ceilings import Headroom
from virtoll.stats.hops import Owner
from virtoll.stats.sweeps import Curve
from virtoll.stats.values import Task
from virtoll.stats.wire import BackendUse, Cell, LossRow, PaceRow

HOST_LOSS_SHARE = 0.001
PACE_ERROR = 1e-4


class Caution(Enum):
    """Each kind: its name, what it means, and what to do about it."""

    GENERATOR_BOUND = (
        "generator-bound",
        "within 10 % of what generator and sink reach with nothing between: the instrument's limit, not the platform's",
        "take the rate as a lower limit, ratios to such a baseline as upper limits; use a faster back end or more CPUs",
    )
    LOSSLESS = (
        "no loss flat out",
        "almost no frames were lost at full load: on virtual links the generator's CPU may forward too",
        "take the rate as a lower bound; give generator and router separate CPUs (threaded NAPI)",
    )
    UNCALIBRATED = (
        "no ceiling known",
        "what these cells used was not calibrated, so it is not known whether they are generator-bound",
        "run again with this version; look into calibration.jsonl for why it failed",
    )
    HOST_LOSS = (
        "the host's own loss",
        "more than 0.1 % was lost at paced rates outside the platform: in generator, sink or the sink's ring",
        "do not book it on the platform; use more CPUs, or lower rates",
    )
    UNLOCATED = (
        "loss not located",
        "counters on the way could not be read, so it is not known who lost these frames",
        "use an agent that knows 'counters' in every guest",
    )
    FORGED = (
        "forged frames",
        "frames with a wrong tag came to the sink: they are in no count, and the books of these cells are exact",
        "look for who writes them: the guest itself, or what else is on its link",
    )
    PACE_MISSED = (
        "pace missed",
        "a rate below the ceiling was missed by more than 0.01 % although every frame was sent",
        "look at the pacing table; give the generator its own core",
    )
    MIXED_BACKENDS = (
        "several back ends",
        "cells of one workload were measured with different back ends or sinks: their rates are not comparable",
        "name one back end in the experiment that works on all platforms",
    )
    FALLBACK = (
        "not the fastest back end",
        "the host refused the fastest back end or sink",
        "run as root on Linux 5.18 or later, or accept the lower ceiling",
    )
    SHARED_CORE = (
        "a core is shared",
        "generator, sink or guest run on the same core and take time from each other",
        "give the host more CPUs, or the guest fewer",
    )
    IDLE_PROGRAM = (
        "a program that sleeps",
        "it took more than three times as long as it used a CPU or a disk was waited for, in each of its trials",
        "look for what it waits for, and take a larger size: platforms seem alike while all of them sleep",
    )
    NO_RATES = (
        "a program without rates",
        "none of the rates that it reports is known, in any trial: each of its steps was over too soon",
        "take a larger size",
    )

    @property
    def title(self) -> str:
        """Its name."""
        return self.value[0]

    @property
    def meaning(self) -> str:
        """What it means."""
        return self.value[1]

    @property
    def advice(self) -> str:
        """What to do."""
        return self.value[2]


@dataclass(frozen=True)
class Warned:
    """One caution of a run, and what it concerns."""

    caution: Caution
    concerns: str


def cautions(
    headrooms: Mapping[Cell, Headroom],
    curves: Sequence[Curve],
    losses: Sequence[LossRow],
    *,
    forged: Sequence[tuple[str, str]],
    paces: Sequence[PaceRow],
    uses: Sequence[BackendUse],
    tasks: Sequence[Task],
    pinning: Mapping[str, Any] | None,
    calibrated: bool,
) -> tuple[Warned, ...]:
    """Every caution that a run's forwarding results need, in the list's order; none without traffic.

    `forged`: platform and size of those whose sink saw forged frames. `calibrated`: whether the run tried to calibrate
    at all; runs of models do not.
    """
    if not headrooms:
        return ()
    sizes = {task.parameters: task.size for task in tasks}
    bound: list[tuple[str, str]] = []
    unknown: list[tuple[str, str]] = []
    sweeps_bound = set()
    for (platform, task), headroom in headrooms.items():
        if headroom.generator_bound:
            bound.append((platform, task.size))
            sweeps_bound.add((platform, task.parameters))
        if headroom.share is None and calibrated:
            unknown.append((platform, task.size))
    lossless = [
        (curve.platform, sizes.get(curve.parameters, ""))
        for curve in curves
        if curve.lossless and (curve.platform, curve.parameters) not in sweeps_bound
    ]
    of_host, unlocated = _lost_cells(losses)
    concerned = {
        Caution.GENERATOR_BOUND: _cells(bound),
        Caution.LOSSLESS: _cells(lossless),
        Caution.UNCALIBRATED: _cells(unknown),
        Caution.HOST_LOSS: _cells(of_host),
        Caution.UNLOCATED: _cells(unlocated),
        Caution.FORGED: _cells(forged),
        Caution.PACE_MISSED: ", ".join(_missed(paces)),
        Caution.MIXED_BACKENDS: _mixed(uses),
        Caution.FALLBACK: "; ".join(f"{use.name} as {use.kind}: {use.reason}" for use in uses if use.reason),
        Caution.SHARED_CORE: shared_cores(pinning),
    }
    return tuple(Warned(caution, concerns) for caution, concerns in concerned.items() if concerns)


def _lost_cells(losses: Sequence[LossRow]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The cells of which the host lost too much at paced rates, and those of which a loss is not located."""
    of_host, unlocated = list[tuple[str, str]](), list[tuple[str, str]]()
    for row in losses:
        cell = row.platform, row.task.size
        if not row.flat_out and row.by_owner.get(Owner.HOST, 0) > HOST_LOSS_SHARE * row.offered_frames:
            of_host.append(cell)
        if row.by_owner.get(Owner.UNLOCATED) and cell not in unlocated:
            unlocated.append(cell)
    return of_host, unlocated


def _missed(paces: Sequence[PaceRow]) -> list[str]:
    return [
        f"{row.task.size} at {row.target_rate:.0f} frames/s"
        for row in paces
        if row.median_error is not None and abs(row.median_error) > PACE_ERROR
    ]


def _cells(cells: Sequence[tuple[str, str]]) -> str:
    """'native (64 B, 1500 B); netns (64 B)'."""
    gathered: dict[str, list[str]] = {}
    for platform, size in cells:
        gathered.setdefault(platform, []).append(size)
    return "; ".join(f"{platform} ({', '.join(sizes)})" for platform, sizes in gathered.items())


def _mixed(uses: Sequence[BackendUse]) -> str:
    reported = []
    for kind in ("generator", "sink"):
        names = dict.fromkeys(use.name for use in uses if use.kind == kind)
        if len(names) > 1:
            reported.append(f"{kind}: " + ", ".join(names))
    return "; ".join(reported)


def shared_cores(pinning: Mapping[str, Any] | None) -> str:
    """'generator and sink share core 1'; empty where nobody shares, or nothing is pinned."""
    if not pinning:
        return ""
    users: dict[int, list[str]] = {}
    for name, cores in (
        ("guest", pinning.get("guest_cpus") or []),
        ("generator", [pinning.get("generator_cpu")]),
        ("sink", [pinning.get("sink_cpu")]),
    ):
        for core in cores:
            if core is not None:
                users.setdefault(core, []).append(name)
    shared = {core: " and ".join(names) for core, names in users.items() if len(names) > 1}
    return "; ".join(f"{names} share core {core}" for core, names in shared.items())
