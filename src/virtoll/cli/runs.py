"""``virtoll run``, ``consolidation``, ``resume`` and ``extend``: an experiment is measured, and its report written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import FoundRun, clock_behind, new_folder, run_to_measure
from virtoll.cli import complete
from virtoll.cli.gate import judge
from virtoll.cli.loading import chosen, load
from virtoll.cli.measuring import consolidation_of, extend_into, measure_consolidation, measure_into, resume_into
from virtoll.cli.options import (
    AgainstOption,
    AllowUnknownOption,
    BlocksOption,
    ExperimentArgument,
    FailIfOption,
    FolderArgument,
    IntoOption,
    OnlyOption,
    OpenOption,
    PlatformOption,
    SeedOption,
    SizeOption,
    SkipOption,
    UntilOption,
    WorkloadOption,
)
from virtoll.cli.output import Quiet, Verbose, say_on_stderr
from virtoll.cli.report import write_report
from virtoll.cli.thresholds import asked_of, thresholds_for
from virtoll.units import time_to_come

if TYPE_CHECKING:
    from virtoll.advise.gate import Threshold


def run(
    experiment: ExperimentArgument = "quick",
    *,
    into: IntoOption = None,
    size: SizeOption = None,
    platform: PlatformOption = None,
    workload: WorkloadOption = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    until: UntilOption = None,
    blocks: BlocksOption = None,
    seed: SeedOption = None,
    against: AgainstOption = None,
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
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
    behind = clock_behind()
    if behind is not None:
        newest, seconds = behind
        say_on_stderr(
            f"virtoll: this host's clock is {time_to_come(seconds)} behind the run {newest}, which "
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
    into: IntoOption = None,
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
    measure_consolidation(checked, folder)
    write_report(FoundRun(folder))


def resume(
    run: FolderArgument = "latest",
    *,
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Continue an interrupted or killed run. Finished trials are kept."""
    del quiet, verbose
    folder = run_to_measure(run, "resume")
    thresholds = asked_of(folder, fail_if or [])
    resume_into(folder)
    _report(folder, thresholds, allow_unknown, open_page)


def extend(
    run: FolderArgument = "latest",
    *,
    blocks: Annotated[
        str, typer.Option("--blocks", help="How many more, such as +6, or how many in all.", metavar="+N")
    ],
    fail_if: FailIfOption = None,
    allow_unknown: AllowUnknownOption = False,
    open_page: OpenOption = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Add blocks to a finished run, in its folder.

    Verdicts are then tested at a stricter level.
    """
    del quiet, verbose
    from virtoll.campaign.extension import asked_blocks, extended_experiment, refuse_unfinished
    from virtoll.runfolder.store import RunFolder

    folder = run_to_measure(run, "extend")
    opened = RunFolder.open(folder)
    refuse_unfinished(opened)
    opened.read_every_record()
    block_count = asked_blocks(opened, blocks)
    experiment = extended_experiment(opened, block_count)
    thresholds = asked_of(folder, fail_if or [])
    extend_into(experiment, folder, block_count)
    _report(folder, thresholds, allow_unknown, open_page)


def _report(folder: Path, thresholds: Sequence[Threshold], allow_unknown: bool, open_page: bool) -> None:
    """Write the report, and end with the exit code of the thresholds; with 0 if there are none."""
    built = write_report(FoundRun(folder), gated=bool(thresholds), open_page=open_page)
    judge(built, thresholds, allow_unknown)
