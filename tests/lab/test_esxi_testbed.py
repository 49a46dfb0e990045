"""A campaign on a simulated ESXi host that is outside the lab: by its API, and over cables from this machine's NICs.

It is killed while its machine is on. The janitor removes what it left on the host; then it is continued.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import pytest
from tests.support.commands import environment
from tests.support.esxi import PASSWORD
from tests.support.esxi_bench import TCP_BYTES, TCP_RATE
from tests.support.guests import right_or_disturbed
from tests.support.lab_runs import assert_shaped
from tests.support.present import present
from tests.support.real_run import measuring
from tests.support.repository import ROOT

from virtoll.runfolder.conditions import NeighbourRecord
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.stats.guests import forwarded_frames
from virtoll.workloads.loads import gone_still

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]


def bench(folder: Path, *arguments: str) -> RunFolder:
    """The bench to its end, in a network namespace of its own, so that this host's NICs are not touched."""
    variables = environment()
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
    return RunFolder.open(measuring(folder / "esxi.yaml")[1])


def neighbour_record(folder: RunFolder) -> NeighbourRecord:
    """What the second machine did in a trial that went well."""
    trials = [one for one in folder.latest_trials() if one.condition is not None]
    for one in trials:  # an emulator that waits long for a CPU as it boots costs that trial
        assert one.status == "ok" or "could not be started" in (one.reason or ""), one.reason
    (beside,) = next(one for one in trials if one.status == "ok").neighbours
    assert {one.boot: one.instance for one in folder.boots()}[beside.boot] == 1
    return beside


@pytest.mark.extended
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move NICs into a lab")
def test_a_second_machine_there_is_loaded_beside_the_measured_one(tmp_path: Path) -> None:
    """It has the image with tools on a drive of its own, since its load is a program."""
    beside = neighbour_record(bench(tmp_path, "light"))
    assert beside.argv[0] == "stress"
    assert gone_still(beside.progress, beside.window) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may move NICs into a lab")
def test_a_killed_run_leaves_nothing_on_the_host_and_is_continued(tmp_path: Path) -> None:
    folder = bench(tmp_path)
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
    # An emulator that waits long for a CPU as it boots is started anew.
    failed = list(takewhile(lambda boot: boot.status != "ok", folder.boots()))
    first = [*["on", "off", "remove"] * len(failed), "on", "suspend"]
    assert reported["events"][: len(first)] == first
    assert reported["events"][-2:] == ["off", "remove"]
    assert_measured(folder.latest_trials())
    assert PASSWORD not in "".join(path.read_text(errors="replace") for path in folder.path.rglob("*.json*"))


def assert_measured(trials: Sequence[TrialRecord]) -> None:
    """All went well; times are those of frames on the wire, cables were shaped, and the disk is the host's."""
    assert [(one.workload, one.reason) for one in trials if not right_or_disturbed(one)] == []
    by_workload = {name: [one for one in trials if one.workload == name] for name in {one.workload for one in trials}}
    assert set(by_workload) == {"forward", "superpi", "tcp-stream", "zfg"}
    streams = by_workload["tcp-stream"]
    assert {one.parameters["direction"] for one in streams} == {"to-guest", "from-guest"}
    for trial in streams:
        assert_shaped(trial, TCP_BYTES, TCP_RATE)
    assert all(forwarded_frames(one) > 0 for one in by_workload["forward"])
    assert {present(one.clock).method for one in by_workload["superpi"]} == {"icmp"}
    for trial in by_workload["zfg"]:
        state = present(trial.result)["state"]
        assert (state["page_cache"], state["resident_on_host_bytes"]) == ("cold in the guest", None)
        assert state["reach"] == f"the host's disk ({state['host_file_system']})"
