"""``virtoll reproduce``: a study's experiments one after the other, and one page of what they say together."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from virtoll.api.folders import runs_directory, runs_of
from virtoll.cli import complete, options
from virtoll.cli.loading import chosen, load
from virtoll.cli.measuring import measure_into, resume_into
from virtoll.cli.output import Json, Verbose, print_json, say, say_in_columns, say_on_stderr
from virtoll.errors import UsageError, VirtollError

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.selection import Selection

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
    experiment: ExperimentsOption = None,
    runs: FromOption = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Repeat a paper's experiments, with its numbers beside yours.

    One page has all of them, and what they say of the paper's claims.

    What is finished in the folder already is kept, and what was interrupted is resumed.
    """
    del verbose  # its callback has set what this process and those below it do
    from virtoll.report import build_reproduction, reproduction_document, reproduction_lines, study_presets

    presets = study_presets(study)
    folder = (into or runs_directory() / f"reproduce-{study}").absolute()
    if runs:
        if size or platform or workload or experiment:
            raise UsageError("--from measures nothing, so leave out --size, --platform, --workload and --experiment")
        folders = list(dict.fromkeys(run_folder for run in runs for run_folder in runs_of(run)))
    elif as_json:
        raise UsageError("--json needs --from: what is being measured prints its progress; measure, then '--from' it")
    else:
        folders = _measured(
            study, experiment or list(presets), folder, chosen(size, platform, workload, None, None, None)
        )
    reproduction = build_reproduction(study, folders, folder / "report")
    if as_json:
        print_json(reproduction_document(reproduction))
        return
    for line in reproduction_lines(reproduction):
        say_in_columns(line)
    say(f"report: {reproduction.page}")


def _measured(study: str, names: Sequence[str], folder: Path, selection: Selection) -> list[Path]:
    """The run folders of the experiments, each whole; what is there already is not measured again."""
    experiments = _experiments(study, names, selection)
    planned = [(experiment, folder / experiment.name) for experiment in experiments]
    for experiment, run_folder in planned:
        _refuse_another(experiment, run_folder)
    for number, (experiment, run_folder) in enumerate(planned, 1):
        say_on_stderr(f"{study}, experiment {number} of {len(planned)}: {experiment.name}")
        try:
            _finish(experiment, run_folder)
        except (SystemExit, VirtollError):
            say_on_stderr(
                f"virtoll: {number - 1} of {len(planned)} experiments are finished; the same command takes the rest"
            )
            raise
    return [run_folder for _, run_folder in planned]


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


def _refuse_another(experiment: Experiment, folder: Path) -> None:
    """UsageError where a folder holds a run of another file, or of another part of it."""
    from virtoll.runfolder.store import RunFolder

    if not (folder / "manifest.json").is_file():
        return
    described = RunFolder.open(folder).manifest.experiment
    if described["text"] != experiment.text or described.get("selection") != experiment.selection.as_record():
        raise UsageError(
            f"{folder} holds a run of another file, size or choice; give another folder with --into, or make the page "
            f"of what is there with '--from {folder.parent}'"
        )


def _finish(experiment: Experiment, folder: Path) -> None:
    """Measure, resume or keep; then the run's own page."""
    from virtoll.report import build_report
    from virtoll.runfolder.store import RunFolder

    if not (folder / "manifest.json").is_file():
        measure_into(experiment, folder)
    elif RunFolder.open(folder).state().state != "complete":
        resume_into(folder)
    else:
        say_on_stderr(f"{folder} is finished, and not measured again")
        if (folder / "report" / "index.html").is_file():
            return
    build_report(folder)
