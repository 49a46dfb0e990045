"""Limits by cgroup as parameters of the platforms whose guests are processes of this host's kernel.

Main types: ``OwnLimits`` (base of their parameters) and ``Limited`` (of those with links of their own). How a limit is
set is the platform's, or its guest's cgroup's (``lab/cgroups.py``); docs/platforms/limits.md has the ways.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import ByteSize, Field

from virtoll.errors import GuestError
from virtoll.experiment.model import Parameters
from virtoll.lab import cgroups
from virtoll.lab.cgroups import DiskRate, Limits
from virtoll.lab.disks import number_of_disk
from virtoll.platforms.attachment import Attached
from virtoll.platforms.base import GuestRequest
from virtoll.platforms.host import Site

_CONTROLLERS = {"cpu_max": "cpu", "cpu_weight": "cpu", "memory_max": "memory", "io_max": "io"}


class OwnLimits(Parameters):
    """Each None: as every guest of the experiment.

    ``cpu_max``: CPU time per wall time, in CPUs, by a quota over 100 ms. ``cpu_weight``: by which it shares a CPU with
    other guests (100 is the default's). ``memory_max``: bytes, or text such as ``64MiB``. ``io_max``: bytes per second
    that it reads at most of the disk with the guests' data, and as many that it writes.
    """

    cpu_max: float | None = Field(
        default=None,
        ge=0.01,
        le=1024,
        description="CPU time per wall time at most, in CPUs, by a quota over 100 ms; without it, as all guests",
    )
    cpu_weight: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="weight by which it shares a CPU with other guests; the kernel's default is 100",
    )
    memory_max: ByteSize | None = Field(
        default=None, ge=16 * 2**20, description="memory at most, in place of all guests'"
    )
    io_max: ByteSize | None = Field(
        default=None,
        ge=4096,
        description="bytes per second that it reads at most of the guests' disk, and as many that it writes",
    )

    def own_limits(self) -> Limits:
        """They; ``GuestError`` where there is no one disk to limit."""
        memory = None if self.memory_max is None else int(self.memory_max)
        disk = None if self.io_max is None else DiskRate(number_of_disk(), int(self.io_max))
        return Limits(memory, self.cpu_max, cpu_weight=self.cpu_weight, disk=disk)

    def refusal(self, site: Site) -> str | None:
        """Why a guest cannot have them here, naming the key, in one sentence; None: it can, as far as can be seen."""
        layout = cgroups.detect()
        for key in self.asked():
            if site.this_machine.cgroup is None:
                return f"{key}: without root a guest has no limits of its own; run as root or leave the key out"
            if _CONTROLLERS[key] not in layout.controllers:
                return f"{key}: this host has no cgroup controller '{_CONTROLLERS[key]}'; mount it or leave the key out"
        try:
            self.own_limits()
        except GuestError as error:
            return f"io_max: {error}; leave it out"
        return None

    def asked(self) -> list[str]:
        """The keys that are set."""
        return list(self.model_dump(include=set(_CONTROLLERS), exclude_none=True))


class Limited(OwnLimits, Attached):
    """Limits of a guest that is attached to its links in one of several ways."""


def limit(request: GuestRequest, parameters: Parameters) -> GuestRequest:
    """The request with the limits that a platform's parameters want; ``GuestError`` as ``OwnLimits.own_limits``."""
    limits = parameters.own_limits() if isinstance(parameters, OwnLimits) else Limits()
    memory_bytes = request.memory_bytes if limits.memory_bytes is None else limits.memory_bytes
    quota = request.cpu_quota if limits.cpu_quota is None else limits.cpu_quota
    return replace(request, memory_bytes=memory_bytes, cpu_quota=quota, own=limits)


def limits_held(request: GuestRequest, site: Site, pid: int) -> dict[str, str]:
    """What the cgroup of process ``pid`` holds of the limits of its own, by file; ``GuestError`` where another."""
    if not request.own.any:
        return {}
    if site.this_machine.cgroup is None:
        raise GuestError(f"{request.name}: without root it has no limits of its own; run as root or leave them out")
    try:
        return cgroups.read_back(request.own, cgroups.memberships_of(pid), site.this_machine.cgroup)
    except GuestError as error:
        raise GuestError(f"{request.name} is not limited as asked: {error}") from error
