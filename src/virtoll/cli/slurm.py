"""``virtoll campaign submit`` and ``status``, and what each task runs: a campaign on the nodes of a Slurm cluster."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from virtoll.cli import options
from virtoll.cli.loading import chosen, load
from virtoll.cli.measuring import measure_part
from virtoll.cli.output import Json, print_json, say, say_on_stderr
from virtoll.errors import Interrupted, UsageError, VirtollError
from virtoll.runfolder.campaign_records import CampaignRecord, SubmissionRecord
from virtoll.system.python import isolated

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.submission import ArrayJob, CampaignStatus, Queued
MOST_RESTARTS: Final = 3
"""How often a task that ran into its time limit begins again: blocks that never fit it must not go round for ever."""
CampaignFolder = Annotated[Path, typer.Argument(metavar="FOLDER", help="A campaign's folder.")]
_SUBMITTED: Final = "An experiment's name or file; or a campaign's folder, for what is missing."
SubmittedArgument = Annotated[str, typer.Argument(metavar="EXPERIMENT", help=_SUBMITTED)]
NodesOption = Annotated[int | None, typer.Option("--nodes", metavar="N", min=1, help="On how many nodes at once.")]
_SHARED: Final = "The campaign's folder, which all nodes must share."
SharedFolderOption = Annotated[Path | None, typer.Option("--into", metavar="FOLDER", help=_SHARED)]
_PER_TASK: Final = "Blocks a task; 1 where one array takes that many."
BlocksPerTaskOption = Annotated[int | None, typer.Option("--blocks-per-task", metavar="K", min=1, help=_PER_TASK)]
_LIMIT: Final = "A task's time limit; without it twice the plan's estimate and 15 minutes."
TimeOption = Annotated[str | None, typer.Option("--time", metavar="TIME", help=_LIMIT)]
PartitionOption = Annotated[str | None, typer.Option("--partition", metavar="NAME", help="Slurm's partition.")]
AccountOption = Annotated[str | None, typer.Option("--account", metavar="NAME", help="Slurm's account.")]
_WIRED: Final = (
    "Features, each shared by nodes that are wired to each other, such as pair1,pair2; for a testbed with nodes."
)
WiredOption = Annotated[str | None, typer.Option("--wired", metavar="FEATURES", help=_WIRED)]
_SBATCH: Final = "One more of sbatch, such as --option=--qos=low. Repeatable."
SbatchOption = Annotated[list[str] | None, typer.Option("--option", metavar="OPTION", help=_SBATCH)]
_DRY_RUN: Final = "Print the job script and the sbatch command; start nothing."
DryRunOption = Annotated[bool, typer.Option("--dry-run", help=_DRY_RUN)]


def submit(
    experiment: SubmittedArgument,
    *,
    nodes: NodesOption = None,
    into: SharedFolderOption = None,
    size: options.Size = None,
    platform: options.Platform = None,
    workload: options.Workload = None,
    only: options.Only = None,
    skip: options.Skip = None,
    blocks: options.Blocks = None,
    seed: options.Seed = None,
    blocks_per_task: BlocksPerTaskOption = None,
    limit: TimeOption = None,
    partition: PartitionOption = None,
    account: AccountOption = None,
    wired: WiredOption = None,
    option: SbatchOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Give a campaign to Slurm as an array job, a whole node a task.

    The same again submits only what is missing.
    """
    selection = chosen(size, platform, workload, only, skip, None, blocks=blocks, seed=seed)
    folder, checked, before = _meant(experiment, into, selection)
    if nodes is None and before is None:
        raise UsageError("--nodes is missing: give on how many nodes at once the campaign is measured, such as 8")
    from virtoll.pipeline.submission import refuse_own
    from virtoll.pipeline.wired import features_of, refuse_unwired

    changes: Mapping[str, Any] = {
        "nodes": nodes,
        "blocks_per_task": blocks_per_task,
        "time": limit or None,
        "partition": partition or None,
        "account": account or None,
        "options": None if option is None else tuple(option),
        "wired": None if wired is None else features_of(wired),
        "labels": checked.testbed.nodes if checked.testbed is not None else (),
    }
    usual = before or SubmissionRecord(nodes or 1, checked.selection.as_record())
    settings = usual.replace(**{name: value for name, value in changes.items() if value is not None})
    refuse_unwired(checked, settings.wired)
    for sbatch_option in settings.options:
        refuse_own(sbatch_option, wired=bool(settings.wired))
    if dry_run:
        _show(_jobs(folder, checked, settings, dry_run=True)[1])
        return
    _submit(folder, checked, settings)


def _submit(folder: Path, checked: Experiment, settings: SubmissionRecord) -> None:
    """Submit the arrays that are missing, and say what each is; or why nothing is submitted."""
    from virtoll.pipeline import slurm
    from virtoll.pipeline.submission import kept, submit, submitting

    slurm.require()
    with submitting(folder):
        there, jobs, under_way = _jobs(folder, checked, settings, dry_run=False)
        kept(folder, checked, settings)
        if not jobs:
            _tell(folder, there, under_way)
            return
        job: str | None = None
        for array in jobs:
            job = submit(folder, array, job)
            say(_task_words(array, job, settings))
    say(f"how it stands: virtoll campaign status {shlex.quote(str(folder))}")


def status(folder: CampaignFolder, as_json: Json = False) -> None:
    """Print which blocks of a campaign are complete, begun or missing.

    With what Slurm says of its tasks, where Slurm is.
    """
    from virtoll.pipeline import slurm
    from virtoll.pipeline.submission import last_words, queued, standing

    folder = folder.absolute()
    there = standing(folder)
    tasks: list[Queued] | None = None
    if slurm.is_there():
        try:
            tasks = queued(folder)
        except VirtollError as error:
            say_on_stderr(f"virtoll: {error}")
    with_slurm = {block for queued_task in tasks or () for block in queued_task.blocks}
    left = [part.blocks for part in there.begun if with_slurm.isdisjoint(part.blocks)]
    left += [(block,) for block in there.missing if block not in with_slurm]
    words = {blocks: ending for blocks in left[:_MOST_LOGS] if (ending := last_words(folder, blocks))}
    if as_json:
        print_json(_document(there, tasks, words))
        return
    for line in _lines(folder, there, tasks, words):
        say(line)


def task(
    folder: CampaignFolder,
    array: Annotated[int, typer.Option("--array", metavar="N", help="Which of the campaign's arrays.")],
) -> None:
    """What each task of a submitted campaign runs: its blocks, and once more where its time limit comes too early."""
    index = os.environ.get("SLURM_ARRAY_TASK_ID", "")
    if not index.isdigit():
        raise UsageError("this command is a Slurm task's; measure blocks with 'virtoll campaign block'")
    from virtoll.experiment.selection import Selection
    from virtoll.pipeline.submission import EXPERIMENT_FILE, alone, settings_of, task_blocks

    settings = settings_of(folder)
    blocks = task_blocks(folder, array, int(index))
    if settings is not None and settings.wired:
        _on_the_guests_node(settings)
    selection = Selection.of_record((settings and settings.selection) or {})
    with _told_of_the_limit() as signals:
        try:
            with alone(folder, blocks):
                measure_part(load(str(folder / EXPERIMENT_FILE), selection), blocks, folder)
            return
        except (Interrupted, KeyboardInterrupt, SystemExit):
            if not signals:
                raise
    _begin_again(folder, blocks, int(index))


def _on_the_guests_node(settings: SubmissionRecord) -> None:
    """Go on where the guests are to be, and tell which hosts the testbed's nodes are; else Slurm ran this elsewhere."""
    from virtoll.hosts.nodes import VARIABLE, written
    from virtoll.pipeline import slurm
    from virtoll.pipeline.wired import placed

    nodes = slurm.nodes_of(os.environ["SLURM_JOB_NODELIST"])
    placement = placed(nodes, settings.labels, settings.wired)
    if os.environ["SLURMD_NODENAME"] != placement.guests:
        command = slurm.on_node(placement.guests, isolated("virtoll", *sys.argv[1:]))
        os.execvp(command[0], command)  # noqa: S606 - a list, and signals must reach it as they reach this process
    os.environ[VARIABLE] = written(placement.hosts)


@contextmanager
def _told_of_the_limit() -> Iterator[list[int]]:
    """Slurm's word that the time limit is near ends what runs inside in order, as SIGTERM does; the list then has it.

    SIGTERM itself is someone's who cancels or preempts the task, and Slurm knows what is to come after it.
    """
    from virtoll.lab.interrupts import interruptible

    signals: list[int] = []

    def stop(number: int, _frame: object) -> None:
        signals.append(number)
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        with interruptible():
            yield signals
    finally:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN if signals else before)


def _begin_again(folder: Path, blocks: str, index: int) -> None:
    """Requeue this task, or VirtollError where that was done often enough."""
    from virtoll.pipeline import slurm

    what = f"block {blocks}" if blocks.isdigit() else f"blocks {blocks}"
    restarts = int(os.environ.get("SLURM_RESTART_COUNT") or 0)
    if restarts >= MOST_RESTARTS:
        raise VirtollError(
            f"{what} began {restarts + 1} times and ran into the time limit again; give a longer one with "
            f"'virtoll campaign submit {shlex.quote(str(folder))} --time TIME'"
        )
    times = f"{restarts + 1} of at most {MOST_RESTARTS} times"
    say_on_stderr(f"virtoll: the time limit is near, and {what} will begin again, {times}")
    slurm.requeue(os.environ["SLURM_ARRAY_JOB_ID"], index)


_MOST_LOGS = 20  # whose last lines are read


def _meant(name: str, into: Path | None, selection: Selection) -> tuple[Path, Experiment, SubmissionRecord | None]:
    """The campaign's folder, its experiment, and how it was submitted before; by the folder alone, or by both."""
    from virtoll.experiment.selection import EVERYTHING, Selection
    from virtoll.pipeline.parts import refuse_undivided
    from virtoll.pipeline.submission import EXPERIMENT_FILE, settings_of

    if Path(name).is_dir():
        folder = Path(name).absolute()
        before = settings_of(folder)
        if before is None:
            raise UsageError(f"{folder} holds no campaign that was submitted; give its experiment and --into {name}")
        if selection != EVERYTHING or (into is not None and into.absolute() != folder):
            raise UsageError(f"{folder} has its experiment and choice already; leave these options and --into out")
        checked = load(str(folder / EXPERIMENT_FILE), Selection.of_record(before.selection))
    else:
        if into is None:
            raise UsageError("--into is missing: give the campaign's folder, which all nodes share")
        folder, checked = into.absolute(), load(name, selection)
        before = settings_of(folder)
    if "%" in str(folder) or "\\" in str(folder):
        raise UsageError(f"{folder}: Slurm takes '%' and '\\' in a path for something else; give another --into")
    refuse_undivided(checked)
    return folder, checked, before


def _jobs(
    folder: Path, checked: Experiment, settings: SubmissionRecord, *, dry_run: bool
) -> tuple[CampaignStatus, list[ArrayJob], list[Queued]]:
    """What of the campaign there is, the arrays that are to be submitted, and the tasks that Slurm has already."""
    from virtoll.pipeline import slurm
    from virtoll.pipeline.parts import CAMPAIGN_FILE, joined_campaign, part_of, read_campaign, refuse_other_campaign
    from virtoll.pipeline.preview import plan_of
    from virtoll.pipeline.submission import CampaignStatus, array_jobs, missing_tasks, queued, standing

    plan = plan_of(checked)
    whole = part_of(checked, plan, tuple(range(checked.blocks)))
    if dry_run:
        refuse_other_campaign(folder, whole)
    else:
        joined_campaign(folder, checked, whole)
    if read_campaign(folder / CAMPAIGN_FILE) is not None:
        there = standing(folder)
    else:
        new = CampaignRecord(whole.campaign, checked.name, whole.of, time.time_ns())
        there = CampaignStatus(new, (), (), whole.blocks)
    has_slurm = slurm.is_there()
    under_way = queued(folder) if has_slurm else []
    largest = slurm.largest_array() if has_slurm else slurm.ARRAY_WITHOUT_SLURM
    left = len(there.missing) + sum(len(part.blocks) for part in there.begun)
    tasks = missing_tasks(
        there,
        {block for queued_task in under_way for block in queued_task.blocks},
        settings.blocks_per_task or max(1, -(-left // largest)),
    )
    jobs = array_jobs(folder, checked, settings, tasks, plan=plan, campaign=there.campaign, largest=largest)
    return there, jobs, under_way


def _show(jobs: list[ArrayJob]) -> None:
    """What would be done, for a person."""
    if not jobs:
        say("nothing is missing that Slurm has not")
    for array in jobs:
        say(shlex.join(array.command))
        say(array.script)
    if jobs[1:]:
        say(f"{len(jobs)} arrays, since one holds no more tasks here; each begins when the one before it has ended")


def _tell(folder: Path, there: CampaignStatus, under_way: list[Queued]) -> None:
    """Where nothing is to be submitted: why."""
    if len(there.complete) == there.campaign.blocks:
        say(f"all {there.campaign.blocks} blocks are complete: virtoll campaign merge {shlex.quote(str(folder))}")
    else:
        tasks = f"{len(under_way)} tasks" if len(under_way) != 1 else "1 task"
        say(f"nothing is submitted: Slurm or this host has all that is missing ({tasks} in Slurm's queue)")


def _task_words(array: ArrayJob, job: str, settings: SubmissionRecord) -> str:
    from virtoll.pipeline.parts import blocks_words
    from virtoll.report.words import counted

    tasks = counted(len(array.record.tasks), "task")
    nodes = counted(settings.nodes, "node")
    beside = f", each with its {' and its '.join(settings.labels)}" if settings.labels else ""
    return f"array job {job}: {tasks} for {blocks_words(array.blocks)}, on at most {nodes} at once{beside}"


def _document(there: CampaignStatus, tasks: list[Queued] | None, words: dict[tuple[int, ...], str]) -> dict[str, Any]:
    """All of it, for a program; blocks are counted from 1."""

    def counted(blocks: tuple[int, ...]) -> list[int]:
        return [block + 1 for block in blocks]

    begun = [
        {"blocks": counted(part.blocks), "state": part.state, "reason": part.reason or None} for part in there.begun
    ]
    return {
        "version": 1,
        "campaign": there.campaign.campaign,
        "experiment": there.campaign.experiment,
        "blocks": there.campaign.blocks,
        "complete": counted(there.complete),
        "begun": begun,
        "missing": counted(there.missing),
        "tasks": None if tasks is None else list(map(_task_document, tasks)),
        "last_words": [{"blocks": counted(blocks), "said": ending} for blocks, ending in words.items()],
    }


def _task_document(queued_task: Queued) -> dict[str, object]:
    task = queued_task.task
    return {
        "task": f"{task.job}_{task.index}",
        "blocks": [block + 1 for block in queued_task.blocks],
        "state": task.state,
        "node": task.node or None,
        "reason": task.reason if task.reason != "None" else None,
    }


def _lines(
    folder: Path, there: CampaignStatus, tasks: list[Queued] | None, words: dict[tuple[int, ...], str]
) -> Iterator[str]:
    """The same for a person."""
    from virtoll.pipeline.parts import blocks_words

    of = there.campaign
    yield f"{of.experiment}, campaign {of.campaign[:8]}: {len(there.complete)} of {of.blocks} blocks are complete"
    for part in there.begun:
        yield f"begun: {blocks_words(part.blocks)}, {part.state}{': ' if part.reason else ''}{part.reason}"
    if there.missing:
        yield f"missing: {blocks_words(there.missing)}"
    if tasks is None:
        yield "Slurm: not asked"
    yield from _queue_lines(tasks or [])
    yield from (f"the log of {blocks_words(blocks)} ends: {ending}" for blocks, ending in words.items())
    left = set(there.missing).union(*(part.blocks for part in there.begun)) - set(there.complete)
    waits = left - {block for queued_task in tasks or () for block in queued_task.blocks}
    if not left:
        yield f"next: virtoll campaign merge {shlex.quote(str(folder))}"
    elif waits and tasks is not None:
        yield f"next: virtoll campaign submit {shlex.quote(str(folder))}, for {blocks_words(waits)}"


def _queue_lines(tasks: list[Queued]) -> Iterator[str]:
    """A line for each state that Slurm's tasks are in."""
    from virtoll.pipeline.parts import blocks_words

    for state in sorted({queued_task.task.state for queued_task in tasks}):
        same_state = [queued_task for queued_task in tasks if queued_task.task.state == state]
        what = "task" if len(same_state) == 1 else "tasks"
        why = ", ".join(sorted({queued_task.task.reason for queued_task in same_state} - {"None", ""}))
        blocks = {block for queued_task in same_state for block in queued_task.blocks}
        yield f"Slurm: {len(same_state)} {what} {state.lower()}, {blocks_words(blocks)}{f' ({why})' if why else ''}"
