"""Network workloads for real: both directions, two guests, a shaped link; programs where the image full is built."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import guests
from tests.support.facts import assert_facts
from tests.support.guests import Connected
from tests.support.present import present

from virtoll.agent.operations.counters import CountersRequest
from virtoll.errors import AgentError, GuestError
from virtoll.lab.local_network import Network
from virtoll.lab.network import Link, plan_links
from virtoll.lab.shaping import Shape
from virtoll.pipeline.data_directory import DataKeeper
from virtoll.pipeline.peer import peer_programs
from virtoll.pipeline.session import RunSession
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.programs import ListeningPort, succeeds

INSIDE_LAB = True
pytestmark = [pytest.mark.lab]


def extended(*kinds: str) -> list[Any]:
    """Kinds of the long form."""
    return [pytest.param(kind, marks=pytest.mark.extended) for kind in kinds]


SMALL: dict[str, dict[str, Any]] = {
    "tcp-stream": {"size": "2MiB"},
    "tcp-request-response": {"transactions": 300},
    "iperf-udp": {"datagrams": guests.FEW_FRAMES},  # so few that none is lost
    "rsync-file": {"size_bytes": "1MiB"},
}
DIRECTIONS = ("to-guest", "from-guest")
# gVisor's stack is not Linux's; of the machines the one that is up soonest.
OTHERS = ["runsc-systrap", "uml-raw", *extended("runc", "qemu-tcg")]
OTHERS_WITH_TOOLS = extended("runsc-systrap", "uml-raw", "qemu-tcg")


def two(run_session: RunSession, kind: str) -> Iterator[tuple[Connected, Connected]]:
    """Two guests of a kind, each with a link to the bridge that joins them."""

    def joined() -> Connected:
        asked = guests.request(kind)
        network = plan_links(asked.network.links[0].owner, shared=True)
        return guests.start(kind, run_session, replace(asked, network=network))

    one = joined()
    try:
        other = joined()
        yield one, other
        other.guest.stop()
    finally:
        one.guest.stop()


@pytest.fixture(scope="module")
def pair(run_session: RunSession) -> Iterator[tuple[Connected, Connected]]:
    """Two guests on the host's kernel."""
    yield from two(run_session, "netns")


@pytest.fixture(scope="module", params=OTHERS)
def other_pair(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[tuple[Connected, Connected]]:
    """Two guests with a network stack, or a machine, of their own."""
    yield from two(run_session, request.param)


def bench_of(run_session: RunSession, one: Connected, other: Connected | None = None) -> Bench:
    """What the fleet gives a workload."""
    assert isinstance(run_session.site.network, Network)
    beside = (other.bench,) if other is not None else ()
    site = run_session.site
    files = None
    if site.programs is not None and site.programs_volume is not None:
        files = DataKeeper(site.programs, site.programs_volume)
    return replace(
        one.bench, lab_links=run_session.site.network, co_located=beside, programs=site.programs, peer_files=files
    )


def measure(bench: Bench, name: str, **given: Any) -> Measurement:
    """One trial."""
    workload = WORKLOADS[name].with_parameters({**SMALL[name], **given})
    return guests.measured(workload, lambda: bench)


def addresses(run_session: RunSession) -> str:
    """What addresses the peer has besides the loopback's."""
    network = run_session.site.network
    assert isinstance(network, Network)
    command = ["nsenter", f"--net=/proc/{network.peer_pid}/ns/net", "--", "ip", "-4", "-oneline", "address", "show"]
    return run_session.site.host.run(command, "look")


def right(measured: Measurement) -> dict[str, Any]:
    """The result of a trial whose answer is right, and whose marks are in order."""
    result = guests.assert_right(measured)
    marks = present(present(measured.clock).marks)
    assert marks.end_ns > marks.start_ns
    return result


def exchange(bench: Bench, direction: str) -> None:
    """Both of TCP's workloads with the peer, by one connection and by several."""
    for name, amount in (("tcp-stream", "bytes"), ("tcp-request-response", "transactions")):
        for connections in (1, 3):
            measured = measure(bench, name, direction=direction, connections=connections)
            result = right(measured)
            assert all(figure > 0 for figure in result["figures"].values())
            for end in (result["guest"], {**result["other"]["result"], **result["other"]}):
                each = end.get("connections", [])
                assert len(each) == (connections if connections > 1 else 0)
                assert str(end[amount]) == present(measured.check).value
                assert not each or sum(one[amount] for one in each) == end[amount]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_tcp_between_guest_and_peer(run_session: RunSession, pair: tuple[Connected, Connected], direction: str) -> None:
    exchange(bench_of(run_session, pair[0]), direction)
    assert addresses(run_session) == "", "the peer answers nothing between trials"


def test_tcp_of_guests_with_a_stack_of_their_own(
    run_session: RunSession, other_pair: tuple[Connected, Connected]
) -> None:
    for direction in DIRECTIONS:
        exchange(bench_of(run_session, other_pair[0]), direction)
    crosses_the_peer(run_session, other_pair)
    stays_on_the_bridge(run_session, other_pair)


def test_tcp_between_two_guests_crosses_the_peer(run_session: RunSession, pair: tuple[Connected, Connected]) -> None:
    crosses_the_peer(run_session, pair)


def crosses_the_peer(run_session: RunSession, pair: tuple[Connected, Connected]) -> None:
    """What one guest sends another passes the peer, which forgets both afterwards."""
    bench, peer = bench_of(run_session, *pair), run_session.site.peer
    links = [one.wanted.network.sources[0].peer_interface for one in pair]

    def forwarded() -> list[int]:
        reported = peer.ask(CountersRequest(interfaces=tuple(links)), guests.HANG_SECONDS).interfaces
        return [each.statistics[key] for each in reported for key in ("rx_bytes", "tx_bytes")]

    before = forwarded()
    right(measure(bench, "tcp-stream", between="guests", connections=2))
    first_in, _, _, second_out = (now - then for now, then in zip(forwarded(), before, strict=True))
    assert min(first_in, second_out) > 2 * 2**20, "all of it came in by one link and left by the other"
    assert addresses(run_session) == ""


def test_tcp_between_two_guests_stays_on_the_bridge(run_session: RunSession, pair: tuple[Connected, Connected]) -> None:
    stays_on_the_bridge(run_session, pair)


def stays_on_the_bridge(run_session: RunSession, pair: tuple[Connected, Connected]) -> None:
    """All that one guest sends another crosses their two ports, and the peer has none of it."""
    bench, network = bench_of(run_session, *pair), run_session.site.network
    assert isinstance(network, Network)
    ports = []
    for one in pair:
        link = one.wanted.network.links[-1]
        port = present(network.endpoint_interfaces(one.wanted.network)[link.name].port)
        ports.append(port)

    def counted() -> list[int]:
        return [
            int(Path(f"/sys/class/net/{name}/statistics/{way}_bytes").read_text(encoding="ascii"))
            for name in (*ports, "lshared")
            for way in ("rx", "tx")
        ]

    before = counted()
    for name in ("tcp-stream", "tcp-request-response"):
        right(measure(bench, name, between="guests", path="bridge"))
    came_in, _, _, left, from_peer, to_peer = (now - then for now, then in zip(counted(), before, strict=True))
    assert min(came_in, left) > 2 * 2**20, "by one guest's port into the bridge, by the other's out of it"
    assert from_peer + to_peer < 2**20, "what the bridge did not know yet, if anything"
    assert addresses(run_session) == ""


@dataclass
class Discipline:
    """A queueing discipline at one end of a link, as ``tc`` tells of it."""

    text: str

    @property
    def kind(self) -> str:
        """Its name."""
        return self.text.split()[1]

    @property
    def rate(self) -> str | None:
        """What it lets through."""
        found = re.search(r" rate (\S+)", self.text)
        return found and found[1]

    @property
    def sent_bytes(self) -> int:
        """What it has let through."""
        found = re.search(r"Sent (\d+) bytes", self.text)
        assert found is not None, self.text
        return int(found[1])


@dataclass
class Watched:
    """Shapes links as the lab's network does, and keeps how their ends were at each trial's end.

    By the direction that they slow down: what the peer sends leaves by its own end, what a guest sends by the lab's.
    """

    network: Network
    ends: list[dict[str, Discipline]] = field(default_factory=list)

    @contextlib.contextmanager
    def shaped(self, link: Link, shape: Shape) -> Iterator[str | None]:
        """As ``LabLinks``."""
        with self.network.shaped(link, shape) as name:
            yield name
            self.ends.append(self.look(link))

    def steered(self, links: Sequence[Link]) -> contextlib.AbstractContextManager[None]:
        """As ``LabLinks``."""
        return self.network.steered(links)

    def look(self, link: Link) -> dict[str, Discipline]:
        """Both ends now."""
        peer = ["nsenter", f"--net=/proc/{self.network.peer_pid}/ns/net", "--"]
        ends = {"to-guest": (peer, link.peer_interface), "from-guest": ([], link.lab_interface)}
        found = {}
        for direction, (enter, interface) in ends.items():
            command = [*enter, "tc", "-s", "qdisc", "show", "dev", interface, "root"]
            found[direction] = Discipline(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        return found


def test_a_link_is_as_slow_as_it_is_made_and_free_again(
    run_session: RunSession, pair: tuple[Connected, Connected]
) -> None:
    """The kernel's own queue of that rate lets all of a trial through, and is there for as long as the trial is."""
    bench, link = bench_of(run_session, pair[0]), pair[0].wanted.network.sources[0]
    assert isinstance(bench.lab_links, Network)
    watched = Watched(bench.lab_links)
    bench = replace(bench, lab_links=watched)
    plain = {direction: one.kind for direction, one in watched.look(link).items()}
    rate, size = 20_000_000, 2**20
    for direction in DIRECTIONS:
        result = right(measure(bench, "tcp-stream", direction=direction, link_rate_bits_per_second=rate, size=size))
        assert result["shaped_by"] in ("tbf", "netem")
        ends = watched.ends[-1]  # of the last one: a busy host may have held up a mark of others
        watched.ends.clear()
        assert {(one.kind, one.rate) for one in ends.values()} == {(result["shaped_by"], "20Mbit")}
        assert ends[direction].sent_bytes > size
        assert {at: one.kind for at, one in watched.look(link).items()} == plain
    assert right(measure(bench, "tcp-stream"))["shaped_by"] is None
    assert watched.ends == [], "nobody asked for it"


def has_netem(run_session: RunSession) -> bool:
    """Whether the kernel has it, tried on the peer's loopback."""
    assert isinstance(run_session.site.network, Network)
    loopback = ["nsenter", f"--net=/proc/{run_session.site.network.peer_pid}/ns/net", "--", "tc", "qdisc"]
    try:
        run_session.site.host.run([*loopback, "add", "dev", "lo", "root", "netem", "delay", "1ms"], "look")
    except GuestError:
        return False
    run_session.site.host.run([*loopback, "del", "dev", "lo", "root"], "look")
    return True


def test_delay_is_there_or_refused(run_session: RunSession, pair: tuple[Connected, Connected]) -> None:
    bench = bench_of(run_session, pair[0])
    if not has_netem(run_session):
        with pytest.raises(AgentError) as raised:
            measure(bench, "tcp-request-response", link_delay_ms=5, transactions=20)
        assert raised.value.kind == "unsupported"
        assert_facts(str(raised.value), "netem")
        assert addresses(run_session) == ""
        return
    result = measure(bench, "tcp-request-response", link_delay_ms=5, transactions=20).result or {}
    assert result["shaped_by"] == "netem"
    assert result["figures"]["latency_p50_ns"] > 9_900_000, "5 ms each way"


@pytest.fixture(scope="module")
def tools(run_session: RunSession) -> Iterator[RunSession]:
    """The same run session with the image full, and who starts its programs beside the peer."""
    site = run_session.site
    assert isinstance(site.network, Network)
    image = site.image
    site.image = guests.full_image()
    volume = site.this_machine.data_volume("folder", 2**24)
    cpu = run_session.pinning.generator_cpu
    with peer_programs(site.this_machine, site.image, site.network, cpu, volume.folder) as site.programs:
        site.programs_volume = volume
        yield run_session
    volume.remove()
    site.image, site.programs, site.programs_volume = image, None, None


@pytest.fixture(scope="module")
def tool_pair(tools: RunSession) -> Iterator[tuple[Connected, Connected]]:
    """Two guests with tools."""
    yield from two(tools, "netns")


@pytest.fixture(scope="module", params=OTHERS_WITH_TOOLS)
def other_tool_pair(request: pytest.FixtureRequest, tools: RunSession) -> Iterator[tuple[Connected, Connected]]:
    """The same of other kinds."""
    yield from two(tools, request.param)


def run_programs(tools: RunSession, pair: tuple[Connected, Connected], direction: str, **between: str) -> None:
    """iperf and rsync."""
    bench = bench_of(tools, *pair)
    for name in ("iperf-udp", "rsync-file"):
        right(measure(bench, name, direction=direction, **between))
    assert addresses(tools) == ""


OVER_BRIDGE = {"between": "guests", "path": "bridge"}


@pytest.mark.root
@pytest.mark.parametrize(
    ("direction", "between"),
    [("to-guest", {}), ("from-guest", {"between": "guests"}), ("to-guest", OVER_BRIDGE)],
    ids=["peer", "guests", "bridge"],
)
def test_programs_at_both_ends(
    tools: RunSession, tool_pair: tuple[Connected, Connected], direction: str, between: dict[str, str]
) -> None:
    run_programs(tools, tool_pair, direction, **between)


@pytest.mark.root
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_peers_rsync_pulls_and_pushes(
    tools: RunSession, tool_pair: tuple[Connected, Connected], direction: str
) -> None:
    """The guest serves; the peer's files are in a folder of this machine's, which is empty again afterwards."""
    pulled_and_pushed(tools, tool_pair, direction)


def test_the_peers_rsync_and_other_guests(tools: RunSession, other_tool_pair: tuple[Connected, Connected]) -> None:
    for direction in DIRECTIONS:
        pulled_and_pushed(tools, other_tool_pair, direction)


def pulled_and_pushed(tools: RunSession, pair: tuple[Connected, Connected], direction: str) -> None:
    """One transfer whose client is the peer's."""
    measured = measure(bench_of(tools, pair[0]), "rsync-file", direction=direction, client="peer", peer_files="disk")
    state = right(measured)["peer_state"]
    assert measured.clock is not None
    assert (measured.clock.method, measured.clock.guest) == ("channel", None)
    assert state["files"] == (1 if direction == "to-guest" else 0), "what it sends is there; what comes is not yet"
    assert state["page_cache"] == "cold"
    volume = present(tools.site.programs_volume)
    assert list(present(volume.folder).iterdir()) == []
    assert addresses(tools) == ""


def test_programs_at_both_ends_of_other_guests(tools: RunSession, other_tool_pair: tuple[Connected, Connected]) -> None:
    for between in ({}, {"between": "guests"}, OVER_BRIDGE):
        for direction in DIRECTIONS:
            run_programs(tools, other_tool_pair, direction, **between)


def test_what_serves_is_gone_when_the_guest_dies(tools: RunSession) -> None:
    live = guests.start("netns", tools)
    os.kill(live.agent_process().pid, signal.SIGKILL)
    try:
        with pytest.raises(GuestError):
            measure(bench_of(tools, live), "iperf-udp")
    finally:
        live.guest.stop()
    assert not succeeds(present(tools.site.programs), ListeningPort("udp", 5001).listening())
    assert addresses(tools) == ""
