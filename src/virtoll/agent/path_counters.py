"""Counters of every interface on a frame's endpoint, read around each traffic point, so that a loss can be located.

Main types: ``HopReader`` (reads them all at one moment, through the agents that stand where the interfaces are) and
``CounterSnapshot`` (what it read). The way: the peer's interface, the lab's end of it, the port that faces the guest,
the guest's NICs, and back to the sink. What an attachment has not is absent. Nothing is subtracted or interpreted here:
that is ``stats/hops.py``.

An agent that does not know the operation, or a guest that cannot report, leaves None, not zero.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from virtoll.agent.client import Caller
from virtoll.agent.operations.counters import CountersReply, CountersRequest, InterfaceCounters
from virtoll.errors import AgentError
from virtoll.lab.attachments import Counters, EndpointInterfaces
from virtoll.lab.network import GuestNetwork, Link
from virtoll.runfolder.traffic_records import Hop, HopRole, KernelCounters, KernelSpan, Surroundings

Read = TypeVar("Read")


@dataclass(frozen=True)
class PathInterface:
    """One interface on the way: its role (``docs/run-folder.md``), whose agent reads it, and its name there.

    ``reader``: the link whose router reads it, where the lab's own agent does not.
    """

    role: HopRole
    where: str
    interface: str
    direction: Literal["in", "out"]
    source: int | None
    reader: str | None = None


@dataclass(frozen=True)
class CounterSnapshot:
    """Counters at one moment by who read them (``peer``, ``peer-1``, ``sink``, ``lab``, ...) and by interface.

    ``counted`` has None for who could not read; ``replies`` are those of agents, whole.
    """

    counted: Mapping[str, Mapping[str, Counters] | None]
    replies: Mapping[str, CountersReply]

    def counters(self, interface: PathInterface) -> Counters | None:
        """The interface's counters with its driver's own and its queues' drops, or None."""
        counters = self.counted.get(_router(interface.reader) if interface.reader else interface.where)
        return None if counters is None else counters.get(interface.interface)


def read_counters(agent: Caller, interfaces: Sequence[str]) -> tuple[CountersReply, dict[str, Counters]]:
    """What an agent counts, and of each interface all its counters under one name each."""
    reply = agent.ask(CountersRequest(interfaces=tuple(interfaces)))
    return reply, {interface.name: _all_counters(interface) for interface in reply.interfaces}


def _all_counters(interface: InterfaceCounters) -> Counters:
    queues: dict[str, int] = {}
    for queue in interface.queue_disciplines:
        counted = {"dropped": queue.dropped, "overlimits": queue.overlimits, "backlog": queue.backlog}
        for name, count in counted.items():
            key = f"qdisc_{queue.kind}_{name}"
            queues[key] = queues.get(key, 0) + count
        if queue.root:
            queues["queue_dropped"] = queues.get("queue_dropped", 0) + queue.dropped
    driver = {f"driver_{name}": count for name, count in (interface.driver_statistics or {}).items()}
    return {**interface.statistics, **driver, **queues}


@dataclass
class HopReader:
    """Reads the hops of one guest.

    ``guest_names`` maps the guest's MAC addresses to its interface names; ``endpoints`` maps a link's name to the lab's
    interfaces on it, which ``lab`` or the link's router reads. It is empty where the guest's links end in the guest
    itself. ``of_source`` is who sends as each source where the ``peer`` is not all of them; ``of_sink`` who counts what
    arrives by each sink's link (one: by all) where that is not the ``peer``. ``enabled``: without it nothing is read,
    to see what reading costs.
    """

    peer: Caller
    guest: Caller
    lab: Caller | None
    network: GuestNetwork
    guest_names: Mapping[str, str]
    endpoints: Mapping[str, EndpointInterfaces] = field(default_factory=dict)
    of_source: tuple[Caller, ...] = ()
    of_sink: tuple[Caller, ...] = ()
    enabled: bool = True
    _unable: set[str] = field(default_factory=set)

    def read(self) -> CounterSnapshot:
        """Everything, at about one moment; whoever once could not answer is not asked again."""
        if not self.enabled:
            return CounterSnapshot({}, {})
        requests, routers = self._asked()
        counted: dict[str, Mapping[str, Counters] | None] = {}
        replies = {}
        for where, (agent, interfaces) in requests.items():
            counted[where] = None
            answer = self._tried(where, functools.partial(read_counters, agent, interfaces))
            if answer is not None:
                replies[where], counted[where] = answer
        for where, router in routers.items():
            counted[where] = self._tried(where, router)
        return CounterSnapshot(counted, replies)

    def _asked(self) -> tuple[dict[str, tuple[Caller, list[str]]], dict[str, Callable[[], Mapping[str, Counters]]]]:
        """The agents with the interfaces that each reads, and what reads each router."""
        links = self.network.traffic
        requests: dict[str, tuple[Caller, list[str]]] = {
            "peer": (self.peer, []),
            "guest": (self.guest, [name for link in links if (name := self.guest_names.get(link.guest_mac))]),
        }
        for link in links:
            where, who = self._far(link)
            requests.setdefault(where, (who, []))[1].append(link.peer_interface)
        routers: dict[str, Callable[[], Mapping[str, Counters]]] = {}
        lab_interfaces: list[str] = []
        for link in links:
            endpoint = self._endpoint(link)
            names = [name for name in (endpoint.entry, endpoint.port) if name is not None]
            if endpoint.router is not None:
                routers[_router(link.name)] = functools.partial(endpoint.router.counters, names)
            else:
                lab_interfaces += names
        if self.lab is not None and lab_interfaces:
            requests["lab"] = (self.lab, lab_interfaces)
        return requests, routers

    def hops(
        self,
        before: CounterSnapshot,
        after: CounterSnapshot,
        sources: int,
        *,
        sinks: int = 1,
        both_directions: bool = False,
    ) -> tuple[Hop, ...] | None:
        """The way's interfaces in order, with both readings; None where nobody could read anything.

        With ``both_directions`` there are two ways, each of one source alone: 0 to the sink, and 1 back. With several
        ``sinks``, as many as sources, each source's way is its own to the end.
        """
        if any(all(counters is None for counters in reading.counted.values()) for reading in (before, after)):
            return None
        hops: list[Hop] = []
        network = self.network
        if both_directions:
            ways = self._way((network.sources[0],), network.sink, 0, 0)
            ways += self._way((network.sink,), network.sources[0], 1, 1)
        elif sinks > 1:
            pairs = zip(network.sources[:sources], network.sinks[:sinks], strict=True)
            source_ways = [self._way((link,), sink, number, number) for number, (link, sink) in enumerate(pairs)]
            ways = [interface for way in source_ways for interface in way]
        else:
            ways = self._way(network.sources[:sources], network.sink, 0, None)
        for interface in ways:
            first, then = _both(before.counters(interface), after.counters(interface))
            hops.append(
                Hop(
                    role=interface.role,
                    where=interface.where,
                    interface=interface.interface,
                    direction=interface.direction,
                    source=interface.source,
                    before=first,
                    after=then,
                )
            )
        return tuple(hops)

    def _way(self, entries: Sequence[Link], sink: Link, first: int, shared: int | None) -> list[PathInterface]:
        """From each of these links, by the sources ``first`` and on, into the guest and out by another.

        ``shared``: whose the interfaces on the way out are; None: they are all sources'.
        """
        way: list[PathInterface] = []
        for number, link in enumerate(entries, first):
            endpoint, reader = self._endpoint(link), self._reader(link)
            way.append(PathInterface("generator", self._where(link), link.peer_interface, "out", number))
            if endpoint.entry is not None:
                way.append(PathInterface("entry", "lab", endpoint.entry, "in", number, reader))
            if endpoint.port is not None:
                direction: Literal["in", "out"] = "in" if endpoint.guests_own else "out"
                way.append(PathInterface("port-in", "lab", endpoint.port, direction, number, reader))
            way.append(PathInterface("guest-in", "guest", self._name(link), "in", number))
        endpoint, reader = self._endpoint(sink), self._reader(sink)
        if endpoint.entry is None:
            way.append(PathInterface("exit", "guest", self._name(sink), "out", shared))
        else:
            way.append(PathInterface("guest-out", "guest", self._name(sink), "out", shared))
            if endpoint.port is not None:
                direction = "out" if endpoint.guests_own else "in"
                way.append(PathInterface("port-out", "lab", endpoint.port, direction, shared, reader))
            way.append(PathInterface("exit", "lab", endpoint.entry, "out", shared, reader))
        return [*way, PathInterface("sink", self._where(sink), sink.peer_interface, "in", shared)]

    def _where(self, link: Link) -> str:
        """Who reads the far end of a link."""
        return self._far(link)[0]

    def _far(self, link: Link) -> tuple[str, Caller]:
        """That in words, and the agent: of several, ``peer-<n>`` or ``sink-<n>`` is the one whose first link is n."""
        role, agents = ("sink", self.of_sink) if link.role == "sink" else ("peer", self.of_source)
        if not agents:
            return "peer", self.peer
        agent = agents[link.place] if len(agents) > 1 else agents[0]
        first = next(place for place, other in enumerate(agents) if other is agent)
        return (f"{role}-{first}" if first else role), agent

    def _endpoint(self, link: Link) -> EndpointInterfaces:
        return self.endpoints.get(link.name, EndpointInterfaces())

    def _reader(self, link: Link) -> str | None:
        return link.name if self._endpoint(link).router is not None else None

    def _name(self, link: Link) -> str:
        return self.guest_names.get(link.guest_mac, "")

    def _tried(self, where: str, read: Callable[[], Read]) -> Read | None:
        """What is read there; None where it could not be, and then it is not tried again."""
        if where in self._unable:
            return None
        try:
            return read()
        except AgentError:
            self._unable.add(where)
            return None


def _router(link_name: str) -> str:
    return f"router of {link_name}"


def surroundings(before: CounterSnapshot, after: CounterSnapshot) -> Surroundings | None:
    """What belongs to no interface, of the host and of the guest, both readings; None if neither could be read."""
    host, guest = (_span(before.replies.get(where), after.replies.get(where)) for where in ("peer", "guest"))
    if host is not None:
        host = KernelSpan(KernelCounters(host.before.softnet), KernelCounters(host.after.softnet))
    return Surroundings(host, guest) if host or guest else None


def _span(before: CountersReply | None, after: CountersReply | None) -> KernelSpan | None:
    return None if before is None or after is None else KernelSpan(_kernel(before), _kernel(after))


def _kernel(reply: CountersReply) -> KernelCounters:
    return KernelCounters(reply.softnet, reply.snmp, reply.snmp6, reply.processors)


# A driver's counters of pause frames, whatever it calls them.
_OF_PAUSES = re.compile(r"^driver_.*(pause|flow_control|_xo(n|ff)_)")


def _both(before: Counters | None, after: Counters | None) -> tuple[dict[str, int] | None, dict[str, int] | None]:
    """Both readings without the counters that are 0 in both, but for those of pause frames.

    Most NICs count no pause frames at all, so that one that counted none has to be told from one that cannot count.
    """
    if before is None or after is None:
        return _copied(before), _copied(after)
    names = [name for name in {**before, **after} if before.get(name) or after.get(name) or _OF_PAUSES.match(name)]
    first = {name: before[name] for name in names if name in before}
    return first, {name: after[name] for name in names if name in after}


def _copied(counters: Counters | None) -> dict[str, int] | None:
    return None if counters is None else dict(counters)
