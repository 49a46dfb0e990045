"""A campaign on a real Slurm cluster of four nodes on this machine: what its tasks do, and what becomes of failures."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.campaign.test_merge import BLOCKS, RIGHT, experiment, told_of
from tests.support import experiments
from tests.support.slurm_cluster import NODES, SlurmCluster, holding_python, missing_programs

from virtoll.campaign.pipeline import measure
from virtoll.campaign.progress import SilentProgress
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.timeout(2400)]


class Bench:
    """The cluster, and Virtoll in it; ``hold`` has a block's task wait before its third trial is stored."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.holds = folder / "holds"
        self.holds.mkdir()
        self.python = holding_python(folder)

    def virtoll(self, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
        """Run ``virtoll ARGUMENTS`` on the cluster's head."""
        return self.cluster.run(self.python, "-m", "virtoll", *arguments, TEST_HOLDS=str(self.holds))

    def said(self, *arguments: str | Path) -> str:
        """What a command of Virtoll's prints that must succeed."""
        done = self.virtoll(*arguments)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def status(self, folder: Path) -> dict[str, Any]:
        """What `campaign status` says."""
        found: dict[str, Any] = json.loads(self.said("campaign", "status", folder, "--json"))
        return found

    def hold(self, *blocks: int) -> None:
        """Tasks of these blocks wait from now on."""
        for block in blocks:
            (self.holds / f"block-{block}").touch()

    def release(self, block: int) -> None:
        """It goes on."""
        (self.holds / f"block-{block}").unlink()

    def interrupted(self, block: int) -> None:
        """Wait until a signal has ended its waiting."""
        self.cluster.until(lambda: not (self.holds / f"block-{block}").exists(), f"block {block} is interrupted")

    def held(self, block: int) -> str:
        """The node where a block's task waits, once it does."""
        at = self.holds / f"block-{block}.at"
        self.cluster.until(at.exists, f"block {block} is held")
        self.cluster.until(lambda: bool(at.read_text()), f"block {block} says where")
        return at.read_text()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if (reason := missing_programs()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    with SlurmCluster.started(folder / "slurm") as cluster:
        yield Bench(cluster, folder)


def ended(bench: Bench) -> None:
    """Wait until Slurm's queue is empty."""
    bench.cluster.until(lambda: bench.cluster.run("squeue", "--noheader").stdout == "", "all tasks have ended")


def test_whatever_fails_each_trial_is_there_once(bench: Bench, tmp_path: Path) -> None:
    """A task reaches its time limit, a node is lost, a disk is full, a task is preempted, the controller is killed."""
    cluster, folder = bench.cluster, tmp_path / "c"
    file = experiments.write(tmp_path, **RIGHT)
    bench.hold(2, 3, 4, 5)
    submitted = bench.said("campaign", "submit", file, "--nodes", "4", "--into", folder)
    job = submitted.split()[2].rstrip(":")
    assert submitted.startswith(f"array job {job}: 24 tasks for blocks 1 to 24, on at most 4 nodes at once\n")
    file.write_text("changed since")
    limited, lost, full, preempted = (bench.held(block) for block in (2, 3, 4, 5))
    assert {limited, lost, full, preempted} == set(NODES)
    assert "nothing is submitted: Slurm or this host has all" in bench.said("campaign", "submit", folder)

    cluster.allow(f"{job}_1", 1)
    cluster.lose(lost)
    bench.release(3)
    cluster.on(full, "mount", "-t", "tmpfs", "-o", "size=4k", "none", folder / "block-4")
    bench.release(4)
    urgent = ["sbatch", "--partition=urgent", f"--nodelist={preempted}", "--exclusive", "--output=/dev/null"]
    cluster.output(*urgent, "--wrap=exit 0")
    bench.interrupted(5)
    cluster.end_controller()
    cluster.start_controller()
    cluster.until(lambda: cluster.run("squeue").returncode == 0, "the controller is back")

    bench.interrupted(2)
    cluster.allow(f"{job}_1", 60)  # or its limit is near again as soon as it begins again
    ended(bench)
    logs = {block: (folder / f"logs/{job}_{block - 1}.log").read_text() for block in range(1, BLOCKS + 1)}
    assert "the time limit is near, and block 2 will begin again, 1 of at most 3 times" in logs[2]
    assert "No space left on device" in logs[4]
    assert "virtoll: interrupted; what was finished is stored" in logs[5]
    shown = bench.status(folder)
    assert (shown["complete"], shown["missing"]) == ([1, 2, 3, *range(5, BLOCKS + 1)], [])
    assert [(one["blocks"], one["state"]) for one in shown["begun"]] == [([4], "killed")]
    assert (shown["tasks"], shown["last_words"][0]["blocks"]) == ([], [4])
    assert "No space left on device" in shown["last_words"][0]["said"]

    cluster.start(lost)
    cluster.on(full, "umount", folder / "block-4")
    before = {path: path.read_bytes() for path in folder.glob("block-*/trials.jsonl") if path.parent.name != "block-4"}
    again = bench.said("campaign", "submit", folder)
    assert ": 1 task for block 4, on at most 4 nodes at once\n" in again
    ended(bench)
    assert {path: path.read_bytes() for path in before} == before, "what is complete is measured once"
    assert bench.said("campaign", "submit", folder).startswith("all 24 blocks are complete: virtoll campaign merge ")
    assert bench.said("campaign", "merge", folder, "--into", tmp_path / "run").startswith("24 of 24 blocks of ")
    measure(experiment(), tmp_path / "whole", ["virtoll"], SilentProgress())
    run, whole = RunFolder.open(tmp_path / "run"), RunFolder.open(tmp_path / "whole")
    assert [one.trial for one in run.trials()] == [one.trial for one in run.manifest.plan.trials]
    pairs = list(zip(run.trials(), whole.trials(), strict=True))
    resumed = {one.block for one, other in pairs if one.boot != other.boot}
    assert 2 not in resumed, "another host than the lost one began it anew"
    assert all(told_of(one)[:7] == told_of(other)[:7] for one, other in pairs)
    assert [told_of(one) for one, _ in pairs if one.block not in resumed] == [
        told_of(other) for _, other in pairs if other.block not in resumed
    ]


def test_real_guests_on_nodes(bench: Bench, tmp_path: Path) -> None:
    """Namespaces and runc as root: each task makes its lab on its node."""
    folder = tmp_path / "c"
    platforms = ["native", "native-again", "netns", "runc"]
    workloads = [{"workload": "superpi", "digits": 1000}]
    file = experiments.write(tmp_path, platforms=platforms, workloads=workloads, blocks=6)
    submitted = bench.said("campaign", "submit", file, "--nodes", "4", "--into", folder, "--blocks-per-task", "2")
    assert ": 3 tasks for blocks 1 to 6, on at most 4 nodes at once\n" in submitted
    ended(bench)
    assert bench.said("campaign", "merge", folder, "--into", tmp_path / "run").startswith("6 of 6 blocks of ")
    run = RunFolder.open(tmp_path / "run")
    assert [one.status for one in run.trials()] == ["ok"] * len(run.manifest.plan.trials)


def test_more_tasks_than_an_array_holds(bench: Bench, tmp_path: Path) -> None:
    """Several blocks a task, or several arrays one after the other; Slurm's own refusal is told in one sentence."""
    folder, file = tmp_path / "c", experiments.write(tmp_path, **{**RIGHT, "blocks": 50})
    given = ("campaign", "submit", file, "--into", folder, "--nodes", "2")
    assert "--array=0-16%2 " in bench.said(*given, "--dry-run"), "three blocks a task, since 24 tasks are the most here"
    refused = bench.virtoll(*given, "--partition", "other")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr == (
        "virtoll: sbatch refused the job: Invalid partition name specified; change --partition, --account, --time or "
        "--option\n"
    )
    assert sorted(path.name for path in (folder / "slurm").iterdir()) == ["submission.json"]
    said = bench.said("campaign", "submit", folder, "--partition=all", "--blocks-per-task=1", "--option=--hold")
    assert [line.partition(": ")[2] for line in said.splitlines()[:3]] == [
        f"{tasks} for blocks {blocks}, on at most 2 nodes at once"
        for tasks, blocks in (("24 tasks", "1 to 24"), ("24 tasks", "25 to 48"), ("2 tasks", "49 to 50"))
    ]
    shown = bench.status(folder)
    assert sorted(one["blocks"][0] for one in shown["tasks"]) == list(range(1, 51))
    assert {one["reason"] for one in shown["tasks"]} <= {"JobHeldUser", "Dependency"}
    assert "nothing is submitted" in bench.said("campaign", "submit", folder)
    bench.cluster.output("scancel", "--user=root")
    ended(bench)
    assert bench.status(folder)["tasks"] == []
