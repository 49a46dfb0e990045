"""Operations that any session has: ``hello``, ``clocks``, ``facts``, ``shutdown``, and a terminal in the guest."""

from __future__ import annotations

from collections.abc import Mapping

from virtoll.agent.messages import Message, Request


class Done(Message):
    """The reply of an operation without a result."""


class Ready(Message):
    """What the agent says of itself: at its start, and as the reply to ``hello``."""

    protocol: int
    version: str | None = None
    build: str | None = None
    role: str | None = None
    pid: int | None = None
    started_monotonic_ns: int | None = None
    started_boottime_ns: int | None = None
    ready_monotonic_ns: int | None = None


class HelloReply(Ready):
    """``target``: the target triple that the agent was built for."""

    target: str | None = None


class HelloRequest(Request[HelloReply], op="hello"):
    """The controller's version of the protocol."""

    protocol: int


class ClocksReply(Message):
    """The agent's clocks, read back to back."""

    realtime_ns: int
    monotonic_ns: int
    monotonic_raw_ns: int
    boottime_ns: int


class ClocksRequest(Request[ClocksReply], op="clocks"):
    """What its clocks say; also the shortest question that there is."""


class CpuQuota(Message):
    """A cgroup's CPU quota."""

    quota_us: int
    period_us: int


class InterfaceFacts(Message):
    """One network interface as the guest sees it."""

    name: str
    mac: str | None = None
    mtu: int | None = None
    driver: str | None = None
    speed_mbit: int | None = None
    offloads: Mapping[str, bool] | None = None


class ReachFacts(Message):
    """What confines the agent's process, and what a process with its rights may do there; None: it cannot be read.

    ``attempts``: each ``allowed``, or the name of the error with which the kernel refused.
    """

    user_map: str | None = None
    seccomp_mode: int | None = None
    seccomp_filters: int | None = None
    no_new_privileges: bool | None = None
    capabilities_bounding_hex: str | None = None
    security_label: str | None = None
    writable_mounts: tuple[str, ...] | None = None
    network_namespace: str | None = None
    sockets: tuple[str, ...] = ()
    abstract_sockets: int | None = None
    attempts: Mapping[str, str] | None = None


class FactsReply(Message):
    """What is measured inside the guest; None where it cannot be read there."""

    kernel_release: str | None = None
    kernel_version: str | None = None
    machine: str | None = None
    cpus_online: int | None = None
    cpus_allowed: int | tuple[int, ...] | None = None
    cpu_model: str | None = None
    cpu_flags: tuple[str, ...] | None = None
    memory_total_bytes: int | None = None
    memory_limit_bytes: int | None = None
    memory_installed_bytes: int | None = None
    cpu_quota: CpuQuota | None = None
    page_size_bytes: int | None = None
    clock_source: str | None = None
    clock_sources: str | None = None
    data_schedulers: str | None = None
    clock_tick_hz: int | None = None
    scheduler_tick_hz: int | None = None
    scheduler_tickless: str | None = None
    boot_id: str | None = None
    root_filesystem: str | None = None
    hypervisor: str | None = None
    cmdline: str | None = None
    agent_sha256: str | None = None
    agent_bytes: int | None = None
    files_count: int | None = None
    files_sha256: str | None = None
    modules_sha256: str | None = None
    pid: int | None = None
    uid: int | None = None
    capabilities_hex: str | None = None
    interfaces: tuple[InterfaceFacts, ...] = ()
    sysctls: Mapping[str, str | None] | None = None
    reach: ReachFacts | None = None


class FactsRequest(Request[FactsReply], op="facts"):
    """What the guest is, for the equivalence report."""


class ShutdownRequest(Request[Done], op="shutdown"):
    """The agent answers and leaves; as a machine's first process it powers that off."""


class TerminalRequest(Request[Done], op="terminal"):
    """A process on a pseudo terminal; what it writes comes as events."""

    argv: tuple[str, ...]
    rows: int
    columns: int


class TerminalOutput(Message):
    """The event that the terminal's process has written."""

    data: bytes


class TerminalExit(Message):
    """The event that it has ended, with an exit status or by a signal."""

    status: int | None
    signal: int | None

    @property
    def code(self) -> int:
        """As a shell tells it: 128 more than the signal's number where that ended it."""
        return self.status if self.status is not None else 128 + (self.signal or 0)


class TerminalInputRequest(Request[Done], op="terminal-input"):
    """Keys for the terminal's process."""

    data: bytes


class TerminalResizeRequest(Request[Done], op="terminal-resize"):
    """The terminal's new size in characters."""

    rows: int
    columns: int


class TerminalCloseRequest(Request[Done], op="terminal-close"):
    """Ends the terminal's process."""
