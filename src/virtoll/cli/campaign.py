"""``virtoll campaign``: an experiment whose blocks several hosts measure, and the one run that is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtoll.api.folders import runs_directory
from virtoll.cli import options
from virtoll.cli.groups import Cli
from virtoll.cli.loading import chosen, load
from virtoll.cli.measuring import measure_part
from virtoll.cli.output import Quiet, Verbose, say, say_on_stderr
from virtoll.cli.slurm import status, submit, task

app = Cli(help="One experiment over several hosts, by blocks.")
app.command()(submit)
app.command()(status)
app.command(hidden=True)(task)


@app.command()
def block(
    experiment: options.Experiment,
    *,
    block: Annotated[
        str, typer.Option("--block", metavar="N", help="Which block, such as 3, or which blocks, such as 3-5.")
    ],
    into: Annotated[
        Path, typer.Option("--into", metavar="FOLDER", help="The campaign's folder, which gets a folder for the part.")
    ],
    size: options.Size = None,
    platform: options.Platform = None,
    workload: options.Workload = None,
    only: options.Only = None,
    skip: options.Skip = None,
    blocks: options.Blocks = None,
    seed: options.Seed = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure some blocks of an experiment on this host.

    A part that is there is not measured again, and one that was killed is continued.
    """
    del quiet, verbose
    checked = load(experiment, chosen(size, platform, workload, only, skip, None, blocks=blocks, seed=seed))
    measure_part(checked, block, into)


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
    from virtoll.pipeline.merge import Allowed
    from virtoll.pipeline.merge import merge as merge_parts
    from virtoll.pipeline.parts import blocks_words

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
