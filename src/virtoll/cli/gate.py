"""``virtoll gate``: whether a run keeps to its thresholds, as an exit code; and options that ``run`` has too.

Main functions: ``thresholds_for`` (checked before anything starts), ``thresholds_of`` (those of a run), ``asked_of``
(none if a run has no gate), ``leave_by``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll.api.folders import find_run
from virtoll.cli.output import Json, print_json, say_in_columns
from virtoll.errors import ThresholdMissed, ThresholdNotTold, UsageError

if TYPE_CHECKING:
    from virtoll.advise.gate import Gate, PlannedCell, Threshold
    from virtoll.experiment.model import Experiment

FailIfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fail-if", metavar="THRESHOLD", help="When it fails, such as 'runc:forward 64B slowdown>1.5x'; repeatable."
    ),
]
AllowUnknownOption = Annotated[
    bool, typer.Option("--allow-unknown", help="Exit with 0 where the run cannot tell, and not with 4.")
]


def gate(
    run: Annotated[
        str, typer.Argument(help="A run's folder, its name, a packed run, or 'latest'.", metavar="RUN")
    ] = "latest",
    *,
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    as_json: Json = False,
) -> None:
    """Judge a run by its thresholds.

    The exit code is 0 where all are met, 3 where one is missed, and 4 where the run cannot tell.
    """
    folder = find_run(run)
    thresholds = thresholds_of(folder, fail_if or [])
    from virtoll.advise.gate import judge_gate
    from virtoll.report import gate_document, load_analysis
    from virtoll.runfolder.sums import differences

    judged = judge_gate(load_analysis(folder), thresholds, differences(folder) or ())
    if as_json:
        print_json(gate_document(judged))
    else:
        tell(judged)
    leave_by(judged, allow_unknown)


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


def tell(judged: Gate) -> None:
    """Print each threshold's outcome."""
    from virtoll.report import gate_lines, gate_view

    for line in gate_lines(gate_view(judged)):
        say_in_columns(line)


def leave_by(judged: Gate, allow_unknown: bool) -> None:
    """End with 3 where a threshold is missed, with 4 where the run cannot tell and that is not allowed."""
    from virtoll.advise.gate import Outcome

    missed, unknown, every = judged.count(Outcome.MISSED), judged.count(Outcome.UNKNOWN), len(judged.checks)
    if judged.outcome is Outcome.MISSED:
        raise ThresholdMissed(f"{missed} of {every} thresholds missed; 'virtoll report' has the whole comparison")
    if judged.outcome is Outcome.UNKNOWN and not allow_unknown:
        what = f"the run cannot tell whether {unknown} of {every} thresholds are met" if unknown else judged.doubts[0]
        more = "measure more blocks"
        if judged.more_blocks is not None and judged.extendable is not None:
            more = f"'virtoll extend {judged.extendable} --blocks +{judged.more_blocks}' measures more blocks"
        raise ThresholdNotTold(f"{what}; {more}, or give --allow-unknown")
