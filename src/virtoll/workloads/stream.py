"""STREAM: sustainable memory bandwidth by copy, scale, add and triad (McCalpin 1995; Suresh and Kannan 2014, Table 2).

A job built into the agent: the same code, threads and sizes on every platform, and the arrays' contents known to the
last bit. The rates are by the guest's clock, as STREAM's own are; the duration by the outside clock stands beside them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Figures, Metric, Needs, TimedJobWorkload

KERNELS = ("copy", "scale", "add", "triad")
_SCALAR = 3.0
_ARRAYS_BYTES, _COUNTED_BYTES, _SLACK_BYTES = 24, 80, 64 * 2**20


class StreamParameters(Parameters):
    """``elements`` of 8 bytes in each of three arrays; ``rounds`` of the four kernels; ``threads``, one a CPU.

    Quick 2 000 000 (16 MB an array); STREAM's own 10 000 000. STREAM's rule: an array of at least four times all last
    caches together. The paper ran it with 2, 4 and 8 threads and does not say how large.
    """

    elements: int = Field(
        default=2_000_000,
        ge=1000,
        le=2**36,
        description="elements of 8 bytes in each of three arrays; STREAM's own number is 10000000",
    )
    rounds: int = Field(default=10, ge=2, le=200, description="how often the four kernels run")
    threads: int = Field(default=1, ge=1, le=1024, description="threads, one a CPU")


class Stream(TimedJobWorkload[StreamParameters]):
    """The check value is what all elements of a, b and c are at the end, as bits: one that differs shows."""

    name: ClassVar[str] = "stream"
    job: ClassVar[str] = "stream"
    title: ClassVar[str] = "STREAM"
    about: ClassVar[str] = "memory bandwidth: copy, scale, add, triad"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "memory"
    parameter_model = StreamParameters
    metrics: ClassVar[tuple[Metric, ...]] = (
        DURATION,
        *(Metric(f"{kernel}_rate", "bytes/s", "higher", "figures") for kernel in KERNELS),
    )

    def native_seconds(self) -> float:
        """About 5 GB/s."""
        parameters = self.parameters
        return parameters.elements * parameters.rounds * _COUNTED_BYTES / 5e9

    def needs(self) -> Needs:
        """The arrays, and a CPU for each thread."""
        parameters = self.parameters
        return Needs(_SLACK_BYTES + parameters.elements * _ARRAYS_BYTES, vcpus=parameters.threads)

    def expected_check(self) -> str | None:
        """STREAM's own recurrence in the same arithmetic (IEEE 754 double), so that no tolerance is needed."""
        a, b, c = 2.0, 2.0, 0.0
        for _ in range(self.parameters.rounds):
            c = a
            b = _SCALAR * c
            c = a + b
            a = b + _SCALAR * c
        return " ".join(struct.pack(">d", value).hex() for value in (a, b, c))

    def figures(self, result: Mapping[str, Any]) -> Figures:
        """``copy_rate`` and so on: bytes/s of the best round but the first, as STREAM reports; and of all as a mean."""
        figures: dict[str, object] = {}
        for kernel in KERNELS:
            counted, rounds = result["kernels"][kernel]["bytes"], result["kernels"][kernel]["round_ns"][1:]
            figures[f"{kernel}_rate"] = counted * 1e9 / min(rounds) if min(rounds) else None
            figures[f"{kernel}_mean_rate"] = counted * len(rounds) * 1e9 / sum(rounds) if sum(rounds) else None
        return figures
