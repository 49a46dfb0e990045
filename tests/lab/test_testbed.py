"""A campaign whose generator and sink are on another host (a network namespace), by way of interfaces of this one."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import virtoll

from virtoll.report import build_report
from virtoll.report.build import load
from virtoll.samples import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.hops import locate

pytestmark = [pytest.mark.lab, pytest.mark.root]
PAIRS = (("vtnear0", "vtfar0"), ("vtnear1", "vtfar1"), ("vtnear2", "vtfar2"))


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def far() -> Iterator[int]:
    """A namespace with the far ends of three pairs; the near ones stand in ours. A process's number stands for it."""
    with subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", "echo there; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"there\n"
        try:
            for near, end in PAIRS:
                ip("link", "add", near, "type", "veth", "peer", "name", end, "netns", str(process.pid))
            yield process.pid
        finally:
            for near, _ in PAIRS:
                subprocess.run(["ip", "link", "del", near], check=False, capture_output=True)
            process.kill()


def section(far: int, sources: int) -> dict[str, object]:
    host = {"netns": far}
    return {
        "generator": {"host": host, "interfaces": [end for _, end in PAIRS[:sources]]},
        "sink": {"host": host, "interfaces": [PAIRS[-1][1]]},
        "hypervisor": {"host": "local", "interfaces": [near for near, _ in (*PAIRS[:sources], PAIRS[-1])]},
    }


@pytest.mark.parametrize("sources", [pytest.param(1, marks=pytest.mark.extended), 2])
def test_traffic_goes_through_the_interfaces(far: int, sources: int, tmp_path: Path) -> None:
    file = experiments.write(
        tmp_path,
        platforms=["native", "netns", "qemu-tcg"],
        blocks=2,
        guest={"memory": "128MiB"},
        testbed=section(far, sources),
        workloads=[
            {"workload": "forward", "frame_size_bytes": 500, "sources": sources, "rate_factor": 8,
             "first_rate_frames_per_second": 1000, "point_milliseconds": 50},
            {"workload": "forkwait", "processes": 20},
        ],
    )  # fmt: skip
    finished = virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    assert finished.returncode == 0, finished.stderr
    folder = RunFolder.open(tmp_path / "run")
    assert [(trial.platform, trial.reason) for trial in folder.trials() if trial.status != "ok"] == []
    assert folder.manifest.testbed is not None
    forward = [trial for trial in folder.trials() if trial.workload == "forward"]
    assert len(forward) == 6
    for trial in forward:
        assert trial.points
        slowest = trial.points[0]
        assert sum(one.forwarded_frames for one in slowest.sink.per_source) > 0
        for point in trial.points:
            names = {hop.interface for hop in point.hops or () if hop.where == "peer"}
            assert point.hops is None or names == {end for _, end in (*PAIRS[:sources], PAIRS[-1])}
            lost = sum(one.lost_frames for one in point.sink.per_source)
            assert sum(loss.frames for loss in locate(point)) == lost
    assert [(record.reason, record.way) for record in folder.calibrations()] == [(None, "testbed")] * 2
    text = build_report(folder.path).path.read_text(encoding="utf-8")
    assert f"netns {far}" in text
    assert "NICs are not in them" in text
    assert all(one.ceiling is not None for one in analyse(load(folder.path)).headrooms.values())


def test_an_interface_that_is_not_there_is_named(far: int, tmp_path: Path) -> None:
    wanted = section(far, 1)
    wanted["hypervisor"] = {"host": "local", "interfaces": ["vtnone", "vtnear2"]}
    file = experiments.write(tmp_path, platforms=["native"], testbed=wanted, workloads=[{"workload": "forward"}])
    finished = virtoll("run", file, "--into", tmp_path / "run", runs=tmp_path)
    assert finished.returncode == 2
    assert "interface vtnone" in finished.stderr
    assert not (tmp_path / "run").exists()
