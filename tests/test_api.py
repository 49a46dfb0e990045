"""Virtoll from Python: the page's examples, what a run hands out, and what goes wrong."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import REPOSITORY, environment

import virtoll
from virtoll import run
from virtoll.errors import UsageError

PAGE = REPOSITORY / "docs" / "python.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's examples have run, one after the other; what each printed is in a file."""
    place = tmp_path_factory.mktemp("examples")
    for number, example in enumerate(EXAMPLES):
        done = subprocess.run(
            [sys.executable, "-c", example],
            cwd=place,
            env=environment(VIRTOLL_RUNS=str(place)),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        (place / f"{number}.txt").write_text(done.stdout)
    return place


def test_the_examples_of_the_page_do_what_it_says(folder: Path) -> None:
    read, measured, table = ((folder / f"{number}.txt").read_text().splitlines() for number in range(3))
    assert "complete" in read[1]
    assert measured[0].startswith("models: ")
    assert {line.split()[0] for line in table} >= {"model-cost-25", "model-clock-2"}


def test_rows_are_those_of_the_report_for_programs(folder: Path) -> None:
    loaded = virtoll.load(folder / "measured")
    said = subprocess.run(
        [sys.executable, "-m", "virtoll", "report", str(folder / "measured"), "--json"],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    document = json.loads(said.stdout)
    assert loaded.rows() == document["medians"]
    assert loaded.rows("comparisons") == document["comparisons"]
    assert len(loaded.rows("trials")) == len(loaded.trials) == document["run"]["trials_ended"]
    assert loaded.figures()
    assert repr(loaded) == f"virtoll.load({str(folder / 'measured')!r})"


def test_what_the_command_refuses_is_an_error_with_its_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^experiment 'none' is not known; choose one of: "):
        run("none", into=tmp_path / "run")
    with pytest.raises(UsageError, match=r"no run 'none' in "):
        virtoll.load("none")
    assert not (tmp_path / "run").exists()


def test_what_stops_the_program_interrupts_the_run(tmp_path: Path) -> None:
    """By an error of its own, after the first trial: the run is on disk, and can be resumed."""

    class Enough(Exception):
        pass

    def stop(line: str) -> None:
        if re.match(r"1/\d+ ", line):
            raise Enough

    with pytest.raises(Enough):
        run("models", into=tmp_path / "run", progress=stop)
    state = json.loads((tmp_path / "run" / "state.json").read_text())
    assert state["state"] in {"interrupted", "complete"}, "it may have ended before the signal came"


def test_importing_virtoll_imports_nothing_else() -> None:
    program = "import sys, virtoll; print(sorted(one for one in sys.modules if one.startswith('virtoll')))"
    kept = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    said = subprocess.run([sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True)
    assert said.stdout == "['virtoll']\n"


def test_only_what_is_public_is_offered() -> None:
    assert all(getattr(virtoll, name) is not None for name in virtoll.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        virtoll.nothing  # noqa: B018 - asking is the test
