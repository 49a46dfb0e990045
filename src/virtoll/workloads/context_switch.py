"""Context switches by number and working set of processes (Suresh and Kannan 2014, Figure 2; lmbench's ``lat_ctx``).

A token goes round a ring of processes through pipes; each sums its working set before it passes it on. What the pipes
and the sums cost without a switch is measured in one process and stored beside; the difference is the figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import ByteSize, Field, model_validator

from virtoll.experiment.model import Parameters
from virtoll.workloads.base import DURATION, Bench, Figures, Metric, Needs, TimedJobWorkload
from virtoll.workloads.kernel import clock_reading_ns

_SLACK_BYTES, _PROCESS_BYTES = 64 * 2**20, 512 * 1024
_MOST_LAPS, _MOST_PROCESSES = 2**22, 4096  # the agent's


class ContextSwitchParameters(Parameters):
    """``processes`` in the ring (lmbench: 2 to 96), ``working_set_bytes`` of each (lmbench: 0 to 64 KiB; of 8 bytes).

    ``switches``: how many in a ring, rounded up to whole laps of it; at most 4 194 304 laps of all rings. ``workers``:
    how many rings do all of them at once, as lmbench's ``-P``; with at most 4096 processes in all.
    """

    processes: int = Field(default=2, ge=2, le=256, description="processes in the ring")
    working_set_bytes: ByteSize = Field(
        default=ByteSize(0), ge=0, le=2**30, multiple_of=8, description="memory that each process reads in its turn"
    )
    switches: int = Field(
        default=10_000, ge=1, le=8_000_000, description="switches in a ring, rounded up to whole laps"
    )
    workers: int = Field(default=1, ge=1, le=256, description="rings at once, as lmbench's -P")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.workers * self.processes > _MOST_PROCESSES:
            raise ValueError(f"workers times processes must be at most {_MOST_PROCESSES}; give fewer workers")
        if self.workers * self.laps > _MOST_LAPS:
            raise ValueError(
                f"{self.laps} laps of {self.workers} rings are more than {_MOST_LAPS} in all; give fewer switches"
            )
        return self

    @property
    def laps(self) -> int:
        """How often the token goes round."""
        return math.ceil(self.switches / self.processes)


class ContextSwitch(TimedJobWorkload[ContextSwitchParameters]):
    """The check value is the token, which every process adds 1 to when it has summed its working set to its end.

    Of several rings it is the sum of all tokens; the duration is until the last one is back for the last time.
    """

    name: ClassVar[str] = "context-switch"
    job: ClassVar[str] = "context-switch"
    title: ClassVar[str] = "Context switch"
    about: ClassVar[str] = "a token passed round a ring of processes"
    origin: ClassVar[str] = "Suresh 2014"
    resource: ClassVar[str] = "kernel"
    repeatable: ClassVar[bool] = True
    parameter_model = ContextSwitchParameters
    metrics: ClassVar[tuple[Metric, ...]] = (DURATION, Metric("switch_time", "ns", "lower", "figures"))

    def native_seconds(self) -> float:
        """About 3 us a switch and 5 GB/s of the working sets, all rings on one CPU; then the pipes of one alone."""
        parameters = self.parameters
        hops = (parameters.workers + 1) * parameters.laps * parameters.processes
        return hops * (3e-6 + int(parameters.working_set_bytes) / 5e9)

    def needs(self) -> Needs:
        """Every process's own memory."""
        parameters = self.parameters
        processes = parameters.workers * parameters.processes
        return Needs(_SLACK_BYTES + processes * (int(parameters.working_set_bytes) + _PROCESS_BYTES))

    def job_parameters(self, bench: Bench) -> dict[str, object]:
        """In laps."""
        del bench
        parameters = self.parameters
        ring = {"processes": parameters.processes, "working_set_bytes": int(parameters.working_set_bytes)}
        return {**ring, "laps": parameters.laps, "workers": parameters.workers}

    def expected_check(self) -> str | None:
        """Every process of every ring, every lap."""
        parameters = self.parameters
        return str(parameters.laps * parameters.processes * parameters.workers)

    def figures(self, result: Mapping[str, Any]) -> Figures:
        """``switch_time``: ns a switch, of the median lap, without what the median lap of the pipes alone took."""
        if result["pipes"] is None:
            return {"switch_time": None, "clock_reading_ns": clock_reading_ns(result)}
        hop, pipe = (result[name]["p50_ns"] / result["processes"] for name in ("laps", "pipes"))
        return {"switch_time": hop - pipe, "hop_ns": hop, "pipe_ns": pipe, "clock_reading_ns": clock_reading_ns(result)}
