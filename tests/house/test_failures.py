"""A test that fails says what it ran: its commands, its run folder, and the end of the guest's console."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.commands import environment
from tests.support.facts import assert_facts, missing_facts
from tests.support.failures import TITLE
from tests.support.repository import ROOT

TESTS = """
import os, subprocess
from pathlib import Path
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.real_run import run_experiment
from virtoll.agent.client import AgentClient
from virtoll.lab.commands import ConnectedHost
from virtoll.platforms.process_guest import AgentGuest
from virtoll.runfolder.store import RunFolder


def guest(folder, who):
    console = folder / f"{who}.txt"
    console.write_text("a first line\\n" * 99 + f"{who} panics\\n")
    agent = AgentClient(*os.pipe(), who)
    process = subprocess.Popen(["true"])
    return AgentGuest(agent=agent, peer=agent, attachment="", spawned_monotonic_ns=0, process=process,
                      console_file=console)


def test_before():
    virtoll("list", "workloads")


def test_run(tmp_path):
    run = run_experiment(tmp_path)
    run.keep_evidence("1-lost", {"console.txt": b"lost guest panics"})
    ConnectedHost().run(["echo", "a-program-of-the-lab"], "test")
    ended, up = guest(tmp_path, "ended"), guest(tmp_path, "up")
    ended.stop()
    assert virtoll("show", tmp_path / "absent").returncode == 77


def test_after():
    pass
"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints of the failure."""
    folder = tmp_path_factory.mktemp("failing")
    file = folder / "test_made_up.py"
    file.write_text(TESTS, encoding="utf-8")
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--basetemp={folder / 'own'}", str(file)],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert_facts(done.stdout, "1 failed", "2 passed")
    _, _, section = done.stdout.partition(TITLE)
    return section


def test_a_failure_names_the_commands_of_its_test_and_how_they_ended(report: str) -> None:
    assert_facts(report, "virtoll run", "exit code 0", "virtoll show", "exit code 2", "a-program-of-the-lab")
    assert missing_facts(report, "virtoll list"), "that is another test's"


def test_a_failure_names_its_run_folder_and_the_runs_state(report: str) -> None:
    assert_facts(report, "own/test_run0/run", "complete")


@pytest.mark.parametrize("guest", ["lost guest", "ended", "up"])
def test_a_failure_has_the_end_of_the_console_of_each_guest(guest: str, report: str) -> None:
    assert_facts(report, f"{guest} panics")
    assert report.count("a first line") < 99
