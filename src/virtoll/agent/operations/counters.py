"""``counters``: what the kernel counts where frames pass and get lost, in an agent's namespace."""

from __future__ import annotations

from collections.abc import Mapping

from virtoll.agent.messages import Message, Request


class ProcessorTimes(Message):
    """Times of one processor (/proc/stat)."""

    cpu: int
    user_ns: int
    nice_ns: int
    system_ns: int
    idle_ns: int
    iowait_ns: int
    irq_ns: int
    softirq_ns: int
    steal_ns: int


class QueueDiscipline(Message):
    """A queueing discipline of an interface."""

    kind: str
    dropped: int
    overlimits: int
    backlog: int
    root: bool = False


class InterfaceCounters(Message):
    """Counters of one interface, by the kernel's and its driver's names."""

    name: str
    statistics: Mapping[str, int]
    index: int | None = None
    mac: str | None = None
    queue_disciplines: tuple[QueueDiscipline, ...] = ()
    driver_statistics: Mapping[str, int] | None = None


class Softnet(Message):
    """A line of /proc/net/softnet_stat; older kernels have fewer columns."""

    cpu: int
    processed: int | None = None
    dropped: int | None = None
    time_squeeze: int | None = None
    received_rps: int | None = None
    flow_limit: int | None = None
    backlog: int | None = None


class CountersReply(Message):
    """All counters at one moment; None where the kernel has none of that kind."""

    interfaces: tuple[InterfaceCounters, ...]
    monotonic_ns: int | None = None
    softnet: tuple[Softnet, ...] | None = None
    snmp: Mapping[str, Mapping[str, int]] | None = None
    snmp6: Mapping[str, int] | None = None
    processors: tuple[ProcessorTimes, ...] | None = None


class CountersRequest(Request[CountersReply], op="counters"):
    """The interfaces to be read; none for all."""

    interfaces: tuple[str, ...] = ()
