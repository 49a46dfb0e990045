"""The pages that teach (tutorial, how-to, explanation): what they tell a reader to type, plan or run can be done.

Nothing of them is measured here. Experiments are planned, Python runs on a run that the package carries, and command
lines go through the parser of the command line, which does not start them.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import shlex
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer.core
import typer.main
import yaml
from tests.support.commands import environment
from tests.test_documentation import ROOT, name_of
from tests.test_setup import load_tool

from virtoll.advise.gate import parse_threshold
from virtoll.advise.need import parse_needs
from virtoll.campaign.preview import catalogue, plan_of
from virtoll.cli import app
from virtoll.cli.needs import known_workloads
from virtoll.experiment.parse import load_experiment
from virtoll.report.exchange import FORMATS

drawings: ModuleType = load_tool("drawings")
DOCS = ROOT / "docs"
PAGES = sorted(path for kind in ("tutorial", "how-to", "explanation") for path in (DOCS / kind).glob("*.md"))
RUN = ROOT / "src" / "virtoll" / "reference" / "runs" / "camargos2008.tar.xz"
_BLOCK = re.compile(r"^```(?P<kind>\w*)(?: (?:ci|elsewhere))?\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`(virtoll [^`\n]+)`")
_COMMAND = re.compile(r"^(?:\$ )?(?:sudo (?:--\S+ )*)?(virtoll .*)$")
_IMAGE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
MOST_WORDS = 25  # of a sentence


def blocks(path: Path, kind: str) -> list[str]:
    """The page's blocks of code of a kind."""
    return [one["text"] for one in _BLOCK.finditer(path.read_text(encoding="utf-8")) if one["kind"] == kind]


def command_lines(value: object) -> list[str]:
    """Every line of a CI's file that starts Virtoll, wherever it stands in it."""
    if isinstance(value, dict | list):
        return [line for one in (value.values() if isinstance(value, dict) else value) for line in command_lines(one)]
    lines = value.splitlines() if isinstance(value, str) else []
    return [line for line in lines if line.startswith("virtoll ")]


def commands(path: Path) -> list[str]:
    """Every command line of Virtoll's that a page has: in its blocks, in its text, and in the files of its CI."""
    text = path.read_text(encoding="utf-8")
    lines = [line for one in _BLOCK.finditer(text) for line in one["text"].splitlines() if one["kind"] == "console"]
    found = [match[1] for line in lines if (match := _COMMAND.match(line))]
    found += _CODE.findall(_BLOCK.sub("", text))
    return found + [line for block in blocks(path, "yaml") for line in command_lines(yaml.safe_load(block))]


@functools.cache
def whole() -> typer.core.TyperGroup:
    """The command line, made once."""
    made = typer.main.get_command(app)
    assert isinstance(made, typer.core.TyperGroup)
    return made


def understood(line: str) -> dict[str, object]:
    """What the command line's own parser makes of it, without starting it; it raises where it understands nothing.

    A command that is only named, without a word behind it, has to be there.
    """
    _, *words = shlex.split(line, comments=True)
    command: Any = whole()
    while isinstance(command, typer.core.TyperGroup) and words:
        name, *words = words
        assert name in command.commands, f"{line}: no command {name}"
        command = command.commands[name]
    return dict(command.make_context(line, words).params) if words else {}


def texts(value: object) -> list[str]:
    """An option's values, given once or several times."""
    return [str(one) for one in value] if isinstance(value, list | tuple) else []


def sentences(path: Path) -> Iterator[str]:
    """The lines of prose: no code, tables, headings or pictures."""
    for line in _BLOCK.sub("", path.read_text(encoding="utf-8")).splitlines():
        if line and not line.startswith(("#", "|", "!")):
            yield line


def test_there_are_pages_of_each_kind() -> None:
    assert {path.parent.name for path in PAGES} == {"tutorial", "how-to", "explanation"}
    assert len(PAGES) >= 16


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_command_line_is_understood(path: Path) -> None:
    known = known_workloads()
    for line in commands(path):
        given = understood(line)
        assert given.get("form", "junit") in FORMATS, line
        for text in texts(given.get("fail_if")):
            parse_threshold(text, known, fails=True)
        parse_needs(texts(given.get("need")), known)


def test_the_files_of_ci_measure_and_export() -> None:
    lines = [
        line for block in blocks(DOCS / "how-to" / "ci.md", "yaml") for line in command_lines(yaml.safe_load(block))
    ]
    assert {line.split()[1] for line in lines} == {"run", "export"}


@pytest.mark.parametrize(
    "line", ["virtoll run x --block 3", "virtoll plan a b", "virtoll lists", "virtoll gate --fail-if"]
)
def test_a_command_line_that_is_wrong_is_found(line: str) -> None:
    with pytest.raises(Exception, match=r"--block\b|unexpected|no command|requires"):
        understood(line)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_every_yaml_block_is_an_experiment_that_can_be_planned_or_a_file_of_ci(path: Path, tmp_path: Path) -> None:
    experiments = [block for block in blocks(path, "yaml") if block.startswith("name:")]
    for number, example in enumerate(experiments):
        file = tmp_path / f"{number}.yaml"
        file.write_text(example, encoding="utf-8")
        assert plan_of(load_experiment(file, catalogue())).trials
    for block in blocks(path, "yaml"):
        assert block in experiments or command_lines(yaml.safe_load(block)), f"neither: {block}"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run in its runs folder, which every page's Python finds as the latest."""
    folder = tmp_path_factory.mktemp("notebook")
    shutil.unpack_archive(RUN, folder / "runs")
    return folder


def needed(code: str) -> set[str]:
    """The modules that a piece of Python imports."""
    nodes = list(ast.walk(ast.parse(code)))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return plain | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


PYTHON = [(path, number, code) for path in PAGES for number, code in enumerate(blocks(path, "python"))]


@pytest.mark.parametrize("code", [code for *_, code in PYTHON], ids=[f"{path.stem}-{at}" for path, at, _ in PYTHON])
def test_python_runs(code: str, place: Path) -> None:
    """What it imports from elsewhere is no dependency of Virtoll's: without it the example is not run here."""
    absent = sorted(name for name in needed(code) if importlib.util.find_spec(name.split(".")[0]) is None)
    if absent:
        compile(code, "page", "exec")
        pytest.skip(f"{', '.join(absent)}: not installed, and no dependency")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(drawings.DRAWINGS))
def test_a_drawing_is_what_the_tool_draws(name: str) -> None:
    drawn = drawings.DRAWINGS[name]().written()
    assert (drawings.FOLDER / name).read_text(encoding="utf-8") == drawn, "run tools/drawings.py"


def test_every_picture_is_shown_and_a_screenshot_is_small() -> None:
    shown = {(path.parent / target).resolve() for path in PAGES for target in _IMAGE.findall(path.read_text("utf-8"))}
    screenshots = set((DOCS / "images" / "tutorial").iterdir())
    assert shown == screenshots | {drawings.FOLDER / name for name in drawings.DRAWINGS}
    assert set(drawings.FOLDER.iterdir()) <= shown
    for path in screenshots:
        head = path.read_bytes()
        assert head.startswith(b"\x89PNG")
        assert len(head) < 200_000
        assert struct.unpack(">I", head[16:20])[0] >= 600, "pixels wide"


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_line_is_one_sentence_of_a_length_that_can_be_read(path: Path) -> None:
    for line in sentences(path):
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", " code ", line)
        assert all(len(part.split()) <= MOST_WORDS for part in re.split(r"[.:;] ", plain)), line
        assert not re.search(r"[a-z)*]\. [A-Z]", plain), f"two sentences: {line}"
