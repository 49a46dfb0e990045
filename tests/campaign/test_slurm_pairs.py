"""Pairs of wired nodes on a real Slurm cluster of four nodes: what a task gets, and a generator that is a node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.campaign.test_merge import RIGHT
from tests.campaign.test_slurm import Bench, ended
from tests.campaign.test_wired import PAIRED
from tests.support import experiments
from tests.support.slurm_cluster import SlurmCluster, missing_programs
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
    file = experiments.write(tmp_path, **{**RIGHT, "blocks": 6}, testbed=PAIRED)
    bench.hold(1, 2)
    submit: list[str | Path] = ["campaign", "submit", file, "--nodes", "2", "--into", folder, "--wired"]
    refused = bench.virtoll(*submit, "pair1,pair3")
    assert refused.returncode == 2
    assert refused.stderr == (
        "virtoll: sbatch refused the job: Invalid feature specification; change --wired, --partition, --account, "
        "--time or --option\n"
    )
    said = bench.said(*submit, "pair1,pair2")
    assert ": 6 tasks for blocks 1 to 6, on at most 2 nodes at once, each with its generator\n" in said
    job = said.split()[2].rstrip(":")
    held = {bench.held(block): block for block in (1, 2)}
    assert set(held) == {"n2", "n3"}, "guests are on the nodes that are no generators"
    limited = f"{job}_{held['n2'] - 1}"
    bench.cluster.allow(limited, 1)
    bench.interrupted(held["n2"])
    bench.cluster.allow(limited, 60)
    bench.release(held["n3"])
    ended(bench)
    shown = bench.status(folder)
    assert (shown["complete"], shown["begun"]) == ([1, 2, 3, 4, 5, 6], [])
    log = (folder / f"logs/{job}_{held['n2'] - 1}.log").read_text()
    assert f"block {held['n2']} will begin again, 1 of at most 3 times" in log
    assert bench.said("campaign", "merge", folder, "--into", tmp_path / "run").startswith("6 of 6 blocks of 2 hosts: ")
    parts = [RunFolder.open(folder / f"block-{block}").manifest for block in range(1, 7)]
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
        said = bench.said(*submit, "--blocks-per-task", "2")
        assert ": 1 task for blocks 1 to 2, on at most 1 node at once, each with its generator\n" in said
        ended(bench)
        cluster.on("n2", "umount", "/etc/ssh/ssh_config.d")
    log = "\n".join(path.read_text() for path in folder.glob("logs/*"))
    assert bench.status(folder)["complete"] == [1, 2], log
    run = RunFolder.open(folder / "blocks-1-2")
    assert run.manifest.nodes == {"generator": "ssh n1"}
    trials = run.trials()
    assert [one.status for one in trials] == ["ok"] * len(run.manifest.plan.trials), log
    assert all(forwarded_frames(one) > 0 for one in trials)
