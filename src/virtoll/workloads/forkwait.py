"""forkwait: create a process, let it end at once, wait for it, n times over (Suresh and Kannan 2014, 4.3.1: 40 000)."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import TimedJobWorkload


class ForkWaitParameters(Parameters):
    """``processes``: quick 500, the paper's size 40 000."""

    processes: int = Field(default=500, ge=1, le=10_000_000)


class ForkWait(TimedJobWorkload[ForkWaitParameters]):
    """Process creation; the check value is the number of children that were reaped."""

    name: ClassVar[str] = "forkwait"
    job: ClassVar[str] = "forkwait"
    title: ClassVar[str] = "forkwait"
    resource: ClassVar[str] = "kernel"
    repeatable: ClassVar[bool] = True
    parameter_model = ForkWaitParameters

    def native_seconds(self) -> float:
        """About 60 us a process."""
        return 60e-6 * self.parameters.processes

    def expected_check(self) -> str | None:
        """Every child, once."""
        return str(self.parameters.processes)
