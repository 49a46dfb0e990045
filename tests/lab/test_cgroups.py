"""Limits by cgroup: the files of v1, v2 and hybrid hosts as trees of their own, and a real group where there is one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.facts import assert_refused, refused

from virtoll.errors import GuestError
from virtoll.image.clone import built_agent
from virtoll.lab import cgroups, residue
from virtoll.lab.cgroups import DiskRate, Limits, charged_memory_bytes, detect, limits_of, make_group, read_back
from virtoll.lab.enter import Enter

LAB = "virtoll-0123456789ab"
V1 = {
    "memory": ["memory.limit_in_bytes", "memory.usage_in_bytes"],
    "cpu": ["cpu.cfs_period_us", "cpu.cfs_quota_us", "cpu.shares"],
    "cpuset": ["cpuset.cpus", "cpuset.mems"],
    "cpuacct": ["cpuacct.usage"],
}
V1_DISKS = ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"]
V2 = ["memory.max", "cpu.max", "cpu.weight", "io.max", "cpuset.cpus", "cpu.stat", "memory.current", "memory.events"]


def kernel_files(folder: Path, names: list[str]) -> None:
    """What the kernel puts into a cgroup folder by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in [*names, "cgroup.procs"]:
        (folder / name).touch()


def v1_host(root: Path, **more: list[str]) -> Path:
    """A v1 tree with the lab's and the guest's folders as the kernel would fill them; ``more`` controllers."""
    for controller, names in {**V1, **more}.items():
        for folder in (root / controller, root / controller / LAB, root / controller / LAB / "guest"):
            kernel_files(folder, names)
    (root / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (root / "cpuset" / "cpuset.mems").write_text("0\n")
    return root


def v2_host(root: Path, controllers: str = "cpuset cpu io memory pids") -> Path:
    """A v2 tree likewise."""
    for folder in (root, root / LAB, root / LAB / "guest"):
        kernel_files(folder, V2)
        (folder / "cgroup.controllers").write_text(controllers + "\n")
        (folder / "cgroup.subtree_control").write_text("")
    return root


def test_a_v1_host_gets_its_own_files(tmp_path: Path) -> None:
    layout = detect(v1_host(tmp_path))
    assert layout.version == "v1"
    group = make_group(LAB, "guest", Limits(2**28, 0.2, (0,)), layout)
    below = {name: tmp_path / name / LAB / "guest" for name in V1}
    assert group.folders == below
    assert (below["memory"] / "memory.limit_in_bytes").read_text() == str(2**28)
    assert (below["cpu"] / "cpu.cfs_quota_us").read_text() == "20000"
    assert (below["cpu"] / "cpu.cfs_period_us").read_text() == "100000"
    assert (below["cpuset"] / "cpuset.cpus").read_text() == "0"
    assert (tmp_path / "cpuset" / LAB / "cpuset.mems").read_text() == "0", "handed down: an empty one takes no process"


def test_a_guest_is_in_every_hierarchy_and_its_managers_groups_go_too(tmp_path: Path) -> None:
    """LXC and systemd-nspawn make groups below the one that they are started in, in each hierarchy."""
    for name in ("systemd", "pids"):
        kernel_files(tmp_path / name, [])
    (tmp_path / "not-a-hierarchy").mkdir()
    (tmp_path / "cpu,cpuacct").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "pids")
    layout = detect(v1_host(tmp_path))
    assert set(layout.others) == {"systemd", "pids"}
    group = make_group(LAB, "guest", Limits(2**28), layout)
    own = tmp_path / "systemd" / LAB / "guest"
    assert group.folders["systemd"] == own
    (own / "payload" / "init").mkdir(parents=True)
    for folder in set(group.folders.values()) - {own}:
        for file in folder.iterdir():
            file.unlink()  # the kernel's own files do not keep a group from being removed
    group.remove()
    assert not own.exists()
    assert not (tmp_path / "pids" / LAB / "guest").exists()
    assert own.parent.exists(), "the lab's own folder is not the guest's to remove"


def test_a_v2_host_hands_its_controllers_on(tmp_path: Path) -> None:
    layout = detect(v2_host(tmp_path))
    assert layout.version == "v2"
    group = make_group(LAB, "guest", Limits(2**28, 1.5, (0, 1)), layout)
    below = tmp_path / LAB / "guest"
    assert set(group.folders.values()) == {below}
    assert (below / "memory.max").read_text() == str(2**28)
    assert (below / "cpu.max").read_text() == "150000 100000"
    assert (below / "cpuset.cpus").read_text() == "0,1"
    assert (tmp_path / "cgroup.subtree_control").read_text().startswith("+")
    (below / "memory.current").write_text("4096\n")
    assert group.memory_bytes() == 4096


def test_a_hybrid_host_uses_the_hierarchy_that_has_the_controller(tmp_path: Path) -> None:
    v1_host(tmp_path)
    v2_host(tmp_path / "unified", "hugetlb")
    layout = detect(tmp_path)
    assert layout.version == "hybrid"
    assert not any(layout.is_v2(controller) for controller in layout.controllers)
    group = make_group(LAB, "guest", Limits(2**28), layout)
    assert group.folders["unified"] == tmp_path / "unified" / LAB / "guest", "a member there, and not limited"
    assert (group.folders["unified"] / "memory.max").read_text() == ""


def test_a_limit_that_cannot_be_set_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    layout = detect(v2_host(tmp_path, "memory"))
    with refused("'cpu'", "cpu.cfs_period_us", "cpu.cfs_quota_us", error=GuestError):
        make_group(LAB, "new", Limits(cpu_quota=0.5), layout)
    empty = detect(tmp_path / "nothing")
    assert empty.version == "none"
    with refused("'memory'", "memory.limit_in_bytes", error=GuestError):
        make_group(LAB, "new", Limits(2**20), empty)


@pytest.mark.parametrize(("weight", "shares"), [(1, "10"), (50, "512"), (100, "1024"), (10_000, "102400")])
def test_a_weight_is_the_same_share_of_the_default_in_v1_and_v2(tmp_path: Path, weight: int, shares: str) -> None:
    wanted = Limits(cpu_weight=weight)
    make_group(LAB, "guest", wanted, detect(v1_host(tmp_path / "1")))
    assert (tmp_path / "1" / "cpu" / LAB / "guest" / "cpu.shares").read_text() == shares
    make_group(LAB, "guest", wanted, detect(v2_host(tmp_path / "2")))
    assert (tmp_path / "2" / LAB / "guest" / "cpu.weight").read_text() == str(weight)


def test_a_disks_rate_is_set_in_v1_and_v2_and_handed_on_only_for_it(tmp_path: Path) -> None:
    wanted = Limits(disk=DiskRate("8:0", 1_000_000))
    group = make_group(LAB, "guest", wanted, detect(v1_host(tmp_path / "1", blkio=V1_DISKS)))
    assert group.folders["io"] == tmp_path / "1" / "blkio" / LAB / "guest"
    for file in V1_DISKS:
        assert (group.folders["io"] / file).read_text() == "8:0 1000000"
    layout = detect(v2_host(tmp_path / "2"))
    make_group(LAB, "guest", Limits(2**28), layout)
    handed = tmp_path / "2" / LAB / "cgroup.subtree_control"
    assert handed.read_text() != "+io", "the last that was written: accounting of disks costs who is not limited"
    make_group(LAB, "guest", wanted, layout)
    assert handed.read_text() == "+io"
    assert (tmp_path / "2" / LAB / "guest" / "io.max").read_text() == "8:0 rbps=1000000 wbps=1000000"


def test_what_was_set_is_read_back_from_the_guests_group_below_the_labs(tmp_path: Path) -> None:
    """Whatever group of its own a manager has put the process in."""
    wanted = Limits(2**28 + 23, 0.25, (), 100_000, 50, DiskRate("8:0", 4096))
    v1 = detect(v1_host(tmp_path / "1", blkio=V1_DISKS))
    make_group(LAB, "guest", wanted, v1)
    inner = f"/{LAB}/guest/payload"
    memberships = f"9:cpu,cpuacct:{inner}\n4:memory:{inner}\n3:blkio:{inner}\n1:name=systemd:/\n"
    assert read_back(wanted, memberships, LAB, v1) == {
        "memory.limit_in_bytes": str(2**28),
        "cpu.cfs_period_us": "100000",
        "cpu.cfs_quota_us": "25000",
        "cpu.shares": "512",
        "blkio.throttle.read_bps_device": "8:0 4096",
        "blkio.throttle.write_bps_device": "8:0 4096",
    }
    v2, own = detect(v2_host(tmp_path / "2")), tmp_path / "2" / LAB / "guest"
    make_group(LAB, "guest", wanted, v2)
    (own / "io.max").write_text(
        "7:1 rbps=1 wbps=max riops=max wiops=max\n8:0 rbps=4096 wbps=4096 riops=max wiops=max\n"
    )
    assert read_back(wanted, f"0::{inner}\n", LAB, v2) == {
        "memory.max": str(2**28),
        "cpu.max": "25000 100000",
        "cpu.weight": "50",
        "io.max": "8:0 rbps=4096 wbps=4096 riops=max wiops=max",
    }
    for file, text, was_set in (
        ("cpu.max", "max 100000", "25000 100000"),
        ("cpu.weight", "100", "50"),
        ("memory.max", "max", str(2**28)),
        ("io.max", "", "8:0 rbps=4096 wbps=4096"),
    ):
        before = (own / file).read_text()
        (own / file).write_text(text + "\n")
        with refused(own / file, f"'{text}'", f"'{was_set}'", error=GuestError):
            read_back(wanted, f"0::{inner}\n", LAB, v2)
        (own / file).write_text(before)
    (own / "cpu.weight").unlink()
    with refused(own / "cpu.weight", "No such file", error=GuestError):
        read_back(wanted, f"0::{inner}\n", LAB, v2)
    with refused(tmp_path / "2" / "elsewhere", tmp_path / "2" / LAB, error=GuestError):
        read_back(wanted, "0::/elsewhere\n", LAB, v2)
    with refused("'io'", *V1_DISKS, error=GuestError):
        read_back(Limits(disk=wanted.disk), memberships, LAB, detect(v1_host(tmp_path / "without")))


@pytest.fixture
def real_lab() -> Iterator[str]:
    """The id of a lab that is recorded, and is swept afterwards."""
    record, lock = residue.create_record()
    try:
        yield record.lab_id
    finally:
        os.close(lock)
    residue.sweep(record)
    assert residue.cgroup_folders(record.lab_id) == []


def needs_controller(name: str) -> None:
    if name not in detect().controllers:
        pytest.skip(f"this host has no {name} controller")


def in_group(group: cgroups.Group, *argv: str | Path) -> list[str]:
    """A program that is in the group from its start."""
    return [*Enter(cgroups=group.process_files).prefix(built_agent()), *map(str, argv)]


@pytest.mark.root
def test_a_real_group_holds_a_process_from_its_start(real_lab: str) -> None:
    needs_controller("memory")
    group = make_group(real_lab, "guest", Limits(64 * 2**20, 0.5, (0,)))
    shown = subprocess.run(in_group(group, "cat", "/proc/self/cgroup"), capture_output=True, text=True, check=True)
    assert f"/{real_lab}/guest" in shown.stdout
    assert len(residue.cgroup_folders(real_lab)) >= 1
    group.remove()
    assert not any(folder.exists() for folder in group.folders.values())


@pytest.mark.root
def test_who_is_still_in_a_group_ends_with_it(real_lab: str) -> None:
    """As a container whose manager was killed: nobody else ends it, and its group would stay busy."""
    needs_controller("memory")
    group = make_group(real_lab, "guest", Limits(64 * 2**20))
    with subprocess.Popen(in_group(group, "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as left:
        assert left.stdin is not None
        assert left.stdout is not None
        left.stdin.write(b"!")
        left.stdin.flush()
        assert left.stdout.read(1) == b"!", "it is in the group"
        group.remove()
        assert left.wait() == -signal.SIGKILL
    assert not any(folder.exists() for folder in group.folders.values())


@pytest.mark.root
def test_live_frames_end_in_time_in_a_group_that_has_used_up_its_cpu_time(real_lab: str) -> None:
    """Linux 6.18 and later stop a thread of such a group as it leaves the kernel, and one that is to end it at once."""
    needs_controller("cpu")
    # On one CPU, so that both threads are held to the same account.
    group = make_group(real_lab, "guest", Limits(cpu_quota=0.05, cpus=(min(os.sched_getaffinity(0)),)))
    trial = ["wire", "calibrate", "--backend", "live-frames", "--sizes", "64", "--flat-out", "--duration", "0.2"]
    command = in_group(group, built_agent(), *trial, "--json")
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    group.remove()
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["backend"] for one in answers] == ["live-frames"], done.stderr
    # For 0.2 s; a loop that nobody ends uses minutes.
    assert answers[0]["cpu"]["generator_cpu_ns"] < 20e9


def test_a_group_that_does_not_take_the_guest_is_named(tmp_path: Path) -> None:
    group = cgroups.Group("guest", detect(tmp_path), {"memory": tmp_path / "gone"})
    done = subprocess.run(in_group(group, "true"), capture_output=True, text=True, check=False)
    assert_refused(done, tmp_path / "gone", code=1)


def test_limits_of_a_process_are_the_tightest_on_the_way_up(tmp_path: Path) -> None:
    layout = detect(v1_host(tmp_path))
    memberships = f"9:cpu,cpuacct:/{LAB}/guest\n4:memory:/{LAB}/guest\n1:name=systemd:/\n"
    for folder, limit, quota in (("", 2**63 - 4096, -1), (LAB, 2**29, 50_000), (f"{LAB}/guest", 2**30, -1)):
        (tmp_path / "memory" / folder / "memory.limit_in_bytes").write_text(f"{limit}\n")
        (tmp_path / "cpu" / folder / "cpu.cfs_quota_us").write_text(f"{quota}\n")
        (tmp_path / "cpu" / folder / "cpu.cfs_period_us").write_text("100000\n")
    assert limits_of(memberships, layout) == Limits(2**29, 0.5)
    assert limits_of("4:memory:/\n", layout) == Limits()
    assert limits_of("", layout) == Limits()
    two = tmp_path / "two"
    unified = detect(v2_host(two))
    (two / LAB / "guest").mkdir(parents=True, exist_ok=True)
    (two / LAB / "guest" / "memory.max").write_text("max\n")
    (two / LAB / "memory.max").write_text("4096\n")
    (two / LAB / "guest" / "cpu.max").write_text("20000 100000\n")
    assert limits_of(f"0::/{LAB}/guest\n", unified) == Limits(4096, 0.2)


def test_only_a_group_below_the_labs_is_a_guests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residue, "CGROUP_ROOT", v1_host(tmp_path))
    for folder in ("", LAB, f"{LAB}/guest"):
        (tmp_path / "memory" / folder / "memory.usage_in_bytes").write_text("8192\n")
    assert charged_memory_bytes(f"4:memory:/{LAB}/guest\n", LAB) == 8192
    assert charged_memory_bytes(f"4:memory:/{LAB}\n", LAB) is None
    assert charged_memory_bytes("4:memory:/\n", LAB) is None
    assert charged_memory_bytes("4:memory:/\n") == 8192
