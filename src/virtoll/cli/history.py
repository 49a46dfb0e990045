"""``virtoll history``: what changed over many runs of this host, and when."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from virtoll.api.folders import run_folders, runs_directory, runs_of
from virtoll.cli import complete
from virtoll.cli.output import Json, print_json, say_in_columns, say_page, say_progress
from virtoll.errors import ThresholdMissed, ThresholdNotTold, UsageError

if TYPE_CHECKING:
    from virtoll.stats.history import History, RunOfHistory

_NO_RUN: Final = "Runs, or folders of runs; the runs folder when none is given."
RunsArgument = Annotated[list[str] | None, typer.Argument(metavar="RUN", help=_NO_RUN, autocompletion=complete.runs)]
WorkloadOption = Annotated[
    list[str] | None,
    typer.Option(metavar="WORKLOAD", help="Of the workloads this one. Repeatable.", autocompletion=complete.workloads),
]


def history(
    runs: RunsArgument = None,
    *,
    experiment: Annotated[
        str | None,
        typer.Option("--experiment", metavar="NAME", help="Of the runs those of this experiment; the newest run's."),
    ] = None,
    platform: Annotated[
        list[str] | None,
        typer.Option("--platform", metavar="PLATFORM", help="Of the platforms this one, by its label. Repeatable."),
    ] = None,
    workload: WorkloadOption = None,
    last: Annotated[
        int | None, typer.Option("--last", metavar="N", help="So many of the newest runs alone.", min=1)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a page with every series drawn.")
    ] = None,
    fail_if_slower: Annotated[
        bool,
        typer.Option(
            "--fail-if-slower",
            help="Exit with 3 where a platform's last change was for the slower, and with 4 where that is not known.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Find when a platform became slower or faster, over many runs.

    Runs of one host and experiment stand in their order. For each change there is what the two runs before and after
    it record of the host, its packages and the experiment.
    """
    from virtoll.report.history import history_document, history_lines
    from virtoll.report.history_runs import gather
    from virtoll.stats.history import history_of

    gathered = gather(_folders(runs or []), experiment, last, say_progress)
    run_history = history_of([run.of_these(platform or (), workload or ()) for run in gathered.runs])
    if not run_history.series:
        raise UsageError(_nothing_of(gathered.runs, platform or [], workload or []))
    if output is not None:
        from virtoll.report.history_page import write_history

        write_history(run_history, gathered, output)
    if as_json:
        print_json(history_document(run_history, gathered))
    else:
        for line in history_lines(run_history, gathered):
            say_in_columns(line)
        if output is not None:
            say_page("page: ", output.absolute())
    if fail_if_slower:
        _leave_by(run_history)


def _folders(names: list[str]) -> list[Path]:
    """Those of each name, and of none all runs of the runs folder."""
    folders = list(itertools.chain.from_iterable(map(runs_of, names))) if names else run_folders()
    if not folders:
        raise UsageError(f"no runs in {runs_directory()}; 'virtoll run' makes one, or give a folder of runs")
    return folders


def _nothing_of(runs: tuple[RunOfHistory, ...], platforms: list[str], workloads: list[str]) -> str:
    """That no series is of what was asked for, and what there is."""
    series = {key for run in runs for key in run.values}
    for option, chosen, known in (
        ("--platform", platforms, {key.platform for key in series}),
        ("--workload", workloads, {key.workload for key in series}),
    ):
        wrong = [value for value in chosen if value not in known]
        if wrong:
            return f"{option} {wrong[0]!r} is in none of the runs; choose from: {', '.join(sorted(known))}"
    return "no platform of those has one of those workloads in any run; leave out --platform or --workload"


def _leave_by(run_history: History) -> None:
    """End with 3 if a share's last stretch is slower than the one before, with 4 if no share can tell.

    Also with 4 if the host was unfit in most runs of one of both stretches: then it may be the cause.
    """
    slower = run_history.slower_since
    believed = [series for series in slower if not run_history.is_by_unfit_runs(series)]
    if believed:
        raise ThresholdMissed(
            f"{len(believed)} of {len(run_history.shares)} series of shares are slower since their last change; look "
            "into what changed there, or accept it with --last, which takes newer runs alone"
        )
    if slower:
        raise ThresholdNotTold(
            f"{len(slower)} of {len(run_history.shares)} series of shares are slower since their last change, but the "
            "host was unfit in most runs before or after it; measure more runs on a quiet host"
        )
    if not any(share.changes is not None for share in run_history.shares):
        raise ThresholdNotTold("no share of the baseline has enough runs to tell a change; measure more runs")
