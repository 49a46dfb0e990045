"""What is known of an experiment before anything starts: the names it may use, its trials as records, and its time.

``virtoll plan`` needs no more than this. It must not import what measures: every start of the command line pays for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from virtoll.experiment.model import Catalogue, Experiment, PlatformChoice, WorkloadChoice
from virtoll.experiment.plan import Plan, Trial, TrialSeconds, cells_of, estimate_seconds, make_plan
from virtoll.pipeline.requirements import guests_side_by_side, neighbour_guests
from virtoll.platforms import EVERY_PLATFORM, platform_of
from virtoll.runfolder.records import PlannedTrial
from virtoll.workloads import WORKLOADS, workload_of
from virtoll.workloads.base import Metric
from virtoll.workloads.loads import image_of
from virtoll.workloads.traffic import RESIDUAL_NS, FrameParameters

_LOAD_SECONDS = 0.5
_BOOT_SECONDS = 1.0  # of a platform that has no trials of its own
CALIBRATION_POINT_NS, CPU_POINT_NS, CPU_PAIRS = 200_000_000, 200_000_000, 3


def catalogue() -> Catalogue:
    """What an experiment may name: the platforms and workloads of this Virtoll."""
    return Catalogue(
        platforms=EVERY_PLATFORM.each(lambda platform: platform.parameter_model),
        workloads=WORKLOADS.each(lambda workload: workload.parameter_model),
        controls=EVERY_PLATFORM.each(lambda platform: platform.control_of),
        images=WORKLOADS.each(lambda workload: workload.image),
        load_image=image_of,
        programs=lambda choice: platform_of(choice).programs,
        boots_kernel=lambda choice: platform_of(choice).boots_image_kernel,
    )


def measured_by(workload: str) -> tuple[str, tuple[Metric, ...]]:
    """The resource that a workload stresses, and its metrics."""
    kind = WORKLOADS[workload]
    return kind.resource, kind.metrics


def needs_lab(experiment: Experiment) -> bool:
    """True when any of its platforms runs for real."""
    return any(EVERY_PLATFORM[choice.platform].needs_lab for choice in experiment.platforms)


def plan_of(experiment: Experiment) -> Plan:
    """The trials of an experiment, in order."""
    return make_plan(experiment, _rounds_seconds)


def _rounds_seconds(platform: PlatformChoice, workload: WorkloadChoice) -> TrialSeconds:
    """How long a platform's trials take in the rounds of a block, in seconds."""
    first = trial_seconds(Trial(0, 0, platform, workload))
    later = trial_seconds(Trial(0, 0, platform, workload, later=True))
    return TrialSeconds(first, later, in_turn=later < first and workload_of(workload).has_turns())


def trial_seconds(trial: Trial) -> float:
    """How long one guest's trial takes, in seconds, from the workload's and the platform's own estimate."""
    kind = EVERY_PLATFORM[trial.platform.platform]
    if not kind.needs_lab:
        return 0.0  # a model's time is simulated
    run = workload_of(trial.workload)
    slowdown = kind.slowdown
    if run.resource == "kernel" and kind.kernel_slowdown is not None:
        slowdown = kind.kernel_slowdown
    if trial.warm_up:
        return run.warm_up_seconds(slowdown)
    return run.later_seconds(slowdown) if trial.later else run.estimate_seconds(slowdown)


def estimate(plan: Plan) -> float:
    """How long a plan will take here, in seconds."""
    cells = cells_of(plan.trials).values()
    real = dict.fromkeys(t.workload for t in cells if EVERY_PLATFORM[t.platform.platform].needs_lab)
    trials = estimate_seconds(plan, whole_seconds, lambda choice: EVERY_PLATFORM[choice.platform].boot_seconds)
    for batch in plan.batches():
        first = batch[0]
        if first.scale is not None:  # one start is counted already
            trials += max(0.0, crowding(first) - 1) * EVERY_PLATFORM[first.platform.platform].boot_seconds
    boots = {trial.platform.label: EVERY_PLATFORM[trial.platform.platform].boot_seconds for trial in cells}
    for batch in plan.batches():
        neighbours = neighbour_guests(batch).items()
        trials += sum(boots.get(label, _BOOT_SECONDS) * count for (label, _, _), count in neighbours)
        trials += sum(boots[label] * count for (label, _), count in guests_side_by_side(batch).items())
    return trials + calibration_seconds(real)


def whole_seconds(trial: Trial) -> float:
    """How long one trial of a plan takes here, in seconds, without the start of its guests."""
    return crowding(trial) * trial_seconds(trial) + _load_seconds(trial)


def crowding(trial: Trial) -> float:
    """How many times longer a trial takes than one of one guest: its virtual CPUs by the host's, and at least 1."""
    if trial.scale is None:
        return 1.0
    return max(1.0, trial.scale.guests * trial.scale.vcpus / len(os.sched_getaffinity(0)))


def _load_seconds(trial: Trial) -> float:
    """How long the load of guests beside a trial takes to begin and to end, in seconds."""
    kind = EVERY_PLATFORM[trial.platform.platform]
    return 0.0 if trial.condition is None or not kind.needs_lab else _LOAD_SECONDS * max(1.0, kind.slowdown / 10)


def planned_trial(trial: Trial) -> PlannedTrial:
    """One trial of the plan, as its record will name it."""
    return PlannedTrial(
        trial=trial.number,
        block=trial.block,
        platform=trial.platform.label,
        workload=trial.workload.workload,
        parameters=trial.workload.parameters.model_dump(mode="json"),
        round=trial.round,
        warm_up=trial.warm_up,
        condition=trial.condition,
        scale=trial.scale,
    )


def shapes(workloads: Iterable[WorkloadChoice]) -> tuple[FrameParameters, ...]:
    """The shapes of frames that workloads send, each once, in order."""
    parameters = (choice.parameters for choice in workloads)
    return tuple(dict.fromkeys(chosen.shape() for chosen in parameters if isinstance(chosen, FrameParameters)))


def calibration_seconds(workloads: Iterable[WorkloadChoice]) -> float:
    """How long both calibrations take, in seconds; flat out some frames are lost, and the sink waits for them."""
    pairs = CALIBRATION_POINT_NS / 1e9 + 0.1 + CPU_PAIRS * (CPU_POINT_NS / 1e9 + 0.1)
    return 2 * len(shapes(workloads)) * (2 * pairs + RESIDUAL_NS / 1e9)
