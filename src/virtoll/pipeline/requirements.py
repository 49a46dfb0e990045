"""What workloads need and platforms lack: which trials cannot run, said before a guest is started for them.

A trial whose workload needs more than its guest is given is skipped with the reason, on every platform alike, the bare
host too. A guest that was given more would not be compared with the others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from virtoll import units
from virtoll.experiment.model import Experiment, Image, Parameters, PlatformChoice
from virtoll.experiment.plan import Plan, Trial, cells_of
from virtoll.experiment.topology import Testbed
from virtoll.host.guest_usage import available_bytes
from virtoll.lab.data import IN_MEMORY, file_system_of
from virtoll.lab.disks import DISKS
from virtoll.pipeline.pinning import Pinning, cpus_at_once, pinning_for
from virtoll.platforms import EVERY_PLATFORM, platform_of
from virtoll.platforms.attachment import AttachedMachine
from virtoll.platforms.base import Platform
from virtoll.platforms.limits import OwnLimits
from virtoll.runfolder.conditions import TRAFFIC_LOADS, Affinity, Condition
from virtoll.workloads import workload_of
from virtoll.workloads.base import FEATURES, Needs
from virtoll.workloads.loads import data_bytes_of, image_of

SMALLEST_IMAGE: Final[Image] = "tiny"
"""Holds the agent alone."""
RESERVE_BYTES = 512 * 2**20
"""Memory of the host that guests are not to take, so that it neither swaps nor kills."""


def needs_of(trial: Trial) -> Needs:
    """What a trial's workload needs with its parameters."""
    return workload_of(trial.workload).needs()


def why_impossible(trial: Trial, experiment: Experiment) -> str | None:
    """Why a trial cannot run, in one sentence, as far as it is known before its guest is there; None: it can.

    How large a guest is that is only found is not known before.
    """
    kind = EVERY_PLATFORM[trial.platform.platform]
    vcpus, memory_bytes = size_of(trial, experiment)
    size = None if trial.platform.parameters.pre_provisioned else (vcpus, memory_bytes)
    needs = needs_of(trial)
    return (
        _why_too_many_cpus(kind, vcpus)
        or why_not_there(trial.platform, kind, experiment.cpu_quota)
        or _why_not_in_its_image(trial, experiment)
        or _why_not_on(kind, trial, needs, experiment.image, memory_bytes)
        or unmet(trial.workload.workload, needs, size, kind.name, kind.lacks, memory_key=_memory_key(trial))
        or _why_not_side_by_side(trial, needs, experiment)
        or _why_no_neighbours(trial, experiment)
        or _why_not_at_once(trial, experiment)
    )


def _why_too_many_cpus(kind: type[Platform[Parameters]], vcpus: int) -> str | None:
    most = kind.max_vcpus
    if most is None or vcpus <= most:
        return None
    cpus = "one CPU" if most == 1 else f"{most} CPUs"
    return f"{kind.name} gives a guest at most {cpus}, and it is to have {vcpus} ('guest.vcpus')"


def _why_not_on(
    kind: type[Platform[Parameters]], trial: Trial, needs: Needs, image: str, memory_bytes: int
) -> str | None:
    """What of the platform's own the workload needs and it lacks: the bare host, a disk, memory besides its kernel."""
    if needs.bare_host and kind.family != "native":
        return (
            f"{trial.workload.workload} with these parameters is a reference on the bare host, where all share one "
            f"system, and a guest of {kind.name} has one of its own; it is measured on native alone"
        )
    if needs.data_bytes and kind.data_by is None:
        return f"{kind.name} carries no data directory on its host's disk; choose another platform for this workload"
    least = kind.least_memory_bytes.get(image, 0)
    if memory_bytes < least:
        return (
            f"no guest of {kind.name} with the image {image} starts in {units.size(memory_bytes)} of "
            f"memory: its kernel and its initramfs take {units.size(least)} ('{_memory_key(trial)}')"
        )
    here = trial.platform.host is None or trial.platform.host.local
    if needs.data_bytes and kind.data_by == "folder" and here:
        return why_not_in_memory(trial.workload.workload, needs, memory_bytes, file_system_of(DISKS))
    return None


def why_not_in_memory(workload: str, needs: Needs, memory_bytes: int, file_system: str) -> str | None:
    """Why its files do not fit beside it into the guest's memory, in one sentence; None: they do, or are on a disk.

    ``file_system``: under the guest's data directory, which is a folder of its host.
    """
    taken = needs.memory_bytes + needs.data_bytes
    if file_system not in IN_MEMORY or taken <= memory_bytes:
        return None
    return (
        f"{workload} needs {units.size(taken)} of memory with these parameters, {units.size(needs.data_bytes)} of it "
        f"for files that are in memory on its host ({DISKS} is a {file_system}), and the guest is given "
        f"{units.size(memory_bytes)}; have {DISKS} on a disk, or set 'guest.memory' higher"
    )


def has_smallest_image(choice: PlatformChoice) -> bool:
    """Whether the platform's guests have ``SMALLEST_IMAGE`` whatever the others have: it copies an image as a whole."""
    return platform_of(choice).small_images_only


def images_of(experiment: Experiment) -> tuple[str, ...]:
    """The images that its guests have: the experiment's, and what is small enough for platforms that copy it."""
    small = experiment.image != SMALLEST_IMAGE and any(map(has_smallest_image, experiment.platforms))
    return (experiment.image, SMALLEST_IMAGE) if small else (experiment.image,)


def needs_kernel(experiment: Experiment) -> bool:
    """Whether a platform of the experiment starts its guests with the image's kernel."""
    return any(platform_of(choice).needs_kernel for choice in experiment.platforms)


def own_kernels(experiment: Experiment) -> tuple[Path, ...]:
    """The packages of guest kernels that its platforms boot in the place of the image's, each once."""
    builds = (choice.build for choice in experiment.platforms)
    return tuple(dict.fromkeys(build.kernel for build in builds if build is not None and build.kernel is not None))


def _why_not_in_its_image(trial: Trial, experiment: Experiment) -> str | None:
    """Which program of a larger image the trial runs in a guest that has the smallest, in one sentence; None: none."""
    workload, condition = workload_of(trial.workload), trial.condition
    if workload.image != SMALLEST_IMAGE and has_smallest_image(trial.platform):
        return _too_large(trial.platform, workload.name, workload.image)
    if condition is None or (image := image_of(condition.load)) == SMALLEST_IMAGE:
        return None
    neighbour = _neighbour_choice(trial, condition, experiment)
    return _too_large(neighbour, f"the load {condition.load}", image) if has_smallest_image(neighbour) else None


def _too_large(choice: PlatformChoice, what: str, image: str) -> str:
    return (
        f"{what} runs a program of the image {image}, which is too large for {choice.platform}: it copies an image as "
        "a whole; take another platform for it"
    )


def size_of(trial: Trial, experiment: Experiment) -> tuple[int, int]:
    """Virtual CPUs and bytes of memory of the trial's guest, or of each of several at once."""
    vcpus, memory_bytes = experiment.size_of(trial.platform)
    if trial.scale is not None:
        vcpus, memory_bytes = trial.scale.vcpus, trial.scale.memory_bytes
    return vcpus, _own_memory_bytes(trial) or memory_bytes


def _own_memory_bytes(trial: Trial) -> int | None:
    """What its platform's parameters hold its guest to, in the place of all guests' memory; None: they do not."""
    limits = trial.platform.parameters
    return int(limits.memory_max) if isinstance(limits, OwnLimits) and limits.memory_max is not None else None


def _memory_key(trial: Trial) -> str:
    return "guest.memory" if _own_memory_bytes(trial) is None else "memory_max"


def _why_not_at_once(trial: Trial, experiment: Experiment) -> str | None:
    """Why so many guests cannot be there at once, in one sentence; None: they can, or it is one alone."""
    point, scale = trial.scale, experiment.scale
    if point is None or scale is None:
        return None
    workload = workload_of(trial.workload)
    if workload.loads_peer:
        return (
            f"{workload.name} needs generator and sink, which serve one guest at a time; for guests that send or "
            "forward side by side take transmitters or virtual-routers"
        )
    if cpus_at_once(scale.affinity, point.guests, point.vcpus) is None:
        return (
            f"{point.label} with {point.vcpus} virtual CPUs need more CPUs than the {len(os.sched_getaffinity(0))} of "
            f"this host ('scale.affinity: {scale.affinity}'); take fewer, or set it to unpinned"
        )
    available = available_bytes()
    if scale.overcommit or available is None or not EVERY_PLATFORM[trial.platform.platform].needs_lab:
        return None
    fit = max(0, available - RESERVE_BYTES) // point.memory_bytes
    if point.guests <= fit:
        return None
    return (
        f"{point.label} of {units.size(point.memory_bytes)} are more than this host has memory for: it has "
        f"{units.size(available)} available, which are {fit} guests with {units.size(RESERVE_BYTES)} left for itself; "
        "lower 'guest.memory', or set 'scale.overcommit: true' to try all the same"
    )


def _neighbour_choice(trial: Trial, condition: Condition, experiment: Experiment) -> PlatformChoice:
    """The platform of the guests beside it: the trial's own, unless the condition names another."""
    label = condition.platform or trial.platform.label
    return next(choice for choice in experiment.platforms if choice.label == label)


def _why_no_neighbours(trial: Trial, experiment: Experiment) -> str | None:
    """Why no guests can be beside it as its condition says, in one sentence; None: they can, or it is alone."""
    condition = trial.condition
    if condition is None:
        return None
    choice = _neighbour_choice(trial, condition, experiment)
    if (reason := _why_no_place_for_neighbours(trial.platform, choice, condition, experiment.testbed)) is not None:
        return reason
    if data_bytes_of(condition.load) and EVERY_PLATFORM[choice.platform].data_by is None:
        return f"the load {condition.load} writes to a disk, and {choice.platform} carries no data directory"
    if choice.host is not None:
        return None  # how many CPUs it has, and how much memory, is found when it is reached
    if (reason := _why_no_memory_for_neighbours(trial, condition, experiment)) is not None:
        return reason
    pinning = pinning_for(experiment)
    cpus = pinning.of_neighbour(condition.affinity, experiment.vcpus)
    if cpus is None:
        return (
            f"guests beside it on other CPUs ('affinity: apart') need {experiment.vcpus} more than the host has; "
            "set 'affinity: shared', or 'guest.vcpus' lower"
        )
    workload = workload_of(trial.workload)
    if workload.loads_peer and condition.load in TRAFFIC_LOADS and _shares_generator(trial, pinning):
        return (
            f"{workload.name} needs a CPU for its generator alone, and the traffic of the load {condition.load} would "
            "be sent from the same CPU; use a host with more CPUs"
        )
    if condition.affinity == "apart" and workload.loads_peer and pinning.takes_generator(cpus):
        return (
            f"{workload.name} needs the CPU of generator and sink, and the host has no other for guests beside it "
            "('affinity: apart'); use a host with more CPUs"
        )
    return None


def _shares_generator(trial: Trial, pinning: Pinning) -> bool:
    """Whether traffic to neighbours is sent from the CPU of the trial's own generator; a model's needs no CPU."""
    if not EVERY_PLATFORM[trial.platform.platform].needs_lab or pinning.generator_cpu is None:
        return False
    return pinning.of_load().generator == pinning.generator_cpu


def _why_no_memory_for_neighbours(trial: Trial, condition: Condition, experiment: Experiment) -> str | None:
    """Why this host has too little memory for the measured guest and those beside it; None: it has enough."""
    available = available_bytes()
    if available is None or not EVERY_PLATFORM[trial.platform.platform].needs_lab:
        return None
    each = condition.memory_bytes or experiment.memory_bytes
    room = available - RESERVE_BYTES - size_of(trial, experiment)[1]
    if condition.guests * each <= room:
        return None
    return (
        f"{condition.guests} guests of {units.size(each)} beside it are more than this host has memory for: it has "
        f"{units.size(available)} available, which are {max(0, room) // each} of them with the measured guest and "
        f"{units.size(RESERVE_BYTES)} for itself; lower 'guests' or 'memory' of 'neighbours', or 'guest.memory'"
    )


def _why_no_place_for_neighbours(
    choice: PlatformChoice, neighbour: PlatformChoice, condition: Condition, testbed: Testbed | None
) -> str | None:
    """Why no guest of a platform can be started next to one of ``choice``, in one sentence; None: it can."""
    if neighbour.host != choice.host:
        where = "this machine" if neighbour.host is None else neighbour.host.words
        return (
            f"guests of {neighbour.label} are on {where}, which is not next to {choice.label}; name a platform of "
            "the same host ('neighbours: {platform: ...}')"
        )
    own_nics = testbed is not None and testbed.neighbour is not None
    if condition.load in TRAFFIC_LOADS and neighbour.host is not None and not own_nics:
        name_some = "" if neighbour.host.ssh is None else "name two in 'testbed.neighbour', or "
        return (
            f"the load {condition.load} needs NICs of its own on {neighbour.host.words}, where those that lead there "
            f"are the measured guest's; {name_some}take loads that are programs"
        )
    if isinstance(neighbour.parameters, AttachedMachine) and neighbour.parameters.vfio:
        return (
            f"{neighbour.label} is handed its NICs whole ('vfio'), and there is one of each; name another platform for "
            "the guests beside it ('neighbours: {platform: ...}')"
        )
    return None


def _why_not_side_by_side(trial: Trial, needs: Needs, experiment: Experiment) -> str | None:
    """Why its guests cannot each have host CPUs of their own, in one sentence; None: they can, or need not.

    What another host has is known only once it is asked.
    """
    if needs.affinity != "apart" or (trial.platform.host is not None and not trial.platform.host.local):
        return None
    if trial.condition is not None and trial.condition.affinity == "apart" and needs.guests > 1:
        return (
            "guests side by side on CPUs of their own and neighbours on others ('affinity: apart' of both) cannot be "
            "told apart; set one of them to shared"
        )
    vcpus, _ = size_of(trial, experiment)
    most = pinning_for(experiment).most_apart(vcpus)
    if needs.guests <= most or trial.platform.parameters.pre_provisioned:
        return None
    return (
        f"{needs.guests} guests (guest.vcpus: {vcpus}) cannot each have host CPUs of their own ('affinity: apart'): "
        f"this host has CPUs for {most} beside generator and sink; take fewer guests, 'affinity: shared' or 'unpinned'"
    )


def why_not_there(choice: PlatformChoice, kind: type[Platform[Parameters]], cpu_quota: float | None) -> str | None:
    """Why a platform's guests cannot be on the host that is named for them, by what the platform declares."""
    if choice.host is None or choice.parameters.pre_provisioned or not kind.needs_lab:
        return None
    where = choice.host.words
    if choice.host.api is not None and not kind.cleaned_by_api:
        return f"{where} holds the guests of its own product alone; take {choice.platform} out"
    if not kind.remote_hosts:
        return f"{choice.platform} runs on this machine only; run Virtoll on {where} itself"
    if cpu_quota is not None and kind.quota_by_cgroup:
        return f"{choice.platform} has its CPU quota by cgroups of this machine; leave 'guest.cpu_quota' out on {where}"
    if isinstance(choice.parameters, OwnLimits) and (keys := choice.parameters.asked()):
        return f"{keys[0]}: {choice.platform} has it by cgroups of this machine; leave it out on {where}"
    return None


def possible(plan: Plan, experiment: Experiment) -> Plan:
    """The plan without the trials that cannot run."""
    return without_impossible(plan, reasons_of(plan, experiment))


def without_impossible(plan: Plan, reasons: Mapping[int, str | None]) -> Plan:
    """The same, where the reasons are known, by each trial's number."""
    return replace(plan, trials=tuple(trial for trial in plan.trials if reasons[trial.number] is None))


def reasons_of(plan: Plan, experiment: Experiment) -> dict[int, str | None]:
    """By each trial's number why it cannot run; None: it can. Found once for each cell."""
    reasons = {cell: why_impossible(trial, experiment) for cell, trial in cells_of(plan.trials).items()}
    return {trial.number: reasons[trial.cell] for trial in plan.trials}


def unmet(
    workload: str,
    needs: Needs,
    size: tuple[int, int] | None,
    platform: str,
    lacks: Mapping[str, str],
    *,
    memory_key: str = "guest.memory",
) -> str | None:
    """What of the needs is not met, in one sentence; ``size``: CPUs and bytes of memory, None if not known.

    ``memory_key``: by which the memory was given.
    """
    if size is not None:
        vcpus, memory_bytes = size
        if needs.vcpus > vcpus:
            return f"{workload} needs {needs.vcpus} CPUs, and the guest is given {vcpus} ('guest.vcpus')"
        needed = needs.memory_bytes + vcpus * needs.memory_bytes_a_vcpu
        if needed > memory_bytes:
            return (
                f"{workload} needs {units.size(needed)} of memory with these parameters, and the guest is "
                f"given {units.size(memory_bytes)} ('{memory_key}')"
            )
    for feature in FEATURES:
        if feature in needs.features and feature in lacks:
            return f"{workload} needs {FEATURES[feature]}, which {platform} has not: {lacks[feature]}"
    return None


def data_bytes(plan: Plan) -> int:
    """The most that workloads' files take at one time: of each guest that is up its largest, all guests together."""
    loads = max(
        (data_bytes_of(trial.condition.load) for trial in plan.trials if trial.condition is not None), default=0
    )
    neighbours = max((sum(neighbour_guests(batch).values()) for batch in plan.batches()), default=0)
    peers = max((needs_of(trial).peer_data_bytes for trial in cells_of(plan.trials).values()), default=0)
    return _most_at_once(plan, lambda needs: needs.data_bytes) + loads * neighbours + peers


def memory_at_once(plan: Plan, experiment: Experiment) -> Counter[int]:
    """How many guests of how many bytes are up at one time, when they have the most memory together."""
    points = [trial.scale for trial in plan.trials if trial.scale is not None]
    if points:
        most = max(points, key=lambda point: point.guests * point.memory_bytes)
        return Counter({most.memory_bytes: most.guests})
    largest: Counter[int] = Counter()
    for batch in plan.batches():
        sizes: Counter[int] = Counter()
        choices = {trial.platform.label: trial.platform for trial in batch}
        more = guests_side_by_side(batch)
        for label, choice in choices.items():
            sizes[experiment.size_of(choice)[1]] += 1 + sum(many for (owner, _), many in more.items() if owner == label)
        for (_, _, memory_bytes), many in neighbour_guests(batch).items():
            sizes[memory_bytes or experiment.memory_bytes] += many
        largest = max(largest, sizes, key=bytes_of)
    return largest


def guests_at_once(plan: Plan, sizes: Counter[int]) -> int:
    """How many guests are up at one time; ``sizes``: those that have the most memory together, which may be fewer."""
    return max((trial.scale.guests for trial in plan.trials if trial.scale is not None), default=sizes.total())


def bytes_of(sizes: Mapping[int, int]) -> int:
    """The memory of all these guests together; ``sizes``: how many of how many bytes."""
    return sum(each * many for each, many in sizes.items())


def guests_side_by_side(trials: Iterable[Trial]) -> dict[tuple[str, Affinity], int]:
    """How many guests these trials' workloads need side by side beside each platform's own, by label and affinity.

    Those that are not pinned are all others than its own, which is.
    """
    counts: dict[tuple[str, Affinity], int] = {}
    for trial in cells_of(trials).values():
        needs = needs_of(trial)
        key = trial.platform.label, needs.affinity
        more = needs.guests - (0 if needs.affinity == "unpinned" else 1)
        counts[key] = max(counts.get(key, 0), more)
    return counts


def neighbour_guests(trials: Iterable[Trial]) -> dict[tuple[str, str, int | None], int]:
    """How many guests these trials have beside theirs, by their platform's label, affinity and memory."""
    counts: dict[tuple[str, str, int | None], int] = {}
    for trial in trials:
        if (condition := trial.condition) is not None:
            key = condition.platform or trial.platform.label, condition.affinity, condition.memory_bytes
            counts[key] = max(counts.get(key, 0), condition.guests)
    return counts


def _most_at_once(plan: Plan, amount: Callable[[Needs], int]) -> int:
    """What the platforms that are up together take, of each the largest amount among its trials."""
    most = 0
    for batch in plan.batches():
        largest: dict[str, int] = {}
        for trial in cells_of(batch).values():
            each = trial.scale.guests if trial.scale is not None else 1
            largest[trial.platform.label] = max(largest.get(trial.platform.label, 0), each * amount(needs_of(trial)))
        most = max(most, sum(largest.values()))
    return most
