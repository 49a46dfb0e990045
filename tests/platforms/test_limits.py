"""Limits of a guest's own on real guests: what the kernel's files hold, a quota that bites, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import accounting, guests
from tests.support.facts import assert_facts, refused
from tests.support.guest_kinds import Kind, added
from tests.support.guests import Connected

from virtoll.agent.operations.programs import SpawnRequest
from virtoll.errors import GuestError
from virtoll.host.guest_usage import view_of_host
from virtoll.lab import cgroups
from virtoll.lab.cgroups import Group, Layout, Limits
from virtoll.lab.disks import number_of_disk
from virtoll.lab.inside import Lab, wait_until
from virtoll.pipeline import probe_cache
from virtoll.pipeline.guest_check import compare
from virtoll.pipeline.session import RunSession
from virtoll.platforms import platform_of
from virtoll.platforms.host import Site
from virtoll.platforms.limits import Limited

INSIDE_LAB = "guests"
pytestmark = [pytest.mark.lab, pytest.mark.root]


def has_one_disk() -> bool:
    """Whether guests' data is on one disk whose rate can be limited: in a container it often is on none."""
    try:
        number_of_disk()
    except GuestError:
        return False
    return "io" in cgroups.detect().controllers


OWN: dict[str, Any] = {"cpu_max": 0.25, "cpu_weight": 50, "memory_max": "128MiB"} | (
    {"io_max": "8MiB"} if has_one_disk() else {}
)
BUSY = ["/bin/busybox", "sh", "-c", "while :; do :; done"]
REAL_MAKE_GROUP = cgroups.make_group


RUNTIMES = {"oci": ("oci", "crun" if cgroups.detect().version == "v2" else "runc"), "podman-crun": ("podman", "crun")}
PLAIN = ("native", "netns", "runc", "crun", "runsc", "nspawn", "lxc", "podman", "docker")
LIMITED: dict[str, Kind] = {
    **{f"{name}-limited": Kind(name, OWN, grouped=True) for name in PLAIN},
    **{
        f"{name}-limited": Kind(platform, {**OWN, "runtime": runtime}, grouped=True)
        for name, (platform, runtime) in RUNTIMES.items()
    },
}


@pytest.fixture(autouse=True, scope="module")
def known() -> Iterator[None]:
    with added(LIMITED):
        yield


@pytest.fixture(params=list(LIMITED))
def live(request: pytest.FixtureRequest, run_session: RunSession) -> Iterator[Connected]:
    with guests.running(request.param, run_session) as started:
        yield started


def disk_number() -> str:
    """The disk under /var/tmp by its device node, as mount says it, and not as Virtoll finds it."""
    on = Path("/var/tmp").stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(on)}:{os.minor(on)}").resolve()
    return (place if not (place / "partition").exists() else place.parent).joinpath("dev").read_text().strip()


def expected() -> dict[str, str]:
    """What files of the guest's group hold, by controller and file."""
    disk, memory = disk_number() if "io_max" in OWN else None, str(128 * 2**20)
    if cgroups.detect().version == "v2":
        held = {"cpu.max": "25000 100000", "cpu.weight": "50", "memory.max": memory}
        rates = {"io.max": f"{disk} rbps=8388608 wbps=8388608 riops=max wiops=max"}
    else:
        held = {"cpu.cfs_quota_us": "25000", "cpu.cfs_period_us": "100000", "cpu.shares": "512"}
        held["memory.limit_in_bytes"] = memory
        rates = {f"blkio.throttle.{way}_bps_device": f"{disk} 8388608" for way in ("read", "write")}
    return held | (rates if disk else {})


def group_of(live: Connected, file: str) -> Path:
    """The folder directly below the lab's in the hierarchy of a file's controller, of the guest's agent."""
    controller, lab = file.partition(".")[0], live.site.this_machine.cgroup
    assert lab is not None
    unified = "" if cgroups.detect().version == "v2" else controller
    members = live.agent_process().pid
    for line in Path(f"/proc/{members}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if unified in names.split(",") and f"/{lab}/" in path:
            return Path("/sys/fs/cgroup") / unified / lab / path.partition(f"/{lab}/")[2].partition("/")[0]
    raise LookupError(f"no group below the lab's for {controller}")


def test_the_kernel_holds_what_was_asked_and_a_busy_loop_is_held_back(live: Connected) -> None:
    wanted = expected()
    assert {file: (group_of(live, file) / file).read_text().strip() for file in wanted} == wanted
    assert live.guest.limits_held == wanted
    own, host = live.wanted.own, view_of_host(live.guest.host_processes())
    assert (live.wanted.memory_bytes, live.wanted.cpu_quota, own.cpu_weight) == (128 * 2**20, 0.25, 50)
    assert (host.limits.memory_bytes, host.limits.cpu_quota) == (128 * 2**20, 0.25)
    assert [one.text for one in compare(live.wanted, guests.facts(live), host) if one.fatal] == []
    live.guest.agent.ask(SpawnRequest(name="busy", argv=tuple(BUSY), output="/tmp/busy"))
    group = accounting.quota_group(live.pids())
    group.prefer()  # what its weight was is compared above
    wait_until(lambda: group.read().throttled_periods > 0, guests.HANG_SECONDS, "being held back by its quota")


def test_the_host_itself_is_held_with_its_page_cache(run_session: RunSession) -> None:
    """A program that holds 1 MiB meets the limit by the pages of the file that it writes, by the kernel's own count."""
    small = Kind("native", {"memory_max": "64MiB"}, grouped=True)
    with (
        added({"native-small": small}),
        guests.running("native-small", run_session, data_bytes=256 * 2**20) as live,
    ):
        path = live.emptied().data.path
        write = ("/bin/busybox", "dd", "if=/dev/zero", f"of={path}/file", "bs=1048576", "count=128")
        live.guest.agent.ask(SpawnRequest(name="writer", argv=write, output="/tmp/writer"))
        v2 = cgroups.detect().version == "v2"
        count = group_of(live, "memory.x") / ("memory.events" if v2 else "memory.failcnt")

        def met() -> bool:
            words = count.read_text().split()
            return int(dict(itertools.pairwise(words))["max"] if v2 else words[0]) > 0

        wait_until(met, guests.HANG_SECONDS, "a limit that is met by the page cache")


def test_the_host_without_a_limit_is_in_no_group(run_session: RunSession) -> None:
    with guests.running("native", run_session) as live:
        assert live.guest.limits_held == {}
        with pytest.raises(LookupError):
            group_of(live, "memory.x")


def test_a_limit_that_the_kernel_does_not_hold_ends_the_start(
    run_session: RunSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(lab: str, name: str, limits: Limits, layout: Layout | None = None) -> Group:
        return REAL_MAKE_GROUP(lab, name, dataclasses.replace(limits, cpu_weight=None), layout)

    monkeypatch.setattr(cgroups, "make_group", forgetful)
    wanted = guests.request("netns-limited")
    (file, weight), *_ = [(file, held) for file, held in expected().items() if file in ("cpu.weight", "cpu.shares")]
    with refused(wanted.name, file, f"'{weight}'", error=GuestError):
        guests.start("netns-limited", run_session, wanted)


@pytest.mark.parametrize("key", list(OWN))
def test_what_this_host_cannot_limit_is_refused_with_the_key(
    site: Site, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    choice = dataclasses.replace(
        guests.choice("netns"), parameters=type(guests.choice("netns").parameters).model_validate({key: OWN[key]})
    )
    assert isinstance(choice.parameters, Limited)
    assert choice.parameters.refusal(site) is None
    controller = {"cpu_max": "cpu", "cpu_weight": "cpu", "memory_max": "memory", "io_max": "io"}[key]
    layout = cgroups.detect()
    fewer = {name: root for name, root in layout.controllers.items() if name != controller}
    with monkeypatch.context() as patch:
        patch.setattr(cgroups, "detect", lambda: dataclasses.replace(layout, controllers=fewer))
        found = probe_cache.probe(platform_of(choice), choice, site)
    assert not found.available
    assert_facts(found.reason or "", key, f"'{controller}'")
    monkeypatch.setattr(Lab, "is_root", False)
    found = probe_cache.probe(platform_of(choice), choice, site)
    assert not found.available
    assert_facts(found.reason or "", key, "root")


def test_a_disk_that_is_not_one_is_refused(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> str:
        raise GuestError("/var/tmp: device 0:42")

    monkeypatch.setattr("virtoll.platforms.limits.number_of_disk", none)
    assert_facts(Limited.model_validate({"io_max": "1MiB"}).refusal(site) or "", "io_max", "/var/tmp: device 0:42")
