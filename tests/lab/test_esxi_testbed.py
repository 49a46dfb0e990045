"""A whole run on a simulated ESXi host that is outside the lab: by its API, and over cables from this machine's NICs.

The first run is killed while its machine is on; what it left on the host is removed by the janitor.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import environment
from tests.support.esxi import PASSWORD
from tests.support.esxi_bench import TCP_BYTES, TCP_RATE
from tests.support.repository import ROOT

from virtoll.runfolder.store import RunFolder
from virtoll.workloads.loads import gone_still

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]


def bench(folder: Path, *arguments: str) -> None:
    """The bench to its end, in a network namespace of its own, so that this host's NICs are not touched."""
    variables = environment(VIRTOLL_RUNS=str(folder / "runs"))
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    finished = subprocess.run(
        ["unshare", "--net", "--", sys.executable, "-m", "tests.support.esxi_bench", str(folder), *arguments],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move NICs into a lab")
@pytest.mark.parametrize("load", ["idle", pytest.param("light", marks=pytest.mark.extended)])
def test_a_second_machine_there_is_loaded_beside_the_measured_one(tmp_path: Path, load: str) -> None:
    """The second has the image with tools on a drive of its own where its load is a program."""
    bench(tmp_path, load)
    (path,) = (tmp_path / "runs").iterdir()
    folder = RunFolder.open(path)
    trials = [one for one in folder.latest_trials() if one.condition is not None]
    for one in trials:  # an emulator that waits long for a CPU as it boots costs that trial
        assert one.status == "ok" or "could not be started" in (one.reason or ""), one.reason
    (beside,) = next(one for one in trials if one.status == "ok").neighbours
    assert {one.boot: one.instance for one in folder.boots()}[beside.boot] == 1
    if load == "light":
        assert beside.argv[0] == "stress"
        assert gone_still(beside.progress, beside.window) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move NICs into a lab")
def test_a_killed_run_leaves_nothing_on_the_host_and_the_next_measures(tmp_path: Path) -> None:
    bench(tmp_path)
    reported = json.loads((tmp_path / "reported.json").read_text(encoding="utf-8"))
    left = [name for name in reported["killed"]["machines"] if name.startswith("virtoll-")]
    assert len(left) == 1
    assert set(reported["killed"]["files"]) >= {
        left[0],
        *(f"{left[0]}/{file}" for file in ("data.vmdk", "data-flat.vmdk")),
    }
    assert reported["events of the killed"] == ["on", "off", "remove"] * 2, "the probe's machine, then that with a disk"
    assert reported["after"] == reported["before"]
    assert reported["machines"] == []
    assert reported["events"][:3] == ["on", "off", "remove"], "what the probe starts"
    assert reported["events"][3:5] == ["on", "suspend"]
    assert reported["events"][-2:] == ["off", "remove"]
    (run,) = [folder for folder in (tmp_path / "runs").iterdir() if (folder / "trials.jsonl").is_file()]
    trials = [json.loads(line) for line in (run / "trials.jsonl").read_text(encoding="utf-8").splitlines()]
    forward, superpi, *streams, zfg = sorted(trials, key=lambda trial: trial["workload"])
    assert [(trial["workload"], trial["status"], trial["reason"]) for trial in (forward, superpi, *streams, zfg)] == [
        (workload, "ok", None) for workload in ("forward", "superpi", "tcp-stream", "tcp-stream", "zfg")
    ]
    assert {trial["parameters"]["direction"] for trial in streams} == {"to-guest", "from-guest"}
    for trial in streams:
        assert trial["result"]["shaped_by"] in ("tbf", "netem")
        marks = trial["clock"]["marks"]
        passed_ns = marks["end_ns"] - marks["start_ns"]
        assert passed_ns > 0.9 * 8e9 * TCP_BYTES / TCP_RATE, "the cable let it through faster than it was made"
    arrived = [one["forwarded_frames"] for point in forward["points"] for one in point["sink"]["per_source"]]
    assert sum(arrived) > 0
    assert superpi["clock"]["method"] == "icmp"
    state = zfg["result"]["state"]
    assert (state["page_cache"], state["resident_on_host_bytes"]) == ("cold in the guest", None)
    assert state["reach"] == f"the host's disk ({state['host_file_system']})"
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in run.rglob("*.json*"))
