"""``virtoll report --watch`` writes the page anew while a run goes on, and ends with it."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.support import experiments
from tests.support.commands import VIRTOLL, environment, virtoll
from tests.support.experiments import fake

from virtoll.runfolder.overview import writing
from virtoll.runfolder.store import RunFolder

REFRESH = '<meta http-equiv="refresh"'


def test_the_page_grows_with_the_run_and_the_watch_ends_with_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    assert virtoll("run", file, "--into", run).returncode == 0
    folder, trials, page = RunFolder.open(run), run / "trials.jsonl", run / "report" / "index.html"
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
        assert watching.stderr.readline() == f"2 of {len(lines)} trials: {page}\n"
        assert REFRESH in page.read_text(encoding="utf-8")
        with trials.open("ab", buffering=0) as more:  # in one piece, so that no part of it is seen
            more.write("".join(lines[2:]).encode())
        assert watching.stderr.readline() == f"{len(lines)} of {len(lines)} trials: {page}\n"
        folder.set_state("complete", None)
        said, _ = watching.communicate()
        assert watching.returncode == 0
    finally:
        held.close()
        watching.kill()
        watching.wait()
    assert f"report: {page}" in said
    text = page.read_text(encoding="utf-8")
    assert REFRESH not in text
    assert "This run is not complete" not in text
