"""forkwait: create a process, let it end at once, wait for it, n times over (Suresh and Kannan 2014, 4.3.1: 40 000)."""

from __future__ import annotations

from typing import ClassVar, Self

from pydantic import Field, model_validator

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import TimedJobWorkload


class ForkWaitParameters(Parameters):
    """``processes``: quick 500, the paper's size 40 000; ``workers``: how many create them at once, each its part."""

    processes: int = Field(
        default=500,
        ge=1,
        le=10_000_000,
        description="processes that are created and waited for; the paper's size is 40000",
    )
    workers: int = Field(default=1, ge=1, le=256, description="how many create them at once, each its part")

    @model_validator(mode="after")
    def _each_has_some(self) -> Self:
        if self.workers > self.processes:
            raise ValueError("workers must be no more than processes: each has a part of them")
        return self


class ForkWait(TimedJobWorkload[ForkWaitParameters]):
    """Process creation; the check value is the number of children that were reaped."""

    name: ClassVar[str] = "forkwait"
    job: ClassVar[str] = "forkwait"
    title: ClassVar[str] = "forkwait"
    about: ClassVar[str] = "processes created and waited for"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "kernel"
    repeatable: ClassVar[bool] = True
    parameter_model = ForkWaitParameters

    def native_seconds(self) -> float:
        """About 60 us a process."""
        return 60e-6 * self.parameters.processes

    def expected_check(self) -> str | None:
        """Every child, once."""
        return str(self.parameters.processes)
