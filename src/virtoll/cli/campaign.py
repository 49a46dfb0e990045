"""``virtoll campaign``: an experiment whose blocks several hosts measure, and the one run that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import runs_directory
from virtoll.cli.groups import Cli
from virtoll.cli.output import Quiet, Verbose, is_quiet, say, say_on_stderr
from virtoll.cli.plan import (
    BlocksOption,
    ExperimentArgument,
    OnlyOption,
    PlatformOption,
    SeedOption,
    SizeOption,
    SkipOption,
    WorkloadOption,
    chosen,
    load,
)
from virtoll.cli.runs import measure_into, resume_into
from virtoll.cli.slurm import status, submit, task

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment

app = Cli(help="One experiment over several hosts, by blocks.")
app.command()(submit)
app.command()(status)
app.command(hidden=True)(task)


@app.command()
def block(
    experiment: ExperimentArgument,
    *,
    block: Annotated[
        str, typer.Option("--block", metavar="N", help="Which block, such as 3, or which blocks, such as 3-5.")
    ],
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="The campaign's folder, which gets a folder for the part.")
    ],
    size: SizeOption = None,
    platform: PlatformOption = None,
    workload: WorkloadOption = None,
    only: OnlyOption = None,
    skip: SkipOption = None,
    blocks: BlocksOption = None,
    seed: SeedOption = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure some blocks of an experiment on this host.

    A part that is there is not measured again, and one that was killed is continued.
    """
    del quiet, verbose
    checked = load(experiment, chosen(size, platform, workload, only, skip, None, blocks=blocks, seed=seed))
    from virtoll.campaign.parts import (
        ASIDE,
        asked_blocks,
        beginning,
        joined_campaign,
        part_name,
        part_of,
        refuse_undivided,
    )
    from virtoll.campaign.preview import needs_lab, plan_of
    from virtoll.hosts.nodes import on_its_nodes

    refuse_undivided(checked)
    if checked.testbed is not None and needs_lab(checked):
        on_its_nodes(checked.testbed)  # what is missing is told before a folder is made or set aside
    block_numbers = asked_blocks(block, checked.blocks)
    part = part_of(checked, plan_of(checked), block_numbers)
    into = into.absolute()
    joined_campaign(into, checked, part)
    folder = into / part_name(block_numbers)
    there = (folder / "manifest.json").exists()
    begins = beginning(folder, part, _agent_sha256(checked))
    if begins == "done":
        say(f"{folder} is complete; nothing is measured")
        return
    if begins == "resume":
        resume_into(folder)
    else:
        if there:
            say_on_stderr(
                f"virtoll: another host, agent or Virtoll began {folder.name} and did not end it; it is now in "
                f"{into / ASIDE}, and begins anew here"
            )
        measure_into(checked, folder, block_numbers)
    say(str(folder) if is_quiet() else f"part of campaign {part.campaign[:8]}: {folder}")


@app.command()
def merge(
    folders: Annotated[
        list[Path], typer.Argument(metavar="FOLDER", help="A campaign's folder, or the folders of its parts.")
    ],
    into: Annotated[
        Path | None, typer.Option("--into", metavar="RUN", help="The run's folder; one below 'runs' when not given.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Leave out what is missing, damaged or unlike, and say so.")
    ] = False,
    without_host: Annotated[
        list[str] | None,
        typer.Option("--without-host", metavar="HOST", help="Leave a host out, such as host-3. Repeatable."),
    ] = None,
) -> None:
    """Make one run of a campaign's parts.

    Each planned trial is in it once. Merging again takes parts that came since.
    """
    from virtoll.campaign.merge import Allowed
    from virtoll.campaign.merge import merge as merge_parts
    from virtoll.campaign.parts import blocks_words

    command = ["virtoll", "campaign", "merge", *map(str, folders)]
    command += ["--partial"] if partial else []
    command += [word for name in without_host or () for word in ("--without-host", name)]
    done = merge_parts(
        folders,
        lambda name, campaign: into or runs_directory() / f"campaign-{name}-{campaign[:8]}",
        command,
        Allowed(partial, tuple(without_host or ())),
    )
    for line in done.remarks:
        say_on_stderr(f"virtoll: {line}")
    if done.missing:
        are = "is" if len(done.missing) == 1 else "are"
        say_on_stderr(f"virtoll: {blocks_words(done.missing)} of {done.of} {are} missing")
    hosts = "1 host" if done.hosts == 1 else f"{done.hosts} hosts"
    say(f"{done.blocks} of {done.of} blocks of {hosts}: {done.folder}")
    say(f"its report: virtoll report {done.folder}")


def _agent_sha256(experiment: Experiment) -> str | None:
    """Of the agent that this machine would measure with; None where all platforms are models."""
    from virtoll.campaign.preview import needs_lab

    if not needs_lab(experiment):
        return None
    import hashlib

    from virtoll.image.clone import usable_agent

    return hashlib.sha256(usable_agent().read_bytes()).hexdigest()
