"""The faults that a guest can be given, and which of them go together."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from virtoll.experiment.model import Parameters


class AlteredParameters(Parameters):
    """What is wrong with the guest; by default nothing.

    ``cpu_share``: of its CPU time, by a quota that nobody asked for. ``more_vcpus``: it has more CPUs than it was asked
    for. ``reported_clock_rate`` and ``reported_clock_step_milliseconds``: its agent
    reports durations by a clock that runs so many times as fast, and that is set forward between the marks of every
    second job. ``link_mbit``: its links carry so many Mbit/s.

    ``drop_every``, ``duplicate_every``, ``swap_every``: of the test frames of its first source every Nth is not sent
    on, is sent twice, is sent after the next one (0: none). ``delay_microseconds``: each goes on so much later. Where
    one is set, or ``program_forwards``, a program of the agent forwards, and the guest's kernel does not.
    """

    cpu_share: float = Field(default=1.0, gt=0.01, le=1)
    more_vcpus: int = Field(default=0, ge=0, le=8)
    reported_clock_rate: float = Field(default=1.0, ge=0.1, le=10)
    reported_clock_step_milliseconds: int = Field(default=0, ge=0, le=3_600_000)
    link_mbit: int = Field(default=0, ge=0, le=1_000_000)
    drop_every: int = Field(default=0, ge=0)
    duplicate_every: int = Field(default=0, ge=0)
    swap_every: int = Field(default=0, ge=0)
    delay_microseconds: int = Field(default=0, ge=0, le=1_000_000)
    program_forwards: bool = False

    @property
    def forwards_by_program(self) -> bool:
        """Whether the agent's program takes the place of the kernel's router."""
        impaired = (self.drop_every, self.duplicate_every, self.swap_every, self.delay_microseconds)
        return self.program_forwards or any(impaired)


class AlteredMachineParameters(AlteredParameters):
    """For a guest with a kernel of its own: ``clock_rate`` is that of the kernel's clock (adjtimex, 10 % at most).

    ``memory_share``: it has so much of the memory that it was asked for. ``disk_mib_per_second``: what the disk of its
    data directory carries.
    """

    memory_share: float = Field(default=1.0, ge=0.25, le=4)
    clock_rate: float = Field(default=1.0, ge=0.9, le=1.1)
    disk_mib_per_second: int = Field(default=0, ge=0, le=100_000)

    @model_validator(mode="after")
    def _one_clock_is_wrong(self) -> Self:
        if self.clock_rate != 1 and self.reported_clock_rate != 1:
            raise ValueError("clock_rate and reported_clock_rate would multiply; leave one of them out")
        return self
