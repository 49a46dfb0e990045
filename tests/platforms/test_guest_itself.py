"""Guests weighed and compared with their request, live: what they hold of the host, their disks, CPUs and queues."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import accounting, guests
from tests.support.facts import Fact, assert_facts
from tests.support.guest_kinds import added, machine
from tests.support.guests import Connected
from tests.support.present import present

from virtoll.host.guest_usage import Footprint, cpu_around, read_footprint, view_of_host
from virtoll.image import image_form
from virtoll.image.cache import file_digest
from virtoll.pipeline.guest_check import compare
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.guest_records import HostCpu
from virtoll.stats.guests import used_ns

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab]
MIB = 2**20
# Kernels tell CPU time in microseconds here and there, and a group's of a process that runs as of its last tick.
ROUNDED_NS = 10_000_000


MACHINE = "disk-and-queues"


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with added({MACHINE: machine("qemu-tcg", {"disk": "virtio-blk", "cache": "directsync", "queues": 2})}):
        yield


@pytest.fixture(scope="module", params=["netns-cgroup", "runc", MACHINE])
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    """A guest with half a CPU; the machine has two virtual ones."""
    wanted = guests.request(request.param, cpu_quota=0.5)
    if request.param == MACHINE:
        wanted = replace(wanted, vcpus=2)
    with guests.running(request.param, run_session, wanted) as started:
        yield started


def anonymous_bytes(footprint: Footprint) -> int:
    """What no other guest has a part in: PSS of a file falls when one more maps it, as each QEMU does the kernel."""
    return sum(one.pss_anonymous_bytes or 0 for one in footprint.processes)


@pytest.mark.root
def test_it_holds_memory_of_its_host_and_more_after_it_has_used_some(live: Connected) -> None:
    place, group = live.guest.host_processes(), live.site.this_machine.cgroup
    assert place is not None
    idle = read_footprint(place, group)
    assert {one.pid for one in idle.processes} >= {place.started}
    assert all((one.pss_bytes or 0) > 0 and (one.page_tables_bytes or 0) > 0 for one in idle.processes)
    live.bench.timekeeper.time_job("masr", {"size_bytes": 64 * MIB}, guests.HANG_SECONDS)
    worked = read_footprint(place, group)
    held = present(idle.held_bytes())
    assert held > max(100 * 1024, anonymous_bytes(idle))
    assert worked.held_bytes() is not None
    if live.kind.slow:
        assert anonymous_bytes(idle) > 64 * MIB, "a machine's kernel and its monitor"
        assert anonymous_bytes(worked) - anonymous_bytes(idle) > 32 * MIB, "a machine keeps what its guest has touched"
    assert idle.charged_bytes is not None, "it is in a cgroup below the lab's"
    assert idle.charged_bytes > 0


@pytest.mark.root
def test_its_work_is_found_in_its_processes_cpu_time(live: Connected) -> None:
    """The kernel counts the same CPU time for the guest's group, on its own."""
    place, group = live.guest.host_processes(), accounting.quota_group(live.pids())
    members = [pid for pid in live.pids() if group.folder.name in Path(f"/proc/{pid}/cgroup").read_text()]
    assert members
    parameters = {"digits": 5000 if live.kind.slow else 200_000}
    before = group.read().used_ns
    with cpu_around(place) as busy:
        began = group.read().used_ns
        assert busy is not None
        with live.bench.timekeeper.also(busy.measuring):
            timed = live.bench.timekeeper.time_job("superpi", parameters, guests.HANG_SECONDS)
        ended = group.read().used_ns
    after = group.read().used_ns
    live.bench.timekeeper.time_job("superpi", {"digits": 100}, guests.HANG_SECONDS)
    (span,) = busy.used.measured
    used = sum(
        sign * (one.cpu_ns or 0)
        for reading, sign in ((present(busy.used.before), -1), (present(busy.used.after), 1))
        for one in reading.processes
        if one.pid in members
    )
    assert used > 20_000_000
    assert ended - began - ROUNDED_NS <= used <= after - before + ROUNDED_NS
    inside = present(timed.clock.guest).user_cpu_ns + present(timed.clock.guest).system_cpu_ns
    assert live.kind.slow or used >= inside - ROUNDED_NS, "on the host's own kernel the job's time is the processes'"
    measured = present(used_ns(HostCpu(span.before, span.after)))
    assert 0 < measured <= (used_ns(busy.used) or 0)
    assert live.kind.slow or measured >= inside - ROUNDED_NS


@pytest.mark.root
def test_it_is_what_was_asked_for_and_nothing_else(live: Connected) -> None:
    """Against its own request it has no mismatch that counts; against another one each difference is found."""
    facts, host = guests.facts(live), view_of_host(live.guest.host_processes())
    assert [one for one in compare(live.wanted, facts, host) if one.fatal] == []
    assert host.limits.cpu_quota == 0.5
    changes: list[tuple[dict[str, Any], tuple[Fact, ...]]] = [
        ({"vcpus": live.wanted.vcpus + 1}, ("CPUs", live.wanted.vcpus + 1, live.wanted.vcpus)),
        ({"memory_bytes": 2 * live.wanted.memory_bytes}, ("memory", f"{2 * live.wanted.memory_bytes >> 20} MiB")),
        ({"memory_bytes": live.wanted.memory_bytes // 2}, ("memory", f"{live.wanted.memory_bytes >> 21} MiB")),
        ({"cpu_quota": 0.2}, ("CPU quota", 0.2, 0.5)),
    ]
    for changed, expected in changes:
        (difference,) = [one for one in compare(replace(live.wanted, **changed), facts, host) if one.fatal]
        assert_facts(difference.text, *expected)


def test_its_files_and_its_kernels_tick_are_measured_inside(live: Connected) -> None:
    facts = guests.facts(live)
    assert facts.files_count == len([one for one in live.site.image.root.rglob("*") if not one.is_dir()])
    assert facts.files_sha256 is not None
    assert len(facts.files_sha256) == 64
    assert facts.files_sha256 == _seen.setdefault("files", facts.files_sha256), "one image for all"
    assert facts.scheduler_tick_hz in (100, 250, 300, 1000)
    assert (facts.modules_sha256 is not None) == (live.kind.kernel == "image")
    assert facts.root_filesystem is not None
    if live.kind.kernel == "image":
        assert 0.98 < present(facts.memory_installed_bytes) / live.wanted.memory_bytes <= 1


_seen: dict[str, str] = {}


def said(live: Connected, command: str) -> str:
    """What a command says inside."""
    return guests.output_of(live.guest.agent, "/bin/busybox", "sh", "-c", f"PATH=/bin; {command}")


@pytest.mark.parametrize("live", [MACHINE], indirect=True, scope="module")
def test_a_machine_has_the_disk_cpus_and_queues_that_were_asked_for(live: Connected) -> None:
    """The image's copy is beside its root on a disk, and can be written to; the image's own is never written to."""
    mounts = [line.split() for line in said(live, "cat /proc/mounts").splitlines()]
    assert ["/dev/vda", "/mnt", "ext4"] in [words[:3] for words in mounts]
    assert said(live, "ls /mnt").split() >= ["bin"]
    assert said(live, "echo written > /mnt/file && sync && cat /mnt/file") == "written\n"
    form = image_form(live.site.image, "ext4")
    assert f"sha256:{file_digest(form.file)}" == form.digest
    assert guests.facts(live).cpus_online == 2
    for link in range(len(live.wanted.network.links)):
        queues = said(live, f"ls /sys/class/net/eth{link}/queues").split()
        assert queues == ["rx-0", "rx-1", "tx-0", "tx-1"], "what its driver uses"
    guests.assert_forwards(live)
