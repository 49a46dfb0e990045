"""Which interfaces are read around a point, by whom, and in what order they stand: every kind of way, by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.agents import processor_times

from virtoll.agent.client import AgentModel, ChannelMark
from virtoll.agent.operations.counters import (
    CountersReply,
    CountersRequest,
    InterfaceCounters,
    QueueDiscipline,
)
from virtoll.agent.path_counters import (
    CounterSnapshot,
    HopReader,
    PathInterface,
    read_counters,
    surroundings,
)
from virtoll.agent.request import Request
from virtoll.errors import AgentError
from virtoll.lab.attachments import EndpointInterfaces
from virtoll.lab.network import GuestNetwork, plan_links
from virtoll.runfolder.record import Record
from virtoll.runfolder.traffic_records import Hop, KernelCounters, KernelSpan, Softnet, Surroundings


class Counting(AgentModel):
    """An agent whose every interface counted as many frames as it was asked for, and that keeps what it was asked."""

    def __init__(self, *, knows: bool = True) -> None:
        self.channel_marks: deque[ChannelMark] = deque()
        self.ended = False
        self.knows = knows
        self.asked: list[tuple[str, ...]] = []

    def answer(self, request: Request[Record]) -> Record:
        assert isinstance(request, CountersRequest)
        self.asked.append(request.interfaces)
        if not self.knows:
            raise AgentError("bad-request", "no such operation")
        read = [InterfaceCounters(name=name, statistics={"rx_packets": len(self.asked)}) for name in request.interfaces]
        return CountersReply(interfaces=tuple(read))


class Routing:
    """A router of a link, whose interfaces counted ten times as much at each reading."""

    pid = 1

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def forward(self) -> None:
        """Nothing is to be done."""

    def close(self) -> None:
        """Nothing is open."""

    def counters(self, interfaces: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """What is asked for."""
        self.asked.append(list(interfaces))
        return {name: {"tx_packets": 10 * len(self.asked)} for name in interfaces}


class Broken(Routing):
    """A router that cannot tell."""

    def counters(self, interfaces: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
        """It is asked, and fails."""
        self.asked.append(list(interfaces))
        raise AgentError("bad-request", "no such operation")


def named(network: GuestNetwork) -> dict[str, str]:
    """The guest's interfaces by the addresses of its links, as a guest tells them."""
    return {link.guest_mac: f"eth{number}" for number, link in enumerate(network.links)}


def test_an_interface_has_its_own_counters_its_drivers_and_its_queues() -> None:
    """Two queues of one kind count together; what the root dropped is the interface's."""

    def queue(kind: str, dropped: int, *, root: bool = False) -> QueueDiscipline:
        return QueueDiscipline(kind=kind, dropped=dropped, overlimits=10 * dropped, backlog=100 * dropped, root=root)

    class Queued(Counting):
        def answer(self, request: Request[Record]) -> Record:
            del request
            queues = (queue("mq", 3, root=True), queue("fq", 1), queue("fq", 4), queue("clsact", 5, root=True))
            found = InterfaceCounters(
                name="a", statistics={"rx": 1}, queue_disciplines=queues, driver_statistics={"rx": 2}
            )
            return CountersReply(interfaces=(found, InterfaceCounters(name="b", statistics={})))

    reply, counted = read_counters(Queued(), ["a", "b"])
    assert [one.name for one in reply.interfaces] == ["a", "b"]
    assert counted == {
        "a": {
            "rx": 1,
            "driver_rx": 2,
            "qdisc_mq_dropped": 3,
            "qdisc_mq_overlimits": 30,
            "qdisc_mq_backlog": 300,
            "qdisc_fq_dropped": 5,
            "qdisc_fq_overlimits": 50,
            "qdisc_fq_backlog": 500,
            "qdisc_clsact_dropped": 5,
            "qdisc_clsact_overlimits": 50,
            "qdisc_clsact_backlog": 500,
            "queue_dropped": 8,
        },
        "b": {},
    }
    agent = Counting()
    read_counters(agent, ["x", "y"])
    assert agent.asked == [("x", "y")]


def told(hops: tuple[Hop, ...] | None) -> list[tuple[object, ...]]:
    """Role, who, interface, direction, source, and how many frames before and after."""
    assert hops is not None

    def count(counters: Any) -> int | None:
        return None if counters is None else sum(counters.values())

    keys = ("role", "where", "interface", "direction", "source")
    return [(*(getattr(hop, key) for key in keys), count(hop.before), count(hop.after)) for hop in hops]


def test_a_lab_with_bridges_and_routers_is_read_where_each_interface_is() -> None:
    """The first source's link ends at the lab's bridge, the second's at the guest's own port behind a router."""
    network = plan_links(0, sources=2, marks=False)
    first, second = network.sources
    router, peer, guest, lab = Routing(), Counting(), Counting(), Counting()
    endpoints = {
        first.name: EndpointInterfaces(entry="l0", port="p0"),
        second.name: EndpointInterfaces(entry="l1", port="p1", guests_own=True, router=router),
        network.sink.name: EndpointInterfaces(entry="l2", port="p2"),
    }
    reader = HopReader(peer, guest, lab, network, named(network), endpoints)
    before = reader.read()
    after = reader.read()
    assert peer.asked[0] == tuple(link.peer_interface for link in network.traffic)
    assert guest.asked[0] == ("eth0", "eth1", "eth2")
    assert (lab.asked[0], router.asked[0]) == (("l0", "p0", "l2", "p2"), ["l1", "p1"])
    assert set(before.replies) == {"peer", "guest", "lab"}
    assert [one.name for one in before.replies["guest"].interfaces] == ["eth0", "eth1", "eth2"]
    assert told(reader.hops(before, after, 2)) == [
        ("generator", "peer", first.peer_interface, "out", 0, 1, 2),
        ("entry", "lab", "l0", "in", 0, 1, 2),
        ("port-in", "lab", "p0", "out", 0, 1, 2),
        ("guest-in", "guest", "eth0", "in", 0, 1, 2),
        ("generator", "peer", second.peer_interface, "out", 1, 1, 2),
        ("entry", "lab", "l1", "in", 1, 10, 20),
        ("port-in", "lab", "p1", "in", 1, 10, 20),
        ("guest-in", "guest", "eth1", "in", 1, 1, 2),
        ("guest-out", "guest", "eth2", "out", None, 1, 2),
        ("port-out", "lab", "p2", "in", None, 1, 2),
        ("exit", "lab", "l2", "out", None, 1, 2),
        ("sink", "peer", network.sink.peer_interface, "in", None, 1, 2),
    ]
    assert [hop[:2] for hop in told(reader.hops(before, after, 1))][:5] == [
        ("generator", "peer"),
        ("entry", "lab"),
        ("port-in", "lab"),
        ("guest-in", "guest"),
        ("guest-out", "guest"),
    ], "of one source alone"


def test_in_both_directions_the_sink_is_the_second_source() -> None:
    network = plan_links(0, marks=False)
    router, agent = Routing(), Counting()
    own_port = EndpointInterfaces(entry="l1", port="p1", guests_own=True, router=router)
    reader = HopReader(agent, agent, None, network, named(network), {network.sink.name: own_port})
    there, back = network.sources[0].peer_interface, network.sink.peer_interface
    reading = reader.read()
    hops = told(reader.hops(reading, reading, 1, both_directions=True))
    of_reading = {"peer": 1, "guest": 2, "lab": 10}
    assert [hop[5] for hop in hops] == [of_reading[str(hop[1])] for hop in hops], "one agent, then the router"
    assert [hop[:5] for hop in hops] == [
        ("generator", "peer", there, "out", 0),
        ("guest-in", "guest", "eth0", "in", 0),
        ("guest-out", "guest", "eth1", "out", 0),
        ("port-out", "lab", "p1", "out", 0),
        ("exit", "lab", "l1", "out", 0),
        ("sink", "peer", back, "in", 0),
        ("generator", "peer", back, "out", 1),
        ("entry", "lab", "l1", "in", 1),
        ("port-in", "lab", "p1", "in", 1),
        ("guest-in", "guest", "eth1", "in", 1),
        ("exit", "guest", "eth0", "out", 1),
        ("sink", "peer", there, "in", 1),
    ]


def test_with_a_sink_each_every_far_end_is_read_by_its_own_host() -> None:
    """Sources 0 and 2 are of one host; of the sinks' two hosts the second has the last two links."""
    network = plan_links(0, sources=3, sinks=3, marks=False)
    left, right, near, far, guest = (Counting() for _ in range(5))
    reader = HopReader(
        left, guest, None, network, named(network), of_source=(left, right, left), of_sink=(near, far, far)
    )
    reading = reader.read()
    entering, leaving = ([link.peer_interface for link in links] for links in (network.sources, network.sinks))
    assert left.asked == [(entering[0], entering[2])]
    assert (right.asked, near.asked, far.asked) == ([(entering[1],)], [(leaving[0],)], [(leaving[1], leaving[2])])
    hops = told(reader.hops(reading, reading, 3, sinks=3))
    assert [hop[:5] for hop in hops] == [
        one
        for number, (source, sink) in enumerate((("peer", "sink"), ("peer-1", "sink-1"), ("peer", "sink-1")))
        for one in (
            ("generator", source, entering[number], "out", number),
            ("guest-in", "guest", f"eth{number}", "in", number),
            ("exit", "guest", f"eth{number + 3}", "out", number),
            ("sink", sink, leaving[number], "in", number),
        )
    ]
    with pytest.raises(ValueError, match="shorter"):
        reader.hops(reading, reading, 3, sinks=2)
    pair = HopReader(left, guest, None, network, named(network), of_source=(left, right), of_sink=(near, far))
    assert [hop[1] for hop in told(pair.hops(reading, reading, 2, sinks=2)) if hop[0] in ("generator", "sink")] == [
        "peer",
        "sink",
        "peer-1",
        "sink-1",
    ]
    two = told(reader.hops(reading, reading, 2, sinks=2))
    assert [hop[4] for hop in two] == [0] * 4 + [1] * 4
    one_sink = HopReader(left, guest, None, network, named(network), of_sink=(near,))
    again = one_sink.read()
    assert near.asked[-1] == tuple(leaving)
    assert told(one_sink.hops(again, again, 1))[-1][:3] == ("sink", "sink", leaving[0])


def test_who_could_not_answer_once_is_not_asked_again() -> None:
    network = plan_links(0, marks=False)
    peer, guest, lab = Counting(), Counting(knows=False), Counting()
    reader = HopReader(peer, guest, lab, network, {})
    before, after = reader.read(), reader.read()
    assert (len(peer.asked), len(guest.asked), lab.asked) == (2, 1, [])
    assert (guest.asked[0], before.counted["guest"], set(before.replies)) == ((), None, {"peer"})
    hops = told(reader.hops(before, after, 1))
    assert hops[1] == ("guest-in", "guest", "", "in", 0, None, None)
    without = HopReader(peer, guest, None, network, {}, {network.sink.name: EndpointInterfaces(entry="l9")})
    assert "lab" not in without.read().counted, "no agent is in the lab"
    alone = HopReader(guest, guest, lab, network, {}, {network.sink.name: EndpointInterfaces(entry="l9")})
    nothing = alone.read()
    assert set(nothing.counted) == {"peer", "guest", "lab"}
    assert (lab.asked, told(alone.hops(nothing, nothing, 1))[-2][2]) == ([("l9",)], "l9")
    broken, whole = Broken(), Routing()
    (first, last) = network.traffic
    routed = {
        first.name: EndpointInterfaces(entry="l0", router=broken),
        last.name: EndpointInterfaces(entry="l1", router=whole),
    }
    half = HopReader(peer, peer, None, network, {}, routed)
    for times in (1, 2):
        counted = half.read().counted
        assert counted[f"router of {first.name}"] is None
        assert counted[f"router of {last.name}"] == {"l1": {"tx_packets": 10 * times}}
    assert (len(broken.asked), len(whole.asked)) == (1, 2)
    unable = CounterSnapshot({"peer": None, "guest": None}, {})
    assert alone.hops(unable, nothing, 1) is None
    assert alone.hops(nothing, unable, 1) is None


def test_what_reading_costs_is_seen_by_not_reading() -> None:
    agent = Counting()
    reader = HopReader(agent, agent, agent, plan_links(0), {}, enabled=False)
    assert reader.read() == CounterSnapshot({}, {})
    assert agent.asked == []


def test_an_interfaces_counters_are_its_readers() -> None:
    snapshot = CounterSnapshot({"lab": {"a": {"rx": 1}}, "router of l": {"a": {"rx": 2}}, "guest": None}, {})
    for where, interface, reader, expected in (
        ("lab", "a", None, {"rx": 1}),
        ("lab", "a", "l", {"rx": 2}),
        ("lab", "b", None, None),
        ("guest", "a", None, None),
        ("peer", "a", None, None),
        ("lab", "a", "m", None),
    ):
        assert snapshot.counters(PathInterface("entry", where, interface, "in", 0, reader)) == expected


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ({"rx": 0, "tx": 4, "err": 0}, {"rx": 1, "tx": 4, "err": 0}, ({"rx": 0, "tx": 4}, {"rx": 1, "tx": 4})),
        ({"rx": 3}, {}, ({"rx": 3}, {})),
        ({}, {"rx": 3}, ({}, {"rx": 3})),
        ({"driver_rx_pause": 0}, {"driver_rx_pause": 0}, ({"driver_rx_pause": 0}, {"driver_rx_pause": 0})),
        (None, {"rx": 0}, (None, {"rx": 0})),
        ({"rx": 0}, None, ({"rx": 0}, None)),
    ],
)
def test_counters_that_are_zero_in_both_readings_are_left_out(
    before: dict[str, int] | None, after: dict[str, int] | None, kept: tuple[object, object]
) -> None:
    agent, network = Counting(), plan_links(0, marks=False)
    reader = HopReader(agent, agent, None, network, named(network))
    first, last = (
        CounterSnapshot({"peer": {}, "guest": {} if own is None else {"eth0": own}}, {}) for own in (before, after)
    )
    hops = reader.hops(first, last, 1)
    assert hops is not None
    (found,) = (hop for hop in hops if hop.role == "guest-in")
    assert (found.before, found.after) == kept


def test_what_belongs_to_no_interface_is_of_the_host_and_of_the_guest() -> None:
    processor = processor_times()
    host = CountersReply(interfaces=(), softnet=(Softnet(cpu=0),), snmp={"Ip": {"InReceives": 1}})
    guest = host.replace(snmp6={"Ip6InReceives": 2}, processors=(processor,))
    none, both = CounterSnapshot({}, {}), CounterSnapshot({}, {"peer": host, "guest": guest})
    alone = CounterSnapshot({}, {"guest": guest})
    of_guest = KernelCounters(guest.softnet, guest.snmp, guest.snmp6, guest.processors)
    of_host = KernelCounters(host.softnet)
    span = KernelSpan(of_guest, of_guest)
    assert surroundings(both, both) == Surroundings(KernelSpan(of_host, of_host), span)
    assert surroundings(both, alone) == surroundings(alone, both) == Surroundings(None, span)
    assert surroundings(none, both) is None
    unread = CounterSnapshot({}, {"guest": CountersReply(interfaces=())})
    nothing = KernelCounters()
    assert surroundings(unread, unread) == Surroundings(None, KernelSpan(nothing, nothing))
