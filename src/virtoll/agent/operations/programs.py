"""Programs of the image: ``exec``, ``spawn``, ``progress``, ``end``; ``data``, the folder for their files."""

from __future__ import annotations

from virtoll.agent.request import Message, Request
from virtoll.runfolder.conditions import Progress
from virtoll.runfolder.record import Record


class ExecReply(Record):
    """How a program ended and what it wrote; a status of None: a signal ended it."""

    status: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool


class Program(Message):
    """A program with its bounds, for ``exec`` and for the job ``program``. Without ``env``: the agent's own."""

    argv: tuple[str, ...]
    timeout_ns: int
    limit_bytes: int
    env: dict[str, str] | None = None
    directory: str | None = None
    stdin: bytes | None = None


class ExecRequest(Program, Request[ExecReply], tag="exec"):
    """Runs a program to its end; ``limit_bytes`` is the most that is kept of each of its outputs."""


class SpawnReply(Record):
    """The program's process."""

    pid: int


class SpawnRequest(Request[SpawnReply], tag="spawn"):
    """Starts a program and does not wait for it; the new file ``output`` takes what it writes.

    ``sample_ns``: how often its CPU time is read while it runs; None: never.
    """

    name: str
    argv: tuple[str, ...]
    output: str
    env: dict[str, str] | None = None
    directory: str | None = None
    sample_ns: int | None = None


class ProgressRequest(Request[Progress], tag="progress"):
    """Reads how far the program of that name has come."""

    name: str


class EndReply(Record):
    """How it ended; ``by_itself``: before it was asked to; ``killed``: by force; ``output``: the end of its file.

    ``samples``: the readings that ``spawn`` asked for, the last one just before the end.
    """

    status: int | None
    signal: int | None
    by_itself: bool
    killed: bool
    output: bytes
    samples: tuple[Progress, ...] | None = None


class EndRequest(Request[EndReply], tag="end"):
    """Ends what was spawned under that name, by force after ``timeout_ns``."""

    name: str
    timeout_ns: int
    limit_bytes: int


class DataReply(Record):
    """The data directory's file system, and what is in it."""

    file_system: str
    source: str
    total_bytes: int
    free_bytes: int
    removed_entries: int
    files: int
    file_bytes: int
    resident_bytes: int
    trimmed_bytes: int | None


class DataRequest(Request[DataReply], tag="data"):
    """Empties the folder, takes its files out of the page cache, tells the disk what is free: what is asked for."""

    path: str
    empty: bool
    evict: bool
    trim: bool
