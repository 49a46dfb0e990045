"""Each kind of guest that starts here, live: ready, exact, forwarding, timed, parked, killed, gone without a trace."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from tests.support import guests, machine
from tests.support.guests import ATTACHED, KINDS, Connected, known_kinds

from virtoll.errors import AgentError, GuestDied, GuestError
from virtoll.ground import Ground
from virtoll.image import prepare_image
from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.likeness import mismatches
from virtoll.platforms.qemu import QemuGuest
from virtoll.points import Point
from virtoll.stats.hops import CHATTER_FRAMES, Owner, locate
from virtoll.timekeeper import Timekeeper
from virtoll.workloads import WORKLOADS, kernel
from virtoll.workloads.forward import Forward, ForwardParameters, _stream
from virtoll.workloads.router import routing
from virtoll.workloads.traffic import FrameParameters, Lane, Stream, send, unbalanced

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

SECOND_NS = 1_000_000_000
QUOTA = 0.2
# A kernel that has had IPv6 on from its start still asks for routers and reports groups for some seconds.
QUIET_TRIES = 40
_ALL = ("entry", "port-in", "guest-in", "guest-out", "port-out")
# What stands between the generator's interface and the last one, by attachment and whether the guest is a machine: a
# namespace's macvlan is the port and the guest's NIC in one, and what is moved in whole leaves nothing behind.
STATIONS = {
    ("bridge", False): _ALL, ("bridge", True): _ALL, ("routed", False): _ALL, ("routed", True): _ALL,
    ("macvtap", False): ("entry", "guest-in", "guest-out"), ("macvtap", True): _ALL,
    ("passthrough", False): ("guest-in",), ("veth", False): ("guest-in",),
}  # fmt: skip


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with guests.ground() as made:
        yield made


def is_extended(item: pytest.Function) -> bool:
    """What CI leaves out: kinds that say so, and of a variant's frames all but those that are every shape at once."""
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    kind = known_kinds().get(str(chosen.get("live") or chosen.get("limited") or chosen.get("name")))
    return kind is not None and (kind.extended or (kind.variant and chosen.get("wanted") in SHAPES[:-1]))


on_every_attachment = pytest.mark.parametrize("live", [*KINDS, *ATTACHED], indirect=True, scope="module")


@pytest.fixture(scope="module", params=list(KINDS))
def live(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Connected]:
    """One guest for all tests of its kind; the last test ends it."""
    started = guests.start(request.param, ground)
    yield started
    started.guest.stop()


def skip_variant(live: Connected) -> None:
    """A kind that differs from another in a device alone does not do the rest again."""
    if live.kind.variant:
        pytest.skip("tried with the kind that it is a variant of")


@on_every_attachment
def test_it_is_ready_and_says_what_it_is(live: Connected) -> None:
    assert live.held.spawned_monotonic_ns < live.held.ready_monotonic_ns <= time.monotonic_ns()
    facts = live.held.agent.call("facts")
    assert facts["agent_sha256"] == live.site.image.agent_sha256
    assert facts["cpus_online"] >= 1
    assert len(facts["interfaces"]) >= 3
    assert facts["sysctls"]["net.ipv4.ip_forward"] == "1"
    image_kernel = live.site.image.kernel.package.removeprefix("linux-image-").removesuffix("-unsigned")
    expected = {"image": image_kernel, "host": os.uname().release}.get(live.kind.kernel)
    assert facts["kernel_release"] == expected or (expected is None and facts["kernel_release"] != os.uname().release)
    unlike = [text for text in mismatches(live.wanted, facts) if live.kind.bounded or not text.startswith("memory")]
    assert unlike == []
    assert live.kind.root in (None, facts["root_filesystem"])
    assert live.held.attachment == live.kind.attachment


def test_data_goes_in_and_comes_back_byte_for_byte(live: Connected) -> None:
    data = os.urandom(2**12 if live.kind.serial else 2**17 if live.kind.slow else 2**20)
    answer = live.held.agent.call(
        "exec",
        deadline_seconds=120,
        argv=["/bin/busybox", "cat"],
        env=None,
        directory=None,
        stdin=base64.b64encode(data).decode(),
        timeout_ns=100 * SECOND_NS,
        limit_bytes=2**21,
    )
    assert (answer["status"], answer["timed_out"], answer["truncated"]) == (0, False, False)
    assert hashlib.sha256(base64.b64decode(answer["stdout"])).digest() == hashlib.sha256(data).digest()


@on_every_attachment
def test_a_low_rate_is_forwarded_without_loss_and_the_books_balance(live: Connected) -> None:
    """The books balance always; without loss at least once in five times, because this machine has other users."""
    for size in (64, 1500):
        wanted = ForwardParameters(frame_size_bytes=size, point_milliseconds=200)
        lost: list[int] = []
        while len(lost) < 5 and 0 not in lost:
            point = Forward()._point(live.bench, wanted, 500.0)
            source, sink = point["sources"][0], point["sink"]["per_source"][0]
            assert source["intended_frames"] == 100
            assert source["offered_frames"] + source["unsent_frames"] == source["intended_frames"]
            assert sink["forwarded_frames"] + sink["lost_frames"] == source["offered_frames"]
            assert source["offered_frames"] > 0
            assert sink["duplicate_frames"] == sink["reordered_frames"] == 0
            assert point["sink"]["drained"]
            lost.append(sink["lost_frames"])
        assert 0 in lost, lost


@on_every_attachment
def test_it_forwards_the_other_way_as_well(live: Connected) -> None:
    """From the sink's link to the source's, as ordinary frames: only links of sources take redirected ones."""
    source, sink = live.bench.network.sources[0], live.bench.network.sink
    lane = Lane(sink.peer_interface, sink.peer_mac, sink.peer_next_hop_mac, sink.peer_address, source.peer_address)
    stream = Stream((lane,), (source.peer_interface,), live.bench.generator_cpu, live.bench.sink_cpu)
    wanted = FrameParameters(frame_size_bytes=64, backend="af-packet")
    lost: list[int] = []
    while len(lost) < 5 and 0 not in lost:
        point = send(live.bench.peer, stream, wanted, live.bench.next_tag(), SECOND_NS // 5, 500.0, histograms=False)
        assert unbalanced([point]) is None
        assert point["sources"][0]["offered_frames"] > 0
        lost.append(point["sink"]["per_source"][0]["lost_frames"])
    assert 0 in lost, lost


@on_every_attachment
def test_every_frame_is_counted_at_every_hop(live: Connected) -> None:
    """Without loss each interface on the way counts the trial's frames, and hardly any other.

    Without loss at least once in five times, because this machine has other users.
    """
    wanted = ForwardParameters(frame_size_bytes=500, point_milliseconds=200)
    for _ in range(5):
        point = Forward()._point(live.bench, wanted, 1000.0)
        if point["sink"]["per_source"][0]["lost_frames"] == 0:
            break
    if point["hops"] is None:
        pytest.skip("the agent was built before 'counters'")
    roles = [hop["role"] for hop in point["hops"]]
    assert roles == ["generator", *STATIONS[live.kind.attachment, live.kind.slow], "exit", "sink"]
    forwarded = point["sink"]["per_source"][0]["forwarded_frames"]
    assert forwarded == point["sources"][0]["offered_frames"] > 0
    for hop in point["hops"]:
        counter = "tx_packets" if hop["direction"] == "out" else "rx_packets"
        grown = hop["after"][counter] - hop["before"].get(counter, 0)
        assert forwarded <= grown <= forwarded + CHATTER_FRAMES, hop["role"]


SHAPES = (
    ForwardParameters(frame_size_bytes=84, ip_version=6, point_milliseconds=200),
    ForwardParameters(frame_size_bytes=68, vlan=5, point_milliseconds=200),
    ForwardParameters(frame_size_bytes=1518, ip_version=6, vlan=4094, point_milliseconds=200),
    ForwardParameters(mix="imix", ip_version=6, vlan=5, point_milliseconds=200),
)


@pytest.mark.parametrize("wanted", SHAPES, ids=lambda one: f"IPv{one.ip_version}-vlan{one.vlan}-{one.mix}")
def test_ipv6_and_vlans_are_forwarded_without_loss_or_a_stray_frame(
    live: Connected, wanted: ForwardParameters, tmp_path: Path
) -> None:
    """Without loss and stray frames, once what the kernel says at its start is over; and whole by another parser's
    judgement, of any size."""
    vlans = _host_has_vlans() if live.kind.vlans is None else live.kind.vlans
    if (wanted.vlan and not vlans) or (wanted.ip_version == 6 and not live.kind.ipv6):
        with pytest.raises(AgentError, match=r"its kernel (has|takes) no .*(vlan 0|ip_version 4)") as refused:
            Forward().measure(live.bench, wanted)
        assert refused.value.kind == "unsupported"
        assert live.held.agent.call("clocks")
        return
    names = live.bench.hops.guest_names
    with routing(live.bench, wanted):
        outcomes: list[tuple[int, int]] = []
        while len(outcomes) < QUIET_TRIES and (0, 0) not in outcomes:
            point = Forward()._point(live.bench, wanted, 500.0)
            assert point["sources"][0]["offered_frames"] > 0
            outcomes.append((point["sink"]["per_source"][0]["lost_frames"], point["sink"]["foreign_frames"]))
        assert (0, 0) in outcomes, outcomes
        _assert_whole_at_every_size(live, wanted, tmp_path / "arrived.pcap")
        inside = live.held.agent.call("facts")["interfaces"]
        assert any(one["name"].endswith(f".{wanted.vlan}") for one in inside) == bool(wanted.vlan)
    assert {entry["name"] for entry in live.held.agent.call("facts")["interfaces"]} >= set(names.values())
    assert not any(entry["name"].endswith(f".{wanted.vlan}") for entry in live.held.agent.call("facts")["interfaces"])


def _assert_whole_at_every_size(live: Connected, wanted: ForwardParameters, file: Path) -> None:
    """Smallest, largest and 14 sizes between, once each: tshark finds no wrong checksum and no wrong length."""
    largest = 1518 if wanted.vlan else 1514  # at an MTU of 1500
    between = random.Random(f"{live.kind} {wanted}").sample(range(wanted.smallest_frame_bytes + 1, largest), 14)
    sizes = [wanted.smallest_frame_bytes, *between, largest]
    request = _stream(live.bench, wanted).request(wanted, live.bench.next_tag(), 160_000_000, 100.0)
    request["mix"] = [{"frame_size_bytes": size, "weight": 1} for size in sizes]
    request["capture"] = {"path": str(file), "frames": 100}
    sink = live.bench.peer.sink.call("traffic", **request)["sink"]
    checks = [word for name in ("ip", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
    fields = [word for name in ("udp.length", "udp.checksum.status", "_ws.malformed") for word in ("-e", name)]
    told = subprocess.run(
        ["tshark", "-r", str(file), *checks, "-Y", "udp.dstport == 9", "-T", "fields", *fields],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    rows = [line.split("\t") for line in told.splitlines()]
    assert len(rows) == sink["per_source"][0]["forwarded_frames"] > 0
    assert {(status, malformed) for _, status, malformed in rows} == {("1", "")}
    headers = (
        wanted.smallest_frame_bytes - 22 - 8
    )  # of link and IP; a test frame's own part is 22 bytes, UDP's header 8
    assert {int(length) + headers for length, _, _ in rows} <= set(sizes)


def _host_has_vlans() -> bool:
    """Asked of another program: whether a VLAN can be made here."""
    name = "vlantest"
    add = ["ip", "link", "add", "link", "lo", "name", name, "type", "vlan", "id", "7"]
    made = subprocess.run(add, check=False, capture_output=True, text=True)
    subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    return made.returncode == 0 or "nknown device type" not in made.stderr


@on_every_attachment
def test_a_guest_that_is_overrun_loses_frames_where_its_counters_say(live: Connected) -> None:
    """Flat out: whatever is lost is located, to the frame."""
    point = Forward()._point(live.bench, ForwardParameters(point_milliseconds=200), None)
    if point["hops"] is None:
        pytest.skip("the agent was built before 'counters'")
    read = TypeAdapter(Point).validate_python(point)
    losses = locate(read)
    assert sum(loss.frames for loss in losses) == read.sink.per_source[0].lost_frames
    assert Owner.UNLOCATED not in {loss.owner for loss in losses}


@on_every_attachment
def test_a_job_is_timed_from_outside(live: Connected) -> None:
    """Marks arrive by their own link and by the channel; natively both clocks agree within the error bound."""
    within = 0
    for _ in range(5):
        timed = live.bench.timekeeper.time_job("idle", {"duration_ns": 50_000_000}, 60)
        assert timed.problem is None
        assert timed.check == "idle"
        clock = timed.clock
        assert clock["method"] == "icmp"
        assert 0 < len(clock["path_delay_before_ns"]) <= 10
        assert 0 < len(clock["path_delay_after_ns"]) <= 10
        outside = clock["marks"]["end_ns"] - clock["marks"]["start_ns"] - clock["realtime_step_ns"]
        channel = clock["channel_marks"]["end_ns"] - clock["channel_marks"]["start_ns"]
        guest = clock["guest"]["end_monotonic_ns"] - clock["guest"]["start_monotonic_ns"]
        assert guest >= 50_000_000
        assert outside > 0
        assert channel > 0
        within += abs(outside - guest) <= clock["error_bound_ns"]
    assert within > 0 or not live.kind.platform.startswith("native")


def test_a_job_is_timed_over_the_channel(live: Connected) -> None:
    keeper = Timekeeper(live.held.agent, live.held.peer, None, "", 0)
    timed = keeper.time_job("idle", {"duration_ns": 50_000_000}, 60)
    assert timed.problem is None
    assert timed.clock["method"] == "channel"
    assert timed.clock["marks"]["end_ns"] > timed.clock["marks"]["start_ns"]
    assert timed.clock["error_bound_ns"] > 0


@pytest.mark.parametrize("name", ["superpi", "masr", "forkwait", "stream", "context-switch", "kernel-operations"])
def test_the_jobs_give_right_answers(live: Connected, name: str) -> None:
    skip_variant(live)
    sizes: dict[str, list[dict[str, Any]]] = {
        "superpi": [{"digits": 2000}],
        "masr": [{"size_bytes": 2**20}],
        "forkwait": [{"processes": 23}],
        "stream": [{"elements": 10_000, "rounds": 3}],
        "context-switch": [{"processes": 3, "working_set_bytes": 4096, "switches": 23}],
        "kernel-operations": [{"operation": one, "operations": 23, "batch_operations": 1} for one in kernel.KINDS],
    }
    for given in sizes[name]:
        measured = WORKLOADS[name].measure(live.bench, WORKLOADS[name].parameter_model.model_validate(given))
        assert measured.problem is None, given
        assert measured.check is not None
        assert measured.check["ok"], given


def test_without_a_shell_none_is_started(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other guests here have busybox, and so the shell that fork-sh starts."""
    monkeypatch.setattr(ground.site, "image", prepare_image("tiny", offline=True))
    live = guests.start("netns", ground)
    own = WORKLOADS["kernel-operations"]
    with pytest.raises(AgentError, match="/bin/sh, which is not in this guest: it is in the image full") as refused:
        own.measure(live.bench, own.parameter_model.model_validate({"operation": "fork-sh"}))
    assert refused.value.kind == "unsupported"
    live.guest.stop()


def test_parked_it_uses_no_cpu_and_then_goes_on(live: Connected) -> None:
    skip_variant(live)
    digits = 20_000 if live.kind.slow else 400_000
    live.held.agent.post("run", job="superpi", parameters={"digits": digits}, marks=None)
    started = live.cpu_ticks()
    wait_until(lambda: live.cpu_ticks() > started, 60, "the job's first tick")
    live.guest.park()
    before = _settled(live)
    time.sleep(0.3)
    assert live.cpu_ticks() - before <= 1, "a stopped machine's monitor may still take a tick"
    live.guest.resume()
    wait_until(lambda: live.cpu_ticks() > before + 1, 60, "another tick after the guest was continued")
    assert live.held.agent.call("clocks", deadline_seconds=120)


def _settled(live: Connected) -> int:
    """CPU ticks once the stop has reached every process: on a busy machine one may wait for a CPU to receive it."""
    for _ in range(50):
        before = live.cpu_ticks()
        time.sleep(0.2)
        if live.cpu_ticks() == before:
            break
    return before


@on_every_attachment
def test_stopped_it_leaves_nothing(live: Connected) -> None:
    family = live.processes()
    cgroups = _cgroups()
    assert family.processes
    assert bool(cgroups) == live.kind.grouped
    live.guest.stop()
    _assert_gone(live, family)
    live.guest.stop()


@pytest.fixture(scope="module", params=[name for name, kind in KINDS.items() if not kind.variant])
def limited(request: pytest.FixtureRequest, ground: Ground) -> Iterator[Connected]:
    """A second guest beside the first of its kind, with a fifth of a CPU; the last test kills it."""
    with contextlib.ExitStack() as both:
        beside = guests.start(request.param, ground)
        both.callback(beside.guest.stop)
        second = guests.start(request.param, ground, guests.request(request.param, cpu_quota=QUOTA))
        both.callback(second.guest.stop)
        for one in (beside, second):
            point = Forward()._point(one.bench, ForwardParameters(point_milliseconds=200), 100.0)
            assert point["sink"]["per_source"][0]["forwarded_frames"] > 0
        beside.guest.stop()
        yield second


def test_two_run_at_once_and_a_quota_bites(limited: Connected) -> None:
    """Both forward (see the fixture); the second, busy, gets its fifth of a CPU and not much more."""
    limited.guest.agent.post("run", job="superpi", parameters={"digits": 2_000_000}, marks=None)
    started = limited.cpu_ticks()
    wait_until(lambda: limited.cpu_ticks() > started + 5, 60, "the job's first ticks")
    before, begun = limited.cpu_ticks(), time.monotonic()
    time.sleep(1.5)
    used = (limited.cpu_ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)
    assert QUOTA / 2 < used < QUOTA * 1.3


def test_killed_it_is_noticed_at_once_and_another_starts_in_its_place(limited: Connected, ground: Ground) -> None:
    family = limited.processes()
    os.kill(limited.agent_process().pid, signal.SIGKILL)
    with pytest.raises(GuestDied):
        limited.guest.agent.call("clocks", deadline_seconds=2)
    with contextlib.suppress(GuestError):
        limited.guest.resume()
    assert "console.txt" in limited.guest.evidence()
    limited.guest.stop()
    _assert_gone(limited, family)
    again = guests.request(limited.name)
    again = dataclasses.replace(again, name=limited.wanted.name, network=limited.wanted.network)
    next_one = guests.start(limited.name, ground, again)
    assert next_one.guest.agent.call("clocks")
    family = next_one.processes()
    next_one.guest.stop()
    _assert_gone(next_one, family)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.bounded and not kind.variant])
def test_memory_over_the_limit_is_not_had_and_that_is_said(ground: Ground, name: str) -> None:
    """Twice the memory it was given: the job ends with a reason, or the guest dies, and never an answer."""
    live = guests.start(name, ground)
    family = live.processes()
    parameters = {"size_bytes": 2 * guests.MEMORY_BYTES}
    with pytest.raises(GuestError) as raised:
        live.bench.timekeeper.time_job("masr", parameters, 100)
    assert str(raised.value)
    live.guest.stop()
    _assert_gone(live, family)


def test_a_machine_whose_monitor_is_gone_is_cleared_away_all_the_same(ground: Ground) -> None:
    """As after a kill whose victim is not dead yet: nothing can be asked of it, and its links must still go."""
    doomed = guests.start("qemu-tcg", ground)
    family = doomed.processes()
    assert isinstance(doomed.guest, QemuGuest)
    assert doomed.guest.monitor is not None
    doomed.guest.monitor.connection.shutdown(socket.SHUT_RDWR)
    with pytest.raises(GuestDied, match="its monitor did not take 'stop'"):
        doomed.guest.park()
    doomed.guest.stop()
    _assert_gone(doomed, family)


def _cgroups() -> list[Path]:
    found = residue.cgroup_folders(os.environ["VIRTOLL_LAB"])
    return [below for folder in found for below in folder.iterdir() if below.is_dir()]


def _assert_gone(live: Connected, family: machine.Family) -> None:
    """Its processes, its interfaces on both sides, its routers, its cgroup."""
    wait_until(lambda: not any(process.alive for process in family.processes), 30, "the end of its processes")
    here = {line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}
    beyond = {one["name"] for one in live.held.peer.call("facts")["interfaces"]}
    for link in live.bench.network.links:
        assert not here & {link.lab_interface, link.port_interface, link.outer_interface, link.bridge}
        assert link.peer_interface not in beyond
    assert live.site.require_network().ways(live.bench.network) == {}
    assert _hosts_agents() == 1, "the one that reads the lab's counters"
    assert _cgroups() == []


def _hosts_agents() -> int:
    """Agents below this process that stand for the host: the lab's own, and those of routers."""
    found = (one.argv for one in machine.family(os.getpid()).processes)
    return sum("host" in argv and argv[0].endswith("virtoll-agent") for argv in found)
