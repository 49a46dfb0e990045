"""The blocks of a campaign that a task measures: asked for, measured, resumed, measured anew, or refused."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.campaign_parts import BLOCKS, RIGHT, changed, experiment, killed, merged
from tests.support.commands import in_process
from tests.support.facts import assert_facts, assert_refused, missing_facts, refused

from virtoll.errors import UsageError
from virtoll.pipeline.execution import resume
from virtoll.pipeline.parts import asked_blocks, beginning, block_numbers, part_of, refuse_undivided
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.report import load_analysis
from virtoll.report.answer import notes
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder

pytestmark = pytest.mark.usefixtures("undrawn")


def test_a_part_has_its_blocks_of_the_whole_plan(parts: Path) -> None:
    whole = [one for one in plan_of(experiment()).trials if one.block in (22, 23)]
    part = RunFolder.open(parts / "blocks-23-24")
    assert [one.trial for one in part.manifest.plan.trials] == [one.number for one in whole]
    record = part_of(experiment(), plan_of(experiment()), (22, 23))
    assert part.manifest.part == record
    lines = notes(load_analysis(part.path))
    assert any(not missing_facts(one, "campaign", "23 to 24", 24) for one in lines)


def test_a_part_that_was_killed_is_resumed(parts: Path, campaign: Path) -> None:
    shutil.rmtree(parts / "block-4")
    folder = killed(parts, 4, trials=4)
    part = RunFolder.open(folder).manifest.part
    assert part is not None
    assert beginning(folder, part, None) == "resume"
    resume(folder, SilentProgress())
    assert beginning(folder, part, None) == "done"
    numbers = [one.trial for one in RunFolder.open(folder).trials()]
    assert numbers == [one.trial for one in RunFolder.open(campaign / "block-4").trials()]
    assert merged(parts).blocks == BLOCKS


def test_a_requeued_task_does_what_is_left_to_do(tmp_path: Path) -> None:
    """The command: a part that is complete, one that another host left unfinished, and what does not fit."""
    file = experiments.write(tmp_path, **{**RIGHT, "blocks": 2})
    into = tmp_path / "c"
    here = ("campaign", "block", file, "--into", into)
    first = in_process(*here, "--block", "1")
    assert first.returncode == 0, first.stderr
    trials = (into / "block-1/trials.jsonl").read_bytes()
    again = in_process(*here, "--block", "1")
    assert again.returncode == 0
    assert_facts(again.stdout, into / "block-1", "complete")
    assert (into / "block-1/trials.jsonl").read_bytes() == trials
    elsewhere = changed(into / "block-1", host={"fingerprint": "f" * 64})
    RunFolder.open(elsewhere).set_state("interrupted", "a test")
    anew = in_process(*here, "--block", "1")
    assert anew.returncode == 0, anew.stderr
    assert_facts(anew.stderr, "block-1", "host", into / "aside")
    assert (into / "aside/block-1.1/trials.jsonl").read_bytes() == trials, "nothing is lost"
    assert state_now(into / "block-1") == "complete"
    assert_refused(in_process(*here, "--block", "2", "--seed", "5"), into, "example", 2)
    assert in_process(*here, "--block", "2").returncode == 0
    run = in_process("campaign", "merge", into, "--into", tmp_path / "run")
    assert (run.returncode, run.stderr) == (0, "")
    assert_facts(run.stdout.splitlines()[0], "2 of 2 blocks", "1 host", tmp_path / "run")


def test_blocks_are_numbered_from_one_where_people_read_them() -> None:
    assert (asked_blocks("3", 4), asked_blocks("2-4", 4)) == ((2,), (1, 2, 3))
    for wrong in ("0", "x", "1,2", ""):
        with refused("--block", repr(wrong), error=UsageError):
            asked_blocks(wrong, 4)
    for wrong in ("5", "4-3", "3-5"):
        with refused("--block", wrong, "1 to 4", error=UsageError):
            asked_blocks(wrong, 4)
    assert block_numbers({0}) == "1"
    assert block_numbers({0, 1, 2, 5}) == "1 to 3 and 6"
    assert block_numbers({0, 2, 4, 5}) == "1, 3 and 5 to 6"


@pytest.mark.parametrize(
    ("keys", "facts"),
    [({"order": "paper"}, ["'order'", "paper"]), ({"blocks": {"until": "decided"}}, ["blocks", "decided"])],
)
def test_what_cannot_be_divided_is_refused(keys: dict[str, Any], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        refuse_undivided(experiment(**keys))
