"""bonnie++: a large file written, rewritten, read and sought in; small files created, read and deleted. Disk.

Mattos et al. 2012, IV.C (Figure 6a), and Suresh and Kannan 2014, 4.4.2 (5 GB in chunks of 32 KB). Per-character tests
are left out (``-f``) unless they are asked for. They write and read byte by byte, with a system call for each, and take
minutes where those are dear. Source of the figures: the line of comma-separated values, format 1.98 (bon_csv2html(1)).

Several processes are so many of the program, each in a folder of its own with its part of the work. They wait for each
other before each test, at the semaphores that its ``-p`` makes (``-y s``). Its own ``-c`` is a number in its report:
2.00a starts no more threads for it.

The program sleeps for three seconds while its seekers start (``sleep(3)`` in ``CFileOp::seek_test``, bon_io.cpp). No
option leaves that out, and on a fast disk it is most of what a small file takes. So the metric is the duration without
it. Several processes sleep at the same time, and then wait for the last one.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

from pydantic import ByteSize, Field, model_validator

from virtoll.errors import GuestCannot, GuestError
from virtoll.experiment.model import Parameters
from virtoll.runfolder.records import Clock, duration_ns, outside_ns
from virtoll.workloads.base import Bench, Figures, Measurement, Metric
from virtoll.workloads.on_disk import DiskWorkload
from virtoll.workloads.programs import ProgramOutput, attempt, ending, run, write

WORKING_TIME = Metric("working_time", "ns", "lower", "figures")
SLEEP_NS: Final[dict[str, int]] = {"2.00a": 3_000_000_000}
"""How long the program sleeps in each run, by its version: its source has the number, and strace saw it."""

_MIB = 2**20
_FILES_UNIT = 1024
_FORMAT = "1.98"
_FIELDS = 50
_TOO_QUICK = re.compile(r"^\++$")
# Place in the line -> name and what its unit is multiplied by.
_RATES: Final[dict[int, tuple[str, int]]] = {
    11: ("write_bytes_per_second", 1024),
    13: ("rewrite_bytes_per_second", 1024),
    17: ("read_bytes_per_second", 1024),
    19: ("seeks_per_second", 1),
    26: ("sequential_creates_per_second", 1),
    28: ("sequential_stats_per_second", 1),
    30: ("sequential_deletes_per_second", 1),
    32: ("random_creates_per_second", 1),
    34: ("random_stats_per_second", 1),
    36: ("random_deletes_per_second", 1),
}
_LATENCIES: Final[dict[int, str]] = {
    39: "write_latency_ns",
    40: "rewrite_latency_ns",
    42: "read_latency_ns",
    43: "seek_latency_ns",
    44: "sequential_create_latency_ns",
    45: "sequential_stat_latency_ns",
    46: "sequential_delete_latency_ns",
    47: "random_create_latency_ns",
    48: "random_stat_latency_ns",
    49: "random_delete_latency_ns",
}
_PUTC, _GETC = 9, 15
# The same of the per-character tests, in a report that has them.
_CHARACTER_RATES: Final[dict[int, str]] = {_PUTC: "putc_bytes_per_second", _GETC: "getc_bytes_per_second"}
_CHARACTER_LATENCIES: Final[dict[int, str]] = {38: "putc_latency_ns", 41: "getc_latency_ns"}
_CHARACTERS_BYTES = 20 * _MIB  # of so much of the file, at most
_CHARACTER_SECONDS = 3e-7
_SEEK_SECONDS = 1e-5
_UNITS_NS: Final[dict[str, int]] = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SEEKERS = 5  # its own default
_NAME, _EACH = "guest", "@"
_NUMBERS = "/tmp/virtoll-bonnie"  # noqa: S108 - in the guest, where nobody else is
_AS_ROOT = ("-u", "root")
_SIZES: Final[dict[str, int]] = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class BonnieParameters(Parameters):
    """``file_bytes``: of the large file, quick 64 MiB; Suresh and Kannan's 5 GB with ``chunk_bytes`` 32 KiB.

    ``small_files``: a multiple of 1024, quick 1024; bonnie++'s own default, and so probably Mattos's, is 16384 of
    ``small_file_bytes`` 0. No small files with 0. ``per_character``: putc() and getc() too, as the tool does by itself.
    ``seeks``: in all, as many as it makes by itself; a multiple of ``processes``, 0 for none.
    ``processes``: how many at once, each with an equal part of the large file, of the small ones and of the seeks.
    """

    file_bytes: ByteSize = Field(
        default=ByteSize(64 * _MIB),
        ge=2 * _MIB,
        le=2**44,
        multiple_of=2 * _MIB,
        description="size of the large file; Suresh's is 5GB",
    )
    chunk_bytes: ByteSize = Field(
        default=ByteSize(8192), ge=256, le=_MIB, description="size of a read or write; Suresh's is 32KiB"
    )
    small_files: int = Field(
        default=_FILES_UNIT, ge=0, le=2**24, multiple_of=_FILES_UNIT, description="how many small files; 0: none"
    )
    small_file_bytes: ByteSize = Field(default=ByteSize(0), ge=0, le=2**24, description="size of a small file")
    seeks: int = Field(default=8192, ge=0, le=2**24, description="places of the large file that are sought; 0: none")
    per_character: bool = Field(default=False, description="whether putc() and getc() are timed too")
    processes: int = Field(default=1, ge=1, le=64, description="processes at once, each with an equal part")

    @model_validator(mode="after")
    def _parts_are_whole(self) -> Self:
        if self.file_bytes % (2 * _MIB * self.processes):
            raise ValueError("file_bytes must be a multiple of 2 MiB times processes: each has a file of its own")
        if self.seeks % self.processes:
            raise ValueError("seeks must be a multiple of processes: each makes its part")
        if self.small_files % (_FILES_UNIT * self.processes):
            raise ValueError(f"small_files must be a multiple of {_FILES_UNIT} times processes: each makes its part")
        return self


class Bonnie(DiskWorkload[BonnieParameters]):
    """The check value: sizes and numbers as bonnie++ reports them, and that it has removed its files.

    That is of all processes together, each of which must have reported once.
    """

    name: ClassVar[str] = "bonnie"
    title: ClassVar[str] = "bonnie++"
    about: ClassVar[str] = "large and small files by bonnie++"
    origin: ClassVar[str] = "Mattos 2012, Suresh 2014"
    resource: ClassVar[str] = "disk"
    parameter_model = BonnieParameters
    metrics: ClassVar[tuple[Metric, ...]] = (WORKING_TIME,)
    packages: ClassVar[tuple[str, ...]] = ("bonnie++",)
    most_slowdown: ClassVar[float] = 4.0

    def native_seconds(self) -> float:
        """The file at 300 MB/s, four times; the seeks; six passes over the small files; a system call a character."""
        parameters = self.parameters
        most = parameters.processes * _CHARACTERS_BYTES  # each of its own file
        characters = 2 * min(parameters.file_bytes, most) if parameters.per_character else 0
        small = parameters.small_files * (1e-4 + parameters.small_file_bytes / 3e8)
        seeks = parameters.seeks * _SEEK_SECONDS
        return 0.1 + 4 * parameters.file_bytes / 3e8 + seeks + small + characters * _CHARACTER_SECONDS

    def estimate_seconds(self, slowdown: float) -> float:
        """As of all programs, and the sleep, which no emulator makes longer."""
        return super().estimate_seconds(slowdown) + max(SLEEP_NS.values()) / 1e9

    def data_bytes(self) -> int:
        """The large file, removed before the small ones are made; a block for each of those at least."""
        parameters = self.parameters
        return max(int(parameters.file_bytes), parameters.small_files * (int(parameters.small_file_bytes) + 8192))

    def deadline_seconds(self) -> float:
        """As of all programs; shorter where several wait for each other, which one that fails keeps waiting."""
        return super().deadline_seconds() if self.parameters.processes == 1 else 60.0 + 100.0 * self.native_seconds()

    def command(self, bench: Bench) -> list[str]:
        """``-r``: half of the file's size, for it refuses a file below twice the memory; ``-z``: the same order.

        Several are started at once by xargs, which ends when all have ended, each with its number.
        """
        count = self.parameters.processes
        if count == 1:
            return self._process(bench.data.path, _NAME)
        start = ["xargs", f"--arg-file={_NUMBERS}", f"--max-procs={count}", f"--replace={_EACH}"]
        return [*start, *self._process(f"{bench.data.path}/{_EACH}", _EACH)]

    def _process(self, folder: str, name: str) -> list[str]:
        parameters = self.parameters
        mebibytes = int(parameters.file_bytes) // _MIB // parameters.processes
        files = parameters.small_files // _FILES_UNIT // parameters.processes
        seeks = parameters.seeks // parameters.processes
        options = [] if parameters.per_character else ["-f"]
        if parameters.processes > 1:
            options += ["-y", "s"]
        return [
            "bonnie++",
            "-q",
            *options,
            "-d",
            folder,
            "-s",
            f"{mebibytes}:{int(parameters.chunk_bytes)}:{seeks}:{_SEEKERS}",
            "-n",
            f"{files}:{int(parameters.small_file_bytes)}:{int(parameters.small_file_bytes)}" if files else "0",
            "-r",
            str(mebibytes // 2),
            *_AS_ROOT,
            "-m",
            name,
            "-z",
            "1",
        ]

    def prepare(self, bench: Bench) -> str | None:
        """Nothing for one: it makes its files itself, and the data directory is empty. For several what they need."""
        count = self.parameters.processes
        if count > 1:
            numbers = [str(number) for number in range(count)]
            run(bench.guest, ["mkdir", *(f"{bench.data.path}/{number}" for number in numbers)])
            write(bench.guest, _NUMBERS, "".join(f"{number}\n" for number in numbers))
            made = attempt(bench.guest, ["bonnie++", "-p", str(count), *_AS_ROOT])
            if made.status != 0:
                raise GuestCannot(
                    f"this guest has no semaphores that several processes could wait at: bonnie++ {ending(made)}; "
                    "leave 'processes' out"
                )
        return None

    def measure(self, bench: Bench) -> Measurement:
        """As all, with the working time among the figures; the semaphores are removed afterwards."""
        try:
            return _with_working_time(super().measure(bench))
        finally:
            if self.parameters.processes > 1 and not bench.guest.ended:
                with contextlib.suppress(GuestError):
                    attempt(bench.guest, ["bonnie++", "-p", "-1", *_AS_ROOT])

    def figures(self, program: ProgramOutput) -> Figures:
        """Its rates and latencies by the guest's clock; none of a step that took less than half a second."""
        parameters = self.parameters
        if parameters.processes == 1:
            return parse(program.output, per_character=parameters.per_character)
        return together(parse_all(program.output, parameters.processes, per_character=parameters.per_character))

    def check(self, bench: Bench, figures: Figures) -> str:
        """What it says that it did, and what it left."""
        left = bench.data_state(False).get("files")
        return _done(figures, figures["chunk_bytes"], left)

    def expected(self, prepared: str | None, figures: Figures) -> str | None:
        """What was asked for, as far as it is reported, and nothing left.

        Version 2.00a obeys a chunk and reports none.
        """
        del prepared
        parameters = self.parameters.model_dump(mode="json")
        return _done(parameters, None if figures["chunk_bytes"] is None else parameters["chunk_bytes"], 0)


def working_ns(clock: Clock, version: str) -> int | None:
    """The outside duration without the program's sleep; None for a version of which the sleep is not known."""
    took_ns = duration_ns(clock)
    slept_ns = outside_ns(clock, SLEEP_NS[version]) if version in SLEEP_NS else None
    if took_ns is None or slept_ns is None:
        return None
    return took_ns - slept_ns


def _with_working_time(measured: Measurement) -> Measurement:
    result = measured.result or {}
    figures = result.get("figures")
    if measured.clock is None or figures is None:
        return measured
    working_time = working_ns(measured.clock, figures["version"])
    return replace(measured, result={**result, "figures": {**figures, WORKING_TIME.name: working_time}})


def parse(output: str, *, per_character: bool = False) -> Figures:
    """Sizes in bytes, rates in B/s and 1/s, latencies in ns from the line of values; ValueError where there is none.

    None for what bonnie++ does not report: a step that was over within half a second (``+++++``), and the chunk
    (version 2.00a). ValueError too for a report with per-character tests that were not asked for, or without them.
    """
    return _read(next(iter(_reports(output)), ""), output, per_character)


def parse_all(output: str, processes: int, *, per_character: bool = False) -> list[Figures]:
    """The same of each of several processes, whose names are their numbers; in their order."""
    by_process = {report.split(",")[2]: report for report in _reports(output)}
    if set(by_process) != {str(number) for number in range(processes)} or len(_reports(output)) != processes:
        raise ValueError(f"no line of each of {processes} processes: {output[-80:]!r}")
    return [_read(by_process[str(number)], output, per_character) for number in range(processes)]


def together(each: Sequence[Figures]) -> Figures:
    """What processes that did each test at the same time did together; their own figures are in ``processes``.

    All began each step together and did the same amount of it. A rate is all that they did over the time that the
    slowest took. One that took less than half a second reports none, and is not the slowest where another has one. A
    latency is the longest.
    """
    rates = _over(each, "_per_second", lambda values: min(values) * len(each))
    return {
        "version": each[0]["version"],
        "file_bytes": sum(process["file_bytes"] for process in each),
        "chunk_bytes": each[0]["chunk_bytes"],
        "seeks": sum(process["seeks"] for process in each),
        "small_files": sum(process["small_files"] for process in each),
        **rates,
        **_over(each, "_latency_ns", max),
        "processes": list(each),
    }


def _over(each: Sequence[Figures], ending: str, choose: Callable[[Sequence[float]], float]) -> dict[str, float | None]:
    """Of each name with this ending the value that is chosen of those that there are."""
    chosen: dict[str, float | None] = {}
    for name in each[0]:
        if name.endswith(ending):
            values = [process[name] for process in each if process[name] is not None]
            chosen[name] = choose(values) if values else None
    return chosen


def _reports(output: str) -> list[str]:
    return [line for line in output.splitlines() if line.startswith(f"{_FORMAT},")]


def _read(report: str, output: str, per_character: bool) -> Figures:
    fields = report.split(",")
    if len(fields) != _FIELDS:
        raise ValueError(f"no line of {_FIELDS} values in format {_FORMAT}: {output[-80:]!r}")
    if bool(fields[_PUTC]) != per_character or bool(fields[_GETC]) != per_character:
        raise ValueError(f"the per-character tests were {'' if per_character else 'not '}left out")
    rates, latencies = dict(_RATES), dict(_LATENCIES)
    if per_character:
        rates |= {place: (name, 1024) for place, name in _CHARACTER_RATES.items()}
        latencies |= _CHARACTER_LATENCIES
    return {
        "version": fields[1],
        "file_bytes": _size(fields[5]),
        "chunk_bytes": _size(fields[6]) if fields[6] else None,
        "seeks": int(fields[7]),
        "small_files": int(fields[21]) * _FILES_UNIT if fields[21] else 0,
        **{name: _rate(fields[place], unit) for place, (name, unit) in rates.items()},
        **{name: _latency(fields[place]) for place, name in latencies.items()},
    }


def _rate(text: str, unit: int) -> float | None:
    return None if not text or _TOO_QUICK.match(text) else float(text) * unit


def _latency(text: str) -> int | None:
    match = re.fullmatch(r"(\d+)(us|ms|s)", text)
    if match is None and text and not _TOO_QUICK.match(text):
        raise ValueError(f"{text!r} is no latency")
    return int(match[1]) * _UNITS_NS[match[2]] if match else None


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+)([kKMGT]?)", text)
    if match is None:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * _SIZES[match[2]]


def _done(figures: Mapping[str, Any], chunk_bytes: int | None, left: int | None) -> str:
    chunks = "" if chunk_bytes is None else f" by {chunk_bytes}"
    file = f"{figures['file_bytes']} bytes{chunks}, {figures['seeks']} seeks"
    return f"{file}, {figures['small_files']} files, {left} left"
