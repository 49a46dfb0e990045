"""Nodes of a testbed: which hosts they are, and how a cluster gives a task those that are wired to its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.campaign_parts import merged
from tests.support.commands import in_process
from tests.support.experiments import PAIRED, fake
from tests.support.facts import assert_facts, assert_refused, refused
from tests.support.model_runs import measured

from virtoll.errors import UsageError
from virtoll.experiment.model import Experiment
from virtoll.experiment.topology import HostAddress
from virtoll.experiment.topology import Testbed as Section
from virtoll.hosts.nodes import VARIABLE, hosts_of_nodes, node_words, on_its_nodes, written
from virtoll.pipeline.execution import resume
from virtoll.pipeline.parts import beginning, part_of
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.slurm import SlurmNode, on_node, parsed_nodes
from virtoll.pipeline.submission import array_jobs
from virtoll.pipeline.wired import constraint, features_of, placed, refuse_unwired
from virtoll.report import load_analysis
from virtoll.report.sections.forwarding.testbed import wiring_words
from virtoll.runfolder.campaign_records import CampaignRecord, SubmissionRecord
from virtoll.runfolder.store import RunFolder

APART = {**PAIRED, "sink": {"host": {"node": "sink"}, "interfaces": ["eth1"]}}
FEATURES = ("pair1", "pair2")
MODELS: dict[str, Any] = {
    "platforms": [fake("model"), fake("again", seed=2)],
    "baseline": "model",
    "control": "again",
    "blocks": 2,
}


def experiment(testbed: dict[str, Any] | None = None, **changed: Any) -> Experiment:
    return experiments.parsed(**{**MODELS, "testbed": testbed, **changed})


def nodes(**features: str) -> list[SlurmNode]:
    """Nodes by their names, with features that have commas between them."""
    return [SlurmNode(name, f"{name}.site", frozenset(own.split(","))) for name, own in features.items()]


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ("generator", ["'generator'", "VIRTOLL_NODES=LABEL=ssh:HOST"]),
        ("generator=node12", ["'generator=node12'"]),
        ("generator=ftp:node12", ["'generator=ftp:node12'"]),
        ("=ssh:node12", ["'=ssh:node12'"]),
        ("generator=ssh:a,generator=ssh:b", ["'generator'", "twice"]),
        ("generator=ssh:-oProxyCommand=x", ["'-oProxyCommand=x'", "ssh"]),
        ("generator=ssh:a b", ["'a b'", "ssh"]),
    ],
)
def test_a_variable_in_another_form_is_refused(given: str, facts: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, given)
    with refused("VIRTOLL_NODES", *facts, error=UsageError):
        hosts_of_nodes()


def test_nodes_are_the_hosts_that_the_variable_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both roles of one node are on one host; what the experiment says is not changed by it."""
    testbed = Section.model_validate(PAIRED)
    monkeypatch.setenv(VARIABLE, "generator=ssh:root@node12,sink=netns:77")
    found = on_its_nodes(testbed)
    assert found.far == ((HostAddress(ssh="root@node12"), ("eth1", "eth2")),)
    assert (testbed.nodes, found.nodes, testbed.one_host, found.one_host) == (("generator",), (), True, True)
    apart = on_its_nodes(Section.model_validate(APART))
    assert [host.words for host, _ in apart.far] == ["ssh root@node12", "netns 77"]
    assert node_words(testbed.nodes) == {"generator": "ssh root@node12"}
    assert written(hosts_of_nodes()) == "generator=ssh:root@node12,sink=netns:77"
    listed = Section.model_validate(
        {
            "generator": [PAIRED["generator"], {"host": {"ssh": "other"}, "interfaces": ["eth3"]}],
            "sink": PAIRED["sink"],
            "hypervisor": {"host": "local", "interfaces": ["eth1", "eth2", "eth3"]},
        }
    )
    assert [host.words for host, _ in on_its_nodes(listed).far] == ["ssh root@node12", "ssh other", "ssh root@node12"]


def test_a_node_without_a_host_is_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "other=ssh:node12")
    facts = ("'generator'", "VIRTOLL_NODES=generator=ssh:")
    with refused(*facts, error=UsageError):
        on_its_nodes(Section.model_validate(PAIRED))
    file = experiments.write(tmp_path, testbed=PAIRED, platforms=["native", "native-again"])
    assert in_process("plan", file, runs=tmp_path).returncode == 0, "a plan needs no host"
    commands: list[list[str | Path]] = [
        ["run", file],
        ["campaign", "block", file, "--block", "1", "--into", tmp_path / "c"],
    ]
    for command in commands:
        assert_refused(in_process(*command, runs=tmp_path / "runs"), *facts)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("testbed", "complaint"),
    [
        ({**PAIRED, "hypervisor": {"host": {"node": "guests"}, "interfaces": ["a", "b"]}}, "hypervisor"),
        ({**PAIRED, "generator": {"host": {"node": "a,b"}, "interfaces": ["a"]}}, "generator.host.node"),
        ({**PAIRED, "generator": {"host": {"node": "a", "ssh": "b"}, "interfaces": ["a"]}}, "{node: label}"),
    ],
)
def test_a_node_is_a_generator_or_a_sink(testbed: dict[str, Any], complaint: str) -> None:
    with refused(complaint, error=UsageError):
        experiment(testbed)


def test_a_part_has_its_nodes_and_goes_on_with_the_same_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The campaign is one, whatever host the node is; with another one a part that did not end begins anew."""
    wanted = experiment(PAIRED)
    part = part_of(wanted, plan_of(wanted), (0,))
    folder = tmp_path / "block-1"
    monkeypatch.setenv(VARIABLE, "generator=ssh:node12,unused=ssh:x")
    run = measured(wanted, folder, blocks=(0,))
    assert run.manifest.nodes == {"generator": "ssh node12"}
    assert run.manifest.testbed is not None
    assert run.manifest.testbed["generator"]["host"]["node"] == "generator"
    assert_facts(wiring_words(load_analysis(folder).data.manifest), "node generator", "eth1, eth2", "ssh node12")
    run.set_state("interrupted", "a test")
    assert part_of(wanted, plan_of(wanted), (0,)) == part
    assert beginning(folder, part, None) == "resume"
    monkeypatch.setenv(VARIABLE, "generator=ssh:node13")
    with refused("ssh node12", "'generator'", "VIRTOLL_NODES", "ssh node13", error=UsageError):
        resume(folder, SilentProgress())
    assert beginning(folder, part, None) == "new"
    assert (tmp_path / "aside" / "block-1.1" / "manifest.json").exists()


def test_a_merged_run_has_the_nodes_of_its_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted, folder = experiment(PAIRED), tmp_path / "c"
    for block, host in ((0, "node12"), (1, "node14")):
        monkeypatch.setenv(VARIABLE, f"generator=ssh:{host}")
        measured(wanted, folder / f"block-{block + 1}", blocks=(block,))
    done = merged(folder)
    manifest = RunFolder.open(done.folder).manifest
    assert manifest.nodes is None
    assert manifest.merged is not None
    assert [one.nodes for one in manifest.merged.parts] == [{"generator": "ssh node12"}, {"generator": "ssh node14"}]
    assert_facts(wiring_words(load_analysis(done.folder).data.manifest), "Node generator", "ssh node12", "ssh node14")


def test_a_task_runs_on_the_node_that_has_no_label() -> None:
    pair = nodes(n2="pair1,generator", n1="pair1,big")
    found = placed(pair, ["generator"], FEATURES)
    assert (found.guests, found.hosts) == ("n1", {"generator": HostAddress(ssh="n2.site")})
    three = placed([*pair, *nodes(n3="pair1,sink")], ["generator", "sink"], FEATURES)
    assert (three.guests, written(three.hosts)) == ("n1", "generator=ssh:n2.site,sink=ssh:n3.site")


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"n1": "pair1", "n2": "pair2,generator"}, ["n1, n2", "pair1, pair2"]),
        ({"n1": "pair1", "n2": "pair1"}, ["n1, n2", "'generator'"]),
        ({"n1": "pair1,generator", "n2": "pair1,generator"}, ["n1, n2", "'generator'"]),
        ({"n1": "pair1,generator"}, ["n1", "guests", "generator"]),
    ],
)
def test_nodes_that_their_features_do_not_tell_apart_are_refused(given: dict[str, str], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        placed(nodes(**given), ["generator"], FEATURES)


def test_wired_and_nodes_go_together() -> None:
    with refused("'generator'", "--wired", error=UsageError):
        refuse_unwired(experiment(PAIRED), ())
    with refused("--wired", "testbed", "node", error=UsageError):
        refuse_unwired(experiment(), FEATURES)
    with refused("--wired", "'generator'", error=UsageError):
        refuse_unwired(experiment(PAIRED), ("pair1", "generator"))
    refuse_unwired(experiment(PAIRED), FEATURES)
    refuse_unwired(experiment(), ())
    for given in ("", "a,", "a,a", "a|b", "a b", "[a]"):
        with refused("--wired", repr(given), error=UsageError):
            features_of(given)
    assert constraint(features_of("pair1, pair2")) == "[pair1|pair2]"


def test_slurms_nodes_are_read() -> None:
    """A node is in two partitions; another one has no feature."""
    printed = "n1|n1.site|pair1,big\nn1|n1.site|pair1,big\nn2|n2.site|(null)\n"
    assert parsed_nodes(printed) == [
        SlurmNode("n1", "n1.site", frozenset({"pair1", "big"})),
        SlurmNode("n2", "n2.site", frozenset()),
    ]
    assert on_node("n1", ["true"])[0] == "srun"


def test_submitting_asks_for_nodes_that_share_a_feature(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, **MODELS, testbed=PAIRED)
    submit: list[str | Path] = ["campaign", "submit", file, "--nodes", "2", "--into", tmp_path / "c", "--dry-run"]
    wanted = experiment(PAIRED)
    settings = SubmissionRecord(2, {}, wired=FEATURES, labels=("generator",))
    campaign = CampaignRecord("c", "example", 2, 0)
    whole = plan_of(wanted)
    (job,) = array_jobs(tmp_path, wanted, settings, [(0, 0), (1, 1)], plan=whole, campaign=campaign, largest=10)
    assert job.command[3:7] == ("--array=0-1%2", "--nodes=2", "--constraint=[pair1|pair2]", "--exclusive")
    assert_refused(in_process(*submit, runs=tmp_path), "--wired")
    given = ("--wired", "pair1", "--option=--constraint=x")
    assert_refused(in_process(*submit, *given, runs=tmp_path), "--wired", "--constraint")
