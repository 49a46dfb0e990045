"""Operations of the kernel, one kind at a time (Suresh and Kannan 2014, Table 1; lmbench 3, McVoy and Staelin 1996).

Null call, read, write, stat, fstat, open and close, signal install and handle, pipe, fork+exit, fork+exec, fork+sh. It
is a job built into the agent, since lmbench is not free. Batches of operations are timed by the guest's clock, each
batch is kept, and what reading that clock costs stands beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric, TimedJobWorkload

Operation = Literal[
    "null-call",
    "read",
    "write",
    "stat",
    "fstat",
    "open-close",
    "signal-install",
    "signal-handle",
    "pipe",
    "fork-exit",
    "fork-exec",
    "fork-sh",
]
_MOST_BATCHES = 1 << 22


@dataclass(frozen=True)
class Kind:
    """About how long one operation takes on a bare host, s; how many are quick; how many are timed together."""

    native_seconds: float
    operations: int
    batch_operations: int


# A batch is long beside a reading of the clock, and short enough to show what interrupts it.
KINDS: Final[dict[str, Kind]] = {
    "null-call": Kind(0.1e-6, 100_000, 100),
    "read": Kind(0.2e-6, 100_000, 100),
    "write": Kind(0.15e-6, 100_000, 100),
    "stat": Kind(0.6e-6, 50_000, 100),
    "fstat": Kind(0.2e-6, 100_000, 100),
    "open-close": Kind(1.2e-6, 25_000, 100),
    "signal-install": Kind(0.15e-6, 100_000, 100),
    "signal-handle": Kind(1.0e-6, 25_000, 100),
    "pipe": Kind(10e-6, 20_000, 1),
    "fork-exit": Kind(100e-6, 1000, 1),
    "fork-exec": Kind(1000e-6, 200, 1),
    "fork-sh": Kind(2000e-6, 100, 1),
}


class KernelOperationsParameters(Parameters):
    """``operations``: how many, 0 for the quick number of that kind (100 to 100 000).

    ``batch_operations``: so many are timed together, 0 for what suits the kind (100, or 1 from the pipe on).
    ``workers``: how many processes do all of them at once, as lmbench's ``-P``; the first one's batches are kept.
    """

    operation: Operation = Field(default="null-call", description="which operation of the kernel is timed")
    operations: int = Field(
        default=0, ge=0, le=10**10, description="how many; 0: the kind's quick number (100 to 100000)"
    )
    batch_operations: int = Field(
        default=0, ge=0, le=10**6, description="how many are timed together; 0: what suits the kind"
    )
    workers: int = Field(default=1, ge=1, le=256, description="processes that do all of them at once, as lmbench's -P")

    @model_validator(mode="after")
    def _whole_batches(self) -> Self:
        count, batch = self.numbers
        if count % batch or count // batch * self.workers > _MOST_BATCHES:
            raise ValueError(
                f"{count} operations are not whole batches of {batch}, or more than {_MOST_BATCHES} batches of all "
                "workers; give operations as a multiple of batch_operations, larger batches or fewer workers"
            )
        return self

    @property
    def numbers(self) -> tuple[int, int]:
        """Operations, and operations in a batch."""
        kind = KINDS[self.operation]
        return self.operations or kind.operations, self.batch_operations or kind.batch_operations


class KernelOperations(TimedJobWorkload[KernelOperationsParameters]):
    """The check value is the number of operations that did what they should: bytes moved, children that ended well.

    That is of all workers. The duration is until the last of them is done.
    """

    name: ClassVar[str] = "kernel-operations"
    job: ClassVar[str] = "kernel"
    title: ClassVar[str] = "Kernel operations"
    about: ClassVar[str] = "one system call or process operation"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "kernel"
    repeatable: ClassVar[bool] = True
    parameter_model = KernelOperationsParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("operation_time", "ns", "lower", "figures"))

    def native_seconds(self) -> float:
        """By the kind of operation."""
        parameters = self.parameters
        return KINDS[parameters.operation].native_seconds * parameters.numbers[0]

    def job_parameters(self, bench: Bench) -> dict[str, object]:
        """With the numbers that suit the kind."""
        del bench
        parameters = self.parameters
        operations, batch = parameters.numbers
        sizes = {"operations": operations, "batch_operations": batch, "workers": parameters.workers}
        return {"operation": parameters.operation, **sizes}

    def expected_check(self) -> str | None:
        """Every operation, once by each worker."""
        return str(self.parameters.numbers[0] * self.parameters.workers)

    def figures(self, result: Mapping[str, Any]) -> Figures:
        """``operation_time``: ns an operation, of the median batch; a signal's without that of sending (as lmbench)."""
        batch = result["batch_operations"]
        median = result["batches"]["p50_ns"] / batch
        sending = result["sending"]["batches"]["p50_ns"] / batch if result["sending"] else 0.0
        return {"operation_time": median - sending, "clock_reading_ns": clock_reading_ns(result)}


def clock_reading_ns(result: Mapping[str, Any]) -> float:
    """What one reading of the guest's clock costs, ns, of the median batch."""
    clock = result["clock"]
    return float(clock["batches"]["p50_ns"] / clock["batch_readings"])
