"""bzip2 -9 of a file of packed data (Camargos et al. 2008, Figures 2 and 4: an installation disc's image). CPU, cache.

Like the paper's disc the file holds packed data, which bzip2 can hardly make smaller. It lies in the guest's memory
(/tmp), so that no disk is measured. As in the paper it may be on a disk, which it is read from and its packed form goes
to.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ByteSize, Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Bench, Figures, Measurement, Needs
from virtoll.workloads.on_disk import DiskWorkload
from virtoll.workloads.packed import BLOCK_BYTES, KERNEL_SOURCE, make_packed, sha256
from virtoll.workloads.programs import ProgramOutput, gone_afterwards, run

_NAME = "virtoll-bzip2"
_NATIVE_BYTES_PER_SECOND = 8e6


class Bzip2Parameters(Parameters):
    """``size_bytes``: how much is compressed, a multiple of 64 KiB; quick 4 MiB, the paper's disc had 433 MB.

    ``files``: in the guest's memory, or on a disk, in the data directory. In memory there must be room for
    the file, its compressed form and 8 MB of bzip2's own.
    """

    size_bytes: ByteSize = Field(
        default=ByteSize(4 * 2**20),
        ge=BLOCK_BYTES,
        le=2**34,
        multiple_of=BLOCK_BYTES,
        description="how much is compressed; the paper's disc had 433 MB",
    )
    files: Literal["memory", "disk"] = Field(
        default="memory", description="where the files are: in the guest's memory, or in its data directory"
    )


class Bzip2(DiskWorkload[Bzip2Parameters]):
    """Compression; the check value is the SHA-256 of what is unpacked again, which must be that of the file."""

    name: ClassVar[str] = "bzip2"
    title: ClassVar[str] = "bzip2 -9"
    about: ClassVar[str] = "a file compressed"
    origin: ClassVar[str] = "Camargos 2008"
    resource: ClassVar[str] = "CPU"
    parameter_model = Bzip2Parameters
    packages: ClassVar[tuple[str, ...]] = ("bzip2", KERNEL_SOURCE)

    def native_seconds(self) -> float:
        """About 8 MB/s."""
        return self.parameters.size_bytes / _NATIVE_BYTES_PER_SECOND

    def data_bytes(self) -> int:
        """The file and its compressed form, if they are on a disk; packed data become 0.5 % larger."""
        parameters = self.parameters
        return int(2.02 * parameters.size_bytes) + 2**20 if parameters.files == "disk" else 0

    def needs(self) -> Needs:
        """In memory: the file and its compressed form, in /tmp, which in a machine is at most half of it."""
        parameters = self.parameters
        if parameters.files == "disk":
            return Needs(memory_bytes=64 * 2**20, data_bytes=self.data_bytes())
        return Needs(memory_bytes=max(64 * 2**20, int(2 * 2.02 * parameters.size_bytes)))

    def measure(self, bench: Bench) -> Measurement:
        """What is in memory is gone after a trial that failed, too."""
        file = self._file(bench)
        with gone_afterwards(bench.guest, file, f"{file}.bz2"):
            return super().measure(bench)

    def command(self, bench: Bench) -> list[str]:
        """``--keep``: unlinking the file is not part of the work; it says on standard error how small it became."""
        return ["bzip2", "-9", "--keep", "--verbose", self._file(bench)]

    def prepare(self, bench: Bench) -> str | None:
        """A fresh file, read once for its hash: so it is warm in memory; what is on a disk is cold after ``settle``."""
        guest, file, seconds = bench.guest, self._file(bench), self.deadline_seconds()
        run(guest, ["rm", "-f", file, f"{file}.bz2"])
        make_packed(guest, file, int(self.parameters.size_bytes), seconds)
        return sha256(guest, file, seconds)

    def figures(self, program: ProgramOutput) -> Figures:
        """Bytes in and out."""
        return parse(program.complaints)

    def check(self, bench: Bench, figures: Figures) -> str:
        """Unpack it and hash what comes out."""
        del figures
        guest, file, seconds = bench.guest, self._file(bench), self.deadline_seconds()
        run(guest, ["rm", file])
        run(guest, ["bzip2", "--decompress", f"{file}.bz2"], seconds)
        return sha256(guest, file, seconds)

    def _file(self, bench: Bench) -> str:
        folder = bench.data.path if self.parameters.files == "disk" else "/tmp"  # noqa: S108 - in the guest
        return f"{folder}/{_NAME}"


def parse(complaints: str) -> Figures:
    """``{bytes_in, bytes_out}`` from the line of ``bzip2 --verbose``; ValueError where there is none.

    `  /tmp/x:  0.998:1,  8.016 bits/byte, -0.20% saved, 4194304 in, 4212795 out.`
    """
    words = complaints.replace(",", " ").split()
    if words.count("in") != 1 or words[-1:] != ["out."]:
        raise ValueError(f"no line with bytes in and out: {complaints[:80]!r}")
    return {"bytes_in": int(words[words.index("in") - 1]), "bytes_out": int(words[-2])}
