"""``virtoll gate``: whether a run keeps to its thresholds, as an exit code; and options that ``run`` has too.

Main functions: ``thresholds_for`` (checked before anything starts), ``thresholds_of`` (those of a run), ``judge_of``
(for a run's report), ``leave_by``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll import units
from virtoll.cli.folders import find_run
from virtoll.cli.output import Json, print_json, say_in_columns
from virtoll.errors import ThresholdMissed, ThresholdNotTold, UsageError

if TYPE_CHECKING:
    from virtoll.advise.gate import Check, Gate, PlannedCell, Threshold
    from virtoll.experiment.model import Experiment
    from virtoll.report import GateView, Judge

_KINDS = {"met": "good", "missed": "bad", "cannot tell": "warn"}
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
    found = thresholds_of(folder, fail_if or [])
    from virtoll.advise.gate import judge_gate
    from virtoll.report import load_analysis
    from virtoll.runfolder.sums import differences

    judged = judge_gate(load_analysis(folder), found, differences(folder) or ())
    if as_json:
        print_json(document(judged))
    else:
        tell(judged)
    leave_by(judged, allow_unknown)


def thresholds_for(experiment: Experiment, given: Sequence[str]) -> tuple[Threshold, ...]:
    """Those of an experiment and of ``--fail-if``; UsageError for one that is wrong, or that its plan never tells."""
    if not experiment.thresholds and not given:
        return ()
    found = _parsed(experiment.thresholds, given, f"{experiment.file}: key 'thresholds': ")
    from virtoll.advise.gate import PlannedCell

    planned = [
        PlannedCell(platform.label, workload.workload, _attributes(experiment, platform.label, workload.parameters))
        for workload in experiment.workloads
        for platform in experiment.platforms
        if (platform.label, workload.workload) in experiment.cells
    ]
    own = len(experiment.thresholds)
    # What was left out by choice is told by the gate: it was not measured.
    whole = not experiment.selection.filters and not experiment.unconcerned
    refused = found if whole else found[own:]
    _refuse(refused, planned, experiment.baseline, experiment.control, where=f"{experiment.file}: ")
    return found


def _attributes(experiment: Experiment, label: str, parameters: Any) -> dict[str, Any]:
    choice = next(one for one in experiment.platforms if one.label == label)
    vcpus, memory = experiment.size_of(choice)
    return {"vcpus": vcpus, "memory_bytes": memory, **parameters.model_dump(mode="json")}


def thresholds_of(folder: Path, given: Sequence[str]) -> tuple[Threshold, ...]:
    """Those that a run's experiment has, and those of ``--fail-if``; UsageError for what cannot be judged."""
    from virtoll.advise.gate import PlannedCell
    from virtoll.runfolder.store import RunFolder

    manifest = RunFolder.open(folder).manifest
    texts = manifest.experiment.get("thresholds") or ()
    if not texts and not given:
        if manifest.control is None:
            raise UsageError(
                f"{folder}: there is no threshold and no A/A control; give --fail-if, such as "
                "--fail-if 'runc:forward 64B slowdown>1.5x', or 'thresholds' in an experiment"
            )
        return ()
    found = _parsed(texts, given, f"{folder}/manifest.json: experiment.thresholds: ")
    size = manifest.experiment.get("guest") or {}
    planned = [
        PlannedCell(one.platform, one.workload, {**size, **one.parameters})
        for one in manifest.plan.trials
        if one.condition is None
    ]
    _refuse(found[len(texts) :], planned, manifest.baseline, manifest.control, where=f"{folder}: ")
    return found


def _parsed(texts: Iterable[str], given: Sequence[str], where: str) -> tuple[Threshold, ...]:
    from virtoll.advise.gate import parse_threshold
    from virtoll.cli.needs import known_workloads

    known = known_workloads()
    found = []
    for text, fails in [*((one, False) for one in texts), *((one, True) for one in given)]:
        try:
            found.append(parse_threshold(text, known, fails=fails))
        except ValueError as error:
            raise UsageError(f"{'' if fails else where}{error}") from error
    return tuple(found)


def _refuse(
    found: Sequence[Threshold], planned: Sequence[PlannedCell], baseline: str | None, control: str | None, *, where: str
) -> None:
    from virtoll.advise.gate import refuse_unplanned

    try:
        refuse_unplanned(found, planned, baseline, control)
    except ValueError as error:
        raise UsageError(f"{where}{error}") from error


def asked_of(folder: Path, given: Sequence[str] = ()) -> tuple[Threshold, ...]:
    """As ``thresholds_of``; none where neither is there: no gate was asked for."""
    from virtoll.runfolder.store import RunFolder

    asked = given or RunFolder.open(folder).manifest.experiment.get("thresholds")
    return thresholds_of(folder, given) if asked else ()


def judge_of(folder: Path, given: Sequence[str] = ()) -> Judge | None:
    """Who says in a run's report whether it keeps to its thresholds; None where there are none."""
    thresholds = asked_of(folder, given)
    if not thresholds:
        return None
    from virtoll.advise.gate import judge_gate

    return lambda analysis, damage: view(judge_gate(analysis, thresholds, damage))


def tell(judged: Gate) -> None:
    """Print each threshold's outcome."""
    from virtoll.report import gate_lines

    for line in gate_lines(view(judged)):
        say_in_columns(line)


def view(judged: Gate) -> GateView:
    """A gate in words."""
    from virtoll.report import CheckView, GateView

    return GateView(
        outcome=str(judged.outcome),
        kind=_KINDS[str(judged.outcome)],
        checks=tuple(
            CheckView(
                threshold=one.threshold,
                platform=one.platform,
                task=one.task,
                outcome=str(one.outcome),
                kind=_KINDS[str(one.outcome)],
                value=_value(one),
                rest=tuple(_rest(one)),
            )
            for one in judged.checks
        ),
        doubts=judged.doubts,
        document=document(judged),
    )


def _value(one: Check) -> str:
    """'2.00x (1.98 to 2.03x) in 5 blocks'; empty where nothing was measured."""
    from virtoll.report import words

    if one.estimate is None:
        return ""
    ends = (one.low, one.high) if one.low is not None and one.high is not None else None
    between = "" if ends is None else f" ({words.outward(*ends, one.unit)})"
    value = units.estimate(one.estimate, ends, one.unit)
    return f"{value}{between} in {one.blocks} block{'' if one.blocks == 1 else 's'}"


def _rest(one: Check) -> Iterator[str]:
    """The margin, why the run cannot tell, and what would decide it."""

    if one.margin is not None:
        yield f"{_apart(one.margin)} the limit of {units.value(one.limit, one.unit)}"
    if one.reason:
        yield one.reason
    if one.more_blocks is not None:
        yield f"by this run's noise, {one.more_blocks} more block{'' if one.more_blocks == 1 else 's'} would decide it"


def _apart(margin: float) -> str:
    """How far from the limit: '47 % better than', '2.3 times worse than', 'as good as'."""
    from virtoll.report import words

    much = words.slowdown(max(margin, 1 / margin) if margin > 0 else math.inf)
    return "as good as" if much == "0 %" else f"{much} {'better' if margin > 1 else 'worse'} than"


def document(judged: Gate) -> dict[str, Any]:
    """The same for a program; an end that is open is null, and a key beside it says so."""
    from virtoll.report.csv_table import record

    checks = []
    for one in judged.checks:
        told = {**asdict(one), "outcome": str(one.outcome)}
        checks.append({**told, **record(("low", "high"), (one.low, one.high))})
    return {"outcome": str(judged.outcome), "checks": checks, "doubts": list(judged.doubts)}


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
