"""The thresholds of an experiment, of a run and of ``--fail-if``, checked before anything starts.

Main functions: ``thresholds_for`` (an experiment), ``thresholds_of`` (a run), ``asked_of`` (none if a run has no gate).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.errors import UsageError

if TYPE_CHECKING:
    from virtoll.advise.gate import PlannedCell, Threshold
    from virtoll.experiment.model import Experiment


def thresholds_for(experiment: Experiment, fail_if: Sequence[str]) -> tuple[Threshold, ...]:
    """Those of an experiment and of ``--fail-if``; UsageError for one that is wrong, or that its plan never tells."""
    if not experiment.thresholds and not fail_if:
        return ()
    thresholds = _parsed(experiment.thresholds, fail_if, f"{experiment.file}: key 'thresholds': ")
    from virtoll.advise.gate import PlannedCell

    planned = [
        PlannedCell(platform.label, workload.workload, _attributes(experiment, platform.label, workload.parameters))
        for workload in experiment.workloads
        for platform in experiment.platforms
        if (platform.label, workload.workload) in experiment.cells
    ]
    own_count = len(experiment.thresholds)
    # What was left out by choice is told by the gate: it was not measured.
    whole = not experiment.selection.filters and not experiment.unconcerned
    refused = thresholds if whole else thresholds[own_count:]
    _refuse(refused, planned, experiment.baseline, experiment.control, where=f"{experiment.file}: ")
    return thresholds


def _attributes(experiment: Experiment, label: str, parameters: Any) -> dict[str, Any]:
    choice = next(entry for entry in experiment.platforms if entry.label == label)
    vcpus, memory = experiment.size_of(choice)
    return {"vcpus": vcpus, "memory_bytes": memory, **parameters.model_dump(mode="json")}


def thresholds_of(folder: Path, fail_if: Sequence[str]) -> tuple[Threshold, ...]:
    """Those that a run's experiment has, and those of ``--fail-if``; UsageError for what cannot be judged."""
    from virtoll.advise.gate import PlannedCell
    from virtoll.runfolder.store import RunFolder

    manifest = RunFolder.open(folder).manifest
    texts = manifest.experiment.get("thresholds") or ()
    if not texts and not fail_if:
        if manifest.control is None:
            raise UsageError(
                f"{folder}: there is no threshold and no A/A control; give --fail-if, such as "
                "--fail-if 'runc:forward 64B slowdown>1.5x', or 'thresholds' in an experiment"
            )
        return ()
    thresholds = _parsed(texts, fail_if, f"{folder}/manifest.json: experiment.thresholds: ")
    size = manifest.experiment.get("guest") or {}
    planned = [
        PlannedCell(trial.platform, trial.workload, {**size, **trial.parameters})
        for trial in manifest.plan.trials
        if trial.condition is None
    ]
    _refuse(thresholds[len(texts) :], planned, manifest.baseline, manifest.control, where=f"{folder}: ")
    return thresholds


def _parsed(texts: Iterable[str], fail_if: Sequence[str], where: str) -> tuple[Threshold, ...]:
    from virtoll.advise.gate import parse_threshold
    from virtoll.api.needs import known_workloads

    known = known_workloads()
    thresholds = []
    for text, fails in [*((text, False) for text in texts), *((text, True) for text in fail_if)]:
        try:
            thresholds.append(parse_threshold(text, known, fails=fails))
        except ValueError as error:
            raise UsageError(f"{'' if fails else where}{error}") from error
    return tuple(thresholds)


def _refuse(
    thresholds: Sequence[Threshold],
    planned: Sequence[PlannedCell],
    baseline: str | None,
    control: str | None,
    *,
    where: str,
) -> None:
    from virtoll.advise.gate import refuse_unplanned

    try:
        refuse_unplanned(thresholds, planned, baseline, control)
    except ValueError as error:
        raise UsageError(f"{where}{error}") from error


def asked_of(folder: Path, fail_if: Sequence[str] = ()) -> tuple[Threshold, ...]:
    """As ``thresholds_of``; none where neither is there: no gate was asked for."""
    from virtoll.runfolder.store import RunFolder

    texts = fail_if or RunFolder.open(folder).manifest.experiment.get("thresholds")
    return thresholds_of(folder, fail_if) if texts else ()
