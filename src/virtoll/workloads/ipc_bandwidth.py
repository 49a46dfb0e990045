"""Bandwidth between two processes (Suresh and Kannan 2014, Section 4.2; lmbench, McVoy and Staelin 1996).

lmbench's ``bw_pipe``, ``bw_unix``, ``bw_tcp`` over the loopback interface, and ``bw_mmap_rd`` for memory that both
processes have: a job built into the agent, since lmbench is not free. A sender and a receiver move a given number of
bytes; the rate is by the clock outside the guest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final, Literal, Self

from pydantic import ByteSize, Field, model_validator

from virtoll.experiment.model import Parameters
from virtoll.runfolder.records import duration_ns
from virtoll.workloads.base import DURATION, Bench, Measurement, Metric, Needs, TimedJobWorkload

Channel = Literal["pipe", "unix-stream", "tcp-loopback", "shared-memory"]

# Every 64-bit word of a chunk is set to this but the first, which is the chunk's number; the sum of all words, modulo
# 2^64, is the check value (docs/protocol.md).
PATTERN = 0x5654_6970_6362_7754
_WORD_BYTES = 8
_NATIVE_BYTES_PER_SECOND: Final[dict[str, float]] = {
    "pipe": 2e9,
    "unix-stream": 2e9,
    "tcp-loopback": 1.5e9,
    "shared-memory": 4e9,
}
_SLACK_BYTES = 64 * 2**20
_CHUNKS_HELD = 4  # the sender's, the receiver's, and two in memory that both have


class IpcBandwidthParameters(Parameters):
    """``channel``: what the bytes go through. ``size_bytes`` of them in all, 64 MiB (lmbench in 1996: 50 MB).

    ``chunk_bytes`` are handed over at once: lmbench's 64 KiB (in 1996 1 MiB for TCP). A multiple of 8, of which
    ``size_bytes`` is a multiple. ``workers``: how many pairs of processes move all of it at once, as lmbench's ``-P``.
    """

    channel: Channel = Field(default="pipe", description="what the bytes go through")
    size_bytes: ByteSize = Field(
        default=ByteSize(64 * 2**20), ge=_WORD_BYTES, le=2**44, description="bytes in all, a multiple of chunk_bytes"
    )
    chunk_bytes: ByteSize = Field(
        default=ByteSize(64 * 2**10),
        ge=_WORD_BYTES,
        le=2**30,
        multiple_of=_WORD_BYTES,
        description="bytes that are handed over at once",
    )
    workers: int = Field(
        default=1, ge=1, le=256, description="pairs of processes that move all of it at once, as lmbench's -P"
    )

    @model_validator(mode="after")
    def _whole_chunks(self) -> Self:
        if self.size_bytes % self.chunk_bytes:
            raise ValueError(
                f"size_bytes {int(self.size_bytes)} is not whole chunks of {int(self.chunk_bytes)} bytes; "
                "give size_bytes as a multiple of chunk_bytes"
            )
        return self


class IpcBandwidth(TimedJobWorkload[IpcBandwidthParameters]):
    """The check value is the sum of the words that the receivers have: a chunk that is lost or comes twice shows.

    The duration is until the last of them has all.
    """

    name: ClassVar[str] = "ipc-bandwidth"
    job: ClassVar[str] = "ipc-bandwidth"
    title: ClassVar[str] = "IPC bandwidth"
    about: ClassVar[str] = "bytes between two processes of the guest"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "kernel"
    repeatable: ClassVar[bool] = True
    parameter_model = IpcBandwidthParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("bandwidth", "bytes/s", "higher", "figures"))

    def native_seconds(self) -> float:
        """By the channel: 1.5 to 4 GB/s, of all pairs together."""
        parameters = self.parameters
        return parameters.workers * int(parameters.size_bytes) / _NATIVE_BYTES_PER_SECOND[parameters.channel]

    def needs(self) -> Needs:
        """The chunks that the processes of all pairs hold."""
        parameters = self.parameters
        return Needs(_SLACK_BYTES + parameters.workers * _CHUNKS_HELD * int(parameters.chunk_bytes))

    def expected_check(self) -> str | None:
        """By each pair the pattern for every word but the first of each chunk, and those: 0, 1, 2 and so on."""
        parameters = self.parameters
        chunks = int(parameters.size_bytes) // int(parameters.chunk_bytes)
        patterns = int(parameters.size_bytes) // _WORD_BYTES - chunks
        return str(parameters.workers * (patterns * PATTERN + chunks * (chunks - 1) // 2) % 2**64)

    def measure(self, bench: Bench) -> Measurement:
        """``bandwidth``: of all pairs and repeats, bytes/s by the outside clock; None where that is not known."""
        measured = super().measure(bench)
        took_ns = duration_ns(measured.clock) if measured.clock is not None else None
        moved_bytes = bench.repeats * self.parameters.workers * int(self.parameters.size_bytes)
        rate = moved_bytes * 1e9 / took_ns if took_ns else None
        return replace(measured, result={**(measured.result or {}), "figures": {"bandwidth": rate}})
