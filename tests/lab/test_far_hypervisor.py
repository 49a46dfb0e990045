"""Guests on another host, reached by the real SSH; generator, sink and timekeeper stay here, on NICs that face it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import experiments, machine
from tests.support.commands import DEADLINE_SECONDS
from tests.support.ssh_hosts import SshHosts, ssh_hosts

from virtoll.lab.inside import wait_until
from virtoll.runfolder.store import RunFolder
from virtoll.stats.guests import forwarded_frames

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]
PAIRS = (("vhnear0", "box", "vhfar0"), ("vhnear1", "box", "vhfar1"), ("vhnear2", "box", "vhfar2"))


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshHosts]:
    with ssh_hosts(tmp_path_factory.mktemp("hosts"), ("box",)) as made:
        yield made


def experiment(folder: Path, destination: str = "box", *, timekeeper: bool = True, **more: object) -> Path:
    near, far = [pair[0] for pair in PAIRS], [pair[2] for pair in PAIRS]
    testbed: dict[str, object] = {
        "generator": {"host": "local", "interfaces": near[:1]},
        "sink": {"host": "local", "interfaces": near[1:2]},
        "hypervisor": {"host": {"ssh": destination}, "interfaces": far if timekeeper else far[:2]},
    }
    if timekeeper:
        testbed["timekeeper"] = {"host": "local", "interfaces": near[2:]}
    wanted: dict[str, object] = {
        "platforms": ["qemu-tcg"],
        "baseline": "qemu-tcg",
        "blocks": 1,
        "guest": {"memory": "128MiB"},
        "testbed": testbed,
        "workloads": [
            {
                "workload": "forward",
                "frame_size_bytes": 500,
                "rate_factor": 64,
                "first_rate_frames_per_second": 500,
                "point_milliseconds": 200,
            },
            {"workload": "superpi", "digits": 24_000},
        ],
    }
    return experiments.write(folder, **{**wanted, **more})


def left_there(hosts: SshHosts) -> list[str]:
    """Programs, files and interfaces on the host that are not its own."""
    pid = hosts.hosts["box"]
    network, found = Path(f"/proc/{pid}/ns/net").stat().st_ino, hosts.copies("box")
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if (process / "ns/net").stat().st_ino == network and "sshd" not in words:
                found.append(words)
    look = ["nsenter", f"--target={pid}", "--net", "--", "ip", "-brief", "link"]
    said = subprocess.run(look, capture_output=True, text=True, check=True).stdout
    return [*found, *(line.split()[0] for line in said.splitlines() if line.startswith("virtoll"))]


def assert_nothing_left(hosts: SshHosts) -> None:
    """The end of its connection is noticed over there, and what it was for ends and goes."""
    left, _ = machine.poll_until_empty(lambda: left_there(hosts))
    assert left == []


def test_guests_there_are_measured_from_here_and_nothing_stays(hosts: SshHosts, tmp_path: Path) -> None:
    hosts.wire(PAIRS)
    code, complaint = hosts.virtoll("run", experiment(tmp_path), "--into", tmp_path / "run", runs=tmp_path)
    assert code == 0, complaint
    folder = RunFolder.open(tmp_path / "run")
    trials = folder.trials()
    assert [(trial.workload, trial.status, trial.reason) for trial in trials] == [
        ("forward", "ok", None),
        ("superpi", "ok", None),
    ]
    assert trials[0].points
    first = trials[0].points[0]
    assert forwarded_frames(trials[0]) > 0
    there = {hop.role: hop.interface for hop in first.hops or () if hop.where == "lab"}
    assert there["entry"] == "vhfar0"
    assert there["exit"] == "vhfar1"
    assert trials[1].clock is not None
    assert trials[1].clock.method == "icmp"
    (entry,) = folder.manifest.platforms
    assert (entry.host, entry.caveat) == ("ssh box", None)
    assert_nothing_left(hosts)


def test_a_killed_run_leaves_nothing_on_the_host(hosts: SshHosts, tmp_path: Path) -> None:
    hosts.wire(PAIRS)
    process = hosts.start(
        "run", experiment(tmp_path, blocks=20), "--into", tmp_path / "run", variables={"VIRTOLL_RUNS": str(tmp_path)}
    )
    try:
        wait_until(
            lambda: process.poll() is not None or any("qemu-system" in word for word in left_there(hosts)),
            DEADLINE_SECONDS,
            "a machine there",
        )
        assert process.poll() is None, process.communicate()
    finally:
        process.kill()
        process.communicate()
    assert_nothing_left(hosts)


@pytest.mark.parametrize(
    ("destination", "more", "words"),
    [
        ("box-closed", {}, "ssh box-closed cannot be reached"),
        ("box-stranger", {}, "ssh box-stranger cannot be reached"),
        ("box", {"timekeeper": False}, "testbed.timekeeper"),
    ],
)
def test_what_is_wrong_is_one_sentence_before_anything_starts(
    hosts: SshHosts, tmp_path: Path, destination: str, more: dict[str, bool], words: str
) -> None:
    hosts.wire(PAIRS)
    try:
        file = experiment(tmp_path, destination, timekeeper=more.get("timekeeper", True))
        code, complaint = hosts.virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    finally:
        for near, _, _ in PAIRS:
            subprocess.run(
                ["nsenter", f"--target={hosts.launcher}", "--net", "--", "ip", "link", "del", near], check=True
            )
    assert code == 2
    assert words in complaint
    assert len(complaint.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
    assert_nothing_left(hosts)
