"""MASR: memory allocate, set and read (Mattos et al. 2012, IV.B: 2 GB). Page faults, then bandwidth twice."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ByteSize, Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import Needs, TimedJobWorkload

# Every 64-bit word is set to this; the sum of all words, modulo 2^64, is the check value (docs/protocol.md).
PATTERN = 0x5654_6D61_7372_5654
_SLACK_BYTES = 64 * 2**20


class MasrParameters(Parameters):
    """``size_bytes``: quick 64 MiB, the paper's size ``2GiB``; text such as that is taken. A multiple of 4096."""

    size_bytes: ByteSize = Field(
        default=ByteSize(64 * 2**20),
        ge=4096,
        multiple_of=4096,
        description="memory that is allocated, set and read; the paper's size is 2GiB",
    )


class Masr(TimedJobWorkload[MasrParameters]):
    """Memory; the check value is the sum of what was read back."""

    name: ClassVar[str] = "masr"
    job: ClassVar[str] = "masr"
    title: ClassVar[str] = "MASR (memory set and read)"
    about: ClassVar[str] = "memory allocated, set and read"
    origin: ClassVar[str] = "Mattos 2012"
    resource: ClassVar[str] = "memory"
    repeatable: ClassVar[bool] = True
    parameter_model = MasrParameters

    def native_seconds(self) -> float:
        """About 1 GB/s over all three steps."""
        return int(self.parameters.size_bytes) * 1e-9

    def needs(self) -> Needs:
        """The memory that is set, and what the guest itself takes."""
        return Needs(int(self.parameters.size_bytes) + _SLACK_BYTES)

    def expected_check(self) -> str | None:
        """The pattern times the number of words, modulo 2^64."""
        return str(int(self.parameters.size_bytes) // 8 * PATTERN % 2**64)
