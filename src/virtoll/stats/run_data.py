"""One run's records as the statistics read them, and what they say of the run's design. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.campaign_records import host_of_block
from virtoll.runfolder.explain_records import ObservedTrial
from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
from virtoll.runfolder.looks import Looks, extended_level
from virtoll.runfolder.records import BootRecord, CommandRecord, FitnessRecord, LookRecord, Manifest, State, TrialRecord
from virtoll.runfolder.scale import GroupRecord
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.compare import LEVEL
from virtoll.stats.values import Observation
from virtoll.stats.verdicts import MARGIN


@dataclass(frozen=True)
class RunData:
    """One run folder's records, as read; `trials` holds the latest record of each trial but the `warm_ups`, those
    measured `with_neighbours`, and those of several guests `at_once`. `observed`: trials with observers on, which
    are no results and in no statistics but those of `stats/explanation.py`.
    """

    manifest: Manifest
    state: State
    trials: tuple[TrialRecord, ...]
    boots: tuple[BootRecord, ...]
    commands: tuple[CommandRecord, ...]
    fitness: tuple[FitnessRecord, ...]
    calibrations: tuple[CalibrationRecord, ...] = ()
    footprints: tuple[FootprintRecord, ...] = ()
    consolidation: tuple[ConsolidationRecord, ...] = ()
    warm_ups: tuple[TrialRecord, ...] = ()
    looks: tuple[LookRecord, ...] = ()
    with_neighbours: tuple[TrialRecord, ...] = ()
    at_once: tuple[TrialRecord, ...] = ()
    groups: tuple[GroupRecord, ...] = ()
    observed: tuple[ObservedTrial, ...] = ()

    @property
    def every_trial(self) -> tuple[TrialRecord, ...]:
        """The trials alone, then those beside other guests and those of several at once."""
        return (*self.trials, *self.with_neighbours, *self.at_once)


def platforms_of(data: RunData) -> tuple[str, ...]:
    """Labels of platforms in the experiment's order, the baseline and its control first."""
    listed = [entry.label for entry in data.manifest.platforms]
    first = [label for label in listed if label == data.manifest.baseline]
    first += [label for label in listed if label == data.manifest.control]
    return tuple(dict.fromkeys(first + listed))


def hosts_of_blocks(data: RunData) -> dict[int, str]:
    """Which host measured each block, where there are several."""
    return host_of_block(data.manifest.hosts) if len(data.manifest.hosts) > 1 else {}


def margin_of(data: RunData) -> float:
    """Within how much platforms are alike, by the experiment (0.1 = 10 %)."""
    margin = data.manifest.experiment.get("margin")
    return float(margin) if isinstance(margin, int | float) and 0 < margin < 1 else MARGIN


def level_of(data: RunData, observations: Sequence[Observation]) -> float:
    """The chance of a false difference in a family: 5 %, or what a run with several looks spends at this one."""
    looks = Looks.of(data.manifest.experiment)
    if looks is None:
        return extended_level(LEVEL, first_blocks(data), last_block(data))
    at_once = {trial.block for trial in data.at_once if trial.status == "ok"}
    return looks.level_at(len(at_once.union(observation.block for observation in observations)))


def first_blocks(data: RunData) -> int:
    """After how many blocks a run was to end before any were added."""
    extensions = data.manifest.extensions
    planned = (trial.block + 1 for trial in data.manifest.plan.trials)
    return extensions[0].blocks if extensions else max(planned, default=0)


def last_block(data: RunData) -> int:
    """The number of the last block, from 1, of which a trial gave something; 0 without any.

    One that gave nothing counts where a later one did: it is not looked at twice at one level.
    """
    return max((trial.block + 1 for trial in data.every_trial if trial.status == "ok"), default=0)


def statuses_of(data: RunData, platforms: Sequence[str]) -> dict[str, dict[str, int]]:
    """Trials by platform and status; `not run` are those without any record, up to the run's end."""
    table = {platform: dict.fromkeys(("ok", "invalid", "failed", "skipped", "not run"), 0) for platform in platforms}
    done = {trial.trial for trial in data.every_trial}
    blocks = min((look.blocks for look in data.looks if look.ended), default=math.inf)
    for trial in data.every_trial:
        table[trial.platform][trial.status] += 1
    for planned in data.manifest.plan.trials:
        if planned.trial not in done and not planned.warm_up and planned.block < blocks:
            table[planned.platform]["not run"] += 1
    return table
