"""The experiment of a run that is there, and whether its plan is still the same.

Main functions: ``stored_experiment`` and ``plan_difference``, which `resume`, `extend`, `merge` and parts ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.errors import UsageError
from virtoll.experiment.against import file_of
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.selection import Selection
from virtoll.pipeline.preview import catalogue, planned_trial
from virtoll.runfolder.records import Manifest, PlannedTrial

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.plan import Trial


def stored_experiment(manifest: Manifest, blocks: int | None = None) -> Experiment:
    """The experiment of a run's manifest; ``blocks``: in the place of the run's own number, None: as it has."""
    described = manifest.experiment
    selection = Selection.of_record(described["selection"])
    if blocks is None and manifest.extensions:
        blocks = max(trial.block for trial in manifest.plan.trials) + 1
    if blocks is not None:
        selection = replace(selection, blocks=blocks)
    if manifest.against is None:
        return parse_experiment(described["text"], Path(described["file"]), catalogue(), selection)
    selection = replace(selection, against=manifest.against.settings)
    for file in filter(None, map(file_of, manifest.against.settings)):
        if not file.exists():
            raise UsageError(
                f"run {manifest.run} was begun against {file}, which is not there any more; put it back, or start a "
                f"new run of {described['name']}"
            )
    experiment = parse_experiment(described["text"], Path(described["file"]), catalogue(), selection)
    if experiment.pairs != manifest.against.pairs:
        raise UsageError(
            f"run {manifest.run} was begun against {' and '.join(manifest.against.settings)}, which concerned "
            f"{_in_words(manifest.against.pairs)} and now {_in_words(experiment.pairs)}; start a new run of "
            f"{experiment.name}"
        )
    return experiment


def plan_difference(begun: Sequence[PlannedTrial], planned: Sequence[Trial]) -> str | None:
    """The first way in which the trials planned now differ from those that a run began with; None if they are equal."""
    if len(begun) != len(planned):
        return f"the run began with {len(begun)} trials, and its file now gives {len(planned)}"
    for before, after in zip(begun, map(planned_trial, planned), strict=True):
        if before == after:  # as nearly all are, and JSON takes longer
            continue
        then, now = _plain(before), _plain(after)
        if then != now:
            return f"trial {before.trial} ({before.platform}, {before.workload}) {_change(then, now)}"
    return None


def _plain(trial: PlannedTrial) -> dict[str, Any]:
    """A trial of a plan with its parameters among its fields, as JSON holds them."""
    fields = trial.to_json()
    parameters = fields.pop("parameters")
    return {**fields, **parameters}


def _change(then: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The first field that differs, as it was and as it is."""
    key = next(key for key in {**then, **now} if then.get(key, _MISSING) != now.get(key, _MISSING))
    return f"began {_setting(key, then)}, and its file now plans it {_setting(key, now)}"


_MISSING = object()


def _setting(key: str, fields: Mapping[str, Any]) -> str:
    return f"with '{key}': {json.dumps(fields[key])}" if key in fields else f"without '{key}'"


def _in_words(pairs: Sequence[tuple[str, str]]) -> str:
    return ", ".join(first for first, _ in pairs)
