"""``counters``: what the kernel counts where frames pass and get lost, in an agent's namespace."""

from __future__ import annotations

from virtoll.agent.request import Request
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import KernelCounters


class QueueDiscipline(Record):
    """A queueing discipline of an interface."""

    kind: str
    dropped: int
    overlimits: int
    backlog: int
    root: bool = False


class InterfaceCounters(Record):
    """Counters of one interface, by the kernel's and its driver's names."""

    name: str
    statistics: dict[str, int]
    index: int | None = None
    mac: str | None = None
    queue_disciplines: tuple[QueueDiscipline, ...] = ()
    driver_statistics: dict[str, int] | None = None


class CountersReply(KernelCounters, kw_only=True):
    """All counters at one moment."""

    interfaces: tuple[InterfaceCounters, ...]
    monotonic_ns: int | None = None


class CountersRequest(Request[CountersReply], tag="counters"):
    """The interfaces to be read; none for all."""

    interfaces: tuple[str, ...] = ()
