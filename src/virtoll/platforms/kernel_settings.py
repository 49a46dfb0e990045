"""Settings of a guest's own kernel as parameters of the platforms that boot one: clock source, I/O scheduler.

Main types: ``ClockSetting``, ``SchedulerSetting``, and both as ``KernelSettings`` (bases of their parameters). They go
on the kernel's command line; what is in force is read back in the guest, because a kernel that has not what it is asked
for goes on with what it has.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from virtoll.experiment.describe import Words
from virtoll.experiment.model import Parameters
from virtoll.runfolder.facts import Facts

KernelWord = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{0,31}$"), Words("a word as the kernel has it")]


class ClockSetting(Parameters):
    """``clocksource``: what the guest's clocks count (``tsc``, ``hpet``, ``acpi_pm``, ``kvm-clock``, ``xen``).

    None: as its kernel chooses.
    """

    clocksource: KernelWord | None = Field(
        default=None,
        description="what the guest's clocks count, such as tsc, hpet, acpi_pm or kvm-clock; else its kernel chooses",
    )


class SchedulerSetting(Parameters):
    """``io_scheduler``: who orders the requests to the disk with its data directory (``none``, ``mq-deadline``).

    None: as its kernel chooses.
    """

    io_scheduler: KernelWord | None = Field(
        default=None,
        description="who orders requests to the data disk, such as none or mq-deadline; else its kernel chooses",
    )


class KernelSettings(SchedulerSetting, ClockSetting):
    """Both."""


def kernel_words(parameters: ClockSetting | SchedulerSetting, *, data: bool = False) -> list[str]:
    """What they are on the kernel's command line; ``data``: whether there is a disk for the data directory."""
    words = []
    if isinstance(parameters, ClockSetting) and parameters.clocksource is not None:
        words.append(f"clocksource={parameters.clocksource}")
    if isinstance(parameters, SchedulerSetting) and parameters.io_scheduler is not None and data:
        words.append(f"virtoll.scheduler={parameters.io_scheduler}")
    return words


def why_not_in_force(parameters: Parameters, facts: Facts, *, data: bool) -> str | None:
    """Which setting the kernel did not take, with those that it has, in one sentence; None: all are in force."""
    if isinstance(parameters, ClockSetting) and parameters.clocksource not in (None, facts.clock_source):
        return (
            f"clocksource: its kernel counts by '{facts.clock_source}' and not by '{parameters.clocksource}'; it has: "
            f"{_listed(facts.clock_sources)}; name one of these"
        )
    if not isinstance(parameters, SchedulerSetting) or parameters.io_scheduler is None or not data:
        return None
    listed = facts.data_schedulers or ""
    if f"[{parameters.io_scheduler}]" not in listed.split():
        return (
            f"io_scheduler: its kernel did not take '{parameters.io_scheduler}' for the disk with its data; it has: "
            f"{_listed(listed.replace('[', '').replace(']', ''))}; name one of these"
        )
    return None


def _listed(words: str | None) -> str:
    return ", ".join((words or "").split()) or "none that it reports"
