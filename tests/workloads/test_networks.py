"""Network workloads without a network: parsers on what the real tools printed, books, and what goes wrong."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.support.agents import ScriptedAgent
from tests.support.benches import channel_bench

from virtoll.agent.client import ChannelMark, TrafficAgents
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.jobs import RunRequest, ServeRequest, StreamExchange
from virtoll.agent.operations.network import NetworkRequest, Route
from virtoll.agent.operations.programs import ExecRequest, SpawnRequest
from virtoll.campaign import session
from virtoll.campaign.progress import SilentProgress
from virtoll.campaign.requirements import unmet
from virtoll.errors import AgentError, GuestCannot, GuestDied, GuestError
from virtoll.lab.data import DataBy, LocalVolume
from virtoll.lab.inside import Lab
from virtoll.lab.network import plan_links
from virtoll.lab.shaping import Shape
from virtoll.platforms.containers.native import Native
from virtoll.workloads import WORKLOADS, iperf, rsync
from virtoll.workloads.base import Bench, DataDirectory, Measurement
from virtoll.workloads.network_path import peer_with_addresses, peer_without_addresses, route_request
from virtoll.workloads.programs import ListeningPort

# iperf 2.1.8 and rsync 3.2.7 of Debian 12: 1000 datagrams of 1472 bytes asked for.
SENT = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,1473472,37243569,0.000,0,-1,-0.000,0\n"
RECEIVED = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,1473472,37195199,0.001,0,1001,0.000,0\n"
HALF_RECEIVED = "19700101000000,10.64.0.1,35562,10.64.0.2,5001,1,0.0-0.3,736000,18597599,0.118,400,900,44.444,0\n"
RSYNC = """
Number of files: 29 (reg: 24, dir: 5)
Number of created files: 29 (reg: 24, dir: 5)
Number of deleted files: 0
Number of regular files transferred: 24
Total file size: 501,017 bytes
Total transferred file size: 501,017 bytes
Literal data: 501,017 bytes
Matched data: 0 bytes
File list size: 704
File list generation time: 0.001 seconds
File list transfer time: 0.000 seconds
Total bytes sent: 503
Total bytes received: 502,863

sent 503 bytes  received 502,863 bytes  1,006,732.00 bytes/sec
total size is 501,017  speedup is 1.00
"""
UDP_TABLE = """   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref
  917: 00000000:1389 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 5108082 2 00000000f8 0
"""
TCP_TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:221A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 5108082 1 00000000f87c6ad0
   1: 0100007F:1F90 0100007F:221A 01 00000000:00000000 00:00000000 00000000     0        0 5108083 1 00000000f87c6ad0
"""


def test_iperfs_lines() -> None:
    assert iperf.parse(SENT) == iperf.Line(1473472, 37243569, 0.0, None, None)
    assert iperf.parse("warning: something\n" + RECEIVED) == iperf.Line(1473472, 37195199, 0.001, 0, 1001)
    for wrong in ("", "connect failed: Connection refused", RECEIVED.replace(",0.001", "")):
        with pytest.raises(ValueError, match="no line of 14 fields"):
            iperf.parse(wrong)


def test_rsyncs_statistics() -> None:
    assert rsync.parse(RSYNC) == {
        "files": 24,
        "file_bytes": 501017,
        "files_transferred": 24,
        "wire_bytes_sent": 503,
        "wire_bytes_received": 502863,
    }
    with pytest.raises(ValueError, match="no line 'Total file size'"):
        rsync.parse(RSYNC.replace("Total file size", "Size"))


def test_who_listens_at_a_port() -> None:
    def taken(protocol: str, number: int, table: str) -> bool:
        *command, place = ListeningPort(protocol, number).listening()
        assert place == f"/proc/net/{protocol}"
        return subprocess.run(command, input=table, text=True, check=False).returncode == 0

    assert taken("udp", 5001, UDP_TABLE)
    assert not taken("udp", 5002, UDP_TABLE)
    assert taken("tcp", 8730, TCP_TABLE)
    assert not taken("tcp", 8080, TCP_TABLE), "that one is a connection"
    assert not taken("tcp", 8730, "")


def test_a_links_shape_in_the_words_of_tc() -> None:
    assert Shape().plain
    assert Shape(100_000_000).token_bucket() == [
        "tbf",
        "rate",
        "100000000bit",
        "burst",
        "12500",
        "latency",
        "50ms",
    ]
    assert Shape(1_000_000).token_bucket()[4] == "4614", "three frames at least"
    assert Shape(100_000_000).netem()[:3] == ["netem", "limit", "1000"]
    # 20 ms of the smallest frames are 2977 at 100 Mbit/s, which netem counts as in its queue.
    assert Shape(100_000_000, 20, 0.5).netem() == [
        "netem",
        "limit",
        "3977",
        "delay",
        "20ms",
        "loss",
        "0.5%",
        "rate",
        "100000000bit",
    ]


def test_the_peer_has_an_address_and_loses_it_again() -> None:
    link = plan_links(3).sources[0]
    there = peer_with_addresses((link,), forward=False)
    assert there.to_json() == {
        "interfaces": [
            {
                "mac": link.peer_mac,
                "address": "10.67.0.2/24",
                "neighbours": [{"address": "10.67.0.1", "mac": link.guest_mac}],
            }
        ],
    }
    gone = peer_without_addresses((link,), forward=True)
    assert gone.to_json() == {"interfaces": [{"mac": link.peer_mac, "without_address": True}], "ip_forward": False}
    other = plan_links(7).sources[0]
    assert route_request(plan_links(3), other).routes == (Route(destination="10.71.0.0/24", via="10.67.0.2"),)


class Agent(ScriptedAgent):
    """Answers from what each operation is told to; keeps what it was asked."""

    def __init__(self, **answers: Any) -> None:
        super().__init__()
        self.answers = answers

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """One operation."""
        if isinstance(request, RunRequest):
            self.channel_marks += (ChannelMark("start", 0, 0), ChannelMark("end", 500_000_000, 500_000_000))
        found = self.answers.get(request.op.replace("-", "_"), {})
        answer = found(request) if callable(found) else found
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, dict)
        return {"guest": {"pause_ns": 0}, **answer} if isinstance(request, RunRequest) else answer


def said(output: str = "", status: int = 0, complaints: str = "") -> dict[str, Any]:
    """A program's answer."""
    out, err = (base64.b64encode(text.encode()).decode() for text in (output, complaints))
    return {"status": status, "signal": None, "stdout": out, "stderr": err, "timed_out": False, "truncated": False}


def ended(output: str = "", *, by_itself: bool = True) -> dict[str, Any]:
    """The answer to the end of a program in the background."""
    reported = base64.b64encode(output.encode()).decode()
    return {"status": 0, "signal": None, "by_itself": by_itself, "killed": False, "output": reported}


def bench(
    guest: Agent, peer: Agent, programs: Agent | None = None, second: Agent | None = None, *, shared: bool = False
) -> Bench:
    """A guest and its peer, with marks over the channel; ``second``: another guest beside it.

    ``shared``: with a link to the bridge that joins them.
    """

    def of(agent: Agent, number: int, *others: Bench) -> Bench:
        return channel_bench(
            agent,
            peer=TrafficAgents.of_one(peer),
            network=plan_links(number, shared=shared),
            generator_cpu=1,
            sink_cpu=1,
            co_located=others,
            programs=programs,
        )

    return of(guest, 0) if second is None else of(guest, 0, of(second, 5))


def measure(on: Bench, name: str, **given: Any) -> Measurement:
    """One trial."""
    return WORKLOADS[name].with_parameters(given).measure(on)


def tcp_guest(check: str) -> Agent:
    """A guest whose exchange came out so."""
    result = {"bytes": 1000, "transaction_ns": {"p50": 40_000, "p99": 90_000}}
    return Agent(run={"result": result, "check": check})


def tcp_peer(check: str) -> Agent:
    """The other end of it."""
    result = {"transaction_ns": {"p50": 30_000, "p99": 80_000}}
    return Agent(serve={"port": 4711}, serve_finish={"result": result, "check": check, "tcp": None})


def test_a_stream_is_as_fast_as_the_clock_outside_says() -> None:
    guest, peer = tcp_guest("1000"), tcp_peer("1000")
    measured = measure(bench(guest, peer), "tcp-stream", size=1000)
    assert measured.problem is None
    assert measured.check == {"value": "1000", "expected": "1000", "ok": True}
    assert measured.result is not None
    assert measured.result["figures"] == {"throughput": pytest.approx(0.016)}, "8000 bits in half a second"
    assert peer.operations() == ["network", "serve", "serve-finish", "network"]
    exchange = StreamExchange(kind="stream", active="opener", bytes=1000, message_bytes=16384, connections=1)
    (serve,), (ran,) = peer.requests(ServeRequest), guest.requests(RunRequest)
    assert serve.exchange == exchange
    assert (serve.address, serve.cpu) == ("10.64.0.2", 1)
    assert ran.job == "tcp"
    assert ran.parameters["exchange"] == exchange.to_json()
    assert (ran.parameters["address"], ran.parameters["port"]) == ("10.64.0.2", 4711)
    assert peer.requests(NetworkRequest)[-1].interfaces[0].without_address is True


@pytest.mark.parametrize(("at_guest", "at_peer"), [("1 wrong of 1000", "1000"), ("1000", "999"), ("17", "17")])
def test_a_stream_of_which_an_end_has_something_else_is_invalid(at_guest: str, at_peer: str) -> None:
    measured = measure(bench(tcp_guest(at_guest), tcp_peer(at_peer)), "tcp-stream", size=1000)
    assert measured.check is not None
    assert not measured.check["ok"]
    assert measured.problem is not None
    assert "the check value is wrong" in measured.problem


@pytest.mark.parametrize(
    ("direction", "asker", "p50"), [("to-guest", "listener", 30_000), ("from-guest", "opener", 40_000)]
)
def test_latencies_are_those_of_whoever_asks(direction: str, asker: str, p50: int) -> None:
    guest, peer = tcp_guest("100"), tcp_peer("100")
    measured = measure(bench(guest, peer), "tcp-request-response", direction=direction, transactions=100)
    assert measured.problem is None
    assert measured.result is not None
    assert measured.result["figures"]["latency_p50_ns"] == p50
    assert measured.result["figures"]["transaction_rate"] == pytest.approx(200)
    assert peer.requests(ServeRequest)[0].exchange.active == asker


def test_both_ends_are_told_of_several_connections_and_all_they_said_is_kept() -> None:
    connections = [{"transactions": 50, "tcp": None}, {"transactions": 50, "tcp": None}]
    result = {"transaction_ns": {"p50": 30_000, "p99": 80_000}}
    finish = {"result": result, "check": "100", "tcp": None, "connections": connections}
    guest, peer = tcp_guest("100"), Agent(serve={"port": 4711}, serve_finish=finish)
    measured = measure(bench(guest, peer), "tcp-request-response", transactions=100, connections=2)
    assert measured.problem is None
    (serve,), (ran,) = peer.requests(ServeRequest), guest.requests(RunRequest)
    assert serve.exchange.connections == 2
    assert ran.parameters["exchange"] == serve.exchange.to_json()
    assert measured.result is not None
    assert measured.result["other"]["connections"] == connections
    assert measured.result["figures"]["transaction_rate"] == pytest.approx(200), "of all, over the whole time"


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [
        ("tcp-stream", {"size": 7, "connections": 8}, "no more than the bytes of size"),
        ("tcp-request-response", {"transactions": 7, "connections": 8}, "no more than transactions"),
        ("tcp-stream", {"connections": 257}, "less than or equal to 256"),
        ("tcp-request-response", {"connections": 0}, "greater than or equal to 1"),
    ],
)
def test_connections_have_each_a_part(name: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WORKLOADS[name].with_parameters(given)


def test_a_guest_that_dies_leaves_no_server_and_no_address() -> None:
    guest, peer = Agent(run=GuestDied("gone")), tcp_peer("1000")
    with pytest.raises(GuestDied):
        measure(bench(guest, peer), "tcp-stream", size=1000)
    assert peer.operations() == ["network", "serve", "serve-close", "network"]


def test_between_guests_the_second_one_serves_and_the_peer_routes() -> None:
    guest, peer, other = tcp_guest("1000"), Agent(), tcp_peer("1000")
    measured = measure(bench(guest, peer, second=other), "tcp-stream", size=1000, between="guests")
    assert measured.problem is None
    (serve,) = other.requests(ServeRequest)
    assert (serve.address, serve.cpu) == ("10.69.0.1", None)
    forwarding = peer.requests(NetworkRequest)
    assert [request.ip_forward for request in forwarding] == [True, False]
    assert len(forwarding[0].interfaces) == 2
    assert guest.requests(NetworkRequest)[0].routes == (Route(destination="10.69.0.0/24", via="10.64.0.2"),)
    assert other.requests(NetworkRequest)[0].routes == (Route(destination="10.64.0.0/24", via="10.69.0.2"),)


def test_over_a_bridge_the_second_guest_serves_there_and_nobody_routes() -> None:
    wanted = {"size": 1000, "between": "guests", "path": "bridge"}
    assert WORKLOADS["tcp-stream"].with_parameters(wanted).needs().shared_nic
    guest, peer, other = tcp_guest("1000"), Agent(), tcp_peer("1000")
    assert measure(bench(guest, peer, second=other, shared=True), "tcp-stream", **wanted).problem is None
    (serve,) = other.requests(ServeRequest)
    assert serve.address == "10.254.5.6"
    assert {request.ip_forward for request in peer.requests(NetworkRequest)} == {None}
    assert guest.requests(NetworkRequest)[0].to_json() == {
        "interfaces": [
            {
                "mac": "02:76:74:01:00:05",
                "address": "10.254.5.1/24",
                "neighbours": [{"address": "10.254.5.6", "mac": "02:76:74:01:05:05"}],
            }
        ]
    }
    with pytest.raises(GuestCannot, match="no bridge of this machine joins its guests"):
        measure(bench(Agent(), Agent(), second=Agent()), "tcp-stream", **wanted)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "path: bridge is of two guests; set between: guests"),
        ({"between": "guests", "link_delay_ms": 1}, "link_... is of the way by the peer, and no bridge has it"),
    ],
)
def test_what_a_bridge_cannot_be_is_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        WORKLOADS["tcp-stream"].with_parameters({"path": "bridge", **given})


@pytest.mark.parametrize("name", ["tcp-stream", "tcp-request-response", "iperf-udp", "rsync-tree", "rsync-file"])
def test_without_a_second_guest_the_trial_is_skipped(name: str) -> None:
    needs = WORKLOADS[name].with_parameters({"between": "guests"}).needs()
    assert needs.guests == 2
    assert "reaches no link" in str(unmet(name, needs, None, "native", Native.lacks))
    assert WORKLOADS[name].with_parameters({}).needs().guests == 1
    programs = Agent(exec=lambda request: said("x") if request.argv[0] == "find" else said())
    with pytest.raises(AgentError, match="no second guest") as refused:
        measure(bench(Agent(), Agent(), programs), name, between="guests")
    assert refused.value.kind == "unsupported"


def test_a_link_that_nobody_can_shape_skips_the_trial() -> None:
    with pytest.raises(AgentError, match="leave the parameters link_") as refused:
        measure(bench(Agent(), Agent()), "tcp-stream", link_rate_bits_per_second=1_000_000)
    assert refused.value.kind == "unsupported"


def iperf_trial(at_guest: str, at_peer: str, direction: str, status: int = 0) -> tuple[Measurement, Agent, Agent]:
    """1000 datagrams."""
    guest = Agent(run={"result": said(at_guest, status, "read failed"), "check": ""}, exec=said("iperf"))
    # It listens at once, and has ended when it is looked for.
    programs = Agent(
        exec=lambda request: said(status=int(request.argv[0] == "test")), spawn={"pid": 1}, end=ended(at_peer)
    )
    measured = measure(bench(guest, Agent(), programs), "iperf-udp", direction=direction, datagrams=1000)
    return measured, guest, programs


def test_iperf_from_the_guest() -> None:
    measured, guest, programs = iperf_trial(SENT, RECEIVED, "from-guest")
    assert measured.problem is None
    assert measured.check == {"value": "1000 sent", "expected": "1000 sent", "ok": True}
    assert measured.result is not None
    figures = measured.result["figures"]
    assert (figures["sent_datagrams"], figures["received_datagrams"], figures["received_share"]) == (1001, 1001, 1.0)
    assert figures["received_rate"] == pytest.approx(37.195199)
    argv = guest.requests(RunRequest)[0].parameters["argv"]
    assert argv[:3] == ["iperf", "--client", "10.64.0.2"]
    assert "--reverse" not in argv
    assert argv[argv.index("--num") + 1] == "1472000"
    assert [op for op in programs.operations() if op != "exec"] == ["spawn", "end"]
    assert programs.requests(SpawnRequest)[0].argv[:3] == ("iperf", "--server", "--udp")


def test_iperf_to_the_guest_counts_what_it_did_not_see() -> None:
    measured, guest, _ = iperf_trial(HALF_RECEIVED, SENT, "to-guest")
    assert measured.problem is None
    assert measured.result is not None
    figures = measured.result["figures"]
    assert (figures["received_datagrams"], figures["lost_datagrams"]) == (500, 501)
    assert figures["lost_datagrams_by_iperf"] == 400, "its count ends with the last one that arrived"
    assert "--reverse" in guest.requests(RunRequest)[0].parameters["argv"]


@pytest.mark.parametrize(
    ("at_guest", "at_peer", "status", "problem"),
    [
        (SENT.replace("1473472", "736000"), RECEIVED, 0, "the check value is wrong: '500 sent' instead of '1000 sent'"),
        (SENT, RECEIVED.replace("1473472", "1474944"), 0, "the check value is wrong: '1002 received of 1001 sent'"),
        (SENT, "", 0, "what iperf printed cannot be read: no line"),
        (SENT, SENT, 0, "what iperf printed cannot be read: the receiving end"),
        (RECEIVED, RECEIVED, 0, "what iperf printed cannot be read: the sending end"),
        ("", "", 1, "iperf failed with exit code 1: read failed"),
    ],
)
def test_books_of_iperf_that_cannot_be(at_guest: str, at_peer: str, status: int, problem: str) -> None:
    measured, _, _ = iperf_trial(at_guest, at_peer, "from-guest", status)
    assert measured.problem is not None
    assert measured.problem.startswith(problem)


def rsync_trial(
    received: str, differing: str, direction: str, room: Room | None = None, **given: Any
) -> tuple[Measurement, Agent, Agent]:
    """The source was made before; ``received``: what is found at the receiving end. ``room``: the peer's disk."""

    def at(end: str) -> Any:
        def answer(request: ExecRequest) -> dict[str, Any]:
            argv = request.argv
            if argv[0] == "find":
                return said("x")
            if "--checksum" in argv:
                return said(differing)
            receives = (end == "guest") == (direction == "to-guest")
            return said(received if receives else RSYNC) if "--dry-run" in argv else said()

        return answer

    serves = {"spawn": {"pid": 1}, "end": ended(by_itself=False)}
    guest, programs = (
        Agent(run={"result": said(RSYNC), "check": ""}, exec=at(end), **serves) for end in ("guest", "peer")
    )
    own = replace(bench(guest, Agent(), programs), peer_files=room)
    return measure(own, "rsync-tree", direction=direction, **given), guest, programs


@pytest.mark.parametrize("direction", ["to-guest", "from-guest"])
def test_rsync_is_right_when_both_ends_have_the_same(direction: str) -> None:
    measured, guest, programs = rsync_trial(RSYNC, "", direction)
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check["value"] == "24 files of 501017 bytes, differing: 0"
    assert measured.result is not None
    assert measured.result["figures"]["throughput"] == pytest.approx(8.016272)
    argv = guest.requests(RunRequest)[0].parameters["argv"]
    ends = argv[3:]
    assert (ends[0] if direction == "to-guest" else ends[1]).startswith("rsync://10.64.0.2:8730/")
    assert [op for op in programs.operations() if op != "exec"] == ["spawn", "end"]


@pytest.mark.parametrize(("direction", "folder"), [("to-guest", "received"), ("from-guest", "sent")])
def test_rsyncs_files_can_be_on_the_guests_disk(direction: str, folder: str) -> None:
    measured, guest, _ = rsync_trial(RSYNC, "", direction, files="disk")
    assert measured.problem is None
    assert measured.result is not None
    assert "state" in measured.result
    ends = guest.requests(RunRequest)[0].parameters["argv"][3:]
    own = ends[1] if direction == "to-guest" else ends[0]
    assert own == f"{DataDirectory().path}/virtoll-rsync-{folder}/"
    needs = [WORKLOADS["rsync-tree"].with_parameters({"files": files}).needs() for files in ("memory", "disk")]
    assert needs[0].data_bytes == 0
    assert needs[1].data_bytes > 6_679_824
    assert needs[1].memory_bytes < needs[0].memory_bytes


class Room:
    """The peer's data directory; ``asked``: what of it, in order."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def empty(self) -> DataDirectory:
        """Emptied."""
        self.asked.append("empty")
        return DataDirectory("/peers")

    def state(self, evict: bool) -> dict[str, Any]:
        """Nothing is in a page cache."""
        self.asked.append(f"state {evict}")
        return {"page_cache": "cold"}


@pytest.mark.parametrize("direction", ["to-guest", "from-guest"])
def test_the_peers_rsync_can_open_the_connection(direction: str) -> None:
    """The guest's is the daemon then; it is timed where it runs, and no clock of a guest's is in the record."""
    measured, guest, programs = rsync_trial(RSYNC, "", direction, client="peer")
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check["value"] == "24 files of 501017 bytes, differing: 0"
    assert guest.requests(RunRequest) == []
    (timed,) = programs.requests(RunRequest)
    assert timed.pause_ns == 0
    ends = timed.parameters["argv"][3:]
    assert (ends[0] if direction == "from-guest" else ends[1]).startswith("rsync://10.64.0.1:8730/")
    assert [op for op in guest.operations() if op != "exec"] == ["spawn", "end"]
    assert measured.clock is not None
    assert (measured.clock["method"], measured.clock["guest"]) == ("channel", None)
    assert measured.result is not None
    assert measured.result["figures"]["throughput"] > 0


@pytest.mark.parametrize("direction", ["to-guest", "from-guest"])
def test_the_peers_files_can_be_on_a_disk(direction: str) -> None:
    room = Room()
    measured, guest, _ = rsync_trial(RSYNC, "", direction, room, peer_files="disk")
    assert measured.problem is None
    assert measured.result is not None
    assert measured.result["peer_state"] == {"page_cache": "cold"}
    assert room.asked == ["empty", "state True", "empty"]
    assert guest.requests(SpawnRequest) == [], "the guest is the client"
    needs = WORKLOADS["rsync-tree"].with_parameters({"peer_files": "disk"}).needs()
    assert needs.peer_data_bytes > 6_679_824
    assert needs.data_bytes == 0


def test_a_peer_without_a_disk_refuses_that_trial_alone() -> None:
    with pytest.raises(GuestCannot, match="the peer has no disk for its files here"):
        rsync_trial(RSYNC, "", "from-guest", peer_files="disk")


def test_no_room_for_the_peers_files_is_told_and_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    class Full(Lab):
        """A machine whose disk is full."""

        def data_volume(self, by: DataBy, size_bytes: int, promised_bytes: int = 0) -> LocalVolume:
            raise GuestError(f"/var/tmp has no room for {size_bytes} bytes as a {by} beside {promised_bytes}")

    class Told(SilentProgress):
        """Says it."""

        def message(self, text: str) -> None:
            print(text)

    assert session._peer_volume(Full("lab"), 4096, Told()) is None
    assert capsys.readouterr().out == "files of the peer: /var/tmp has no room for 4096 bytes as a folder beside 0\n"


@pytest.mark.parametrize("given", [{"client": "peer"}, {"peer_files": "disk"}])
def test_between_guests_the_peer_has_no_part(given: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="is for 'between: peer' alone"):
        WORKLOADS["rsync-file"].with_parameters({"between": "guests", **given})


def test_rsyncs_files_on_a_disk_are_the_guests_alone() -> None:
    with pytest.raises(ValueError, match="disk is for 'between: peer' alone"):
        WORKLOADS["rsync-tree"].with_parameters({"files": "disk", "between": "guests"})


@pytest.mark.parametrize(
    ("received", "differing"),
    [(RSYNC.replace("reg: 24", "reg: 23"), ""), (RSYNC.replace("501,017", "501,016"), ""), (RSYNC, ">fcs....... a\n")],
)
def test_rsync_is_wrong_when_a_file_is_missing_shorter_or_another(received: str, differing: str) -> None:
    measured, _, _ = rsync_trial(received, differing, "to-guest")
    assert measured.check is not None
    assert not measured.check["ok"]
    assert measured.problem is not None
    assert measured.problem.startswith("the check value is wrong")


def test_programs_at_the_other_end_need_an_image_there() -> None:
    for name in ("iperf-udp", "rsync-tree", "rsync-file"):
        with pytest.raises(AgentError, match="on another host") as refused:
            measure(bench(Agent(), Agent()), name)
        assert refused.value.kind == "unsupported"
