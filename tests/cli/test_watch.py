"""``virtoll report --watch`` writes the page anew while a run goes on, and ends with it."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.support import model_runs
from tests.support.commands import VIRTOLL, environment
from tests.support.experiments import fake
from tests.support.facts import Command, assert_facts

from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.writer import writing

REFRESH = '<meta http-equiv="refresh"'


def two_models(into: Path) -> RunFolder:
    """A finished run of four trials."""
    return model_runs.run(into, platforms=[fake("model"), fake("other")], workloads=["superpi"])


def test_a_watch_shows_each_trial_and_the_end_and_writes_nothing(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder, trials = two_models(run), run / "trials.jsonl"
    lines = trials.read_bytes().splitlines(keepends=True)
    trials.write_bytes(b"".join(lines[:2]))
    folder.set_state("running", None)
    held = ExitStack()
    held.enter_context(writing(run))
    watching = subprocess.Popen(
        [*VIRTOLL, "watch", run], stdout=subprocess.PIPE, text=True, env=environment(PYTHONUNBUFFERED="1")
    )
    try:
        assert watching.stdout is not None
        assert_facts(watching.stdout.readline(), run, "running", "2 of 4 trials")
        with trials.open("ab", buffering=0) as more:
            more.write(lines[2] + lines[3][:9])  # a torn line is not told
        assert_facts(watching.stdout.readline(), "block 2", "Super Pi 16384 digits", "ok")
        assert_facts(watching.stdout.readline(), "3 of 4 trials")
        held.close()  # as a kill of who measures does, but for its lock's file
        files = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
        last, _ = watching.communicate()
        assert watching.returncode == 0
        assert_facts(last, run, "killed", "3 of 4 trials", Command(f"virtoll resume {run}"))
        assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == files
    finally:
        held.close()
        watching.kill()
        watching.wait()


def test_the_page_grows_with_the_run_and_the_watch_ends_with_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder, trials, page = two_models(run), run / "trials.jsonl", run / "report" / "index.html"
    lines = trials.read_text(encoding="utf-8").splitlines(keepends=True)
    trials.write_text("".join(lines[:2]), encoding="utf-8")
    folder.set_state("running", None)
    held = ExitStack()
    held.enter_context(writing(run))  # as who measures holds it
    watching = subprocess.Popen(
        [*VIRTOLL, "report", run, "--watch"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    try:
        assert watching.stderr is not None
        assert_facts(watching.stderr.readline(), f"2 of {len(lines)} trials", page)
        assert REFRESH in page.read_text(encoding="utf-8")
        with trials.open("ab", buffering=0) as more:  # in one piece, so that no part of it is seen
            more.write("".join(lines[2:]).encode())
        assert_facts(watching.stderr.readline(), f"{len(lines)} of {len(lines)} trials", page)
        folder.set_state("complete", None)
        last, _ = watching.communicate()
        assert watching.returncode == 0
    finally:
        held.close()
        watching.kill()
        watching.wait()
    assert str(page) in last
    text = page.read_text(encoding="utf-8")
    assert REFRESH not in text
