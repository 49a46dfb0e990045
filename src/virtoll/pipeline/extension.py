"""Blocks that are added to a finished run: what is asked for, whether it may be, and the manifest with the longer plan.

Main functions: ``asked_blocks``, ``extended_experiment``, ``extended_manifest``, ``refuse_other_platforms``. It must
not measure anything.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from virtoll.errors import UsageError
from virtoll.pipeline.preview import estimate, plan_of, planned_trial
from virtoll.pipeline.stored import plan_difference, stored_experiment
from virtoll.runfolder.looks import Looks
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.records import ExtensionRecord, Manifest
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences
from virtoll.version import __version__

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.plan import Plan
    from virtoll.platforms.base import Probe
MOST_BLOCKS = 1000
_ASKED = re.compile(r"(\+?)([1-9][0-9]{0,5})")


def asked_blocks(folder: RunFolder, text: str) -> int:
    """How many blocks a run is to have: ``+6`` is so many more, ``9`` so many in all; UsageError for anything else."""
    has = _blocks(folder.manifest)
    match = _ASKED.fullmatch(text)
    if match is None:
        raise UsageError(f"--blocks {text!r}: give how many blocks more, such as +6, or how many in all")
    blocks = int(match[2]) + (has if match[1] else 0)
    if not has < blocks <= MOST_BLOCKS:
        raise UsageError(
            f"--blocks {text}: {folder.path} has {has} blocks; give more than that, and at most {MOST_BLOCKS} in all"
        )
    return blocks


def refuse_unfinished(folder: RunFolder, *, held: bool = False) -> None:
    """UsageError where a run did not end, is not as it was when it did, or is another user's.

    ``held``: this process writes it.
    """
    if not os.access(folder.path, os.W_OK):
        raise UsageError(f"{folder.path} cannot be written; extend it as the user that measured it, or extend a copy")
    state = folder.state().state if held else state_now(folder.path)
    if state == "running" and not held:
        raise UsageError(f"{folder.path} is being measured; extend it when it has ended ('virtoll watch' follows it)")
    if state != "complete":
        raise UsageError(f"{folder.path} did not end; 'virtoll resume {folder.path}' first, and extend it then")
    changed = differences(folder.path)
    if changed:
        raise UsageError(
            f"{folder.path} is not as it was when the run ended: {'; '.join(changed)}; extend a copy that is whole"
        )


def extended_experiment(folder: RunFolder, blocks: int) -> Experiment:
    """The experiment of a run with so many blocks; UsageError where none may be added, or other trials were planned."""
    manifest = folder.manifest
    described, new = manifest.experiment, f"start a new run of {manifest.experiment['name']}"
    if described["scenario"] == "consolidation" or not manifest.plan.trials:
        raise UsageError(f"{folder.path} counts idle guests, and has no blocks; {new}")
    if manifest.part is not None or manifest.merged is not None:
        raise UsageError(
            f"{folder.path} is of a campaign, whose number of blocks was fixed before it began; begin a new campaign "
            f"of {described['name']} with more blocks"
        )
    if described.get("order") == "paper":
        raise UsageError(
            f"{folder.path} has the order of a paper: each platform's repetitions stand in a row, and none can be "
            f"added behind them; {new}, or give it 'order: randomised'"
        )
    if Looks.of(described) is not None:
        raise UsageError(
            f"{folder.path} was measured until all is decided: the looks at it were fixed before it began, the last "
            f"one after {_blocks(manifest)} blocks; {new} with a larger 'most'"
        )
    if manifest.virtoll != __version__:
        raise UsageError(
            f"{folder.path} was measured by Virtoll {manifest.virtoll}, and this is {__version__}; extend it with that "
            f"version, or {new}"
        )
    experiment = stored_experiment(manifest, blocks)
    begun = manifest.plan.trials
    difference = plan_difference(begun, plan_of(experiment).trials[: len(begun)])
    if difference is not None:
        raise UsageError(f"{folder.path}: {difference}; {new}")
    return experiment


def refuse_other_platforms(manifest: Manifest, probes: Mapping[str, Probe]) -> None:
    """UsageError naming the first platform that is of another version than the run's, or works no more, or now does."""
    for entry in manifest.platforms:
        probe = probes[entry.label]
        then = entry.version if entry.available else f"not available ({entry.reason})"
        here = probe.version if probe.available else f"not available ({probe.reason})"
        if (entry.available or probe.available) and then != here:
            raise UsageError(
                f"run {manifest.run} was measured with {entry.label}: {then}, and here it is {here}; start a new run "
                f"of {manifest.experiment['name']}"
            )


def extended_manifest(manifest: Manifest, plan: Plan, command: list[str]) -> Manifest:
    """The manifest with the longer plan, and with what the run had before."""
    return manifest.replace(
        experiment={**manifest.experiment, "blocks": max(trial.block for trial in plan.trials) + 1},
        plan=manifest.plan.replace(estimated_seconds=estimate(plan), trials=tuple(map(planned_trial, plan.trials))),
        extensions=(
            *manifest.extensions,
            ExtensionRecord(_blocks(manifest), time.time_ns(), tuple(command)),
        ),
    )


def _blocks(manifest: Manifest) -> int:
    """How many a run has by its plan."""
    return max((trial.block + 1 for trial in manifest.plan.trials), default=0)
