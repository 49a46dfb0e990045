"""Each kind of guest that starts here, live: ready, exact, forwarding, timed, parked, killed, gone without a trace."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import hashlib
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import TypeAdapter
from tests.support import guests, machine
from tests.support.guests import KINDS, Connected

from virtoll.errors import GuestDied, GuestError
from virtoll.fleet import mismatches
from virtoll.ground import Ground
from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.platforms.qemu import QemuGuest
from virtoll.points import Point
from virtoll.stats.hops import CHATTER_FRAMES, Owner, locate
from virtoll.timekeeper import Timekeeper
from virtoll.workloads import WORKLOADS
from virtoll.workloads.forward import Forward, ForwardParameters

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

SECOND_NS = 1_000_000_000
QUOTA = 0.2


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    with guests.ground() as made:
        yield made


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


def test_it_is_ready_and_says_what_it_is(live: Connected) -> None:
    assert live.guest.spawned_monotonic_ns < live.guest.ready_monotonic_ns <= time.monotonic_ns()
    facts = live.guest.agent.call("facts")
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
    assert live.guest.attachment == live.kind.attachment


def test_data_goes_in_and_comes_back_byte_for_byte(live: Connected) -> None:
    data = os.urandom(2**17 if live.kind.slow else 2**20)
    answer = live.guest.agent.call(
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


def test_every_frame_is_counted_at_every_hop(live: Connected) -> None:
    """Without loss each interface on the way counts the trial's frames, and hardly any other."""
    wanted = ForwardParameters(frame_size_bytes=500, point_milliseconds=200)
    point = Forward()._point(live.bench, wanted, 1000.0)
    if point["hops"] is None:
        pytest.skip("the agent was built before 'counters'")
    roles = [hop["role"] for hop in point["hops"]]
    inner = [] if live.kind.platform.startswith("native") else ["entry", "port-in"]
    outer = [] if live.kind.platform.startswith("native") else ["guest-out", "port-out"]
    assert roles == ["generator", *inner, "guest-in", *outer, "exit", "sink"]
    forwarded = point["sink"]["per_source"][0]["forwarded_frames"]
    assert forwarded == point["sources"][0]["offered_frames"] > 0
    for hop in point["hops"]:
        counter = "tx_packets" if hop["direction"] == "out" else "rx_packets"
        grown = hop["after"][counter] - hop["before"].get(counter, 0)
        assert forwarded <= grown <= forwarded + CHATTER_FRAMES, hop["role"]


def test_a_guest_that_is_overrun_loses_frames_where_its_counters_say(live: Connected) -> None:
    """Flat out: whatever is lost is located, to the frame."""
    point = Forward()._point(live.bench, ForwardParameters(point_milliseconds=200), None)
    if point["hops"] is None:
        pytest.skip("the agent was built before 'counters'")
    read = TypeAdapter(Point).validate_python(point)
    losses = locate(read)
    assert sum(loss.frames for loss in losses) == read.sink.per_source[0].lost_frames
    assert Owner.UNLOCATED not in {loss.owner for loss in losses}


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
    keeper = Timekeeper(live.guest.agent, live.guest.peer, None, "", 0)
    timed = keeper.time_job("idle", {"duration_ns": 50_000_000}, 60)
    assert timed.problem is None
    assert timed.clock["method"] == "channel"
    assert timed.clock["marks"]["end_ns"] > timed.clock["marks"]["start_ns"]
    assert timed.clock["error_bound_ns"] > 0


@pytest.mark.parametrize("name", ["superpi", "masr", "forkwait"])
def test_the_jobs_give_right_answers(live: Connected, name: str) -> None:
    skip_variant(live)
    sizes = {"superpi": {"digits": 2000}, "masr": {"size_bytes": 2**20}, "forkwait": {"processes": 23}}
    model = WORKLOADS[name].parameter_model.model_validate(sizes[name])
    measured = WORKLOADS[name].measure(live.bench, model)
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check["ok"]


def test_parked_it_uses_no_cpu_and_then_goes_on(live: Connected) -> None:
    skip_variant(live)
    digits = 20_000 if live.kind.slow else 400_000
    live.guest.agent.post("run", job="superpi", parameters={"digits": digits}, marks=None)
    started = live.cpu_ticks()
    wait_until(lambda: live.cpu_ticks() > started, 60, "the job's first tick")
    live.guest.park()
    before = _settled(live)
    time.sleep(0.3)
    assert live.cpu_ticks() - before <= 1, "a stopped machine's monitor may still take a tick"
    live.guest.resume()
    wait_until(lambda: live.cpu_ticks() > before + 1, 60, "another tick after the guest was continued")
    assert live.guest.agent.call("clocks", deadline_seconds=120)


def _settled(live: Connected) -> int:
    """CPU ticks once the stop has reached every process."""
    for _ in range(100):
        before = live.cpu_ticks()
        time.sleep(0.02)
        if live.cpu_ticks() == before:
            break
    return before


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
    wait_until(lambda: not any(process.alive for process in family.processes), 30, "the end of its processes")
    names = {line.partition(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:]}
    own = {name for link in live.bench.network.links for name in (link.lab_interface, link.port_interface, link.bridge)}
    assert not names & own
    assert _cgroups() == []
