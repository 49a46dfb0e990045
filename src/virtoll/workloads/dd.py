"""dd, two ways (Camargos et al. 2008, Figures 2 and 6): a disc's image copied on one file system, and zeros to nowhere.

The commands are the paper's, with dd's own block of 512 bytes. The copy takes two system calls for each of them; the
zeros are nothing but system calls. Figures: what dd says of itself, by the guest's clock.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import ByteSize, Field, ValidationInfo, field_validator

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric
from virtoll.workloads.on_disk import RATE, DiskWorkload
from virtoll.workloads.packed import BLOCK_BYTES, KERNEL_SOURCE, make_packed, sha256
from virtoll.workloads.programs import ProgramOutput

_RECORDS = re.compile(r"^(\d+)\+(\d+) records (in|out)$", re.MULTILINE)
_COPIED = re.compile(r"^(\d+) bytes(?: \(.*?\))? copied, ([0-9.e+-]+) s, ", re.MULTILINE)
_NATIVE_BLOCKS_PER_SECOND = 6e5


class DdParameters(Parameters):
    """``source``: ``image`` copies a file of packed data, ``zeros`` reads /dev/zero and writes /dev/null.

    ``size_bytes``: quick 32 MiB; the paper's 433 MiB of image and 60 GB (117187560 blocks) of zeros. A multiple of
    64 KiB for the image. ``synced``: the copy is flushed before the end mark; the paper's command does not.
    """

    source: Literal["image", "zeros"] = Field(
        default="image", description="image: copies a file of packed data; zeros: reads /dev/zero and writes /dev/null"
    )
    block_bytes: ByteSize = Field(default=ByteSize(512), ge=1, le=2**30, description="size of a block, dd's bs")
    size_bytes: ByteSize = Field(
        default=ByteSize(32 * 2**20), ge=1, le=2**44, description="bytes in all, of an image a multiple of 64KiB"
    )
    synced: bool = Field(default=False, description="whether the copy is flushed before the end mark")

    @field_validator("size_bytes")
    @classmethod
    def _is_whole(cls, value: int, information: ValidationInfo) -> int:
        block = information.data.get("block_bytes", 1)
        if value % block != 0:
            raise ValueError("must be a multiple of block_bytes")
        if information.data.get("source") == "image" and value % BLOCK_BYTES != 0:
            raise ValueError("must be a multiple of 64 KiB for source: image")
        return value


class Dd(DiskWorkload[DdParameters]):
    """The check value: for an image the SHA-256 of the copy, which must be its source's; for zeros dd's count."""

    name: ClassVar[str] = "dd"
    title: ClassVar[str] = "dd"
    about: ClassVar[str] = "a file copied, or zeros read, by dd"
    origin: ClassVar[str] = "Camargos 2008"
    resource: ClassVar[str] = "disk"
    parameter_model = DdParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, RATE)
    packages: ClassVar[tuple[str, ...]] = (KERNEL_SOURCE,)

    def native_seconds(self) -> float:
        """About 600 000 blocks a second."""
        parameters = self.parameters
        return parameters.size_bytes / parameters.block_bytes / _NATIVE_BLOCKS_PER_SECOND

    def data_bytes(self) -> int:
        """The image and its copy; nothing for zeros."""
        parameters = self.parameters
        return 2 * int(parameters.size_bytes) if parameters.source == "image" else 0

    def command(self, bench: Bench) -> list[str]:
        """``dd if=... of=...``, with the block size written out."""
        parameters = self.parameters
        flush = ["conv=fsync"] if parameters.synced else []
        if parameters.source == "zeros":
            count = int(parameters.size_bytes) // int(parameters.block_bytes)
            return ["dd", "if=/dev/zero", "of=/dev/null", f"bs={int(parameters.block_bytes)}", f"count={count}"]
        image, copy = _files(bench)
        return ["dd", f"if={image}", f"of={copy}", f"bs={int(parameters.block_bytes)}", *flush]

    def prepare(self, bench: Bench) -> str | None:
        """Make the image: the kernel's source as Debian packs it, as often as is needed; returns its hash."""
        parameters = self.parameters
        if parameters.source == "zeros":
            return f"{int(parameters.size_bytes)} bytes"
        seconds, (image, _) = self.deadline_seconds(), _files(bench)
        make_packed(bench.guest, image, int(parameters.size_bytes), seconds)
        return sha256(bench.guest, image, seconds)

    def figures(self, program: ProgramOutput) -> Figures:
        """Blocks and bytes; seconds and rate by the guest's clock."""
        return parse(program.complaints)

    def check(self, bench: Bench, figures: Figures) -> str:
        """The copy's hash, or dd's own count."""
        if self.parameters.source == "zeros":
            return f"{figures['bytes']} bytes"
        return sha256(bench.guest, _files(bench)[1], self.deadline_seconds())


def parse(complaints: str) -> Figures:
    """Blocks, bytes, seconds and B/s from what GNU dd says on standard error; ValueError where it does not.

    `65536+0 records in`, `65536+0 records out`, `33554432 bytes (34 MB, 32 MiB) copied, 0.15 s, 224 MB/s`
    """
    records = {match[3]: (int(match[1]), int(match[2])) for match in _RECORDS.finditer(complaints)}
    copied = _COPIED.search(complaints)
    if set(records) != {"in", "out"} or copied is None:
        raise ValueError(f"no records in and out, or no bytes copied: {complaints[:80]!r}")
    bytes_, seconds = int(copied[1]), float(copied[2])
    return {
        "blocks_in": records["in"][0],
        "partial_in": records["in"][1],
        "blocks_out": records["out"][0],
        "partial_out": records["out"][1],
        "bytes": bytes_,
        "seconds": seconds,
        "bytes_per_second": bytes_ / seconds if seconds > 0 else None,
    }


def _files(bench: Bench) -> tuple[str, str]:
    return f"{bench.data.path}/virtoll-image", f"{bench.data.path}/virtoll-copy"
