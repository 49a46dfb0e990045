"""Each kind of guest that starts here, live: ready, exact, forwarding, timed, parked, killed, gone without a trace."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import re
import signal
import socket
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support import accounting, guests, machine
from tests.support import guest_contract as contract
from tests.support.facts import assert_facts, refused
from tests.support.guest_kinds import ATTACHED, KINDS, SEVERAL, known_kinds
from tests.support.guests import JOBS, SECOND_NS, Connected
from tests.support.present import present

from virtoll.agent.operations.programs import EndRequest, SpawnRequest
from virtoll.agent.operations.session import ClocksRequest, FactsRequest
from virtoll.agent.operations.traffic import Capture, MixPart, TrafficRequest
from virtoll.agent.timekeeper import await_path
from virtoll.errors import AgentError, GuestDied, GuestError
from virtoll.image import image_form, prepare_image
from virtoll.image.cache import file_digest
from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.pipeline.session import RunSession
from virtoll.platforms.qemu.driver import QemuGuest
from virtoll.runfolder.records import duration_ns
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.hops import BEYOND_THE_GUEST, CHATTER_FRAMES, Owner, locate
from virtoll.workloads import WORKLOADS
from virtoll.workloads.forward import Forward, ForwardParameters, stream_through
from virtoll.workloads.router import routing
from virtoll.workloads.traffic import send, unbalanced

INSIDE_LAB = True
pytestmark = [pytest.mark.lab]

QUOTA = 0.2
# A quota is judged over so many periods in which the kernel held the guest back. The kernel hands CPU time out in
# slices of 5 ms and looks at each of its ticks, at most 10 ms apart: by so much a CPU can be ahead of its group.
HELD_BACK_PERIODS = 10
AHEAD_NS = 15_000_000
BUSY = ["/bin/busybox", "sh", "-c", "while :; do :; done"]
_ALL = ("entry", "port-in", "guest-in", "guest-out", "port-out")
# What stands between the generator's interface and the last one, by attachment and whether the guest is a machine: a
# namespace's macvlan is the port and the guest's NIC in one, and what is moved in whole leaves nothing behind.
STATIONS = {
    ("bridge", False): _ALL,
    ("bridge", True): _ALL,
    ("routed", False): _ALL,
    ("routed", True): _ALL,
    ("macvtap", False): ("entry", "guest-in", "guest-out"),
    ("macvtap", True): _ALL,
    ("passthrough", False): ("guest-in",),
    ("veth", False): ("guest-in",),
}


# Its NIC reads by another packet socket than it writes by, and so receives what it sends in the other direction.
HEARS_ITSELF = ("uml-raw",)


def lab_of(item: pytest.Function) -> str:
    """Kinds are spread over labs that run side by side; machines, whose instructions are translated, are apart."""
    kind = known_kinds().get(_kind_of(item))
    if kind is None:
        return "containers"
    if kind.platform.startswith("qemu"):
        return "machines" if not kind.variant else "variants"
    return {"libvirt": "libvirt", "uml": "kernels", "runsc": "kernels"}.get(kind.platform, "containers")


def _kind_of(item: pytest.Function) -> str:
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    return str(chosen.get("live"))


def is_extended(item: pytest.Function) -> bool:
    """What CI leaves out: kinds that say so, QEMU's machines that differ in one device, which those of ``SEVERAL`` have
    beside others, and of the frames all but those that are every shape at once, unless the kind is in ``EACH_SHAPE``.
    """
    chosen = item.callspec.params if hasattr(item, "callspec") else {}
    name = _kind_of(item)
    kind = known_kinds().get(name)
    if kind is None:
        return False
    in_several = kind.platform == "qemu-tcg" and kind.variant and name not in SEVERAL
    shape = chosen.get("wanted")
    forwards_alike = name == "libvirt" and shape is not None  # by a tap, as the machine of the same kernel does
    return kind.extended or in_several or forwards_alike or (name not in EACH_SHAPE and shape in SHAPES[:-1])


EACH_SHAPE = ("native", "netns", "uml-raw", "runsc-systrap")
"""No driver of a platform here knows a frame's shape: kernels forward it as one agent tells them, or refuse it."""


ALL = (*KINDS, *ATTACHED, *SEVERAL)
ON_ITS_OWN = [name for name, kind in KINDS.items() if not kind.variant]
WITHOUT_ITS_MONITOR = "qemu-tcg-new"
"""The kind whose guest ends in the test that takes its monitor away."""


def on(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """One test for each of these kinds, with the guest that all tests of its kind share."""
    return pytest.mark.parametrize("live", list(kinds), indirect=True, scope="module")


on_every_attachment = on(ALL)
on_machines = on(name for name in ON_ITS_OWN if KINDS[name].slow)
"""The frames of others are forwarded by the host's kernel or a program that cannot be stopped in between."""
on_every_kernel = on(name for name in ON_ITS_OWN if name != "libvirt")
"""The agent's own work is the same in two machines of one emulator that boot one kernel."""


@pytest.fixture(scope="module", params=[*KINDS, *SEVERAL])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """One guest for all tests of its kind; the last test ends it."""
    with guests.running(request.param, run_session) as started:
        yield started


@contract.checks(contract.EVERYWHERE)
@on_every_attachment
def test_each_guest_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


@contract.checks(contract.ONCE_A_KIND)
def test_each_kind_of_guest_keeps_the_contract(live: Connected, check: contract.Check) -> None:
    check(live)


@on_machines
def test_a_guest_that_gets_no_cpu_for_a_while_loses_nothing(live: Connected) -> None:
    """Stopped while frames are sent to it, it forwards them when it goes on: what waits in its queues is not lost."""
    with ThreadPoolExecutor(max_workers=1) as beside:
        live.guest.park()
        going_on = beside.submit(_resume_once_sent, live, live.frames_at_port())
        point = _point_without_the_guest(live)
        going_on.result()
    assert unbalanced([point]) is None
    assert point.sources[0].offered_frames > 0
    assert point.sink.per_source[0].lost_frames == 0


@on_machines
def test_a_point_in_which_a_guest_gets_no_cpu_is_no_result(live: Connected) -> None:
    """It looks as if the guest forwarded nothing, which on a busy host no platform is to be blamed for."""
    live.guest.park()
    point = _point_without_the_guest(live)
    live.guest.resume()
    offered = point.sources[0].offered_frames
    assert offered > 0
    assert_facts(unbalanced([point]) or "", offered, "5 s")
    for link in live.bench.network.traffic:
        await_path(live.held.peer, link)


def _point_without_the_guest(live: Connected) -> Point:
    """A few frames to a guest that is not asked for anything: it may be parked."""
    wanted = guests.few_frames()
    stream, tag = stream_through(live.bench, wanted), live.bench.next_tag()
    return send(live.bench.peer, stream, wanted, tag, wanted.point_ns, guests.FEW_PER_SECOND)


def _resume_once_sent(live: Connected, first: int) -> None:
    """Let the guest go on once half of the frames have come as far as its port; ``first`` is what that counted."""
    enough = first + guests.FEW_FRAMES // 2
    wait_until(lambda: live.frames_at_port() >= enough, guests.HANG_SECONDS, "frames at the guest's port")
    live.guest.resume()


@pytest.mark.parametrize("directions", ["one", "both"])
@on_every_attachment
def test_every_frame_is_counted_at_every_hop(live: Connected, directions: str) -> None:
    """Each interface on the way counts the trial's frames, and hardly any other; none is lost, being so few."""
    live.wait_for_quiet()
    wanted = guests.few_frames(frame_size_bytes=500, directions=directions)
    measured = Forward(wanted).point(live.bench, guests.FEW_PER_SECOND)
    assert unbalanced([measured]) is None
    point = measured.to_json()
    assert len(point["sources"]) == wanted.streams
    way = ["generator", *STATIONS[live.kind.attachment, live.kind.slow], "exit", "sink"]
    assert [hop["role"] for hop in point["hops"]] == way * wanted.streams
    offered = [sent["offered_frames"] for sent in point["sources"]]
    for sent, arrived in zip(point["sources"], point["sink"]["per_source"], strict=True):
        forwarded = arrived["forwarded_frames"]
        assert forwarded == sent["offered_frames"] > 0
        for hop in point["hops"]:
            if hop["source"] in (None, sent["source"]):
                counter = "tx_packets" if hop["direction"] == "out" else "rx_packets"
                grown = hop["after"][counter] - hop["before"].get(counter, 0)
                own = sum(offered) - forwarded if hop["role"] == "guest-in" and live.name in HEARS_ITSELF else 0
                own += sent["probe_frames"] or 0 if hop["role"] not in BEYOND_THE_GUEST else 0
                assert forwarded <= grown <= forwarded + own + CHATTER_FRAMES, hop


SHAPES = (
    guests.few_frames(frame_size_bytes=84, ip_version=6),
    guests.few_frames(frame_size_bytes=68, vlan=5),
    guests.few_frames(frame_size_bytes=1518, ip_version=6, vlan=4094),
    guests.few_frames(mix="imix", ip_version=6, vlan=5),
)


@pytest.mark.parametrize("wanted", SHAPES, ids=lambda one: f"IPv{one.ip_version}-vlan{one.vlan}-{one.mix}")
def test_ipv6_and_vlans_are_forwarded_without_loss_or_a_stray_frame(
    live: Connected, wanted: ForwardParameters, tmp_path: Path
) -> None:
    """Without loss; without stray frames once what the kernel says at its start is over; and whole by another parser's
    judgement, of any size."""
    vlans = _host_has_vlans() if live.kind.vlans is None else live.kind.vlans
    if (wanted.vlan and not vlans) or (wanted.ip_version == 6 and not live.kind.ipv6):
        with pytest.raises(AgentError) as raised:
            Forward(wanted).measure(live.bench)
        assert raised.value.kind == "unsupported"
        assert re.search(r"\b(vlan 0|ip_version 4)\b", str(raised.value))
        assert live.held.agent.ask(ClocksRequest()).monotonic_ns
        return
    names = live.bench.hops.guest_names
    with routing(live.bench, wanted):
        wait_until(lambda: _foreign_frames(live, wanted) == 0, guests.HANG_SECONDS, "a point without a stray frame")
        _assert_whole_at_every_size(live, wanted, tmp_path / "arrived.pcap")
        inside = guests.facts(live).interfaces
        assert any(one.name.endswith(f".{wanted.vlan}") for one in inside) == bool(wanted.vlan)
    inside = guests.facts(live).interfaces
    assert {one.name for one in inside} >= set(names.values())
    assert not any(one.name.endswith(f".{wanted.vlan}") for one in inside)


def _foreign_frames(live: Connected, wanted: ForwardParameters) -> int:
    """Of a point without loss. A kernel that has IPv6 on asks for routers and reports groups for its first seconds."""
    point = Forward(wanted).point(live.bench, guests.FEW_PER_SECOND)
    assert point.sources[0].offered_frames > 0
    assert point.sink.per_source[0].lost_frames == 0
    return point.sink.foreign_frames


def _assert_whole_at_every_size(live: Connected, wanted: ForwardParameters, file: Path) -> None:
    """Smallest, largest and 14 sizes between, once each: tshark finds no wrong checksum and no wrong length."""
    largest = 1518  # with FCS, the tag included
    between = random.Random(f"{live.kind} {wanted}").sample(range(wanted.smallest_frame_bytes + 1, largest), 14)
    sizes = [wanted.smallest_frame_bytes, *between, largest]
    request = stream_through(live.bench, wanted).request(wanted, live.bench.next_tag(), 160_000_000, 100.0)
    mix = tuple(MixPart(frame_size_bytes=size, weight=1) for size in sizes)
    request = request.replace(mix=mix, capture=Capture(path=str(file), frames=100))
    sink = live.bench.peer.sink.ask(TrafficRequest.from_record(request)).sink
    checks = [word for name in ("ip", "udp") for word in ("-o", f"{name}.check_checksum:TRUE")]
    fields = [word for name in ("udp.length", "udp.checksum.status", "_ws.malformed") for word in ("-e", name)]
    reported = subprocess.run(
        ["tshark", "-r", str(file), *checks, "-Y", "udp.dstport == 9", "-T", "fields", *fields],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split("\t") for line in reported.splitlines()]
    assert len(rows) == sink.per_source[0].forwarded_frames > 0
    assert {(status, malformed) for _, status, malformed in rows} == {("1", "")}
    # Of link and IP, and the FCS; a test frame's own part is 18 bytes, UDP's header 8.
    headers = wanted.smallest_frame_bytes - 18 - 8
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
    point = Forward(ForwardParameters(point_milliseconds=50)).point(live.bench, None)
    losses = locate(point)
    assert sum(loss.frames for loss in losses) == point.sink.per_source[0].lost_frames
    assert Owner.UNLOCATED not in {loss.owner for loss in losses}


@on_every_kernel
@pytest.mark.parametrize("name", [name for name in JOBS if name != "ipc-bandwidth"])
def test_the_jobs_give_right_answers(live: Connected, name: str) -> None:
    contract.computes_right_answers(live, name)


@on_every_kernel
@pytest.mark.parametrize(
    "given", JOBS["ipc-bandwidth"], ids=lambda given: f"{given['channel']}-{given.get('workers', 1)}"
)
def test_bandwidth_is_what_came_by_the_outside_clock(live: Connected, given: dict[str, Any]) -> None:
    """Of all repeats and workers; over TCP it also shows that the guest's loopback interface is up."""
    bench = dataclasses.replace(live.bench, repeats=2)
    measured = guests.measured(WORKLOADS["ipc-bandwidth"].with_parameters(given), lambda: bench)
    result = guests.assert_right(measured)
    moved_bytes = given["size_bytes"] * given.get("workers", 1)
    assert result["received_bytes"] == moved_bytes
    took_ns = present(duration_ns(present(measured.clock)))
    assert result["figures"]["bandwidth"] * took_ns == pytest.approx(2 * moved_bytes * SECOND_NS)


def test_without_a_shell_none_is_started(run_session: RunSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other guests here have busybox, and so the shell that fork-sh starts."""
    monkeypatch.setattr(run_session.site, "image", prepare_image("tiny", kernel=True, offline=True))
    live = guests.start("netns", run_session)
    own = WORKLOADS["kernel-operations"]
    with pytest.raises(AgentError) as raised:
        own.with_parameters({"operation": "fork-sh"}).measure(live.bench)
    assert raised.value.kind == "unsupported"
    assert_facts(str(raised.value), "/bin/sh", "image full")
    live.guest.stop()


@on(ON_ITS_OWN)
def test_parked_it_uses_no_cpu_and_then_goes_on(live: Connected) -> None:
    """While it is parked, another program gets what CPU time the busy guest would have had."""
    live.held.agent.ask(SpawnRequest(name="busy", argv=tuple(BUSY), output="/tmp/busy"))
    _await_cpu_time(live, "the endless loop's CPU time")
    live.guest.park()
    wait_until(lambda: _used_beside(live, 0.05) == 0, guests.HANG_SECONDS, "the stop of every process")
    assert _used_beside(live, 0.3) <= 20_000_000, "a stopped machine's monitor may still look around"
    live.guest.resume()
    _await_cpu_time(live, "CPU time after the guest was continued")
    end = EndRequest(name="busy", timeout_ns=600 * SECOND_NS, limit_bytes=0)
    live.held.agent.ask(end, guests.HANG_SECONDS)
    assert live.held.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns


def _await_cpu_time(live: Connected, awaited: str) -> None:
    """More than what a guest uses that does nothing while its processes are looked through."""
    begun_ns = live.cpu_time_ns()
    wait_until(lambda: live.cpu_time_ns() > begun_ns + 50_000_000, guests.HANG_SECONDS, awaited)


def _used_beside(live: Connected, cpu_seconds: float) -> int:
    """CPU time in ns that the guest uses while this process uses so much on the guest's own CPU."""
    pids = live.pids()
    begun_ns = accounting.cpu_time_ns(pids)
    accounting.work_beside(live.wanted.cpus, cpu_seconds)
    return accounting.cpu_time_ns(pids) - begun_ns


@pytest.fixture(scope="module")
def groups(live: Connected) -> list[Path]:
    """The cgroup folders of the only guest of its kind, before there is a second one."""
    del live
    return _cgroups()


@pytest.fixture(scope="module")
def limited(live: Connected, groups: list[Path], run_session: RunSession) -> Iterator[Connected]:
    """A second guest beside the first of its kind, with a fifth of a CPU; a test kills it."""
    del groups
    wanted = guests.request(live.name, cpu_quota=QUOTA)
    with guests.running(live.name, run_session, wanted) as second:
        for one in (live, second):
            guests.assert_forwards(one)
        yield second


@pytest.mark.root
@on(ON_ITS_OWN)
def test_two_run_at_once_and_a_quota_bites(limited: Connected) -> None:
    """Both forward (see the fixture); the second, busy, is held back by the kernel at its fifth of a CPU.

    By the kernel's own count of periods: in each it gets its quota and no more, whoever else is on the CPU.
    """
    limited.guest.agent.ask(SpawnRequest(name="busy", argv=tuple(BUSY), output="/tmp/busy"))
    group = accounting.quota_group(limited.pids())
    assert group.quota_ns == QUOTA * group.period_ns
    group.prefer()
    begun = group.read()
    enough = begun.throttled_periods + HELD_BACK_PERIODS
    wait_until(lambda: group.read().throttled_periods >= enough, guests.HANG_SECONDS, "being held back by its quota")
    now = group.read()
    ahead_ns = AHEAD_NS * (os.cpu_count() or 1)
    used_ns = now.used_ns - begun.used_ns
    assert used_ns <= group.quota_ns * (now.periods - begun.periods + 1) + ahead_ns
    assert used_ns >= group.quota_ns * (now.throttled_periods - begun.throttled_periods - 1) - ahead_ns


@on(ON_ITS_OWN)
def test_killed_it_is_noticed_and_leaves_nothing(limited: Connected, groups: list[Path]) -> None:
    family = limited.processes()
    victim = limited.agent_process()
    os.kill(victim.pid, signal.SIGKILL)
    # User-mode Linux dies with its parent, which is killed here and may have to wait for a CPU before it ends.
    wait_until(lambda: not victim.alive, guests.HANG_SECONDS, "the end of what was killed")
    guests.assert_found_dead(limited)
    with contextlib.suppress(GuestError):
        limited.guest.resume()
    assert "console.txt" in limited.guest.evidence()
    limited.guest.stop()
    _assert_gone(limited, family, groups)


@on(name for name in ON_ITS_OWN if not KINDS[name].slow)
def test_another_in_its_place_has_its_own_memory(
    limited: Connected, groups: list[Path], run_session: RunSession
) -> None:
    """No more than it was given, in groups of the same names."""
    limited.guest.stop()
    again = guests.request(limited.name)
    again = dataclasses.replace(again, name=limited.wanted.name, network=limited.wanted.network)
    next_one = guests.start(limited.name, run_session, again)
    assert next_one.guest.agent.ask(ClocksRequest()).monotonic_ns
    family = next_one.processes()
    if next_one.bounded:
        _assert_memory_over_the_limit_is_not_had(next_one)
    next_one.guest.stop()
    _assert_gone(next_one, family, groups)


@on_machines
def test_a_machine_has_its_own_memory_and_outlives_a_job_that_wants_more(live: Connected) -> None:
    _assert_memory_over_the_limit_is_not_had(live)
    assert live.guest.agent.ask(ClocksRequest(), guests.HANG_SECONDS).monotonic_ns


def _assert_memory_over_the_limit_is_not_had(live: Connected) -> None:
    """Twice the memory it was given: the job ends with a reason, or the guest dies, and never an answer."""
    parameters = {"size_bytes": 2 * guests.MEMORY_BYTES}
    with pytest.raises(GuestError) as raised:
        live.bench.timekeeper.time_job("masr", parameters, guests.HANG_SECONDS)
    assert str(raised.value)
    assert f"{guests.HANG_SECONDS:g} s" not in str(raised.value)


@on([WITHOUT_ITS_MONITOR])
def test_a_root_on_a_disk_is_a_copy_of_the_images_own(live: Connected) -> None:
    """It can be written to, and the image's own never is."""
    script = "cat /proc/mounts; echo written > /file && sync && cat /file"
    *mounts, written = guests.output_of(live.guest.agent, "/bin/busybox", "sh", "-c", script).splitlines()
    assert ["/dev/vda", "/", "ext4"] in [line.split()[:3] for line in mounts]
    assert written == "written"
    form = image_form(live.site.image, "ext4")
    assert f"sha256:{file_digest(form.file)}" == form.digest


@on([WITHOUT_ITS_MONITOR])
def test_a_machine_whose_monitor_is_gone_is_cleared_away_all_the_same(live: Connected) -> None:
    """As after a kill whose victim is not dead yet: nothing can be asked of it, and its links must still go."""
    family = live.processes()
    assert isinstance(live.guest, QemuGuest)
    present(live.guest.monitor).connection.shutdown(socket.SHUT_RDWR)
    with refused("'stop'", error=GuestDied):
        live.guest.park()
    live.guest.stop()
    _assert_gone(live, family)


@pytest.mark.parametrize("live", [name for name in ALL if name != WITHOUT_ITS_MONITOR], indirect=True, scope="module")
def test_stopped_it_leaves_nothing(live: Connected, groups: list[Path]) -> None:
    family = live.processes()
    others = [one for one in _cgroups() if one not in groups]
    assert family.processes
    assert bool(groups) == live.grouped
    live.guest.stop()
    _assert_gone(live, family, others)
    live.guest.stop()


def _cgroups() -> list[Path]:
    found = residue.cgroup_folders(os.environ["VIRTOLL_LAB"])
    return sorted(below for folder in found for below in folder.iterdir() if below.is_dir())


def _assert_gone(live: Connected, family: machine.Family, others: Sequence[Path] = ()) -> None:
    """Its processes, its interfaces on both sides, its routers, its cgroup; there remain the groups of ``others``."""
    family.await_end()
    here = machine.interfaces()
    beyond = {one.name for one in live.held.peer.ask(FactsRequest()).interfaces}
    for link in live.bench.network.links:
        assert not here & {link.lab_interface, link.port_interface, link.outer_interface, link.bridge}
        assert link.peer_interface not in beyond
    assert live.site.network.endpoint_interfaces(live.bench.network) == {}
    assert _hosts_agents() == 1, "the one that reads the lab's counters"
    assert _cgroups() == list(others)


def _hosts_agents() -> int:
    """Agents below this process that stand for the host: the lab's own, and those of routers."""
    found = (one.argv for one in machine.family(os.getpid()).processes)
    return sum("host" in argv and argv[0].endswith("virtoll-agent") for argv in found)
