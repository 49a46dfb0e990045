"""Pairs of wired nodes on a real Slurm cluster of four nodes: what a task gets, and a generator that is a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.campaign_parts import RIGHT
from tests.support.experiments import PAIRED
from tests.support.facts import assert_facts, assert_refused
from tests.support.guests import right_or_disturbed
from tests.support.slurm_cluster import Bench, SlurmCluster, missing_programs
from tests.support.ssh_hosts import ip, ssh_hosts

from virtoll.runfolder.store import RunFolder
from virtoll.stats.guests import forwarded_frames

pytestmark = [pytest.mark.root, pytest.mark.lab, pytest.mark.timeout(900)]
FEATURES = {"n1": "pair1,generator", "n2": "pair1", "n3": "pair2", "n4": "pair2,generator"}
"""In the first pair the batch script starts on the generator's node, in the second on that of the guests."""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    if (reason := missing_programs()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("cluster")
    with SlurmCluster.started(folder / "slurm") as cluster:
        for node, features in FEATURES.items():
            given = [f"AvailableFeatures={features}", f"ActiveFeatures={features}"]
            cluster.output("scontrol", "update", f"NodeName={node}", *given)
        yield Bench(cluster, folder)


def test_each_task_has_a_node_and_the_generator_that_it_is_wired_to(bench: Bench, tmp_path: Path) -> None:
    """Two tasks at once, so that both pairs are used; one that nears its limit begins again, on whichever is free."""
    folder = tmp_path / "c"
    file = experiments.write(tmp_path, **{**RIGHT, "blocks": 4}, testbed=PAIRED)
    bench.hold(1, 2)
    submit: list[str | Path] = ["campaign", "submit", file, "--nodes", "2", "--into", folder, "--wired"]
    assert_refused(bench.virtoll(*submit, "pair1,pair3"), "sbatch", "Invalid feature specification", "--wired")
    assert_facts(bench.output(*submit, "pair1,pair2"), "4 tasks", "1 to 4", "2 nodes", "generator")
    (job,) = bench.jobs()
    held = {bench.held(block): block for block in (1, 2)}
    assert set(held) == {"n2", "n3"}, "guests are on the nodes that are no generators"
    limited = f"{job}_{held['n2'] - 1}"
    bench.cluster.allow(limited, 1)
    bench.interrupted(held["n2"])
    bench.cluster.allow(limited, 60)
    bench.release(held["n3"])
    bench.await_end()
    shown = bench.status(folder)
    assert (shown["complete"], shown["begun"]) == ([1, 2, 3, 4], [])
    log = (folder / f"logs/{job}_{held['n2'] - 1}.log").read_text()
    assert_facts(log, f"block {held['n2']}", 1, "3 times")
    assert_facts(bench.output("campaign", "merge", folder, "--into", tmp_path / "run"), "4 of 4 blocks", "2 hosts")
    parts = [RunFolder.open(folder / f"block-{block}").manifest for block in range(1, 5)]
    assert len({(one.host["fingerprint"], str(one.nodes)) for one in parts}) == 2, "a host has the same one always"
    assert parts[held["n3"] - 1].nodes == {"generator": "ssh n4"}
    assert {str(one.nodes) for one in parts} == {str({"generator": f"ssh {name}"}) for name in ("n1", "n4")}


def test_a_node_generates_for_guests_on_the_other(bench: Bench, tmp_path: Path) -> None:
    """Guests are real, and so is the way: SSH to the pair's other node, where two cables end."""
    cluster, folder = bench.cluster, tmp_path / "c"
    (keys := tmp_path / "ssh").mkdir()
    cables = (("vtnear0", "vtfar0"), ("vtnear1", "vtfar1"))
    with ssh_hosts(keys, ("n1",)) as hosts:
        far = hosts.hosts["n1"]
        ip(hosts.launcher, "link", "delete", "way0")
        for near, end in (("way0", "way"), *cables):
            ip(cluster.pid, "link", "add", near, "type", "veth", "peer", "name", end, "netns", str(far))
        for pid, interface, last in ((cluster.pid, "way0", 1), (far, "way", 2)):
            ip(pid, "address", "add", f"10.99.0.{last}/24", "dev", interface)
            ip(pid, "link", "set", interface, "up")
        cluster.on("n2", "mount", "--bind", keys, "/etc/ssh/ssh_config.d")
        testbed = {
            "generator": {"host": {"node": "generator"}, "interfaces": ["vtfar0"]},
            "sink": {"host": {"node": "generator"}, "interfaces": ["vtfar1"]},
            "hypervisor": {"host": "local", "interfaces": ["vtnear0", "vtnear1"]},
        }
        forward = {"workload": "forward", "frame_size_bytes": 500, "rate_factor": 64, "point_milliseconds": 200}
        platforms = ["native", "native-again", "netns"]
        workloads = [{**forward, "first_rate_frames_per_second": 1000}]
        file = experiments.write(tmp_path, platforms=platforms, blocks=2, workloads=workloads, testbed=testbed)
        submit: list[str | Path] = ["campaign", "submit", file, "--nodes", "1", "--into", folder, "--wired", "pair1"]
        assert_facts(bench.output(*submit, "--blocks-per-task", "2"), "1 task", "1 to 2", "1 node", "generator")
        bench.await_end()
        cluster.on("n2", "umount", "/etc/ssh/ssh_config.d")
    log = "\n".join(path.read_text() for path in folder.glob("logs/*"))
    assert bench.status(folder)["complete"] == [1, 2], log
    run = RunFolder.open(folder / "blocks-1-2")
    assert run.manifest.nodes == {"generator": "ssh n1"}
    trials = run.trials()
    assert len(trials) == len(run.manifest.plan.trials)
    assert [one.reason for one in trials if not right_or_disturbed(one)] == [], log
    assert all(forwarded_frames(one) > 0 for one in trials)
