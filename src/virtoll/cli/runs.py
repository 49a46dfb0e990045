"""``virtoll run``, ``consolidation``, ``resume`` and ``extend``: an experiment is measured, and its report written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import FoundRun, known_runs, new_folder, run_to_measure
from virtoll.cli import complete, options
from virtoll.cli.gate import judge
from virtoll.cli.loading import chosen, load, thresholds_for, thresholds_of
from virtoll.cli.measuring import consolidation_of, extend_into, measure_into, resume_into
from virtoll.cli.output import Quiet, Verbose, say_on_stderr
from virtoll.cli.report import write_report
from virtoll.units import time_to_come

if TYPE_CHECKING:
    from virtoll.advise.gate import Threshold

_BEHIND_NS = 60 * 10**9


def run(
    experiment: options.Experiment = "quick",
    *,
    into: options.Into = None,
    size: options.Size = None,
    platform: options.Platform = None,
    workload: options.Workload = None,
    only: options.Only = None,
    skip: options.Skip = None,
    until: options.Until = None,
    blocks: options.Blocks = None,
    seed: options.Seed = None,
    against: options.Against = None,
    fail_if: options.FailIf = None,
    allow_unknown: options.AllowUnknown = False,
    open_page: options.Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run an experiment, or parts of it, and write the report."""
    del quiet, verbose
    selection = chosen(size, platform, workload, only, skip, until, blocks=blocks, seed=seed, against=against)
    checked = load(experiment, selection)
    thresholds = thresholds_for(checked, fail_if or ())
    _tell_clock_behind()
    folder = new_folder(checked.name, into)
    measure_into(checked, folder)
    _report(folder, thresholds, allow_unknown, open_page)


def _tell_clock_behind() -> None:
    """Say on the standard error if a new run would not be ``latest``, because this host's clock is behind."""
    from virtoll.runfolder.overview import created_ns

    known = known_runs()
    behind_ns = created_ns(known[-1]) - time.time_ns() if known else 0
    if behind_ns > _BEHIND_NS:
        say_on_stderr(
            f"virtoll: this host's clock is {time_to_come(behind_ns / 1e9)} behind the run {known[-1].name}, which "
            "stays 'latest'; set the clock, or call runs by their names"
        )


def consolidation(
    platforms: Annotated[
        list[str],
        typer.Argument(
            metavar="PLATFORM",
            help="Platforms, each as NAME or NAME:key=value,key=value.",
            autocompletion=complete.platforms,
        ),
    ],
    memory: Annotated[
        str, typer.Option(metavar="MEMORY", help="The host's memory that may be used, such as 2GiB.")
    ] = "1GiB",
    limit: Annotated[int, typer.Option(metavar="N", help="Maximum number of guests.")] = 1000,
    guest_memory: Annotated[str, typer.Option(metavar="MEMORY", help="What each guest is given.")] = "128MiB",
    into: options.Into = None,
) -> None:
    """Count the idle guests that fit into a budget of memory.

    The report has what each takes of the host's memory.
    """
    from virtoll.cli.shell import given_platform
    from virtoll.runfolder.yaml_file import dump_yaml

    document = {
        "name": "consolidation",
        "question": f"How many idle guests fit into {memory} of this host's memory?",
        "scenario": "consolidation",
        "platforms": [given_platform(platform) for platform in platforms],
        "guest": {"memory": guest_memory},
        "consolidation": {"memory": memory, "guests": limit},
    }
    text = dump_yaml(document, sort_keys=False, allow_unicode=True)
    checked = consolidation_of(text)
    folder = new_folder(checked.name, into)
    measure_into(checked, folder, inside=["in-lab-consolidation", text, str(folder)])
    write_report(FoundRun(folder))


def resume(
    run: options.Folder = "latest",
    *,
    fail_if: options.FailIf = None,
    allow_unknown: options.AllowUnknown = False,
    open_page: options.Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue an interrupted or killed run. Finished trials are kept."""
    del quiet, verbose
    folder = run_to_measure(run, "resume")
    thresholds = thresholds_of(folder, fail_if or [])
    resume_into(folder)
    _report(folder, thresholds, allow_unknown, open_page)


def extend(
    run: options.Folder = "latest",
    *,
    blocks: Annotated[
        str, typer.Option("--blocks", help="How many more, such as +6, or how many in all.", metavar="+N")
    ],
    fail_if: options.FailIf = None,
    allow_unknown: options.AllowUnknown = False,
    open_page: options.Open = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Add blocks to a finished run, in its folder.

    Verdicts are then tested at a stricter level.
    """
    del quiet, verbose
    from virtoll.pipeline.extension import asked_blocks, extended_experiment, refuse_unfinished
    from virtoll.runfolder.store import RunFolder

    folder = run_to_measure(run, "extend")
    opened = RunFolder.open(folder)
    refuse_unfinished(opened)
    opened.read_every_record()
    block_count = asked_blocks(opened, blocks)
    experiment = extended_experiment(opened, block_count)
    thresholds = thresholds_of(folder, fail_if or [])
    extend_into(experiment, folder, block_count)
    _report(folder, thresholds, allow_unknown, open_page)


def _report(folder: Path, thresholds: Sequence[Threshold], allow_unknown: bool, open_page: bool) -> None:
    """Write the report, and end with the exit code of the thresholds; with 0 if there are none."""
    built = write_report(FoundRun(folder), gated=bool(thresholds), open_page=open_page)
    judge(built, thresholds, allow_unknown)
