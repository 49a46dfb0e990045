"""What is measured inside a guest, for the equivalence report: the agent's reply to ``facts``, and a boot's record.

None: it cannot be read there. Where null itself is a fact (no limit, no module), a key that is missing says that it is
not known.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from virtoll.runfolder.record import Record

Mask = Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{1,16}$")]
"""A kernel's mask of 64 bits, hexadecimal."""


class CpuQuota(Record):
    """A cgroup's CPU quota."""

    quota_us: Annotated[int, msgspec.Meta(gt=0)]
    period_us: Annotated[int, msgspec.Meta(gt=0)]


class InterfaceFacts(Record):
    """One network interface as the guest sees it."""

    name: str
    mac: str | None = None
    mtu: int | None = None
    driver: str | None = None
    speed_mbit: int | None = None
    offloads: dict[str, bool] | None = None


class ReachFacts(Record):
    """What confines the agent's process, and what a process with its rights may do there; None: it cannot be read.

    ``attempts``: each ``allowed``, or the name of the error with which the kernel refused.
    """

    user_map: str | None = None
    seccomp_mode: int | None = None
    seccomp_filters: int | None = None
    no_new_privileges: bool | None = None
    capabilities_bounding_hex: Mask | None = None
    security_label: str | None = None
    writable_mounts: tuple[str, ...] | None = None
    network_namespace: str | None = None
    sockets: tuple[str, ...] = ()
    abstract_sockets: int | None = None
    attempts: dict[str, str] | None = None


class Facts(Record):
    """One guest."""

    kernel_release: str | None = None
    kernel_version: str | None = None
    machine: str | None = None
    cpus_online: int | None = None
    cpus_allowed: int | None = None
    cpu_model: str | None = None
    cpu_flags: tuple[str, ...] | None = None
    memory_total_bytes: int | None = None
    memory_limit_bytes: int | UnsetType | None = UNSET
    memory_installed_bytes: int | None = None
    cpu_quota: CpuQuota | UnsetType | None = UNSET
    page_size_bytes: int | None = None
    clock_source: str | None = None
    clock_sources: str | None = None
    data_schedulers: str | UnsetType | None = UNSET
    clock_tick_hz: int | None = None
    scheduler_tick_hz: int | None = None
    scheduler_tickless: str | None = None
    boot_id: str | None = None
    root_filesystem: str | None = None
    hypervisor: str | UnsetType | None = UNSET
    cmdline: str | UnsetType | None = UNSET
    agent_sha256: str | None = None
    agent_bytes: int | None = None
    files_count: int | None = None
    files_sha256: str | None = None
    modules_sha256: str | UnsetType | None = UNSET
    pid: int | None = None
    uid: int | None = None
    capabilities_hex: Mask | None = None
    interfaces: tuple[InterfaceFacts, ...] = ()
    sysctls: dict[str, str | None] | None = None
    reach: ReachFacts | None = None
