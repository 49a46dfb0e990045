"""Virtoll from Python: the page's examples, what a run hands out, and what goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args
from unittest import mock

import pytest
from tests.support.commands import environment, in_process
from tests.support.facts import refused
from tests.support.repository import ROOT

import virtoll
from virtoll import run
from virtoll.api.frames import Rows, frame_of, types_of
from virtoll.errors import UsageError
from virtoll.runfolder.parameters import canonical_text

PAGE = ROOT / "docs" / "python.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the page's examples have run, each with names of its own; what each printed is in a file."""
    place = tmp_path_factory.mktemp("examples")
    variables = environment(VIRTOLL_RUNS=str(place), VIRTOLL_CACHE=str(place / "cache"))
    with contextlib.chdir(place), mock.patch.dict(os.environ, variables, clear=True):
        for number, example in enumerate(EXAMPLES):
            with Path(f"{number}.txt").open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
                exec(compile(example, f"example {number}", "exec"), {"__name__": "__main__"})
    return place


def test_the_examples_of_the_page_do_what_it_says(folder: Path) -> None:
    texts = ((folder / f"{number}.txt").read_text().splitlines() for number in range(5))
    read, measured, table, framed, many = texts
    assert "complete" in read[1]
    assert measured[0].startswith("models: ")
    assert {line.split()[0] for line in table} >= {"model-cost-25", "model-clock-2"}
    assert framed[0].split()[0] == "Float64"
    assert re.fullmatch(r"model-cost-25 +0\.[78]\d+", framed[-1])
    assert many[0] == "double"
    assert any("camargos2008" in line for line in many)


@pytest.mark.parametrize("of", get_args(Rows))
def test_a_frame_has_the_rows_with_types_that_do_not_depend_on_the_run(folder: Path, of: Rows) -> None:
    loaded = virtoll.load(folder / "measured")
    frame, rows = loaded.frame(of), loaded.rows(of)
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == types_of(of)
    assert len(frame) == len(rows) > 0
    assert list(frame.columns) == list(rows[0]) == list(types_of(of)), "each column is described, in its order"
    for name in frame.columns:
        values = [row[name] if name != "parameters" or of != "trials" else canonical_text(row[name]) for row in rows]
        there = [None if missing else value for value, missing in zip(frame[name], frame[name].isna(), strict=True)]
        assert there == values, name
    assert set(frame.attrs["units"]) <= set(frame.columns)
    empty = frame_of([], of, "empty")
    assert list(empty.dtypes.items()) == list(frame.dtypes.items())


def test_without_pandas_a_frame_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with refused("pandas", "make setup-dev", error=UsageError):
        virtoll.load(folder / "measured").frame()
    assert virtoll.load(folder / "measured").rows()


def test_rows_are_those_of_the_report_for_programs(folder: Path) -> None:
    loaded = virtoll.load(folder / "measured")
    document = json.loads(in_process("report", folder / "measured", "--json").stdout)
    assert loaded.rows() == document["medians"]
    assert loaded.rows("comparisons") == document["comparisons"]
    assert len(loaded.rows("trials")) == len(loaded.trials) == document["run"]["trials_ended"]
    assert loaded.figures()
    assert repr(loaded) == f"virtoll.load({str(folder / 'measured')!r})"


def test_what_the_command_refuses_is_an_error(tmp_path: Path) -> None:
    with refused("'none'", "quick", error=UsageError):
        run("none", into=tmp_path / "run")
    with refused("'none'", error=UsageError):
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
    kept = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    said = subprocess.run([sys.executable, "-c", program], env=kept, capture_output=True, text=True, check=True)
    assert said.stdout == "['virtoll', 'virtoll.version']\n"


def test_only_what_is_public_is_offered() -> None:
    assert all(getattr(virtoll, name) is not None for name in virtoll.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        virtoll.nothing  # noqa: B018 - asking is the test
