"""What every guest does, whatever its platform and host: the checks that several modules of tests share."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import time
from collections.abc import Callable, Sequence

import pytest
from tests.support import guests
from tests.support.guests import JOBS, Connected
from tests.support.present import present

from virtoll.agent.timekeeper import PAUSE_NS, Timekeeper
from virtoll.host.guest_usage import HostView
from virtoll.pipeline.guest_check import compare
from virtoll.platforms.base import DATA_PATH
from virtoll.platforms.containers.guest import NamespacedGuest
from virtoll.runfolder.records import duration_ns
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import Measurement
from virtoll.workloads.forward import Forward
from virtoll.workloads.traffic import unbalanced

Check = Callable[[Connected], None]
MIB = 2**20
ROOM_BYTES = 16 * MIB
"""The size of a data directory."""


def checks(chosen: Sequence[Check]) -> pytest.MarkDecorator:
    """One test for each of these checks, as the parameter ``check``."""
    return pytest.mark.parametrize("check", chosen, ids=lambda check: check.__name__.replace("_", "-"))


def skip_variant(live: Connected) -> None:
    """A kind that differs from another in a device alone does not do the rest again."""
    if live.kind.variant:
        pytest.skip("tried with the kind that it is a variant of")


def is_ready_and_describes_itself(live: Connected) -> None:
    assert live.held.spawned_monotonic_ns < live.held.ready_monotonic_ns <= time.monotonic_ns()
    executed = live.held.executed_monotonic_ns
    assert (executed is not None) == isinstance(live.held, NamespacedGuest), "measured where the agent enters"
    assert executed is None or live.held.spawned_monotonic_ns < executed < live.held.ready_monotonic_ns
    facts = guests.facts(live)
    assert facts.agent_sha256 == live.site.image.agent_sha256
    assert facts.cpus_online
    assert len(facts.interfaces) >= 3
    assert facts.sysctls is not None
    assert facts.sysctls["net.ipv4.ip_forward"] == "1"
    image_kernel = live.site.image.kernel.package.removeprefix("linux-image-").removesuffix("-unsigned")
    expected = {"image": image_kernel, "host": os.uname().release}.get(live.kind.kernel)
    assert facts.kernel_release == expected or (expected is None and facts.kernel_release != os.uname().release)
    unlike = [
        one.text for one in compare(live.wanted, facts, HostView()) if live.bounded or not one.text.startswith("memory")
    ]
    assert unlike == []
    assert live.kind.root in (None, facts.root_filesystem)
    assert live.held.attachment == live.kind.attachment


def returns_data_byte_for_byte(live: Connected) -> None:
    data = os.urandom(2**12 if live.kind.serial else 2**17 if live.kind.slow else 2**20)
    ended = guests.execute(live.held.agent, "/bin/busybox", "cat", stdin=data)
    assert (ended.status, ended.timed_out, ended.truncated) == (0, False, False)
    assert hashlib.sha256(ended.stdout).digest() == hashlib.sha256(data).digest()


def forwards_a_low_rate_without_loss(live: Connected) -> None:
    """Fewer frames than the smallest queue holds, so that none may be lost however slow this machine is."""
    for size in (64, 1500):
        point = Forward(guests.few_frames(frame_size_bytes=size)).point(live.bench, guests.FEW_PER_SECOND)
        source, sink = point.sources[0], point.sink.per_source[0]
        assert source.intended_frames == guests.FEW_FRAMES
        assert source.offered_frames + source.unsent_frames == source.intended_frames
        assert sink.forwarded_frames + sink.lost_frames == source.offered_frames
        assert source.offered_frames > 0
        assert sink.duplicate_frames == sink.reordered_frames == 0
        assert point.sink.drained
        assert sink.lost_frames == 0, size


def forwards_in_both_directions_at_once(live: Connected) -> None:
    point = Forward(guests.few_frames(directions="both")).point(live.bench, guests.FEW_PER_SECOND)
    assert unbalanced([point]) is None
    assert all(sent.offered_frames for sent in point.sources)
    assert [arrived.lost_frames for arrived in point.sink.per_source] == [0, 0]


def is_timed_from_outside(live: Connected) -> None:
    """Marks arrive by their own link and by the channel, each after the edge that it marks.

    Natively the guest's clock is the outside one, so that a mark's stamp lies between its edge and now. The channel's
    two may arrive in one piece, on a host that is busy elsewhere: then the error is as large as the duration.
    """
    idle_ns, timed = guests.timed_idle(live.bench.timekeeper)
    now_ns = time.time_ns()
    assert timed.problem is None
    assert timed.check == "idle"
    clock = timed.clock
    assert clock.method == "icmp"
    assert 0 < len(clock.path_delay_before_ns) <= 10
    assert 0 < len(clock.path_delay_after_ns) <= 10
    assert clock.marks is not None
    assert clock.channel_marks is not None
    own, beside = (marks.end_ns - marks.start_ns for marks in (clock.marks, clock.channel_marks))
    round_trips = clock.path_delay_before_ns + clock.path_delay_after_ns
    if not clock.realtime_step_ns:
        # A guest that a busy host wakes late paused for longer than it was asked to: what is too much is error as well.
        largest_ns = max(*round_trips, abs(own - beside))
        paused = present(clock.guest)
        late_ns = max(0, paused.pause_ns * own // paused.between_marks_ns - PAUSE_NS)
        assert largest_ns <= present(clock.error_estimate_ns) <= largest_ns + late_ns
    assert (duration_ns(clock) or 0) > 0
    assert beside >= 0 or clock.realtime_step_ns
    guest = clock.guest
    assert guest is not None
    assert guest.pause_ns >= PAUSE_NS
    assert guest.between_marks_ns >= guest.pause_ns + idle_ns
    if live.kind.platform.startswith("native"):
        assert guest.start_realtime_ns <= clock.marks.start_ns <= now_ns
        assert guest.end_realtime_ns <= clock.marks.end_ns <= now_ns


def is_timed_over_the_channel(live: Connected) -> None:
    _, timed = guests.timed_idle(Timekeeper(live.held.agent, live.held.peer, None, "", 0))
    assert timed.problem is None
    assert timed.clock.method == "channel"
    assert timed.clock.marks is not None
    assert timed.clock.marks.end_ns > timed.clock.marks.start_ns
    assert (timed.clock.error_estimate_ns or 0) > 0


def computes_right_answers(live: Connected, name: str) -> None:
    """Those that may be repeated between their marks are: a run does so, to have 200 ms on the host."""
    skip_variant(live)
    bench = dataclasses.replace(live.bench, repeats=2 if WORKLOADS[name].repeatable else 1)
    for given in JOBS[name]:
        own = WORKLOADS[name].with_parameters(given)
        guests.assert_right(guests.measured(own, lambda: bench))


def write(live: Connected, name: str, kibibytes: int) -> None:
    """Write a file in the guest, and flush it."""
    words = ("if=/dev/urandom", f"of={DATA_PATH}/{name}", "bs=1024", f"count={kibibytes}", "conv=fsync")
    guests.output_of(live.bench.guest, "/bin/dd", *words)


def zfg(live: Connected) -> Measurement:
    """A small trial of ZFG."""
    workload = WORKLOADS["zfg"].with_parameters({"size_bytes": MIB, "rounds": 2, "dump_bytes": 100_000})
    return guests.measured(workload, live.emptied)


def finds_its_data_directory_empty_and_cold(live: Connected) -> None:
    assert live.data is not None
    room, host = live.data.volume, live.data.volume.file_system
    bench = live.emptied()
    assert bench.data.path == DATA_PATH
    assert bench.data.file_system not in ("", "tmpfs", "rootfs")
    expected = f"the host's disk ({host})" if room.on_disk else f"the host's memory ({host})"
    assert bench.data.reach == expected
    write(live, "first", 300)
    warm = bench.data_state(False)
    assert (warm["files"], warm["file_bytes"], warm["page_cache"]) == (1, 300 * 1024, "warm")
    if room.on_disk:
        cold = bench.data_state(True)
        told = room.resident() is not None
        state = ("cold", 0) if told else ("cold in the guest", None)
        assert (cold["page_cache"], cold["resident_on_host_bytes"]) == state
        assert cold["files"] == 1
    write(live, "second", 5)
    again = live.emptied().data_state(False)
    assert (again["files"], again["file_bytes"], again["resident_in_guest_bytes"] or 0) == (0, 0, 0)
    states = ("cold", "warm on the host", "cold in the guest")
    assert again["page_cache"] in states, "the file system's own blocks may be there"
    assert again["free_bytes"] >= ROOM_BYTES


def runs_zfg_twice(live: Connected) -> None:
    for _ in range(2):
        measured = zfg(live)
        assert measured.problem is None
        assert measured.result is not None
        assert len(measured.result["sync_ns"]) == 2
        assert measured.result["state"]["files"] == 0
        assert 0 < measured.result["figures"]["round_time"] <= present(duration_ns(present(measured.clock))) / 2


EVERYWHERE: tuple[Check, ...] = (is_ready_and_describes_itself, forwards_a_low_rate_without_loss, is_timed_from_outside)
"""What every way to attach a guest keeps."""
ONCE_A_KIND: tuple[Check, ...] = (
    returns_data_byte_for_byte,
    forwards_in_both_directions_at_once,
    is_timed_over_the_channel,
)
OF_DATA: tuple[Check, ...] = (finds_its_data_directory_empty_and_cold, runs_zfg_twice)
"""What a guest with a data directory of ``ROOM_BYTES`` keeps."""
