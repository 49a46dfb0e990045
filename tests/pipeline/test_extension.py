"""Blocks that are added to a finished run: its plan goes on, its verdicts get stricter, and a kill leaves it whole."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import VIRTOLL, environment, in_process, virtoll
from tests.support.experiments import fake
from tests.support.facts import Command, assert_facts, assert_refused, missing_facts, refused
from tests.support.model_runs import measured
from tests.support.repository import ROOT

from virtoll import __version__
from virtoll.errors import UsageError
from virtoll.pipeline.execution import extend, resume
from virtoll.pipeline.extension import asked_blocks, extended_manifest
from virtoll.pipeline.preview import estimate, plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.report import answer_terminal, build_report, load_analysis, report_document
from virtoll.report.answer import notes
from virtoll.runfolder.looks import extended_level
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences

pytestmark = pytest.mark.usefixtures("undrawn")
PLATFORMS = [fake("model"), fake("again", seed=2), fake("slow", cost=1.4, seed=3)]
RIGHT: dict[str, Any] = {
    "platforms": PLATFORMS,
    "baseline": "model",
    "control": "again",
    "blocks": 2,
    "rounds": 3,
    "workloads": [{"workload": "superpi", "digits": [1000, 2000]}, experiments.FEW_POINTS],
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of two blocks, to be copied."""
    return measured(experiments.parsed(**RIGHT), tmp_path_factory.mktemp("extended") / "run").path


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "run"))


def changed(run: Path, **keys: Any) -> Path:
    """The run with other keys in its manifest, and digests that fit."""
    manifest = json.loads((run / "manifest.json").read_text())
    for key, value in keys.items():
        manifest[key] = {**(manifest[key] or {}), **value} if isinstance(value, dict) else value
    (run / "manifest.json").write_text(json.dumps(manifest))
    RunFolder.open(run).set_state("complete", None)
    return run


def numbers(run: Path) -> list[int]:
    return [one.trial for one in RunFolder.open(run).trials()]


def test_an_extended_run_has_the_longer_plan_and_keeps_its_trials(run: Path) -> None:
    before, trials = RunFolder.open(run).manifest, (run / "trials.jsonl").read_bytes()
    extended = in_process("extend", run, "--blocks", "+2")
    assert extended.returncode == 0, extended.stderr
    after = RunFolder.open(run).manifest
    longer = plan_of(experiments.parsed(**{**RIGHT, "blocks": 4})).trials
    planned = [(one.trial, one.block, one.round, one.platform, one.workload) for one in after.plan.trials]
    assert planned == [(one.number, one.block, one.round, one.platform.label, one.workload.workload) for one in longer]
    assert after.plan.trials[: len(before.plan.trials)] == before.plan.trials
    assert (run / "trials.jsonl").read_bytes().startswith(trials)
    assert numbers(run) == list(range(len(after.plan.trials)))
    assert [(one.blocks, one.command[:2]) for one in after.extensions] == [(2, ("virtoll", "extend"))]
    assert (after.experiment["blocks"], after.experiment["selection"]) == (4, before.experiment["selection"])
    assert (differences(run), state_now(run)) == ((), "complete")
    assert_facts(extended.stdout, "2 blocks")
    extend(run, 5, ["virtoll"], SilentProgress())
    assert [one.blocks for one in RunFolder.open(run).manifest.extensions] == [2, 4]
    assert (differences(run), state_now(run)) == ((), "complete")
    analysis = load_analysis(run)
    assert analysis.level == pytest.approx(0.05 * 2 / (5 * 4))
    facts = ("2 and 4 blocks", "10 %")
    (note,) = (one for one in notes(analysis) if not missing_facts(one, *facts))
    page = build_report(run).path.read_text(encoding="utf-8").replace("\u00a0", " ")
    assert 0 < page.index('class="ranking"') < page.index(note), "the answer comes first"
    document = report_document(analysis, (), run, run / "index.html", ())
    assert (document["run"]["extended_after"], document["run"]["error_level"]) == ([2, 4], pytest.approx(0.005))
    assert any(not missing_facts(one, *facts) for one in document["notes"])
    simultaneous = [one.simultaneous for one in analysis.comparisons if one.simultaneous is not None]
    assert {one.coverage for one in simultaneous} == {1 - analysis.level}


def test_an_extended_plan_has_the_time_that_it_takes(run: Path) -> None:
    plan = plan_of(experiments.parsed(platforms=["native", "netns"], baseline="native"))
    longer = extended_manifest(RunFolder.open(run).manifest, plan, ["virtoll", "extend"])
    assert longer.plan.estimated_seconds == estimate(plan) > 0


@pytest.mark.parametrize("first", [1, 2, 3, 12])
def test_all_further_numbers_of_blocks_together_spend_what_the_first_did(first: int) -> None:
    levels = [extended_level(0.05, first, blocks) for blocks in range(first + 1, 20_000)]
    assert extended_level(0.05, first, first) == 0.05
    assert math.fsum(levels) < 0.05
    assert math.fsum(levels) == pytest.approx(0.05, rel=first / 10_000)


KILLED_AT = """
import os, signal, sys
from pathlib import Path
from virtoll.runfolder import jsonlines
from virtoll.cli import main

def extend(run, step, when, replace_text=jsonlines.replace_text):
    calls = []
    def counted(path, text, root):
        calls.append(path)
        if len(calls) == step and when == "before":
            Path(str(path) + ".new").write_text(text[: len(text) // 2])
            os.kill(os.getpid(), signal.SIGKILL)
        replace_text(path, text, root)
        if len(calls) == step and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
    jsonlines.replace_text = counted
    sys.argv = ["virtoll", "extend", run, "--blocks", "+1"]
    main()

for run in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        step, _, when = Path(run).name.partition(" ")
        extend(run, int(step), when)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == -signal.SIGKILL, run
"""
"""Extends runs by a block each, and is killed where the run's folder is named for."""
KILLS = [(step, when) for step in (1, 2, 3) for when in ("before", "after")]


@pytest.fixture(scope="module")
def killed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run for each kill, all of one process's children: to start Python takes longer than to extend a run."""
    folder = tmp_path_factory.mktemp("killed")
    runs = [shutil.copytree(finished, folder / f"{step} {when}") for step, when in KILLS]
    command = [sys.executable, "-c", KILLED_AT, *map(str, runs)]
    ended = subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


@pytest.mark.parametrize(("step", "when"), KILLS)
def test_a_kill_while_the_plan_is_replaced_leaves_a_run_that_ends(
    finished: Path, killed: Path, step: int, when: str
) -> None:
    """kill -9 before and after each file is replaced: state, manifest, and the state at the end."""
    run = killed / f"{step} {when}"
    old = len(RunFolder.open(finished).manifest.plan.trials)
    longer = (step, when) not in ((1, "before"), (1, "after"), (2, "before"))
    assert len(RunFolder.open(run).manifest.plan.trials) == (old * 3 // 2 if longer else old)
    if (step, when) == (1, "before"):
        assert state_now(run) == "complete"
    elif (step, when) != (3, "after"):
        assert state_now(run) == "killed"
    resume(run, SilentProgress())
    assert (state_now(run), differences(run)) == ("complete", ())
    assert numbers(run) == list(range(old * 3 // 2 if longer else old))
    assert not list(run.glob("*.new"))


def test_a_kill_while_blocks_are_added_is_resumed(run: Path) -> None:
    begun = subprocess.Popen(
        [*VIRTOLL, "extend", run, "--blocks", "6"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(),
    )
    try:
        assert begun.stdout is not None
        total = len(RunFolder.open(run).manifest.plan.trials) * 3
        done = len(numbers(run))
        while not begun.stdout.readline().startswith(f"{done + 3}/{total} "):
            assert begun.poll() is None
    finally:
        begun.kill()
        begun.wait()
    assert state_now(run) == "killed"
    with refused(Command(f"virtoll resume {run}"), error=UsageError):
        extend(run, 7, ["virtoll"], SilentProgress())
    shown = load_analysis(run).data.state
    assert shown.state == "interrupted"
    assert_facts(shown.reason or "", "killed")
    resume(run, SilentProgress())
    assert numbers(run) == list(range(total))
    assert (state_now(run), differences(run)) == ("complete", ())


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "host": ({"host": {"fingerprint": "0", "cpu_model": "another"}}, ["host", "cpu model", "another"]),
    "agent": ({"agent": {"sha256": "0" * 64}}, ["agent"]),
    "version": ({"virtoll": "0.0.1"}, ["Virtoll 0.0.1", __version__]),
    "plan": ({"experiment": {"text": experiments.text(**{**RIGHT, "rounds": 2})}}, ["trial"]),
    "paper": ({"experiment": {"order": "paper"}}, ["'order: randomised'"]),
    "decided": ({"experiment": {"looks": [[2, 0.05]]}}, ["2 blocks", "'most'"]),
}


def assert_not_extended(run: Path, *facts: str) -> None:
    """It is refused with these facts, and stays as it was."""
    with refused("run", *facts, error=UsageError):
        extend(run, 3, ["virtoll"], SilentProgress())
    assert (differences(run), state_now(run)) == ((), "complete")


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_comparable_is_not_extended(run: Path, case: str) -> None:
    keys, facts = REFUSED[case]
    assert_not_extended(changed(run, **keys), "example" if case != "version" else "run", *facts)


def test_another_version_of_a_platform_is_named(run: Path) -> None:
    manifest = json.loads((run / "manifest.json").read_text())
    entries = [{**one, "version": "0.9"} if one["label"] == "slow" else one for one in manifest["platforms"]]
    assert_not_extended(changed(run, platforms=entries), "slow: 0.9")


@pytest.mark.parametrize(
    ("asked", "facts"),
    [("2", ["2 blocks", 1000]), ("+0", ["'+0'", "+6"]), ("six", ["'six'", "+6"]), ("+999", ["+999", 1000])],
)
def test_a_number_that_adds_nothing_is_refused(run: Path, asked: str, facts: list[str]) -> None:
    with refused("--blocks", *facts, error=UsageError):
        asked_blocks(RunFolder.open(run), asked)


def test_a_damaged_run_is_not_extended(run: Path) -> None:
    with (run / "trials.jsonl").open("a") as file:
        file.write("\n")
    with refused(run, "trials.jsonl", error=UsageError):
        extend(run, 3, ["virtoll"], SilentProgress())


@pytest.mark.root
def test_a_run_of_another_user_is_not_extended(run: Path) -> None:
    """As root without the right to write everywhere, in a folder that may only be read."""
    run.chmod(0o555)
    without = ["setpriv", "--bounding-set", "-dac_override", "--inh-caps", "-dac_override"]
    refusal = virtoll("extend", run, "--blocks", "+1", way=without)
    run.chmod(0o755)
    assert_refused(refusal, run, "user", "copy")
    assert refusal.stderr.count("\n") == 1


def test_the_terminal_names_the_command_only_where_blocks_may_be_added(run: Path) -> None:
    file = experiments.write(
        run.parent, **{**RIGHT, "platforms": [*PLATFORMS, fake("near", cost=1.08, jitter=0.05, seed=9)]}
    )
    near = in_process("run", file, "--into", run.parent / "near")
    assert near.returncode == 0, near.stderr
    assert re.search(r"virtoll extend near --blocks \+\d+", " ".join(near.stdout.split())), near.stdout
    RunFolder.open(run.parent / "near").set_state("interrupted", "a test")
    lines = [str(one) for one in answer_terminal(load_analysis(run.parent / "near"), 200)]
    assert not any("virtoll extend" in line for line in lines)
