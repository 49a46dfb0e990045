"""What a list says of runs, which of them is the latest, and that a killed one is seen as such."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.support import experiments
from tests.support.commands import VIRTOLL, environment, in_process
from tests.support.experiments import fake
from tests.support.facts import Command, assert_facts, assert_refused, refused
from tests.support.model_runs import measured

from virtoll.cli.progress import LiveProgress, Names
from virtoll.errors import RunFolderError
from virtoll.experiment.parse import load_experiment, parse_experiment
from virtoll.experiment.selection import Selection
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.runfolder import store
from virtoll.runfolder.overview import overview, state_now
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.writer import writing


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one experiment; the first made has the last name."""
    folder = tmp_path_factory.mktemp("listed")
    file = experiments.write(folder, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    first = in_process("run", file, "--into", folder / "runs" / "z-first", "--blocks", "3", "--seed", "9")
    assert first.returncode == 0, first.stderr
    measured(load_experiment(file, catalogue()), folder / "runs" / "a-second")
    return folder / "runs"


def listed(runs: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(in_process("list", "runs", "--json", runs=runs).stdout)
    return rows


def test_runs_are_in_the_order_of_their_creation_and_the_latest_is_last(runs: Path) -> None:
    rows = listed(runs)
    assert [(one["run"], one["trials"]) for one in rows] == [("z-first", "6 of 6"), ("a-second", "4 of 4")]
    assert all(one["created"].endswith("Z") and one["host"] for one in rows)
    assert str(runs / "a-second") in in_process("verify", "latest", runs=runs).stdout


def test_blocks_and_seed_of_the_command_line_are_in_the_manifest(runs: Path) -> None:
    manifest = RunFolder.open(runs / "z-first").manifest
    chosen = manifest.experiment["selection"]
    assert (chosen["blocks"], chosen["seed"], manifest.experiment["blocks"], manifest.plan.seed) == (3, 9, 3, 9)
    assert manifest.command[-4:] == ("--blocks", "3", "--seed", "9")
    assert Selection.of_record(chosen) == Selection(blocks=3, seed=9)
    again = parse_experiment(manifest.experiment["text"], Path("x"), catalogue(), Selection.of_record(chosen))
    assert len(plan_of(again).trials) == len(manifest.plan.trials)


def test_no_trial_is_parsed_for_the_list(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    # The one function by which the store reads a record: no seam says that nothing was read.
    monkeypatch.setattr(store, "_parse", lambda kind, *_: parsed.append(kind.__name__))
    assert overview(runs / "z-first").finished == 6
    assert parsed == []


def test_a_running_run_that_nobody_writes_was_killed(runs: Path) -> None:
    folder = RunFolder.open(runs / "z-first")
    folder.set_state("running", None)
    try:
        with writing(folder.path):
            assert state_now(folder.path) == "running"
            with refused("process", error=RunFolderError), writing(folder.path):
                pass
        assert state_now(folder.path) == "killed"
        assert listed(runs)[0]["state"] == "killed"
        watched = in_process("report", folder.path, "--watch")
        assert watched.returncode == 0
        assert_facts(watched.stderr, "killed", Command(f"virtoll resume {folder.path}"))
    finally:
        folder.set_state("complete", None)


def test_a_misspelt_platform_has_a_suggestion(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model")
    assert_refused(in_process("plan", file, "--platform", "modle"), "'modle'", "'model'", "other")


@pytest.mark.parametrize("width", [80, 40])
def test_the_numbers_of_the_bar_are_never_cut(width: int, tmp_path: Path) -> None:
    console = Console(width=width, height=20, force_terminal=True, color_system=None, record=True)
    progress = LiveProgress(console, Names(tmp_path / "run"))
    progress.message("block 7 round 1 model-again forward frame_size_bytes=1000 sources=3 routes=10000 and more of it")
    progress.begin(95, 10_080, 3600.0)
    with console.capture() as shown:
        console.print(progress._render())  # what rich shows of it, and a thread of rich's would print at any time
    what, bar = shown.get().splitlines()
    assert len(what) <= width
    assert len(bar) <= width
    assert "95/10080" in bar
    assert "60 min" in bar
    assert "0:00:00" in bar or "-:--:--" in bar


def test_a_run_whose_reader_goes_away_is_interrupted_and_resumed(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model", blocks=40)
    run = tmp_path / "run"
    begun = subprocess.Popen(
        [*VIRTOLL, "run", file, "--into", run], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    try:
        assert begun.stdout is not None
        while not begun.stdout.readline().startswith(b"1/80 "):
            assert begun.poll() is None
        begun.stdout.close()
        assert begun.stderr is not None
        complaint = begun.stderr.read().decode()
        assert begun.wait() != 0
    finally:
        begun.kill()
        begun.wait()
    assert complaint.count("\n") == 1
    assert_facts(complaint, "standard output", f"'virtoll resume {run}'")
    state = RunFolder.open(run).state()
    assert state.state == "interrupted"
    assert_facts(str(state.reason), "standard output")
    assert in_process("resume", run).returncode == 0
    assert overview(run).finished == overview(run).planned == 80
