"""Campaigns by blocks: parts that several hosts measured become one run, which has each planned trial exactly once."""

from __future__ import annotations

import ctypes
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import environment, virtoll
from tests.support.experiments import fake
from tests.support.repository import ROOT

from virtoll import __version__
from virtoll.campaign.candidates import found_parts
from virtoll.campaign.explain import explained_experiment
from virtoll.campaign.extension import extended_experiment
from virtoll.campaign.merge import Allowed, Merged, merge
from virtoll.campaign.parts import asked_blocks, beginning, block_numbers, part_name, part_of, refuse_undivided
from virtoll.campaign.pipeline import experiment_of, measure, resume
from virtoll.campaign.preview import plan_of
from virtoll.campaign.progress import SilentProgress
from virtoll.claims import NO_PAPER
from virtoll.errors import RunFolderError, StorageError, UsageError
from virtoll.experiment.model import Experiment
from virtoll.experiment.plan import Trial
from virtoll.report import build_report, load_analysis, report_document
from virtoll.report.answer import notes
from virtoll.report.columns import TABLES
from virtoll.report.headline import host_words
from virtoll.report.methods import methods_of
from virtoll.report.page import render_page
from virtoll.report.tables import csv_tables
from virtoll.runfolder import placing
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences, write_sums
from virtoll.runfolder.writer import writing

BLOCKS = 24
RIGHT: dict[str, Any] = {
    "platforms": [fake("model"), fake("again", seed=2), fake("slow", cost=1.4, seed=3)],
    "baseline": "model",
    "control": "again",
    "blocks": BLOCKS,
    "workloads": [{"workload": "superpi", "digits": 1000}, {"workload": "forward", "frame_size_bytes": 64}],
}


def experiment(**changed: Any) -> Experiment:
    return experiments.parsed(**{**RIGHT, **changed})


def measured(folder: Path, *blocks: int, of: Experiment | None = None) -> Path:
    """A part with these blocks, from 1, in a campaign's folder."""
    wanted = tuple(block - 1 for block in blocks)
    path = folder / part_name(wanted)
    measure(of or experiment(), path, ["virtoll"], SilentProgress(), blocks=wanted)
    return path


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """24 blocks: 23 parts, of which one has two blocks; to be copied."""
    folder = tmp_path_factory.mktemp("campaign")
    for block in range(1, BLOCKS - 1):
        measured(folder, block)
    measured(folder, BLOCKS - 1, BLOCKS)
    return folder


@pytest.fixture
def parts(campaign: Path, tmp_path: Path) -> Path:
    shutil.copytree(campaign, tmp_path / "parts")
    return tmp_path / "parts"


def changed(part: Path, host: dict[str, Any] | None = None, **keys: Any) -> Path:
    """The part with another host, or other keys in its manifest, and digests that fit."""
    manifest = json.loads((part / "manifest.json").read_text())
    manifest["host"] |= host or {}
    manifest |= keys
    (part / "manifest.json").write_text(json.dumps(manifest))
    write_sums(part)
    return part


def merged(parts: Path, *more: Path, partial: bool = False, without: tuple[str, ...] = (), **given: Any) -> Merged:
    """The parts in one run beside them."""
    return merge([parts, *more], lambda *_: parts.parent / "run", ["virtoll"], Allowed(partial, without), **given)


def told_of(trial: TrialRecord) -> tuple[object, ...]:
    """What of a trial the plan and the model say; not when it was."""
    durations = trial.clock and trial.clock.marks and trial.clock.marks.end_ns - trial.clock.marks.start_ns
    rates = [
        (point.intended_rate_frames_per_second, [one.forwarded_frames for one in point.sink.per_source])
        for point in trial.points or ()
    ]
    planned = trial.trial, trial.block, trial.platform, trial.workload, trial.parameters, trial.round, trial.warm_up
    return (*planned, trial.boot, trial.attempt, trial.status, durations, rates, trial.result, trial.check)


def test_parts_merged_are_the_same_campaign_on_one_host_trial_by_trial(parts: Path) -> None:
    measure(experiment(), parts.parent / "whole", ["virtoll"], SilentProgress())
    whole = RunFolder.open(parts.parent / "whole")
    done = merged(parts)
    run = RunFolder.open(done.folder)
    assert (done.blocks, done.of, done.hosts, done.told) == (BLOCKS, BLOCKS, 1, ())
    assert (state_now(done.folder), differences(done.folder)) == ("complete", ())
    assert [one.trial for one in run.trials()] == [one.trial for one in run.manifest.plan.trials]
    assert run.manifest.plan.trials == whole.manifest.plan.trials
    assert list(map(told_of, run.trials())) == list(map(told_of, whole.trials()))
    labels = [one.boot for one in run.boots()]
    assert labels == [one.boot for one in whole.boots()]
    assert len(set(labels)) == len(labels)
    assert sorted(one.after_trial for one in run.fitness() if one.after_trial is not None) == [
        one.trial for one in run.trials()
    ]
    ratios, others = load_analysis(done.folder).comparisons, load_analysis(whole.path).comparisons
    assert [(one.verdict, one.pairs) for one in ratios] == [(one.verdict, one.pairs) for one in others]


def test_what_goes_on_with_a_run_is_refused_for_a_merged_one(parts: Path) -> None:
    run = RunFolder.open(merged(parts).folder)
    with pytest.raises(UsageError, match="is merged of parts; measure a block that it has not"):
        experiment_of(run)
    with pytest.raises(UsageError, match="is of a campaign, whose number of blocks was fixed before it began"):
        extended_experiment(run, BLOCKS + 1)
    with pytest.raises(UsageError, match="is merged of parts; explain one of the parts"):
        explained_experiment(run)


def test_a_part_has_its_blocks_of_the_whole_plan_and_says_so(parts: Path) -> None:
    whole = [one for one in plan_of(experiment()).trials if one.block in (22, 23)]
    part = RunFolder.open(parts / "blocks-23-24")
    assert [one.trial for one in part.manifest.plan.trials] == [one.number for one in whole]
    assert part.manifest.part == part_of(experiment(), plan_of(experiment()), (22, 23))
    assert any(
        one.startswith("This is a part of campaign") and "blocks 23 to 24 of 24" in one
        for one in notes(load_analysis(part.path))
    )


class StopAfter(SilentProgress):
    """Ends the run the hard way once so many trials are stored."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:  # noqa: ARG002 - the seam's signature
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def half(folder: Path, blocks: tuple[int, ...], trials: int) -> Path:
    """A part that was killed after so many trials."""
    path = folder / part_name(blocks)
    with pytest.raises(KeyboardInterrupt):
        measure(experiment(), path, ["virtoll"], StopAfter(trials), blocks=blocks)
    return path


def test_a_part_that_was_killed_is_resumed(parts: Path, campaign: Path) -> None:
    shutil.rmtree(parts / "block-4")
    killed = half(parts, (3,), 4)
    part = RunFolder.open(killed).manifest.part
    assert part is not None
    assert beginning(killed, part, None) == "resume"
    resume(killed, SilentProgress())
    assert beginning(killed, part, None) == "done"
    numbers = [one.trial for one in RunFolder.open(killed).trials()]
    assert numbers == [one.trial for one in RunFolder.open(campaign / "block-4").trials()]
    assert merged(parts).blocks == BLOCKS


def test_a_requeued_task_does_what_is_left_to_do(tmp_path: Path) -> None:
    """The command: a part that is complete, one of another host's that was killed, and what does not fit."""
    file = experiments.write(tmp_path, **{**RIGHT, "blocks": 2})
    here = ("campaign", "block", file, "--into", tmp_path / "c")
    first = virtoll(*here, "--block", "1")
    assert first.returncode == 0, first.stderr
    trials = (tmp_path / "c/block-1/trials.jsonl").read_bytes()
    again = virtoll(*here, "--block", "1")
    assert (again.returncode, again.stdout) == (0, f"{tmp_path}/c/block-1 is complete; nothing is measured\n")
    assert (tmp_path / "c/block-1/trials.jsonl").read_bytes() == trials
    shutil.copytree(tmp_path / "c/block-1", tmp_path / "c/aside-before")
    elsewhere = changed(tmp_path / "c/block-1", host={"fingerprint": "f" * 64})
    RunFolder.open(elsewhere).set_state("interrupted", "a test")
    anew = virtoll(*here, "--block", "1")
    assert anew.returncode == 0, anew.stderr
    assert "another host, agent or Virtoll began block-1 and did not end it" in anew.stderr
    assert (tmp_path / "c/aside/block-1.1/trials.jsonl").read_bytes() == trials, "nothing is lost"
    assert state_now(tmp_path / "c/block-1") == "complete"
    shutil.rmtree(tmp_path / "c/aside-before")
    other = virtoll(*here, "--block", "2", "--seed", "5")
    assert other.returncode == 2
    assert "has another campaign: of example with 2 blocks" in other.stderr
    assert virtoll(*here, "--block", "2").returncode == 0
    run = virtoll("campaign", "merge", tmp_path / "c", "--into", tmp_path / "run")
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.startswith(f"2 of 2 blocks of 1 host: {tmp_path}/run\n")


def test_blocks_are_asked_for_and_told_from_one() -> None:
    assert (asked_blocks("3", 4), asked_blocks("2-4", 4)) == ((2,), (1, 2, 3))
    for wrong in ("0", "5", "4-3", "3-5", "x", "1,2", ""):
        with pytest.raises(UsageError, match="--block"):
            asked_blocks(wrong, 4)
    assert block_numbers({0}) == "1"
    assert block_numbers({0, 1, 2, 5}) == "1 to 3 and 6"
    assert block_numbers({0, 2, 4, 5}) == "1, 3 and 5 to 6"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"order": "paper"}, "key 'order': paper has each platform's repetitions in one boot"),
        ({"blocks": {"until": "decided"}}, "blocks are added until all is decided"),
    ],
)
def test_what_cannot_be_divided_is_refused(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        refuse_undivided(experiment(**keys))


def test_half_a_campaign_is_refused_and_merged_on_request(parts: Path) -> None:
    for block in (4, 9, 10):
        shutil.rmtree(parts / f"block-{block}")
    half(parts, (8, 9), 7)  # block 9 is whole, 10 is not
    said = (
        r"^blocks 4 and 9 to 10 of 24 are missing \(blocks-9-10 did not end: block 10 is not whole\); measure with "
        r"'virtoll campaign block', or merge what there is with --partial$"
    )
    with pytest.raises(UsageError, match=said):
        merged(parts)
    assert not (parts.parent / "run").exists()
    done = merged(parts, partial=True)
    run = RunFolder.open(done.folder)
    assert (done.blocks, done.told) == (22, ("blocks-9-10 did not end: block 10 is not whole",))
    assert (run.state().state, run.state().reason) == ("interrupted", "blocks 4 and 10 of 24 are missing")
    assert {one.block for one in run.trials()} == set(range(24)) - {3, 9}
    assert (done.missing, differences(done.folder)) == ((3, 9), ()), "it never goes on, so it has its digests"
    analysis = load_analysis(done.folder)
    assert "blocks 4 and 10 of 24 are missing" in notes(analysis)[0]
    assert sum(row["not run"] for row in analysis.statuses.values()) == 12
    measured(parts, 4)
    resume(parts / "blocks-9-10", SilentProgress())
    assert merged(parts).blocks == 24
    assert state_now(done.folder) == "complete", "merging again takes what came since"


def refused_part(parts: Path, said: str, block: int) -> Merged:
    """A part of this block is refused in one sentence, and left out on request."""
    with pytest.raises(UsageError) as refused:
        merged(parts)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (parts.parent / "run").exists()
    done = merged(parts, partial=True)
    assert any(said in one for one in done.told)
    assert {one.block for one in RunFolder.open(done.folder).trials()} == set(range(24)) - {block - 1}
    return done


def _torn(part: Path) -> None:
    (part / "trials.jsonl").write_bytes((part / "trials.jsonl").read_bytes()[:-30])


def _wrong_json(part: Path) -> None:
    lines = (part / "boots.jsonl").read_bytes().splitlines(keepends=True)
    (part / "boots.jsonl").write_bytes(lines[0].replace(b"{", b"[", 1) + b"".join(lines[1:]))


def _unsummed(part: Path) -> None:
    (part / "SHA256SUMS").unlink()


def _headless(part: Path) -> None:
    (part / "manifest.json").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_torn, "block-5 is not as it was when the part ended: trials.jsonl: has changed"),
        (_wrong_json, "block-5 is not as it was when the part ended: boots.jsonl: has changed"),
        (_unsummed, "block-5 has no SHA256SUMS"),
        (_headless, "block-5 is not a run folder"),
    ],
)
def test_a_corrupt_part_is_named(parts: Path, damage: Callable[[Path], None], said: str) -> None:
    damage(parts / "block-5")
    refused_part(parts, said, 5)


def test_a_part_of_other_trials_is_named(parts: Path) -> None:
    """Digests fit, and yet it is not what was planned."""
    part = parts / "block-5"
    (part / "trials.jsonl").write_bytes((parts / "block-6/trials.jsonl").read_bytes())
    write_sums(part)
    refused_part(parts, "block-5/trials.jsonl: trial 30 is not the one of the part's plan", 5)


KERNEL = {"kernel": "6.99.0 other x86_64", "fingerprint": "a" * 64}


@pytest.mark.parametrize(
    ("host", "keys", "said"),
    [
        (KERNEL, {}, "block-7: host's kernel differs: 6.99.0 other x86_64, and "),
        ({"cpu_model": "Other"}, {}, "block-7: host's cpu model differs: Other, and "),
        ({"mitigations": {"new": "Vulnerable"}}, {}, "block-7: host's mitigations: "),
        ({"packages": {"libc6": "9"}}, {}, "block-7: host's packages: libc6 differs: 9, and "),
        ({"memory_bytes": 2**20}, {}, "block-7: its host has another memory than the others: 1048576 bytes"),
        ({}, {"virtoll": "0.0.1"}, f"block-7: Virtoll differs: 0.0.1, and {__version__} in block-1"),
        ({}, {"agent": {"sha256": "b" * 64}}, "block-7: build of the agent differs: "),
        ({}, {"image": {"digest": "sha256:c"}}, "block-7: image differs: sha256:c"),
        (
            {},
            {"against": {"settings": ["/new/runc"], "pairs": [], "programs": {"a": {}, "b": {"runc": "d" * 64}}}},
            "block-7: programs of two builds: runc of side B differs: ddd",
        ),
    ],
)
def test_a_part_of_another_kind_is_refused_by_what_differs(
    parts: Path, host: dict[str, Any], keys: dict[str, Any], said: str
) -> None:
    changed(parts / "block-7", host, **keys)
    refused_part(parts, said, 7)


def test_memory_of_hosts_of_one_class_may_differ_a_little(parts: Path) -> None:
    memory = RunFolder.open(parts / "block-7").manifest.host["memory_bytes"]
    changed(parts / "block-7", {"memory_bytes": int(memory * 1.01), "fingerprint": "d" * 64})
    assert merged(parts).hosts == 2


def test_a_part_of_another_campaign_is_refused(parts: Path) -> None:
    shutil.rmtree(parts / "block-7")
    measured(parts, 7, of=experiment(seed=99))
    refused_part(parts, "block-7: campaign differs: ", 7)


def test_a_run_of_its_own_is_no_part(parts: Path) -> None:
    measure(experiment(blocks=1), parts / "block-25", ["virtoll"], SilentProgress())
    with pytest.raises(UsageError, match="block-25 is a run of its own, and no part of a campaign"):
        merged(parts)


def test_a_block_that_is_there_twice_counts_once(parts: Path) -> None:
    """The first to have ended is taken; one that did not end is none."""
    second = measured(parts / "more", 3)
    half(parts / "half", (2,), 2)
    done = merged(parts, second, parts / "half" / "block-3")
    assert done.told == ("block 3 of more/block-3 is left out: parts/block-3 ended it first",)
    run = RunFolder.open(done.folder)
    numbers = [one.trial for one in run.trials()]
    assert sorted(numbers) == list(range(len(run.manifest.plan.trials)))
    first = RunFolder.open(parts / "block-3").trials()
    assert [one for one in run.trials() if one.block == 2] == list(first)


def test_hosts_have_short_names_and_one_is_left_out_on_request(parts: Path) -> None:
    for block in (2, 5, 8):
        changed(parts / f"block-{block}", {"fingerprint": "e" * 64, "hostname_hash": "e"})
    done = merged(parts)
    hosts = RunFolder.open(done.folder).manifest.hosts
    assert [(one.name, one.blocks) for one in hosts][1] == ("host-2", (1, 4, 7))
    assert sorted(block for one in hosts for block in one.blocks) == list(range(24))
    with pytest.raises(UsageError, match="--without-host host-3: there is no such host; choose one of: host-1, host-2"):
        merged(parts, without=("host-3",))
    done = merged(parts, without=("host-2",))
    run = RunFolder.open(done.folder)
    assert done.told == ("host-2 was left out on request, with blocks 2, 5 and 8",)
    assert run.manifest.merged is not None
    assert (run.manifest.merged.left_out, run.manifest.merged.missing) == (done.told, (1, 4, 7))
    assert run.state().reason == "blocks 2, 5 and 8 of 24 are missing"
    assert any(one.startswith("host-2 was left out on request") for one in notes(load_analysis(done.folder)))


HOUR_NS = 3_600_000_000_000


def test_a_wrong_clock_is_told(parts: Path) -> None:
    moment = RunFolder.open(parts / "block-1").manifest.created_realtime_ns
    created = {"campaign": "x", "experiment": "example", "blocks": 24, "created_realtime_ns": moment - HOUR_NS}
    (parts / "campaign.json").write_text(json.dumps(created))
    changed(parts / "block-2", created_realtime_ns=moment - 2 * HOUR_NS)
    changed(parts / "block-3", created_realtime_ns=moment + 2 * HOUR_NS)
    lines = (parts / "block-4/fitness.jsonl").read_text().splitlines()
    stepped = [json.loads(line) for line in lines]
    for one in stepped[3:]:
        one["realtime_ns"] -= 90_000_000_000
    (parts / "block-4/fitness.jsonl").write_text("".join(json.dumps(one) + "\n" for one in stepped))
    write_sums(parts / "block-4")
    done = merged(parts, now_ns=moment + HOUR_NS)
    lead = "the clock of its host was wrong: "
    assert [one.partition(lead)[0] for one in done.told] == ["block-2: ", "block-3: ", "block-4: "]
    assert "it began 3600 s before the campaign was created" in done.told[0]
    assert "it ended 3600 s from now" in done.told[1]
    assert "it was stepped by 90.0 s while the part ran" in done.told[2]
    assert (done.blocks, state_now(done.folder)) == (24, "complete"), "it is told, and counts"
    assert [one for one in notes(load_analysis(done.folder)) if lead in one] == [f"{one}." for one in done.told]
    twice = measured(parts / "more", 2)
    best = merged(parts, twice, now_ns=moment + HOUR_NS).told
    assert not any(one.startswith("block-2: ") for one in best), "of two, the one with a clock that can be believed"


def test_two_merges_at_once_are_refused_in_one_sentence(parts: Path) -> None:
    place = parts.parent / "run"
    with (
        writing(place),
        pytest.raises(RunFolderError, match=r"run: a process writes this run now .*; wait for its end"),
    ):
        merged(parts)
    assert merged(parts).blocks == 24


def test_links_of_parts_are_not_followed(parts: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("mine")
    (parts / "block-3" / "evidence" / "native").mkdir()
    (parts / "block-3" / "evidence" / "native" / "console.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match=r"console\.txt: is a link"):
        merged(parts)
    assert not (parts.parent / "run").exists()


@pytest.mark.parametrize("name", [".run.new-merge", ".run.old-merge", "run/evidence", "run/report", "run/.writer"])
def test_a_link_where_a_merge_writes_is_refused(name: str, parts: Path, tmp_path: Path) -> None:
    merged(parts)
    mine = tmp_path / "elsewhere" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")
    place = parts.parent / name
    shutil.rmtree(place, ignore_errors=True)
    place.symlink_to(mine.parent)
    with pytest.raises(UsageError, match=f"{place.name}: is a link"):
        merged(parts)
    assert place.is_symlink()
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("name", ["evidence/mine.txt", "report/tables/mine.csv"])
def test_a_merge_removes_nothing_that_virtoll_did_not_make(name: str, parts: Path) -> None:
    run = merged(parts).folder
    build_report(run)
    assert merged(parts).folder == run, "a report is made again"
    build_report(run)
    (run / name).write_text("mine")
    with pytest.raises(UsageError, match=f"{name}, which is no part of a run"):
        merged(parts)
    assert (run / name).read_text() == "mine"


def test_a_place_that_holds_something_else_is_refused(parts: Path) -> None:
    place = parts.parent / "run"
    place.mkdir()
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match="holds other files"):
        merged(parts)
    (place / "notes.txt").unlink()
    merged(parts)
    (place / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"notes\.txt, which is no part of a run"):
        merged(parts)
    shutil.rmtree(place)
    measure(experiment(blocks=1), place, ["virtoll"], SilentProgress())
    with pytest.raises(UsageError, match="holds another run than this campaign's"):
        merged(parts)
    with pytest.raises(UsageError, match="is no folder"):
        merged(parts / "nothing")
    (parts / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no part of a campaign"):
        found_parts([parts / "empty"])


KILLED_AT = """
import os, re, signal, sys
step, what = int(sys.argv.pop(1)), sys.argv.pop(1)
calls, PLACE = [], re.compile(r"/[.]?run([.]new-merge|[.]old-merge)?(/|$)")
def counted(event, arguments):
    if event in ("open", "os.rename", "os.mkdir", "os.rmdir", "os.remove") and PLACE.search(str(arguments[0])):
        calls.append(event)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGKILL)
from virtoll.cli import main
if what == "exchanged":
    from virtoll.runfolder import placing
    def put(new, target, aside=None, put=placing.put):
        put(new, target, aside)
        os.kill(os.getpid(), signal.SIGKILL)
    placing.put = put
else:
    sys.addaudithook(counted)
main()
"""


def killed_merge(parts: Path, into: Path, step: int, what: str = "calls") -> int:
    command = [sys.executable, "-c", KILLED_AT, str(step), what, "campaign", "merge", str(parts), "--into", str(into)]
    ran = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, check=False)
    return ran.returncode


@pytest.mark.parametrize("old", [False, True])
def test_a_kill_in_the_middle_of_a_merge_leaves_the_old_run_or_the_new(tmp_path: Path, old: bool) -> None:
    """kill -9 at some of the calls that open, make, rename and remove files of the run, and just after the exchange."""
    small = experiment(blocks=3)
    for block in (1, 2):
        measured(tmp_path / "parts", block, of=small)
    into = tmp_path / "run"
    if old:
        merge([tmp_path / "parts"], lambda *_: into, ["virtoll"], Allowed(partial=True))
    measured(tmp_path / "parts", 3, of=small)
    before = RunFolder.open(into).trials() if old else None
    for step in (6, 15, 31):
        if killed_merge(tmp_path / "parts", into, step) != -signal.SIGKILL:
            break
        there = RunFolder.open(into).trials() if (into / "manifest.json").exists() else None
        if there != before:
            assert differences(into) == ()
            assert len(there or ()) == len(plan_of(small).trials)
            break
    assert killed_merge(tmp_path / "parts", into, 0, "exchanged") == -signal.SIGKILL
    assert (state_now(into), differences(into)) == ("complete", ())
    done = merge([tmp_path / "parts"], lambda *_: into, ["virtoll"])
    assert (done.blocks, differences(into)) == (3, ())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "run"], "nothing of a killed one is left"


def test_a_file_system_that_cannot_exchange_has_the_old_run_beside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two renames: killed between them, both are whole beside the place, and the next merge takes the old one back."""

    class Without:
        """A C library whose file system has no exchange."""

        def renameat2(self, *_: object) -> int:
            ctypes.set_errno(22)
            return -1

    monkeypatch.setattr(placing, "_libc", Without())
    target = tmp_path / "run"
    for content in ("first", "second"):
        with placing.placed(target) as new:
            (new / "manifest.json").write_text(content)
    assert (target / "manifest.json").read_text() == "second"
    target.rename(tmp_path / ".run.old-merge")
    with pytest.raises(StorageError, match="What was there is whole"), placing.placed(target):
        raise OSError(28, "No space left on device")
    assert (target / "manifest.json").read_text() == "second"
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_merged_run_is_read_with_the_state_of_each_host(parts: Path) -> None:
    """What a counter of one host's is beyond another's is no growth."""
    rows = [json.loads(line) for line in (parts / "block-2/fitness.jsonl").read_text().splitlines()]
    for row in rows:
        row["swap_in_pages"] = (row["swap_in_pages"] or 0) + 10**9
    (parts / "block-2/fitness.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    changed(parts / "block-2", {"fingerprint": "e" * 64})
    fitness = load_analysis(merged(parts).folder).fitness
    swap = next(one.value for one in fitness.findings if one.threshold.name == "swap")
    assert swap is None or swap < 10**8


def slower(part: Path, factor: float) -> None:
    """What its platform 'slow' took, made longer."""
    lines = [json.loads(line) for line in (part / "trials.jsonl").read_text().splitlines()]
    for line in lines:
        if line["platform"] == "slow" and line["workload"] == "superpi":
            marks = line["clock"]["marks"]
            marks["end_ns"] = int(marks["start_ns"] + (marks["end_ns"] - marks["start_ns"]) * factor)
    (part / "trials.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_sums(part)


@pytest.fixture
def several(parts: Path) -> Path:
    """The same campaign by six hosts, of which the fourth has a slower 'slow'."""
    for path in sorted(parts.iterdir()):
        first = RunFolder.open(path).manifest.plan.trials[0].block
        changed(path, {"fingerprint": f"{first % 6}" * 64})
        if first % 6 == 3:
            slower(path, 1.3)
    return merged(parts).folder


def test_host_is_a_level_of_the_analysis(several: Path) -> None:
    analysis = load_analysis(several)
    found = analysis.across_hosts
    assert [host.name for host in found.hosts] == [f"host-{number}" for number in range(1, 7)]
    assert found.hosts[3].blocks == (3, 9, 15, 21)
    assert {(one.host, one.platform, one.task.workload) for one in found.flagged} == {("host-4", "slow", "superpi")}
    assert found.flagged[0].factor == pytest.approx(1 / 1.3, rel=0.05)
    varying = {(one.platform, one.task.workload): one for one in found.variations}
    assert varying["slow", "superpi"].between == pytest.approx(0.11, rel=0.2)
    assert varying["slow", "forward"].between == pytest.approx(0.0, abs=0.01)
    one = next(one for one in analysis.comparisons if one.task.workload == "superpi")
    assert (len(one.pairs), len(one.hosts), str(one.verdict)) == (24, 6, "slower")
    assert one.interval is not None
    assert one.interval.method == "moderated t on hosts' mean log ratios"
    assert one.interval.high - one.interval.low > 0.04, "wider than 24 blocks of one host would have it"
    said = " ".join(notes(analysis))
    assert "This run is of 6 hosts. A host counts once in each verdict" in said
    assert "host-4 stands out: slow in Super Pi 1000" in said
    assert "slower there than on the others. It is not left out; 'virtoll campaign merge --without-host host-4'" in said
    assert analysis.drift is None, "hosts measure at the same time: there is no trend over a run"
    assert not analysis.extendable


def test_a_merged_run_has_a_section_of_its_hosts(several: Path) -> None:
    analysis = load_analysis(several)
    page = render_page(analysis, {}, (), NO_PAPER).replace("\u00a0", " ")
    section = page.partition('id="hosts-title"')[2].partition("</section>")[0]
    assert all(f'<th scope="row">host-{number}</th>' in section for number in range(1, 7))
    assert "4, 10, 16, 22" in section
    assert '<td class="text wrap warn">slow in Super Pi' in section
    assert "A host stands out where its mean is further from the others" in section
    tables = {table.name: table.records() for table in csv_tables(analysis)}
    flagged = [(row["host"], row["platform"], row["blocks"]) for row in tables["hosts"] if row["stands_out"]]
    assert flagged == [("host-4", "slow", 4)]
    assert len(tables["host_variation"]) == sum(one.task.metric.primary for one in analysis.comparisons)
    for name in ("hosts", "host_variation"):
        assert [one.name for one in TABLES[name].columns()] == list(tables[name][0])
    document = report_document(analysis, (), several, several / "index.html", ())
    assert [one["blocks"] for one in document["run"]["hosts"]][3] == [4, 10, 16, 22]
    assert document["hosts"] == tables["hosts"]
    assert document["run"]["merged"]["missing"] == ()
    json.dumps(document)
    assert host_words(analysis).endswith(", 6 such hosts")
    methods = " ".join(sentence for _, said in methods_of(analysis).paragraphs for sentence in said)
    assert "The blocks were shared among 6 hosts of one class." in methods
    assert "A host counted once in each comparison, with the mean over its blocks." in methods
    assert "Unlike the other hosts was host-4 in Super Pi 1000" in methods


def test_a_run_of_one_host_has_no_table_of_hosts(parts: Path) -> None:
    analysis = load_analysis(merged(parts).folder)
    assert not {"hosts", "host_variation"} & {table.name for table in csv_tables(analysis)}
    assert not analysis.across_hosts.variations
    page = render_page(analysis, {}, (), NO_PAPER)
    assert "This run was merged of a campaign's parts." in page
    assert "From host to host" not in page
    alone = load_analysis(parts / "block-1")
    assert 'id="hosts-title"' not in render_page(alone, {}, (), NO_PAPER)


def test_a_plan_of_another_version_is_refused(parts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def longer(given: Experiment) -> Any:
        plan = plan_of(given)
        return replace(plan, trials=plan.trials[:-1])

    monkeypatch.setattr("virtoll.campaign.merge.plan_of", longer)
    with pytest.raises(UsageError, match="plans other trials from the same file; merge with Virtoll"):
        merged(parts)
