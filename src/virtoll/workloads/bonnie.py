"""bonnie++: a large file written, rewritten, read and sought in; small files created, read and deleted. Disk.

Mattos et al. 2012, IV.C (Figure 6a), and Suresh and Kannan 2014, 4.4.2 (5 GB in chunks of 32 KB). Per-character tests
are left out (``-f``) unless they are asked for. They write and read byte by byte, with a system call for each, and take
minutes where those are dear. Source of the figures: the line of comma-separated values, format 1.98 (bon_csv2html(1)).
"""

from __future__ import annotations

import re
from typing import ClassVar, Final

from pydantic import ByteSize, Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric
from virtoll.workloads.on_disk import DiskWorkload
from virtoll.workloads.programs import ProgramOutput

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
_UNITS_NS: Final[dict[str, int]] = {"us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_SIZES: Final[dict[str, int]] = {"": 1, "k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


class BonnieParameters(Parameters):
    """``file_bytes``: of the large file, quick 64 MiB; Suresh and Kannan's 5 GB with ``chunk_bytes`` 32 KiB.

    ``small_files``: a multiple of 1024, quick 1024; bonnie++'s own default, and so probably Mattos's, is 16384 of
    ``small_file_bytes`` 0. No small files with 0. ``per_character``: putc() and getc() too, as the tool does by itself.
    """

    file_bytes: ByteSize = Field(default=ByteSize(64 * _MIB), ge=2 * _MIB, le=2**44, multiple_of=2 * _MIB)
    chunk_bytes: ByteSize = Field(default=ByteSize(8192), ge=256, le=_MIB)
    small_files: int = Field(default=_FILES_UNIT, ge=0, le=2**24, multiple_of=_FILES_UNIT)
    small_file_bytes: ByteSize = Field(default=ByteSize(0), ge=0, le=2**24)
    per_character: bool = False


class Bonnie(DiskWorkload[BonnieParameters]):
    """The check value: sizes and numbers as bonnie++ reports them, and that it has removed its files."""

    name: ClassVar[str] = "bonnie"
    title: ClassVar[str] = "bonnie++"
    resource: ClassVar[str] = "disk"
    parameter_model = BonnieParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION,)
    packages: ClassVar[tuple[str, ...]] = ("bonnie++",)
    most_slowdown: ClassVar[float] = 4.0

    def native_seconds(self) -> float:
        """The file at 300 MB/s, four times; 8192 seeks; six passes over the small files; a system call a character."""
        wanted = self.parameters
        characters = 2 * min(wanted.file_bytes, _CHARACTERS_BYTES) if wanted.per_character else 0
        small = wanted.small_files * (1e-4 + wanted.small_file_bytes / 3e8)
        return 1.0 + 4 * wanted.file_bytes / 3e8 + small + characters * _CHARACTER_SECONDS

    def data_bytes(self) -> int:
        """The large file, removed before the small ones are made; a block for each of those at least."""
        wanted = self.parameters
        return max(int(wanted.file_bytes), wanted.small_files * (int(wanted.small_file_bytes) + 8192))

    def command(self, bench: Bench) -> list[str]:
        """``-r``: half of the file's size, for it refuses a file below twice the memory; ``-z``: the same order."""
        wanted = self.parameters
        mebibytes = int(wanted.file_bytes) // _MIB
        small = f"{wanted.small_files // _FILES_UNIT}:{int(wanted.small_file_bytes)}:{int(wanted.small_file_bytes)}"
        return [
            "bonnie++",
            "-q",
            *([] if wanted.per_character else ["-f"]),
            "-d",
            bench.data.path,
            "-s",
            f"{mebibytes}:{int(wanted.chunk_bytes)}",
            "-n",
            small if wanted.small_files else "0",
            "-r",
            str(mebibytes // 2),
            "-u",
            "root",
            "-m",
            "guest",
            "-z",
            "1",
        ]

    def prepare(self, bench: Bench) -> str | None:
        """Nothing: it makes its files itself, and the data directory is empty."""
        del bench
        return None

    def figures(self, said: ProgramOutput) -> Figures:
        """Its rates and latencies by the guest's clock; none of a step that took less than half a second."""
        return parse(said.output, per_character=self.parameters.per_character)

    def check(self, bench: Bench, figures: Figures) -> str:
        """What it says that it did, and what it left."""
        left = bench.data_state(False).get("files")
        return _done(figures["file_bytes"], figures["chunk_bytes"], figures["small_files"], left)

    def expected(self, prepared: str | None, figures: Figures) -> str | None:
        """What was asked for, as far as it is reported, and nothing left.

        Version 2.00a obeys a chunk and reports none.
        """
        del prepared
        wanted = self.parameters
        chunk_bytes = None if figures["chunk_bytes"] is None else int(wanted.chunk_bytes)
        return _done(int(wanted.file_bytes), chunk_bytes, wanted.small_files, 0)


def parse(output: str, *, per_character: bool = False) -> Figures:
    """Sizes in bytes, rates in B/s and 1/s, latencies in ns from the line of values; ValueError where there is none.

    None for what bonnie++ does not report: a step that was over within half a second (``+++++``), and the chunk
    (version 2.00a). ValueError too for a report with per-character tests that were not asked for, or without them.
    """
    line = next((line for line in output.splitlines() if line.startswith(f"{_FORMAT},")), "")
    fields = line.split(",")
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


def _done(file_bytes: int, chunk_bytes: int | None, small_files: int, left: int | None) -> str:
    chunks = "" if chunk_bytes is None else f" by {chunk_bytes}"
    return f"{file_bytes} bytes{chunks}, {small_files} files, {left} left"
