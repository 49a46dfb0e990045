"""A campaign on a real Slurm cluster of four nodes on this machine: what its tasks do, and what becomes of failures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.campaign_parts import RIGHT, experiment, untimed
from tests.support.facts import assert_facts, assert_refused
from tests.support.model_runs import measured
from tests.support.slurm_cluster import NODES, Bench, SlurmCluster, missing_programs

from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.timeout(2400)]
BLOCKS = 6  # more than there are nodes


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if (reason := missing_programs()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    with SlurmCluster.started(folder / "slurm") as cluster:
        yield Bench(cluster, folder)


def test_whatever_fails_each_trial_is_there_once(bench: Bench, tmp_path: Path) -> None:
    """A task reaches its time limit, a node is lost, a disk is full, a task is preempted, the controller is killed."""
    cluster, folder = bench.cluster, tmp_path / "c"
    file = experiments.write(tmp_path, **{**RIGHT, "blocks": BLOCKS})
    bench.hold(2, 3, 4, 5)
    submitted = bench.output("campaign", "submit", file, "--nodes", "4", "--into", folder)
    job = bench.jobs()[0]
    assert_facts(submitted, job, f"{BLOCKS} tasks", f"1 to {BLOCKS}", "4 nodes")
    file.write_text("changed since")
    limited, lost, full, preempted = (bench.held(block) for block in (2, 3, 4, 5))
    assert {limited, lost, full, preempted} == set(NODES)
    bench.output("campaign", "submit", folder)
    assert bench.jobs() == [job], "Slurm or this host has all blocks"

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
    bench.await_end()
    logs = {block: (folder / f"logs/{job}_{block - 1}.log").read_text() for block in range(1, BLOCKS + 1)}
    assert_facts(logs[2], "time limit", "block 2", 1, "3 times")
    assert "No space left" in logs[4]
    assert "interrupted" in logs[5]
    shown = bench.status(folder)
    assert (shown["complete"], shown["missing"]) == ([1, 2, 3, *range(5, BLOCKS + 1)], [])
    assert [(one["blocks"], one["state"]) for one in shown["begun"]] == [([4], "killed")]
    assert (shown["tasks"], shown["last_words"][0]["blocks"]) == ([], [4])
    assert "No space left" in shown["last_words"][0]["said"]

    cluster.start(lost)
    cluster.on(full, "umount", folder / "block-4")
    before = {path: path.read_bytes() for path in folder.glob("block-*/trials.jsonl") if path.parent.name != "block-4"}
    assert_facts(bench.output("campaign", "submit", folder), "1 task", "block 4", "4 nodes")
    bench.await_end()
    assert {path: path.read_bytes() for path in before} == before, "what is complete is measured once"
    assert_facts(bench.output("campaign", "submit", folder), BLOCKS, "virtoll campaign merge")
    assert_facts(bench.output("campaign", "merge", folder, "--into", tmp_path / "run"), f"{BLOCKS} of {BLOCKS} blocks")
    run, whole = RunFolder.open(tmp_path / "run"), measured(experiment(blocks=BLOCKS), tmp_path / "whole")
    assert [one.trial for one in run.trials()] == [one.trial for one in run.manifest.plan.trials]
    pairs = list(zip(run.trials(), whole.trials(), strict=True))
    resumed = {one.block for one, other in pairs if one.boot != other.boot}
    assert 2 not in resumed, "another host than the lost one began it anew"
    assert all(untimed(one)[:7] == untimed(other)[:7] for one, other in pairs)
    assert [untimed(one) for one, _ in pairs if one.block not in resumed] == [
        untimed(other) for _, other in pairs if other.block not in resumed
    ]


def test_real_guests_on_nodes(bench: Bench, tmp_path: Path) -> None:
    """Namespaces and runc as root: each task makes its lab on its node."""
    folder = tmp_path / "c"
    platforms = ["native", "native-again", "netns", "runc"]
    workloads = [{"workload": "superpi", "digits": 1000}]
    file = experiments.write(tmp_path, platforms=platforms, workloads=workloads, blocks=4)
    submit = ("campaign", "submit", file, "--nodes", "4", "--into", folder, "--blocks-per-task", "2")
    assert_facts(bench.output(*submit), "2 tasks", "1 to 4", "4 nodes")
    bench.await_end()
    assert_facts(bench.output("campaign", "merge", folder, "--into", tmp_path / "run"), "4 of 4 blocks")
    run = RunFolder.open(tmp_path / "run")
    assert [one.status for one in run.trials()] == ["ok"] * len(run.manifest.plan.trials)


def test_more_tasks_than_an_array_holds(bench: Bench, tmp_path: Path) -> None:
    """Several blocks a task, or several arrays one after the other; Slurm's own refusal is passed on."""
    folder, file = tmp_path / "c", experiments.write(tmp_path, **{**RIGHT, "blocks": 50})
    given = ("campaign", "submit", file, "--into", folder, "--nodes", "2")
    assert "--array=0-16%2 " in bench.output(*given, "--dry-run"), (
        "three blocks a task, since 24 tasks are the most here"
    )
    assert_refused(bench.virtoll(*given, "--partition", "other"), "sbatch", "Invalid partition name", "--partition")
    assert sorted(path.name for path in (folder / "slurm").iterdir()) == ["submission.json"]
    submitted = bench.output("campaign", "submit", folder, "--partition=all", "--blocks-per-task=1", "--option=--hold")
    arrays = [("24 tasks", "1 to 24"), ("24 tasks", "25 to 48"), ("2 tasks", "49 to 50")]
    for line, facts in zip(submitted.splitlines(), arrays, strict=False):
        assert_facts(line, *facts, "2 nodes")
    submitted_jobs = bench.jobs()
    assert len(submitted_jobs) == 3
    shown = bench.status(folder)
    assert sorted(one["blocks"][0] for one in shown["tasks"]) == list(range(1, 51))
    assert {one["reason"] for one in shown["tasks"]} <= {"JobHeldUser", "Dependency"}
    bench.output("campaign", "submit", folder)
    assert bench.jobs() == submitted_jobs
    bench.cluster.output("scancel", "--user=root")
    bench.await_end()
    assert bench.status(folder)["tasks"] == []
