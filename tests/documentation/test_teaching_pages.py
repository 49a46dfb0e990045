"""The pages that teach (tutorial, how-to, explanation): what is theirs alone.

Their experiments, command lines and Python are tried with those of all pages (test_examples.py). Here: what their
command lines judge by, the Python that needs more than Virtoll, their pictures, that what they show of Virtoll's output
is what it prints, and how long their sentences are.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from rich.text import Text
from tests.support.commands import environment, in_process
from tests.support.dialogue import answered
from tests.support.documented import page_name
from tests.support.examples import Block, blocks, commands_of, words_of
from tests.support.repository import ROOT, load_tool

from virtoll.advise.gate import parse_threshold
from virtoll.advise.need import parse_needs
from virtoll.api.needs import known_workloads

drawings: ModuleType = load_tool("drawings")
images: ModuleType = load_tool("images")
DOCS = ROOT / "docs"
KINDS = ("tutorial", "how-to", "explanation")
PAGES = sorted(path for kind in KINDS for path in (DOCS / kind).glob("*.md"))
BLOCKS = [block for block in blocks() if block.page in PAGES]
RUN = ROOT / "src" / "virtoll" / "reference" / "runs" / "camargos2008.tar.xz"
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_IMAGE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")
_OF_A_MACHINE = re.compile(r"\[\.\.\.\]|, about .* available$|^(?:disk|memory): .*$|^\d+/\d+ block .*$", re.MULTILINE)
MOST_WORDS = 25  # of a sentence


def sentences(path: Path) -> Iterator[str]:
    """The lines of prose: no code, tables, headings or pictures."""
    for line in _CODE.sub("", path.read_text(encoding="utf-8")).splitlines():
        if line and not line.startswith(("#", "|", "!")):
            yield line


def test_there_are_pages_of_each_kind() -> None:
    assert {path.parent.name for path in PAGES} == set(KINDS)
    assert len(PAGES) >= 16


def test_thresholds_and_needs_of_command_lines_are_understood() -> None:
    known = known_workloads()
    lines = [words_of(line) for block in BLOCKS if block.language == "console" for line in commands_of(block)]
    given = [(option, text) for words in lines for option, text in itertools.pairwise(words)]
    thresholds = [text for option, text in given if option == "--fail-if"]
    needs = [text for option, text in given if option == "--need"]
    assert thresholds
    assert needs
    for text in thresholds:
        parse_threshold(text, known, fails=True)
    parse_needs(needs, known)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one run in its runs folder, which every page's Python finds as the latest."""
    folder = tmp_path_factory.mktemp("notebook")
    shutil.unpack_archive(RUN, folder / "runs")
    return folder


ELSEWHERE = {one.name: one.text for one in BLOCKS if (one.language, one.kind) == ("python", "elsewhere")}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_python_that_needs_more_than_virtoll_runs_where_it_is_installed(name: str, place: Path) -> None:
    code = ELSEWHERE[name]
    compile(code, name, "exec")
    named = set(re.findall(r"^import (\w+)", code, re.MULTILINE))
    absent = sorted(one for one in named if importlib.util.find_spec(one) is None)
    if absent:
        pytest.skip(f"{', '.join(absent)}: not installed, and no dependency")
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=place, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", sorted(drawings.DRAWINGS))
def test_a_drawing_is_what_the_tool_draws(name: str) -> None:
    drawn = drawings.DRAWINGS[name]().written()
    assert (drawings.FOLDER / name).read_text(encoding="utf-8") == drawn, "run 'make images'"


def test_every_picture_is_shown_and_a_screenshot_is_small() -> None:
    shown = {(path.parent / target).resolve() for path in PAGES for target in _IMAGE.findall(path.read_text("utf-8"))}
    lesson = {images.LESSON_FOLDER / name for name in (*images.LESSON, images.TERMINAL)}
    assert set(images.LESSON_FOLDER.iterdir()) == lesson, "run 'make images', and delete what nothing draws any more"
    assert shown == lesson | {drawings.FOLDER / name for name in drawings.DRAWINGS}
    assert set(drawings.FOLDER.iterdir()) <= shown
    for path in lesson:
        head = path.read_bytes()
        assert len(head) < 150_000
        if path.suffix == ".png":
            assert head.startswith(b"\x89PNG")
            assert struct.unpack(">I", head[16:20])[0] >= 600, "pixels wide"


class Lesson(NamedTuple):
    """The tutorial's run after three and after twelve blocks; what the report of the first printed to a terminal."""

    early: Path
    late: Path
    answer: str


@pytest.fixture(scope="module")
def lesson(tmp_path_factory: pytest.TempPathFactory) -> Lesson:
    folder = tmp_path_factory.mktemp("lesson")
    images.unpack(images.LESSON_RUNS, folder)
    early, late = (images.lesson_run(folder, blocks) for blocks in (3, 12))
    return Lesson(early, late, images.printed_to_a_terminal("report", str(early)))


def test_the_terminal_of_the_tutorial_is_what_the_report_prints(lesson: Lesson) -> None:
    drawn = (images.LESSON_FOLDER / images.TERMINAL).read_text(encoding="utf-8")
    assert images.terminal(lesson.answer) == drawn, "run 'make images'"
    assert "https:" not in drawn, "a font from elsewhere"


def shown_of(block: Block) -> list[str]:
    """What a block shows of an output, however its lines are broken: the pieces between what is left out.

    Also left out is what another machine prints otherwise: what it can hold and has built, and lines of measurements.
    """
    lines = (line for line in block.text.splitlines() if not line.startswith("$ "))
    return [" ".join(part.split()) for part in _OF_A_MACHINE.split("\n".join(lines)) if part.strip()]


def test_what_the_tutorial_shows_is_what_its_commands_print(lesson: Lesson, tmp_path: Path) -> None:
    tutorial = [block for block in BLOCKS if block.page.parent.name == "tutorial"]
    own = [block for block in tutorial if block.language in {"console", "text"}]
    (file,) = (block.text for block in tutorial if block.language == "yaml")
    answers = re.findall(r"(?:answer|commas \([^)]+\)): (.+)$", own[1].text, re.MULTILINE)
    code, dialogue = answered("\n".join([*answers, "\n\n\x04"]), tmp_path, "containers.yaml")
    assert code == 0, dialogue
    kept = set((tmp_path / "containers.yaml").read_text(encoding="utf-8").splitlines())
    assert [line for line in file.splitlines() if line not in kept and "frame_size_bytes" not in line] == []
    (tmp_path / "edited.yaml").write_text(file, encoding="utf-8")
    printed = [dialogue, Text.from_ansi(lesson.answer).plain, in_process("report", lesson.late).stdout]
    for words in (words_of(line) for block in own for line in commands_of(block)):
        if words[0] in {"plan", "show", "advise", "gate"}:
            named = (str(tmp_path / "edited.yaml") if word == "containers.yaml" else word for word in words)
            done = in_process(*named, runs=lesson.late.parent)
            printed += [done.stdout, done.stderr]
    everything = " ".join(" ".join(printed).split())
    typed = re.compile("|".join(re.escape(one) for one in answers))  # a terminal shows them before the questions
    pieces = [(block.name, " ".join(typed.sub("", one).split())) for block in own for one in shown_of(block)]
    assert [one for one in pieces if one[1] not in everything] == []


def test_what_other_pages_show_of_a_short_command_is_what_it_prints(tmp_path: Path) -> None:
    checked = set()
    for block in BLOCKS:
        if block.language == "console" and block.page.parent.name != "tutorial":
            lines = [words_of(line) for line in commands_of(block)]
            if lines[:1] and lines[0][0] == "show":
                printed = in_process(*lines[0]).stdout
            elif lines[:1] and lines[0][0] == "new":
                _, printed = answered("", tmp_path, *lines[0][1:])
            else:
                continue
            checked.add(lines[0][0])
            whole = " ".join(printed.split())
            assert [piece for piece in shown_of(block) if piece not in whole] == [], block.name
    assert checked == {"show", "new"}


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_line_is_one_sentence_of_a_length_that_can_be_read(path: Path) -> None:
    for line in sentences(path):
        plain = re.sub(r"`[^`]*`|\]\([^)]*\)", " code ", line)
        assert all(len(part.split()) <= MOST_WORDS for part in re.split(r"[.:;] ", plain)), line
        assert not re.search(r"[a-z)*]\. [A-Z]", plain), f"two sentences: {line}"
