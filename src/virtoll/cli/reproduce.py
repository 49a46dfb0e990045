"""``virtoll reproduce``: a study's experiments one after the other, and one page of what they say together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from virtoll.api.folders import runs_directory, runs_of
from virtoll.cli import complete, options
from virtoll.cli.loading import chosen, load
from virtoll.cli.measuring import extend_into, measure_into, resume_into
from virtoll.cli.output import Json, Verbose, print_json, say, say_in_columns, say_on_stderr
from virtoll.cli.reproduce_plan import (
    Ahead,
    ask_before_days,
    blocks_of,
    plan_document,
    plan_lines,
    platforms_not_here,
)
from virtoll.errors import UsageError, VirtollError

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.selection import Selection
    from virtoll.report import PaperSize

StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="schlosser2011, mattos2012, suresh2014 or camargos2008.",
        autocompletion=complete.studies,
    ),
]
_PRESETS: Final = "In the place of the study's presets: a name or YAML file. Repeatable."
ExperimentsOption = Annotated[
    list[str] | None,
    typer.Option("--experiment", metavar="EXPERIMENT", help=_PRESETS, autocompletion=complete.experiments),
]
_FROM: Final = "Measure nothing: a run, or a folder of runs. Repeatable."
FromOption = Annotated[
    list[str] | None, typer.Option("--from", metavar="RUN", help=_FROM, autocompletion=complete.runs)
]


def reproduce(
    study: StudyArgument,
    *,
    into: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The folder of its runs and page; 'runs/reproduce-STUDY' when not given."),
    ] = None,
    size: options.Size = None,
    platform: options.Platform = None,
    workload: options.Workload = None,
    until: options.Until = None,
    blocks: options.Blocks = None,
    experiment: ExperimentsOption = None,
    runs: FromOption = None,
    plan: Annotated[
        bool, typer.Option("--plan", help="Print what takes how long, and what cannot run here; measure nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Begin without being asked, even days of work.")] = False,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Repeat a paper's experiments, with its numbers beside yours.

    One page has all of them, and what they say of the paper's claims.

    What is finished in the folder already is kept, and what was interrupted is resumed.

    Before more than a day of work it asks.
    """
    del verbose  # its callback has set what this process and those below it do
    from virtoll.report import build_reproduction, reproduction_document, reproduction_lines, study_presets

    presets = study_presets(study)
    folder = (into or runs_directory() / f"reproduce-{study}").absolute()
    if runs:
        if size or platform or workload or until or blocks or experiment or plan:
            raise UsageError("--from measures nothing, so leave out all that says what to measure, such as --size")
        folders = list(dict.fromkeys(run_folder for run in runs for run_folder in runs_of(run)))
    elif as_json and not plan:
        raise UsageError("--json needs --from: what is being measured prints its progress; measure, then '--from' it")
    else:
        selection = chosen(size, platform, workload, None, None, until, blocks=blocks)
        ahead = _ahead(study, experiment or list(presets), folder, selection)
        if plan:
            _show_plan(study, ahead, as_json=as_json)
            return
        ask_before_days(study, ahead, agreed=yes)
        folders = _measured(study, ahead)
    reproduction = build_reproduction(study, folders, folder / "report", _as_the_paper(presets))
    if as_json:
        print_json(reproduction_document(reproduction))
        return
    for line in reproduction_lines(reproduction):
        say_in_columns(line)
    say(f"report: {reproduction.page}")


def _as_the_paper(presets: Sequence[str]) -> dict[str, PaperSize]:
    """The study's experiments as the paper ran them, by name."""
    from virtoll.experiment.plan import cells_of
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.preview import plan_of, planned_trial
    from virtoll.report import PaperSize

    sizes = {}
    for name in presets:
        experiment = load(name, Selection(size="paper"))
        cells = cells_of(plan_of(replace(experiment, blocks=1, looks=None)).trials).values()
        trials = tuple(map(planned_trial, cells))
        sizes[name] = PaperSize(experiment.blocks, experiment.vcpus, experiment.memory_bytes, trials)
    return sizes


def _show_plan(study: str, ahead: Sequence[Ahead], *, as_json: bool) -> None:
    not_here = platforms_not_here([part.experiment for part in ahead])
    if as_json:
        print_json(plan_document(study, ahead, not_here))
        return
    for line in plan_lines(study, ahead, not_here):
        say_in_columns(line)


def _ahead(study: str, names: Sequence[str], folder: Path, selection: Selection) -> list[Ahead]:
    """The experiments with their folders; UsageError where a folder holds what does not go with them."""
    ahead = []
    for experiment in _experiments(study, names, selection):
        part = _with_its_blocks(Ahead(experiment, folder / experiment.name))
        _refuse_another(part)
        ahead.append(part)
    return ahead


def _with_its_blocks(part: Ahead) -> Ahead:
    """Where none are asked for, a run that was begun with more or fewer blocks than the file's keeps them."""
    experiment, begun = part.experiment, part.begun
    if begun is None or experiment.selection.blocks is not None or experiment.looks is not None:
        return part
    has = blocks_of(begun)
    if has in (0, experiment.blocks):
        return part
    return Ahead(load(str(experiment.file), replace(experiment.selection, blocks=has)), part.folder)


def _measured(study: str, ahead: Sequence[Ahead]) -> list[Path]:
    """The run folders of the experiments, each whole; what is there already is not measured again."""
    for number, part in enumerate(ahead, 1):
        say_on_stderr(f"{study}, experiment {number} of {len(ahead)}: {part.experiment.name}")
        try:
            _finish(part)
        except (SystemExit, VirtollError):
            say_on_stderr(
                f"virtoll: {number - 1} of {len(ahead)} experiments are finished; the same command takes the rest"
            )
            raise
    return [part.folder for part in ahead]


def _experiments(study: str, names: Sequence[str], selection: Selection) -> list[Experiment]:
    """The experiments, or what was chosen of each; one of which nothing was chosen is left out, and told.

    UsageError where one is of another study, two have one name, or what is asked for is in none.
    """
    wholes = [load(name, replace(selection, platforms=(), workloads=())) for name in names]
    for name, experiment in zip(names, wholes, strict=True):
        if experiment.study != study:
            raise UsageError(
                f"{name}: its key 'study' is {experiment.study or 'not there'}; give 'study: {study}', or leave it out"
            )
    if len({experiment.name for experiment in wholes}) < len(wholes):
        raise UsageError("two of the experiments have one name, and so one folder; give one of them another")
    _refuse_in_none("--platform", selection.platforms, set().union(*map(_platforms_of, wholes)), study)
    _refuse_in_none("--workload", selection.workloads, set().union(*map(_workloads_of, wholes)), study)
    experiments = []
    for name, experiment in zip(names, wholes, strict=True):
        part = replace(
            selection,
            platforms=tuple(filter(_platforms_of(experiment).__contains__, selection.platforms)),
            workloads=tuple(filter(_workloads_of(experiment).__contains__, selection.workloads)),
        )
        if (selection.platforms and not part.platforms) or (selection.workloads and not part.workloads):
            say_on_stderr(f"{experiment.name} is left out: it has nothing of what was chosen")
        else:
            experiments.append(load(name, part))
    return experiments


def _platforms_of(experiment: Experiment) -> set[str]:
    """The names by which its platforms can be chosen."""
    return {name for choice in experiment.platforms for name in (choice.label, choice.platform)}


def _workloads_of(experiment: Experiment) -> set[str]:
    return {choice.workload for choice in experiment.workloads}


def _refuse_in_none(option: str, names: Sequence[str], known: Collection[str], study: str) -> None:
    for name in names:
        if name not in known:
            raise UsageError(f"{option} {name!r} is in no experiment of {study}; allowed: {', '.join(sorted(known))}")


def _refuse_another(part: Ahead) -> None:
    """UsageError where a folder holds a run of another file, of another part of it, or one that cannot be extended."""
    begun, experiment, folder = part.begun, part.experiment, part.folder
    if begun is None:
        return
    described = begun.manifest.experiment
    if described["text"] != experiment.text or _choice(described, experiment) != experiment.selection.as_record():
        raise UsageError(
            f"{folder} holds a run of another file, size or choice; give another folder with --into, or make the page "
            f"of what is there with '--from {folder.parent}'"
        )
    blocks, has = experiment.selection.blocks, blocks_of(begun)
    if blocks is not None and blocks < has and part.state != "complete":
        raise UsageError(f"{folder} was begun with {has} blocks; give '--blocks {has}' or more, or another folder")
    if part.lacks_blocks:
        from virtoll.pipeline.extension import extended_experiment

        extended_experiment(begun, experiment.blocks)  # what cannot be added is told before anything starts


def _choice(described: Mapping[str, Any], experiment: Experiment) -> Mapping[str, Any]:
    """What was chosen of a run, with the number of blocks of today: more may be added unless looks fixed them."""
    record = dict(described.get("selection") or {})
    if experiment.looks is None:
        record.pop("blocks", None)
        if experiment.selection.blocks is not None:
            record["blocks"] = experiment.selection.blocks
    return record


def _finish(part: Ahead) -> None:
    """Measure, resume, extend or keep; then the run's own page."""
    from virtoll.report import build_report

    folder, begun = part.folder, part.begun
    if begun is None:
        measure_into(part.experiment, folder)
    else:
        if part.state != "complete":
            say_on_stderr(f"{folder} is resumed: {len(begun.finished_trials())} of its trials are finished")
            resume_into(folder)
        if part.lacks_blocks:
            _extend(part)
        elif part.state == "complete":
            say_on_stderr(f"{folder} is finished, and not measured again")
            if _page_is_newer(folder):
                return
    build_report(folder)


def _extend(part: Ahead) -> None:
    from virtoll.pipeline.extension import extended_experiment, refuse_unfinished
    from virtoll.runfolder.store import RunFolder

    begun, blocks = RunFolder.open(part.folder), part.experiment.blocks
    say_on_stderr(f"{part.folder} has {blocks_of(begun)} blocks, and is extended to {blocks}")
    refuse_unfinished(begun)
    extend_into(extended_experiment(begun, blocks), part.folder, blocks)


def _page_is_newer(folder: Path) -> bool:
    """Whether a run's own page was made after the run ended: whoever was interrupted between both has an old one."""
    page = folder / "report" / "index.html"
    return page.is_file() and page.stat().st_mtime_ns >= (folder / "state.json").stat().st_mtime_ns
