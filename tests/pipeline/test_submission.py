"""Which blocks of a campaign are given to Slurm, by which tasks; what is refused; what a task does at its limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.campaign_parts import RIGHT, experiment
from tests.support.commands import environment, in_process
from tests.support.facts import assert_facts, assert_refused, refused
from tests.support.machine import END_SECONDS
from tests.support.repository import ROOT
from tests.support.slurm_cluster import holding_python

from virtoll.errors import UsageError, VirtollError
from virtoll.lab.inside import wait_until
from virtoll.pipeline import submission
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.slurm import Task, parsed_queue
from virtoll.pipeline.submission import CampaignStatus, UnfinishedPart, missing_tasks, refuse_own, standing, time_limit
from virtoll.runfolder.campaign_records import ArrayRecord, CampaignRecord
from virtoll.runfolder.jsonlines import replace
from virtoll.runfolder.overview import state_now

pytestmark = pytest.mark.usefixtures("undrawn")


def stood(blocks: int, complete: set[int] | None = None, *begun: UnfinishedPart) -> CampaignStatus:
    """A folder with these blocks, from 0."""
    seen = (complete or set()).union(*(one.blocks for one in begun))
    missing = tuple(block for block in range(blocks) if block not in seen)
    return CampaignStatus(CampaignRecord("c", "example", blocks, 0), tuple(sorted(complete or ())), begun, missing)


@pytest.mark.parametrize(
    ("there", "under_way", "each", "tasks"),
    [
        (stood(5), (), 1, [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]),
        (stood(5), (), 2, [(0, 1), (2, 3), (4, 4)]),
        (stood(7, {2}), (), 3, [(0, 1), (3, 5), (6, 6)]),
        (stood(7, {2}), (4, 5), 3, [(0, 1), (3, 3), (6, 6)]),
        (stood(5, set(range(5))), (), 1, []),
        (stood(5, {0}, UnfinishedPart((1, 2, 3), "killed", "")), (), 1, [(1, 3), (4, 4)]),
        (stood(5, {0}, UnfinishedPart((1, 2, 3), "running", "")), (), 1, [(4, 4)]),
        (stood(5, {0}, UnfinishedPart((1, 2, 3), "killed", "")), (1, 2, 3), 1, [(4, 4)]),
        (stood(5, {0, 2}, UnfinishedPart((1, 2, 3), "killed", "")), (), 1, [(1, 1), (3, 3), (4, 4)]),
        (
            stood(4, set(), UnfinishedPart((0, 1), "killed", ""), UnfinishedPart((1, 2), "interrupted", "")),
            (),
            1,
            [(0, 1), (2, 2), (3, 3)],
        ),
    ],
)
def test_each_block_that_is_missing_is_in_one_task(
    there: CampaignStatus, under_way: tuple[int, ...], each: int, tasks: list[tuple[int, int]]
) -> None:
    assert missing_tasks(there, under_way, each) == tasks


def test_what_squeue_prints_is_read() -> None:
    lines = (
        "virtoll-a-1|12|3|RUNNING|n2|None",
        "virtoll-a-1|12|4|PENDING||Resources",
        "virtoll-a-1|13|N/A|PENDING||None",
    )
    assert parsed_queue("\n".join((*lines, ""))) == [
        Task("virtoll-a-1", "12", 3, "RUNNING", "n2", "None"),
        Task("virtoll-a-1", "12", 4, "PENDING", "", "Resources"),
    ]


def test_options_that_a_campaign_decides_itself_are_refused() -> None:
    for fine in ("--qos=low", "--constraint=a&b", "--exclude=n3", "-C", "--reservation=x"):
        refuse_own(fine)
    for own in ("--array=1", "--output", "-a0-3", "--no-requeue", "--signal=TERM", "--wait", "--", "-"):
        with refused("--option", own.partition("=")[0], error=UsageError):
            refuse_own(own)
    with refused("qos=low", "sbatch", error=UsageError):
        refuse_own("qos=low")


def test_a_time_limit_is_twice_the_estimate_and_a_quarter_of_an_hour() -> None:
    models = experiment()
    assert time_limit(models, plan_of(models), [(0, 0)]) == "15"
    real = experiments.parsed(platforms=["native", "netns"], workloads=["superpi"], blocks=900)
    one, all_of_them = (int(time_limit(real, plan_of(real), [(0, last)])) for last in (0, 899))
    assert 15 < one < all_of_them


def written(folder: Path, **changed: Any) -> Path:
    return experiments.write(folder, **{**RIGHT, "blocks": 3, **changed})


def test_a_dry_run_prints_what_would_be_done_and_writes_nothing(tmp_path: Path) -> None:
    file = written(tmp_path)
    given = ("--nodes", "2", "--partition", "p", "--option=--qos=low", "--time", "1:00:00", "--blocks-per-task", "2")
    done = in_process(
        "campaign", "submit", file, "--into", tmp_path / "c", *given, "--dry-run", changed={"PATH": "/nothing"}
    )
    assert done.returncode == 0, done.stderr
    command, *script = done.stdout.splitlines()
    words = command.split()
    assert words[0] == "sbatch"
    assert {"--array=0-1%2", "--exclusive", "--requeue", "--partition=p", "--qos=low", "--time=1:00:00"} <= set(words)
    assert {"--signal=B:USR1@120", "--open-mode=append", f"--output={tmp_path}/c/logs/%A_%a.log"} <= set(words)
    assert script[0] == "#!/bin/sh"
    assert script[2].endswith(f" virtoll campaign task {tmp_path}/c --array 1")
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (("FILE", "--nodes", "2"), ["--into"]),
        (("FILE", "--into", "c"), ["--nodes"]),
        (("FILE", "--into", "c", "--nodes", "2"), ["sbatch", "login node"]),
        (("FILE", "--into", "c%d", "--nodes", "2"), ["c%d", "'%'"]),
        (("FILE", "--into", "c", "--nodes", "2", "--option=--array=1"), ["--array"]),
        (("FOLDER",), ["FOLDER", "--into"]),
    ],
)
def test_what_cannot_be_submitted_is_refused(tmp_path: Path, arguments: tuple[str, ...], facts: list[str]) -> None:
    names = {"FILE": str(written(tmp_path)), "FOLDER": str(tmp_path), "c": f"{tmp_path}/c", "c%d": f"{tmp_path}/c%d"}
    given = [names.get(one, one) for one in arguments]
    done = in_process("campaign", "submit", *given, changed={"PATH": "/nothing"})
    assert_refused(done, *(names.get(one, one) for one in facts))
    assert (done.stdout, len(done.stderr.splitlines())) == ("", 1)
    assert not (tmp_path / "c").exists()


def begun_campaign(folder: Path, **changed: Any) -> Path:
    """A folder as a submission leaves it, of which Slurm knows nothing."""
    file = written(folder, **changed)
    into = folder / "c"
    assert in_process("campaign", "block", file, "--block", "1", "--into", into).returncode == 0
    (into / "slurm").mkdir()
    (into / "experiment.yaml").write_bytes(file.read_bytes())
    replace(into / "slurm/submission.json", {"nodes": 2, "selection": {}})
    replace(into / "slurm/array-1.json", ArrayRecord("virtoll-x-1", ((1, 1), (2, 2)), "7").to_json())
    return into


def test_the_status_of_a_folder_needs_no_slurm(tmp_path: Path) -> None:
    into = begun_campaign(tmp_path)
    (into / "logs").mkdir()
    (into / "logs/7_0.log").write_text("started\nvirtoll: something failed\n\n")
    shown = in_process("campaign", "status", into, changed={"PATH": "/nothing"})
    assert shown.returncode == 0, shown.stderr
    head, missing, asked, log = shown.stdout.splitlines()
    assert_facts(head, "example", "1 of 3 blocks")
    assert_facts(missing, "missing", "2 to 3")
    assert_facts(asked, "Slurm")
    assert_facts(log, "block 2", "virtoll: something failed")
    found = json.loads(in_process("campaign", "status", into, "--json", changed={"PATH": "/nothing"}).stdout)
    assert (found["complete"], found["begun"], found["missing"], found["tasks"]) == ([1], [], [2, 3], None)
    assert found["last_words"] == [{"blocks": [2], "said": "virtoll: something failed"}]
    assert_refused(in_process("campaign", "status", tmp_path), tmp_path, "campaign.json")


def test_an_experiment_that_changed_in_the_folder_is_another_campaign(tmp_path: Path) -> None:
    into = begun_campaign(tmp_path)
    (into / "experiment.yaml").write_text((into / "experiment.yaml").read_text() + "seed: 77\n")
    submitted = in_process("campaign", "submit", into, "--dry-run", changed={"PATH": "/nothing"})
    assert_refused(submitted, into, "example", 3)


def at_its_limit(into: Path, folder: Path, restarts: int) -> subprocess.CompletedProcess[str]:
    """A task of block 2 that Slurm tells of its time limit while it runs; ``scontrol`` writes what it is asked."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n')
    (tools / "scontrol").chmod(0o755)
    (tools / "block-2").unlink(missing_ok=True)
    os.mkfifo(tools / "block-2")
    (tools / "block-2.at").unlink(missing_ok=True)
    slurm = {"SLURM_ARRAY_TASK_ID": "0", "SLURM_ARRAY_JOB_ID": "7", "SLURM_RESTART_COUNT": str(restarts)}
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "TEST_HOLDS": str(tools)}
    process = subprocess.Popen(
        [holding_python(folder), "-m", "virtoll", "campaign", "task", str(into), "--array", "1"],
        env=environment(**slurm, **own),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    held = tools / "block-2.at"
    wait_until(lambda: held.exists() or process.poll() is not None, END_SECONDS, "block 2 is held")
    assert process.poll() is None
    process.send_signal(signal.SIGUSR1)
    output, errors = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, output, errors)


def test_a_task_at_its_limit_is_requeued_until_it_was_often_enough(tmp_path: Path) -> None:
    into = begun_campaign(tmp_path)
    first = at_its_limit(into, tmp_path, 0)
    assert first.returncode == 0, first.stderr
    assert_facts(first.stderr, "time limit", "block 2", 1, "3 times")
    assert (tmp_path / "asked").read_text() == "requeue 7_0\n"
    assert state_now(into / "block-2") == "interrupted"
    assert [one.blocks for one in standing(into).begun] == [(1,)]
    last = at_its_limit(into, tmp_path, 3)
    assert_refused(last, "block 2", "4 times", "time limit", "--time", code=1)
    assert (tmp_path / "asked").read_text() == "requeue 7_0\n", "it does not go round for ever"
    assert_refused(in_process("campaign", "task", into, "--array", "1"), "Slurm")


def test_of_two_tasks_of_one_part_the_second_waits_and_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slurm").mkdir()
    monkeypatch.setattr(submission, "OTHERS_SECONDS", 0.0)
    with (
        submission.alone(tmp_path, "2"),
        submission.alone(tmp_path, "3"),
        refused("block 2", error=VirtollError),
        submission.alone(tmp_path, "2"),
    ):
        pass
    with submission.alone(tmp_path, "2"):
        pass
