"""How far guests of the host's kernel are confined: what each way to run them is asked for, by one parameter.

Main types: ``Confined`` (base of their parameters). What stays is what the agent and the workloads need: interfaces and
frames of their own, servers that become another user, locked memory. It must not know a platform's command line.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from virtoll.lab.enter import Enter
from virtoll.platforms.host import Site
from virtoll.platforms.limits import Limited

_NUMBERS: Final = {
    "CHOWN": 0,
    "DAC_OVERRIDE": 1,
    "FOWNER": 3,
    "FSETID": 4,
    "KILL": 5,
    "SETGID": 6,
    "SETUID": 7,
    "SETPCAP": 8,
    "NET_BIND_SERVICE": 10,
    "NET_ADMIN": 12,
    "NET_RAW": 13,
    "IPC_LOCK": 14,
    "SYS_CHROOT": 18,
    "SYS_NICE": 23,
}
NEEDED: Final = tuple(f"CAP_{name}" for name in _NUMBERS)
"""Capabilities that the agent and the workloads use in a guest; of these the network's are over its own namespace."""
OPEN: Final = (*NEEDED, "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_MKNOD")
"""With those that nothing uses, as all guests had them before they were confined."""
NEEDED_MASK: Final = sum(1 << number for number in _NUMBERS.values())
MASKED: Final = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
)
"""Hidden from a confined guest, as container engines hide them."""
_SETTINGS: Final = Path("/proc/sys")


class Confined(Limited):
    """``isolation``: ``open`` leaves off what is not needed to be a guest, as deployments do that trust theirs."""

    isolation: Literal["strict", "open"] = Field(
        default="strict",
        description="strict: the least capabilities, no new privileges, nothing of the whole kernel's to write to",
    )

    @property
    def strict(self) -> bool:
        """Whether guests are confined."""
        return self.isolation == "strict"


def read_only_paths() -> list[str]:
    """What a confined guest may read and not write: all settings of the kernel but its own network's."""
    settings = sorted(str(entry) for entry in _SETTINGS.iterdir() if entry.name != "net")
    return ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sysrq-trigger", *settings]


def protect_from_outside(site: Site, pid: int, role: str) -> None:
    """The same for a guest that is up, in the mount namespace of its process: engines cannot leave its network's open.

    Without root the namespace's owner may not write what is the whole kernel's anyway.
    """
    if site.host.is_root:
        inside = ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "--"]
        site.host.run([*inside, *Enter(protect=True).prefix(Path("/init")), "/init", "--version"], role)
