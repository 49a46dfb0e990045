"""A campaign given to Slurm: which blocks are still to be measured, and by which tasks of which array job.

What there is to do is read from the folder's parts and Slurm's queue, and never kept anywhere else: to submit again
submits what is missing. Main types: ``UnfinishedPart`` (a part that did not end), ``CampaignStatus`` (what a folder
has), ``ArrayJob`` (what sbatch is given). Main functions: ``standing``, ``missing_tasks``, ``submit``, ``task_blocks``.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final

from virtoll.errors import RunFolderError, StorageError, UsageError, VirtollError
from virtoll.pipeline import slurm
from virtoll.pipeline.parts import CAMPAIGN_FILE, json_object, only_blocks, read_campaign
from virtoll.pipeline.preview import estimate
from virtoll.pipeline.requirements import possible
from virtoll.pipeline.wired import constraint
from virtoll.runfolder import jsonlines
from virtoll.runfolder.campaign_records import ArrayRecord, CampaignRecord, SubmissionRecord
from virtoll.runfolder.opened import read_whole
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.plain import open_lock, place
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.writer import writing
from virtoll.system.locks import locked_within
from virtoll.system.python import isolated

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.plan import Plan
EXPERIMENT_FILE: Final = "experiment.yaml"
SLURM_FOLDER: Final = "slurm"
LOGS: Final = "logs"
_SETTINGS = "submission.json"
WARNING_SECONDS: Final = 120
"""How long before its time limit a task is told: guests are ended and records stored in that time."""
OTHERS_SECONDS: Final = 180.0
"""How long a task waits for another one of its blocks to end: a server gives up a dead host's locks in half of it."""
_LOOK_SECONDS = 0.2
TIME_FACTOR: Final = 2.0
START_SECONDS: Final = 900.0
"""The time limit that a task is given is so many times its estimate, and this for the start: a node may have to make
its image first."""
_REMEDY: Final = "remove it, and submit again"
_PART = re.compile(r"blocks?-([1-9][0-9]*)(?:-([1-9][0-9]*))?")
_ARRAY = re.compile(r"array-([1-9][0-9]*)\.json")
_OWN = (
    "array",
    "chdir",
    "dependency",
    "job-name",
    "no-requeue",
    "nodes",
    "open-mode",
    "output",
    "parsable",
    "requeue",
    "signal",
    "wait",
    "wrap",
)
"""Options of sbatch that a campaign decides itself."""
_OWN_LETTERS = "aDdJNoW"


@dataclass(frozen=True)
class UnfinishedPart:
    """A part that began and did not end: its blocks from 0, its state, and why it is so as far as it says."""

    blocks: tuple[int, ...]
    state: str
    reason: str


@dataclass(frozen=True)
class CampaignStatus:
    """What a campaign's folder has: the blocks of parts that are complete, the parts that began, and all other blocks.

    A block that is complete in one part and begun in another is complete.
    """

    campaign: CampaignRecord
    complete: tuple[int, ...]
    begun: tuple[UnfinishedPart, ...]
    missing: tuple[int, ...]


@dataclass(frozen=True)
class ArrayJob:
    """An array job as it is to be submitted: its number in the folder, its record, its script, and sbatch's words."""

    number: int
    record: ArrayRecord
    script: str
    command: tuple[str, ...]

    @property
    def blocks(self) -> list[int]:
        """Those of all its tasks, from 0."""
        return [block for first, last in self.record.tasks for block in range(first, last + 1)]


def standing(folder: Path) -> CampaignStatus:
    """What of a campaign there is, by the names and states of its parts' folders; UsageError where it is none."""
    campaign = campaign_of(folder)
    complete: set[int] = set()
    begun: list[UnfinishedPart] = []
    for path in sorted(folder.iterdir()):
        match = _PART.fullmatch(path.name)
        if match is None or not (path / "manifest.json").exists():
            continue
        blocks = tuple(range(int(match[1]) - 1, int(match[2] or match[1])))
        state = state_now(path)
        if state == "complete":
            complete |= set(blocks)
        else:
            begun.append(UnfinishedPart(blocks, state, _reason(path)))
    begun.sort(key=lambda part: part.blocks)
    seen = complete.union(*(part.blocks for part in begun))
    missing = tuple(block for block in range(campaign.blocks) if block not in seen)
    return CampaignStatus(campaign, tuple(sorted(complete)), tuple(begun), missing)


def campaign_of(folder: Path) -> CampaignRecord:
    """The campaign of a folder of parts; UsageError where it is none."""
    campaign = read_campaign(folder / CAMPAIGN_FILE)
    if campaign is None:
        raise UsageError(
            f"{folder} is no campaign's folder: it has no {CAMPAIGN_FILE}, which 'virtoll campaign submit' makes"
        )
    return campaign


def _reason(part: Path) -> str:
    try:
        return str(jsonlines.loads(read_whole(part / "state.json")).get("reason") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def missing_tasks(there: CampaignStatus, under_way: Collection[int], blocks_per_task: int) -> list[tuple[int, int]]:
    """The first and last block, from 0, of each task that is to be submitted.

    A part that began is a task as it is, so that its folder is gone on with. Other blocks are taken in order.
    ``under_way``: blocks of tasks that Slurm has. A part that a process of this host writes now is left to it.
    """
    taken = {*under_way, *there.complete}
    taken.update(block for part in there.begun if part.state == "running" for block in part.blocks)
    tasks = []
    for part in there.begun:
        if taken.isdisjoint(part.blocks):
            tasks.append((part.blocks[0], part.blocks[-1]))
            taken.update(part.blocks)
    groups: list[list[int]] = []
    for block in sorted(set(range(there.campaign.blocks)) - taken):
        if groups and groups[-1][-1] == block - 1 and len(groups[-1]) < blocks_per_task:
            groups[-1].append(block)
        else:
            groups.append([block])
    return sorted([*tasks, *((group[0], group[-1]) for group in groups)])


def array_jobs(
    folder: Path,
    experiment: Experiment,
    settings: SubmissionRecord,
    tasks: Sequence[tuple[int, int]],
    *,
    plan: Plan,
    campaign: CampaignRecord,
    largest: int,
) -> list[ArrayJob]:
    """The array jobs that have these tasks, of at most ``largest`` tasks each."""
    if not tasks:
        return []
    number = 1 + max(_numbers(folder), default=0)
    limit = settings.time or time_limit(experiment, plan, tasks)
    name = f"virtoll-{sha256(f'{campaign.campaign}{campaign.created_realtime_ns}'.encode()).hexdigest()[:10]}"
    jobs = []
    for start in range(0, len(tasks), largest):
        record = ArrayRecord(f"{name}-{number}", tuple(tasks[start : start + largest]))
        script = folder / SLURM_FOLDER / f"array-{number}.sh"
        command = _command(script, folder, record, settings, limit)
        jobs.append(ArrayJob(number, record, _script(folder, number), command))
        number += 1
    return jobs


def time_limit(experiment: Experiment, plan: Plan, tasks: Sequence[tuple[int, int]]) -> str:
    """Minutes for the longest of these tasks: ``TIME_FACTOR`` times its estimate, and ``START_SECONDS``."""
    first, last = max(tasks, key=lambda task: task[1] - task[0])
    seconds = estimate(possible(only_blocks(plan, range(first, last + 1)), experiment))
    return str(math.ceil((TIME_FACTOR * seconds + START_SECONDS) / 60))


def refuse_own(option: str, *, wired: bool = False) -> None:
    """UsageError for an argument of sbatch's that a campaign decides itself, or that is none."""
    name = option[2:].partition("=")[0]
    if wired and (name == "constraint" or option.startswith("-C")):
        raise UsageError(f"--option {option!r}: --wired gives sbatch this one; leave it out, or name fewer features")
    if option.startswith("--") and name and name not in _OWN:
        return
    if len(option) > 1 and option[0] == "-" and option[1] not in ("-", *_OWN_LETTERS):
        return
    if option.startswith("-"):
        raise UsageError(f"--option {option!r}: the campaign decides this one itself; leave it out")
    raise UsageError(f"--option {option!r} is no option of sbatch's; write it as one word, such as --option=--qos=low")


def _command(
    script: Path, folder: Path, record: ArrayRecord, settings: SubmissionRecord, limit: str
) -> tuple[str, ...]:
    """All memory and all CPUs of one node a task, or of several that are wired: guests and generator are pinned."""
    named = (("partition", settings.partition), ("account", settings.account))
    return (
        "sbatch",
        "--parsable",
        f"--job-name={record.name}",
        f"--array=0-{len(record.tasks) - 1}%{settings.nodes}",
        f"--nodes={1 + len(settings.labels)}",
        *([f"--constraint={constraint(settings.wired)}"] if settings.wired else ()),
        "--exclusive",
        "--mem=0",
        f"--time={limit}",
        *(f"--{name}={value}" for name, value in named if value is not None),
        *settings.options,
        "--requeue",
        f"--signal=B:USR1@{WARNING_SECONDS}",
        "--open-mode=append",
        f"--chdir={folder}",
        f"--output={folder / LOGS}/%A_%a.log",
        str(script),
    )


def _script(folder: Path, number: int) -> str:
    words = isolated("virtoll", "campaign", "task", str(folder), "--array", str(number))
    return (
        "#!/bin/sh\n"
        f"# 'virtoll campaign submit' wrote this: each task measures the blocks that array-{number}.json gives it.\n"
        f"exec {shlex.join(words)}\n"
    )


@contextmanager
def submitting(folder: Path) -> Iterator[None]:
    """Hold the folder as the only one who submits; UsageError where another process does."""
    slurm_folder = folder / SLURM_FOLDER
    try:
        jsonlines.make_folder(folder)
        for path in (slurm_folder, folder / LOGS):
            jsonlines.make_folder(path, folder)
        with writing(slurm_folder):
            yield
    except RunFolderError as error:
        if isinstance(error.__cause__, BlockingIOError):
            raise UsageError(f"{folder}: another 'campaign submit' is under way; wait for its end") from error
        raise
    except OSError as error:
        raise StorageError(
            f"cannot write {slurm_folder}: {error.strerror or error}. Make room, then submit again."
        ) from error


def kept(folder: Path, experiment: Experiment, settings: SubmissionRecord) -> None:
    """Store in the folder what is submitted: the experiment's text, so that edits of its file change nothing."""
    copy = folder / EXPERIMENT_FILE
    if not copy.exists():
        jsonlines.replace_text(copy, experiment.text)
    jsonlines.replace(folder / SLURM_FOLDER / _SETTINGS, settings.to_json(), folder)


def settings_of(folder: Path) -> SubmissionRecord | None:
    """How a campaign was submitted; None where it was not. RunFolderError where that is damaged."""
    document = json_object(folder / SLURM_FOLDER / _SETTINGS, _REMEDY)
    return None if document is None else parse_record(SubmissionRecord, document)


def arrays_of(folder: Path) -> dict[int, ArrayRecord]:
    """The arrays that were submitted, by their numbers in the folder, in that order."""
    arrays = {}
    for number in sorted(_numbers(folder)):
        document = json_object(folder / SLURM_FOLDER / f"array-{number}.json", _REMEDY)
        if document is not None:
            arrays[number] = parse_record(ArrayRecord, document)
    return arrays


def submit(folder: Path, job: ArrayJob, after: str | None) -> str:
    """Give one array job to Slurm; its number there. ``after``: one that ends before, so that nodes are not exceeded.

    UsageError where Slurm refuses it; nothing of it is left in the folder then.
    """
    file = folder / SLURM_FOLDER / f"array-{job.number}.json"
    script = folder / SLURM_FOLDER / f"array-{job.number}.sh"
    jsonlines.replace(file, job.record.to_json(), folder)
    try:
        jsonlines.replace_text(script, job.script, folder)
        waits = [] if after is None else [f"--dependency=afterany:{after}"]
        number = slurm.submitted([*job.command[:-1], *waits, job.command[-1]])
    except BaseException:
        file.unlink(missing_ok=True)
        script.unlink(missing_ok=True)
        raise
    jsonlines.replace(file, job.record.replace(job=number).to_json(), folder)
    return number


@dataclass(frozen=True)
class Queued:
    """A task of the campaign that Slurm has, with its blocks from 0."""

    task: slurm.Task
    blocks: tuple[int, ...]


def queued(folder: Path) -> list[Queued]:
    """The campaign's tasks that Slurm has, whoever submitted them; VirtollError where Slurm does not answer."""
    by_name = {record.name: record for record in arrays_of(folder).values()}
    queue = []
    for task in slurm.queued(by_name):
        tasks = by_name[task.name].tasks
        if task.index < len(tasks):
            first, last = tasks[task.index]
            queue.append(Queued(task, tuple(range(first, last + 1))))
    return queue


def task_blocks(folder: Path, array: int, index: int) -> str:
    """The blocks of a task, as ``campaign block`` takes them; UsageError where the folder has no such task."""
    record = arrays_of(folder).get(array)
    if record is None or not 0 <= index < len(record.tasks):
        raise UsageError(f"{folder} has no task {index} of array {array}; submit again with 'virtoll campaign submit'")
    first, last = record.tasks[index]
    return f"{first + 1}-{last + 1}" if last > first else str(first + 1)


@contextmanager
def alone(folder: Path, blocks: str) -> Iterator[None]:
    """Hold a part's blocks as the only task of all nodes: one that Slurm took for lost may still be ending.

    By a lock of a file, which file systems that hosts share pass on to the other hosts (a folder's they do not).
    VirtollError where another one holds it for longer than ``OTHERS_SECONDS``; StorageError where it cannot be locked.
    """
    file = folder / SLURM_FOLDER / f"block-{blocks}.lock"
    try:
        with place(file, folder) as at:
            descriptor = open_lock(at)
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror or error}. Make room, then submit again.") from error
    try:
        try:
            is_alone = locked_within(descriptor, OTHERS_SECONDS)
        except OSError as error:
            raise StorageError(
                f"cannot lock {file}: {error.strerror or error}. Choose a file system that has locks."
            ) from error
        if not is_alone:
            raise VirtollError(f"another task measures block {blocks} and does not end; end it, then submit again")
        yield
    finally:
        os.close(descriptor)


def last_words(folder: Path, blocks: Collection[int]) -> str:
    """The last line of the newest log of a task with one of these blocks; empty where there is none."""
    for record in reversed(arrays_of(folder).values()):
        for index, (first, last) in enumerate(record.tasks):
            if record.job is None or not any(first <= block <= last for block in blocks):
                continue
            with suppress(OSError):
                lines = (folder / LOGS / f"{record.job}_{index}.log").read_text(errors="replace").splitlines()
                if filled := [line.strip() for line in lines if line.strip()]:
                    return filled[-1]
    return ""


def _numbers(folder: Path) -> list[int]:
    slurm_folder = folder / SLURM_FOLDER
    matches = (_ARRAY.fullmatch(path.name) for path in slurm_folder.iterdir()) if slurm_folder.is_dir() else ()
    return [int(match[1]) for match in matches if match]
