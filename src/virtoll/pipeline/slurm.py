"""Slurm by its own programs: an array job is submitted, its tasks are looked up, one of them is requeued.

Main functions: ``submitted``, ``queued``, ``requeue``, ``largest_array``. Every complaint of Slurm's is told in one
sentence. It must not know what a task measures.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from virtoll.errors import CommandFailed, GuestError, ProgramMissing, UsageError, VirtollError
from virtoll.lab.commands import ConnectedHost

ARRAY_WITHOUT_SLURM: Final = 1001
"""Slurm's own default of MaxArraySize: what is taken where there is no Slurm to ask."""
_LARGEST = re.compile(r"^MaxArraySize\s*=\s*(\d+)", re.MULTILINE)
_PREFIX = re.compile(r"^\w+: (error: )?(Batch job submission failed: )?")
_AWAY = ("Unable to contact", "Connection refused", "Socket timed out", "connect failure", "Zero Bytes")
"""What Slurm's programs say where the controller does not answer."""
_COLUMNS = "%j|%F|%K|%T|%N|%r"


@dataclass(frozen=True)
class Task:
    """One task that Slurm's queue has: of which array by its name and number, its index, its state in Slurm's words.

    ``node``: empty while it waits. ``reason``: why it waits, ``None`` in Slurm's words where it does not.
    """

    name: str
    job: str
    index: int
    state: str
    node: str
    reason: str


@dataclass(frozen=True)
class SlurmNode:
    """A node: its name in Slurm, its host name, and its features."""

    name: str
    host: str
    features: frozenset[str]


def is_there() -> bool:
    """Whether Slurm's programs are on this host."""
    return shutil.which("sbatch") is not None


def require() -> None:
    """UsageError where Slurm's programs are not here."""
    if not is_there():
        raise UsageError(
            "sbatch is not found on this host; submit on a login node of the cluster, or measure blocks yourself with "
            "'virtoll campaign block'"
        )


def largest_array() -> int:
    """How many tasks an array may have here."""
    match = _LARGEST.search(_answered(["scontrol", "show", "config"]))
    return int(match[1]) if match else ARRAY_WITHOUT_SLURM


def submitted(argv: Sequence[str]) -> str:
    """Submit by this command, which has ``--parsable``; the job's number. UsageError with what Slurm refused."""
    try:
        output = _asked(argv)
    except CommandFailed as error:
        wired = "--wired, " if any(argument.startswith("--constraint=[") for argument in argv) else ""
        raise UsageError(
            f"sbatch refused the job: {_sentence(error)}; change {wired}--partition, --account, --time or --option"
        ) from error
    return output.strip().partition(";")[0]


def queued(names: Collection[str]) -> list[Task]:
    """The tasks that Slurm's queue has of arrays with these names: those that wait, run or are being ended."""
    if not names:
        return []
    output = _answered(["squeue", "--noheader", "--array", f"--name={','.join(names)}", f"--format={_COLUMNS}"])
    return parsed_queue(output)


def parsed_queue(output: str) -> list[Task]:
    """The lines of squeue in the columns that are asked for; a job that is no array is left out."""
    tasks = []
    for line in output.splitlines():
        name, job, index, state, node, reason = line.split("|", 5)
        if index.isdigit():
            tasks.append(Task(name, job, int(index), state, node, reason))
    return tasks


def nodes_of(names: str) -> list[SlurmNode]:
    """The nodes of a list in Slurm's way, such as ``n[1-2]``, in its order."""
    return parsed_nodes(_answered(["sinfo", "--noheader", "--Node", f"--nodes={names}", "--format=%N|%n|%b"]))


def parsed_nodes(output: str) -> list[SlurmNode]:
    """The lines of sinfo in the columns that are asked for; a node is there once, however many partitions it has."""
    nodes = {}
    for line in output.splitlines():
        name, host, features = line.strip().split("|", 2)
        nodes[name] = SlurmNode(name, host, frozenset(features.split(",")) - {"(null)"})
    return list(nodes.values())


def on_node(node: str, argv: Sequence[str]) -> list[str]:
    """The command that runs ``argv`` on one node of the task that this process is of, with all that it has there.

    CPUs are not bound: guests and generator are pinned by their own rule. Signals go on to ``argv``.
    """
    whole = ["--overlap", "--mem=0", "--cpu-bind=none"]
    return ["srun", "--nodes=1", "--ntasks=1", f"--nodelist={node}", *whole, "--unbuffered", "--input=none", *argv]


def requeue(job: str, index: int) -> None:
    """Have a task begin again; Slurm ends it where it runs. VirtollError where Slurm refuses."""
    try:
        _asked(["scontrol", "requeue", f"{job}_{index}"])
    except CommandFailed as error:
        raise VirtollError(f"Slurm does not requeue task {job}_{index}: {_sentence(error)}") from error


def _answered(argv: Sequence[str]) -> str:
    """What a program of Slurm's prints that there is no reason to refuse; VirtollError where it does not."""
    try:
        return _asked(argv)
    except CommandFailed as error:
        raise VirtollError(f"{argv[0]} failed: {_sentence(error)}; see whether Slurm works on this host") from error


def _asked(argv: Sequence[str]) -> str:
    """What a program of Slurm's prints. CommandFailed where it refuses; VirtollError where Slurm does not answer."""
    try:
        return ConnectedHost().run(argv, "slurm")
    except ProgramMissing as error:
        raise UsageError(f"{argv[0]}: not found on this host; install Slurm's commands here") from error
    except CommandFailed as error:
        if any(word in error.stderr for word in _AWAY):
            raise VirtollError(
                f"Slurm's controller does not answer {argv[0]} ({_sentence(error)}); try again when it does"
            ) from error
        raise
    except GuestError as error:
        raise VirtollError(f"Slurm: {error}; try again") from error


def _sentence(error: CommandFailed) -> str:
    """What Slurm complains of, without the program's name; the last line says it in the fewest words."""
    lines = [line for line in error.stderr.splitlines() if line.strip()] or [error.complaint]
    return _PREFIX.sub("", lines[-1].strip()).rstrip(".")
