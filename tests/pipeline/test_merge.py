"""Parts that several hosts measured become one run with each planned trial once; what does not fit is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.campaign_parts import BLOCKS, changed, changed_lines, experiment, killed, measured, merged, untimed
from tests.support.facts import Command, Fact, missing_facts, refused
from tests.support.model_runs import measured as measured_run

from virtoll import __version__
from virtoll.errors import UsageError
from virtoll.experiment.model import Experiment
from virtoll.pipeline.candidates import Part, alike, found_parts
from virtoll.pipeline.execution import experiment_of, resume
from virtoll.pipeline.explain import explained_experiment
from virtoll.pipeline.extension import extended_experiment
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.report import load_analysis
from virtoll.report.answer import notes
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences, write_sums

HOUR_NS = 3_600_000_000_000
BUILDS = {"settings": ["/new/runc"], "pairs": [], "programs": {"a": {}, "b": {"runc": "d" * 64}}}


def test_merged_parts_equal_the_campaign_on_one_host_trial_by_trial(parts: Path) -> None:
    whole = measured_run(experiment(), parts.parent / "whole")
    done = merged(parts)
    run = RunFolder.open(done.folder)
    assert (done.blocks, done.of, done.hosts, done.remarks) == (BLOCKS, BLOCKS, 1, ())
    assert (state_now(done.folder), differences(done.folder)) == ("complete", ())
    assert [one.trial for one in run.trials()] == [one.trial for one in run.manifest.plan.trials]
    assert run.manifest.plan.trials == whole.manifest.plan.trials
    assert list(map(untimed, run.trials())) == list(map(untimed, whole.trials()))
    labels = [one.boot for one in run.boots()]
    assert labels == [one.boot for one in whole.boots()]
    assert len(set(labels)) == len(labels)
    followed = sorted(one.after_trial for one in run.fitness() if one.after_trial is not None)
    assert followed == [one.trial for one in run.trials()]
    ratios, others = load_analysis(done.folder).comparisons, load_analysis(whole.path).comparisons
    assert [(one.verdict, one.pairs) for one in ratios] == [(one.verdict, one.pairs) for one in others]


def test_a_merged_run_is_not_resumed_extended_or_explained(parts: Path) -> None:
    run = RunFolder.open(merged(parts).folder)
    for what, remedy in (
        (experiment_of, "measure"),
        (lambda run: extended_experiment(run, BLOCKS + 1), "campaign"),
        (explained_experiment, "explain one"),
    ):
        with refused("run", remedy, error=UsageError):
            what(run)


def test_a_partial_campaign_is_merged_on_request_alone(parts: Path) -> None:
    for block in (4, 9, 10):
        shutil.rmtree(parts / f"block-{block}")
    killed(parts, 9, 10, trials=7)  # block 9 is whole, 10 is not
    remedy = (Command("virtoll campaign block"), "--partial")
    with refused(4, "9 to 10", 24, "blocks-9-10", "block 10", *remedy, error=UsageError):
        merged(parts)
    assert not (parts.parent / "run").exists()
    done = merged(parts, partial=True)
    run = RunFolder.open(done.folder)
    assert done.blocks == 22
    (left_out,) = done.remarks
    assert not missing_facts(left_out, "blocks-9-10", "block 10")
    assert run.state().state == "interrupted"
    assert not missing_facts(run.state().reason or "", "blocks 4 and 10", 24)
    assert {one.block for one in run.trials()} == set(range(24)) - {3, 9}
    assert (done.missing, differences(done.folder)) == ((3, 9), ()), "it never goes on, so it has its digests"
    analysis = load_analysis(done.folder)
    assert str(run.state().reason) in notes(analysis)[0]
    assert sum(row["not run"] for row in analysis.statuses.values()) == 12
    measured(parts, 4)
    resume(parts / "blocks-9-10", SilentProgress())
    assert merged(parts).blocks == 24
    assert state_now(done.folder) == "complete", "merging again takes what came since"


def assert_left_out(parts: Path, block: int, *facts: Fact) -> None:
    """The part of this block is refused with these facts, and left out on request."""
    with refused(f"block-{block}", *facts, error=UsageError):
        merged(parts)
    assert not (parts.parent / "run").exists()
    done = merged(parts, partial=True)
    assert any(not missing_facts(one, f"block-{block}", *facts) for one in done.remarks)
    assert {one.block for one in RunFolder.open(done.folder).trials()} == set(range(24)) - {block - 1}


def _torn(part: Path) -> None:
    (part / "trials.jsonl").write_bytes((part / "trials.jsonl").read_bytes()[:-30])


def _wrong_json(part: Path) -> None:
    (part / "boots.jsonl").write_bytes((part / "boots.jsonl").read_bytes().replace(b"{", b"[", 1))


def _foreign(part: Path) -> None:
    """Digests fit, and yet it is not what was planned."""
    shutil.copy(part.parent / "block-6/trials.jsonl", part)
    write_sums(part)


@pytest.mark.parametrize(
    ("damage", "facts"),
    [
        (_torn, ["block-5", "trials.jsonl"]),
        (_wrong_json, ["block-5", "boots.jsonl"]),
        (lambda part: (part / "SHA256SUMS").unlink(), ["block-5", "SHA256SUMS"]),
        (lambda part: (part / "manifest.json").unlink(), ["block-5", "run folder"]),
        (_foreign, ["block-5/trials.jsonl", "trial 30"]),
    ],
)
def test_a_corrupt_part_is_named(
    campaign: Path, tmp_path: Path, damage: Callable[[Path], None], facts: list[str]
) -> None:
    for name in ("block-5", "block-6"):
        shutil.copytree(campaign / name, tmp_path / name)
    damage(tmp_path / "block-5")
    (whole,), (damaged,) = found_parts([tmp_path])
    assert (whole.path.name, damaged.path.name) == ("block-6", "block-5")
    assert not missing_facts(damaged.reason, *facts)


def test_a_corrupt_part_is_left_out_on_request(parts: Path) -> None:
    _torn(parts / "block-5")
    assert_left_out(parts, 5, "trials.jsonl")


@pytest.fixture(scope="module")
def found(campaign: Path) -> list[Part]:
    """The campaign's parts but that of block 7."""
    return [part for part in found_parts([campaign])[0] if part.path.name != "block-7"]


@pytest.mark.parametrize(
    ("host", "keys", "facts"),
    [
        ({"kernel": "6.99.0 other", "fingerprint": "a" * 64}, {}, ["host", "kernel", "6.99.0 other"]),
        ({"cpu_model": "Other"}, {}, ["host", "cpu model", "Other"]),
        ({"mitigations": {"new": "Vulnerable"}}, {}, ["host", "mitigations"]),
        ({"packages": {"libc6": "9"}}, {}, ["packages", "libc6", "9"]),
        ({"memory_bytes": 2**20}, {}, ["memory", "1048576 bytes", "2 %"]),
        ({}, {"virtoll": "0.0.1"}, ["Virtoll", "0.0.1", __version__, "block-1"]),
        ({}, {"agent": {"sha256": "b" * 64}}, ["agent", "b" * 57]),
        ({}, {"image": {"digest": "sha256:c"}}, ["image", "sha256:c"]),
        ({}, {"against": BUILDS}, ["runc", "side B", "d" * 57]),
    ],
)
def test_a_part_of_another_kind_is_refused_by_what_differs(
    campaign: Path, found: list[Part], tmp_path: Path, host: dict[str, Any], keys: dict[str, Any], facts: list[str]
) -> None:
    part = Path(shutil.copytree(campaign / "block-7", tmp_path / "block-7"))
    (other,), _ = found_parts([changed(part, host, **keys)])
    taken, (refused_part,) = alike([*found, other])
    assert taken == found
    shown = [fact if len(fact) < 57 else f"{fact}..." for fact in facts]
    assert not missing_facts(refused_part.reason, "block-7", *shown)


def test_a_part_of_another_kind_is_left_out_on_request(parts: Path) -> None:
    changed(parts / "block-7", {"cpu_model": "Other"})
    assert_left_out(parts, 7, "cpu model", "Other")


def test_memory_of_hosts_of_one_class_may_differ_a_little(parts: Path) -> None:
    memory = RunFolder.open(parts / "block-7").manifest.host["memory_bytes"]
    changed(parts / "block-7", {"memory_bytes": int(memory * 1.01), "fingerprint": "d" * 64})
    assert merged(parts).hosts == 2


def test_a_part_of_another_campaign_is_refused(parts: Path) -> None:
    usual = RunFolder.open(parts / "block-7").manifest.part
    shutil.rmtree(parts / "block-7")
    other = RunFolder.open(measured(parts, 7, of=experiment(seed=99))).manifest.part
    assert usual is not None
    assert other is not None
    assert_left_out(parts, 7, "campaign", usual.campaign[:12], other.campaign[:12])


def test_folders_that_are_no_parts_are_refused(parts: Path) -> None:
    measured_run(experiment(blocks=1), parts / "block-25")
    with refused("block-25", error=UsageError):
        merged(parts)
    with refused(parts / "nothing", error=UsageError):
        merged(parts / "nothing")
    (parts / "empty").mkdir()
    with refused(parts / "empty", Command("virtoll campaign block"), error=UsageError):
        found_parts([parts / "empty"])


def test_a_block_that_was_measured_twice_counts_once(parts: Path) -> None:
    """The first to have ended is taken; an unfinished one never is."""
    second = measured(parts / "more", 3)
    unfinished = killed(parts / "half", 3, trials=2)
    done = merged(parts, second, unfinished)
    (left_out,) = done.remarks
    assert not missing_facts(left_out, "block 3", "more/block-3", "parts/block-3")
    run = RunFolder.open(done.folder)
    numbers = [one.trial for one in run.trials()]
    assert sorted(numbers) == list(range(len(run.manifest.plan.trials)))
    first = RunFolder.open(parts / "block-3").trials()
    assert [one for one in run.trials() if one.block == 2] == list(first)


def test_hosts_have_short_names_and_are_left_out_on_request(parts: Path) -> None:
    for block in (2, 5, 8):
        changed(parts / f"block-{block}", {"fingerprint": "e" * 64, "hostname_hash": "e"})
    hosts = RunFolder.open(merged(parts).folder).manifest.hosts
    assert [(one.name, one.blocks) for one in hosts][1] == ("host-2", (1, 4, 7))
    assert sorted(block for one in hosts for block in one.blocks) == list(range(24))
    with refused("--without-host", "host-3", "host-1", "host-2", error=UsageError):
        merged(parts, without=("host-3",))
    done = merged(parts, without=("host-2",))
    run = RunFolder.open(done.folder)
    (left_out,) = done.remarks
    assert not missing_facts(left_out, "host-2", "2, 5 and 8")
    assert run.manifest.merged is not None
    assert (run.manifest.merged.left_out, run.manifest.merged.missing) == (done.remarks, (1, 4, 7))
    assert not missing_facts(run.state().reason or "", "2, 5 and 8", 24)
    assert any(left_out in one for one in notes(load_analysis(done.folder)))


def test_a_wrong_clock_is_reported_and_its_part_counts(parts: Path) -> None:
    moment = RunFolder.open(parts / "block-1").manifest.created_realtime_ns
    created = {"campaign": "x", "experiment": "example", "blocks": 24, "created_realtime_ns": moment - HOUR_NS}
    (parts / "campaign.json").write_text(json.dumps(created))
    changed(parts / "block-2", created_realtime_ns=moment - 2 * HOUR_NS)
    changed(parts / "block-3", created_realtime_ns=moment + 2 * HOUR_NS)

    def step(number: int, record: dict[str, Any]) -> None:
        record["realtime_ns"] -= 90_000_000_000 if number >= 3 else 0

    changed_lines(parts / "block-4", "fitness.jsonl", step)
    done = merged(parts, now_ns=moment + HOUR_NS)
    for sentence, facts in zip(
        done.remarks, [("block-2", "3600 s"), ("block-3", "3600 s"), ("block-4", "90.0 s")], strict=True
    ):
        assert not missing_facts(sentence, "clock", *facts)
    assert (done.blocks, state_now(done.folder)) == (24, "complete")
    lines = notes(load_analysis(done.folder))
    assert all(any(sentence in one for one in lines) for sentence in done.remarks)
    twice = measured(parts / "more", 2)
    best = merged(parts, twice, now_ns=moment + HOUR_NS).remarks
    assert not any(one.startswith("block-2: ") for one in best), "of two, the part whose clock can be believed"


def test_a_plan_of_another_version_is_refused(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def shorter(given: Experiment) -> Any:
        plan = plan_of(given)
        return replace(plan, trials=plan.trials[:-1])

    monkeypatch.setattr("virtoll.pipeline.merge.plan_of", shorter)
    with refused("block-1", "plan", "Virtoll", __version__, error=UsageError):
        merged(parts)
