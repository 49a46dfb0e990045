"""bzip2 -9 of a file of compressed data (Camargos et al. 2008, Figure 4: an installation disc's image). CPU and cache.

The file is the beginning of the kernel's source as Debian ships it: like the paper's disc it holds packed data, which
bzip2 can hardly make smaller. It lies in the guest's memory (/tmp), so that no disk is measured.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ByteSize, Field

from virtoll.agent import Caller
from virtoll.experiment import Parameters
from virtoll.workloads.base import Bench, Needs
from virtoll.workloads.programs import ProgramWorkload, Said, run

_SOURCE = "/usr/src/linux-source-6.1.tar.xz"
_FILE = "/tmp/virtoll-bzip2"  # noqa: S108 - in the guest, where nobody else is
_BLOCK_BYTES = 65536
_NATIVE_BYTES_PER_SECOND = 8e6
_GROWTH_BYTES = 2 * 2**20  # packed data become 0.5 % larger, of at most 128 MiB


class Bzip2Parameters(Parameters):
    """``size_bytes``: how much is compressed, a multiple of 64 KiB; quick 4 MiB, the paper's was a whole disc.

    The guest's memory must hold the file, its compressed form and 8 MB of bzip2's own.
    """

    size_bytes: ByteSize = Field(default=ByteSize(4 * 2**20), ge=_BLOCK_BYTES, le=128 * 2**20, multiple_of=_BLOCK_BYTES)


class Bzip2(ProgramWorkload):
    """Compression; the check value is the SHA-256 of what is unpacked again, which must be that of the file."""

    name: ClassVar[str] = "bzip2"
    title: ClassVar[str] = "bzip2 -9"
    resource: ClassVar[str] = "CPU"
    parameter_model: ClassVar[type[Parameters]] = Bzip2Parameters

    def native_seconds(self, parameters: Parameters) -> float:
        """About 8 MB/s."""
        return _size(parameters) / _NATIVE_BYTES_PER_SECOND

    def needs(self, parameters: Parameters) -> Needs:
        """The file and its compressed form, in /tmp, which in a machine is at most half of its memory."""
        return Needs(memory_bytes=max(64 * 2**20, 2 * (2 * _size(parameters) + _GROWTH_BYTES)))

    def command(self, bench: Bench, parameters: Parameters) -> list[str]:
        """``--keep``: unlinking the file is not part of the work; it says on standard error how small it became."""
        del bench, parameters
        return ["bzip2", "-9", "--keep", "--verbose", _FILE]

    def prepare(self, bench: Bench, parameters: Parameters) -> str | None:
        """A fresh copy of the file, in memory, read once for its hash."""
        guest = bench.guest
        run(guest, ["rm", "-f", _FILE, f"{_FILE}.bz2"])
        blocks = _size(parameters) // _BLOCK_BYTES
        seconds = self.deadline_seconds(parameters)
        run(
            guest,
            ["dd", f"if={_SOURCE}", f"of={_FILE}", f"bs={_BLOCK_BYTES}", f"count={blocks}", "status=none"],
            seconds,
        )
        return _sha256(guest, seconds)

    def figures(self, said: Said) -> dict[str, Any]:
        """Bytes in and out."""
        return parse(said.complaints)

    def check(self, bench: Bench, parameters: Parameters, figures: dict[str, Any]) -> str:
        """Unpack it and hash what comes out."""
        del figures
        guest = bench.guest
        seconds = self.deadline_seconds(parameters)
        run(guest, ["rm", _FILE])
        run(guest, ["bzip2", "--decompress", f"{_FILE}.bz2"], seconds)
        value = _sha256(guest, seconds)
        run(guest, ["rm", _FILE])
        return value

    def expected_check(self, parameters: Parameters) -> str | None:
        """Known once the file is made."""
        del parameters
        return None


def parse(complaints: str) -> dict[str, Any]:
    """``{bytes_in, bytes_out}`` from the line of ``bzip2 --verbose``; ValueError where there is none.

    `  /tmp/x:  0.998:1,  8.016 bits/byte, -0.20% saved, 4194304 in, 4212795 out.`
    """
    words = complaints.replace(",", " ").split()
    if words.count("in") != 1 or words[-1:] != ["out."]:
        raise ValueError(f"no line with bytes in and out: {complaints[:80]!r}")
    return {"bytes_in": int(words[words.index("in") - 1]), "bytes_out": int(words[-2])}


def _sha256(guest: Caller, seconds: float) -> str:
    return run(guest, ["sha256sum", _FILE], seconds).split()[0]


def _size(parameters: Parameters) -> int:
    if not isinstance(parameters, Bzip2Parameters):
        raise TypeError("Bzip2Parameters expected")
    return int(parameters.size_bytes)
