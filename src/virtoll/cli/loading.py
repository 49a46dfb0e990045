"""What a command is to measure or to judge, checked before anything starts.

Main functions: ``load`` (an experiment), ``chosen`` (what of it), ``thresholds_for`` (an experiment) and
``thresholds_of`` (a run).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.errors import UsageError

if TYPE_CHECKING:
    from virtoll.advise.gate import Threshold
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.selection import Selection


def chosen(
    size: str | None,
    platform: list[str] | None,
    workload: list[str] | None,
    only: list[str] | None,
    skip: list[str] | None,
    until: str | None,
    *,
    blocks: int | None = None,
    seed: int | None = None,
    against: list[str] | None = None,
) -> Selection:
    """The options as one selection; a platform or workload option may hold several names between commas."""
    from virtoll.experiment.selection import Selection

    platforms, workloads = _names(platform), _names(workload)
    located: tuple[str, ...] = ()
    if against:
        from virtoll.experiment.against import located_setting  # which imports what a misspelt name need not wait for

        located = tuple(located_setting(text, Path.cwd()) for text in against)
    return Selection(
        size,
        platforms,
        workloads,
        tuple(only or ()),
        tuple(skip or ()),
        until,
        blocks=blocks,
        seed=seed,
        against=located,
    )


def _names(values: list[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for value in values or () for name in value.split(","))


def load(name: str, selection: Selection | None = None) -> Experiment:
    """An experiment by name or path, checked, and what of it was chosen; all of it without a selection."""
    from virtoll.experiment.parse import find_experiment, load_experiment

    file = find_experiment(name)  # before what takes long to import: a name is easily misspelt
    from virtoll.experiment.selection import EVERYTHING
    from virtoll.pipeline.preview import catalogue

    checked = load_experiment(file, catalogue(), selection or EVERYTHING)
    if checked.needs:
        from virtoll.api.needs import parts_of

        parts_of(checked.needs, f"{file}: key 'needs': ")
    if checked.thresholds:
        thresholds_for(checked, ())
    return checked


def thresholds_for(experiment: Experiment, fail_if: Sequence[str]) -> tuple[Threshold, ...]:
    """Those of an experiment and of ``--fail-if``; UsageError for one that is wrong, or that its plan never tells."""
    if not experiment.thresholds and not fail_if:
        return ()
    thresholds = _parsed(experiment.thresholds, fail_if, f"{experiment.file}: key 'thresholds': ")
    from virtoll.advise.gate import PlannedCell, refuse_unplanned

    planned = [
        PlannedCell(platform.label, workload.workload, _attributes(experiment, platform.label, workload.parameters))
        for workload in experiment.workloads
        for platform in experiment.platforms
        if (platform.label, workload.workload) in experiment.cells
    ]
    # What was left out by choice is told by the gate: it was not measured.
    whole = not experiment.selection.filters and not experiment.unconcerned
    refused = thresholds if whole else thresholds[len(experiment.thresholds) :]
    with _refused(f"{experiment.file}: "):
        refuse_unplanned(refused, planned, experiment.baseline, experiment.control)
    return thresholds


def _attributes(experiment: Experiment, label: str, parameters: Any) -> dict[str, Any]:
    choice = next(entry for entry in experiment.platforms if entry.label == label)
    vcpus, memory = experiment.size_of(choice)
    return {"vcpus": vcpus, "memory_bytes": memory, **parameters.model_dump(mode="json")}


def thresholds_of(folder: Path, fail_if: Sequence[str] = ()) -> tuple[Threshold, ...]:
    """Those that a run's experiment has, and those of ``--fail-if``; UsageError for what cannot be judged."""
    from virtoll.advise.gate import PlannedCell, refuse_unplanned
    from virtoll.runfolder.store import RunFolder

    manifest = RunFolder.open(folder).manifest
    texts = manifest.experiment.get("thresholds") or ()
    if not texts and not fail_if:
        return ()
    thresholds = _parsed(texts, fail_if, f"{folder}/manifest.json: experiment.thresholds: ")
    size = manifest.experiment.get("guest") or {}
    planned = [
        PlannedCell(trial.platform, trial.workload, {**size, **trial.parameters})
        for trial in manifest.plan.trials
        if trial.condition is None
    ]
    with _refused(f"{folder}: "):
        refuse_unplanned(thresholds[len(texts) :], planned, manifest.baseline, manifest.control)
    return thresholds


def _parsed(texts: Iterable[str], fail_if: Sequence[str], where: str) -> tuple[Threshold, ...]:
    from virtoll.advise.gate import parse_threshold
    from virtoll.api.needs import known_workloads

    known = known_workloads()
    thresholds = []
    for text, fails in [*((text, False) for text in texts), *((text, True) for text in fail_if)]:
        with _refused("" if fails else where):
            thresholds.append(parse_threshold(text, known, fails=fails))
    return tuple(thresholds)


@contextmanager
def _refused(where: str) -> Iterator[None]:
    """What is wrong with a threshold is a ``UsageError`` that begins with ``where``."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{where}{error}") from error
