"""Records of what a guest itself costs its host: memory, CPU time, readiness, consolidation.

Field by field as docs/run-folder.md gives them: raw readings, nothing subtracted. What could not be read is None,
never zero. No behaviour lives here.
"""

from typing import Literal

import msgspec

from virtoll.runfolder.record import Record


class HostProcess(Record):
    """The process on the host that is the guest, or that its kernel runs in: what it may do there.

    `own_namespaces`: kinds of which it has others than the lab (`user`, `pid`). `network_namespace`: as the kernel
    names it; a guest that has the same name inside runs on the host's kernel. `seccomp_mode`: 0 none, 2 filters.
    """

    name: str
    user: int
    capabilities_hex: str
    capabilities_bounding_hex: str
    seccomp_mode: int | None
    no_new_privileges: bool | None
    own_namespaces: tuple[str, ...]
    network_namespace: str | None = None


class Forwarding(Record):
    """The host CPUs on which what arrives for a guest is worked off by the host's kernel, and by what `means`.

    No CPUs, for this `reason`: those of the kernel's choice where there are `means`, without them the sender's.
    """

    cpus: tuple[int, ...] | None
    means: Literal["threaded NAPI", "threaded NAPI and RPS"] | None
    reason: str | None

    @property
    def by_threads(self) -> bool:
        """Whether the guest's links queue frames for threads of the kernel: what they refuse, it has turned away."""
        return self.means is not None


class AgentClock(Record):
    """When the agent began and said that it is ready, by the clocks of the kernel that it runs on, in ns."""

    started_monotonic_ns: int
    started_boottime_ns: int
    ready_monotonic_ns: int


class LimitsSeen(Record):
    """The tightest limits on the guest's process by cgroups, read on the host: bytes, and CPUs.

    `own`: what the files of its own group held of limits that its platform's parameters asked for, by file's name.
    """

    memory_bytes: int | None
    cpu_quota: float | None
    own: dict[str, str] = msgspec.field(default_factory=dict)


class ProcessMemory(Record):
    """Memory of one process on the host, in bytes; `pss`: shared pages count in proportion."""

    pid: int
    name: str
    threads: int | None
    rss_bytes: int | None
    pss_bytes: int | None
    pss_anonymous_bytes: int | None
    pss_file_bytes: int | None
    pss_shared_bytes: int | None
    swap_pss_bytes: int | None
    page_tables_bytes: int | None


class FootprintRecord(Record):
    """What a guest holds of the host's memory: `idle` when it is ready, `after-work` at its block's end.

    `shared`: processes that serve several guests, by name. `charged_bytes`: by its cgroup, where it has one below the
    lab's. `files_bytes`: of its folder in the lab's memory file system.
    """

    boot: str
    platform: str
    block: int
    when: Literal["idle", "after-work"]
    monotonic_ns: int
    processes: tuple[ProcessMemory, ...]
    shared: dict[str, tuple[ProcessMemory, ...]]
    charged_bytes: int | None
    files_bytes: int | None


class ProcessTime(Record):
    """CPU time of one process so far, in ns. `cpu_ns` is exact and its own; `children` are those that were reaped."""

    pid: int
    started_ticks: int
    name: str
    cpu_ns: int | None
    user_ns: int
    system_ns: int
    children_user_ns: int
    children_system_ns: int


class CpuReading(Record):
    """CPU time of all processes of a guest so far, and of those that it shares with others."""

    monotonic_ns: int
    processes: tuple[ProcessTime, ...]
    shared: dict[str, tuple[ProcessTime, ...]]


class CpuSpan(Record):
    """Two readings around something."""

    before: CpuReading
    after: CpuReading


class HostCpu(Record):
    """CPU time around a trial; `after` None: the guest was lost in it.

    `measured`: around each request in it whose answer is what is measured.
    """

    before: CpuReading | None
    after: CpuReading | None
    measured: tuple[CpuSpan, ...] = ()


class Budget(Record):
    """When a consolidation series was to end: so many bytes of the host's memory gone, or so many guests."""

    memory_bytes: int
    guests: int


class ConsolidationRecord(Record):
    """One step of a consolidation series: a guest was to be started beside those that idle already.

    `guests`: how many ran after the step. `available_bytes`: the host's, before and after. `processes_bytes`: PSS and
    page tables of all guests' processes. `status` `stopped`: not started, for `reason`, which ends the series.
    """

    platform: str
    step: int
    status: Literal["ok", "failed", "stopped"]
    reason: str | None
    guests: int
    monotonic_ns: int
    available_before_bytes: int | None
    available_bytes: int | None
    processes_bytes: int | None
    shared_bytes: int | None
    swap_out_pages: int | None
    spawn_monotonic_ns: int | None
    ready_monotonic_ns: int | None
    budget: Budget
    evidence: tuple[str, ...]
