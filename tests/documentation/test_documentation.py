"""The documentation agrees with the code: generated tables, links between files, pictures, the README."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.documented import page_name
from tests.support.examples import command_line
from tests.support.repository import ROOT, load_tool

from virtoll.platforms import PLATFORMS
from virtoll.report.figures import FIGURES
from virtoll.workloads import WORKLOADS

tables: ModuleType = load_tool("tables")
images: ModuleType = load_tool("images")
README = ROOT / "README.md"
PRESETS = ROOT / "src" / "virtoll" / "experiment" / "presets"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")])
MOST_WORDS = 700
MOST_BYTES = 200_000  # of a screenshot
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@cache
def anchors(path: Path) -> set[str]:
    return {anchor for _, anchor in tables.headings(path.read_text(encoding="utf-8"))}


def broken_links(path: Path, text: str) -> list[str]:
    """The relative links of a page that point at no file, or at no heading of it."""
    broken = []
    for match in _LINK.finditer(_CODE.sub("code", text)):
        target, _, anchor = match["target"].partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        linked = path.parent / target if target else path
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            broken.append(match["target"])
    return broken


@pytest.mark.parametrize("path", tables.FILES, ids=page_name)
def test_a_generated_table_is_what_the_tool_writes(path: Path) -> None:
    assert tables.rewritten(path) == path.read_text(encoding="utf-8"), "run 'make tables'"


def test_the_tables_name_every_platform_and_workload() -> None:
    text = (ROOT / "docs" / "platforms" / "README.md").read_text(encoding="utf-8")
    assert [name for name in PLATFORMS if f"`{name}`" not in text] == []
    text = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert [name for name in WORKLOADS if f"`{name}`" not in text] == []


def test_no_file_has_both_sides_of_a_merge() -> None:
    """Python and Rust would not compile; a page, an experiment or published data would be read."""
    folders = [ROOT / name for name in ("docs", "reference", "src", "tests", "tools", "benches", "crates")]
    found = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    # What Python compiles comes and goes under passing names while other tests import.
    files = [*PAGES, *(path for path in found if path.parent.name != "__pycache__")]
    assert len(files) > 500, "they are where they were"
    marker = re.compile(rb"^(<{7} |>{7} )", re.MULTILINE)
    assert [page_name(path) for path in files if marker.search(path.read_bytes())] == []


def test_each_command_is_on_the_page_of_commands() -> None:
    """What it is for; `tables` writes the page of its options."""
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    names = [name for name, one in command_line().commands.items() if not one.hidden]
    assert [name for name in names if not re.search(rf"^virtoll {name}\b|`virtoll {name}\b", text, re.MULTILINE)] == []


def test_every_platform_but_the_model_has_a_page() -> None:
    assert [name for name in PLATFORMS if tables.platform_page(name) is None] == ["fake"]


@pytest.mark.parametrize("path", PAGES, ids=page_name)
def test_a_link_points_at_a_file_and_a_heading_that_are_there(path: Path) -> None:
    assert broken_links(path, path.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_found() -> None:
    text = "[a](README.md) [b](gone.md) [c](#no-heading) [d](https://example.org/x) `[e](gone.md)`\n"
    assert broken_links(README, text) == ["gone.md", "#no-heading"]


def test_an_anchor_is_made_as_github_makes_it() -> None:
    text = "# What a `guest` is\n\n## rsync-tree, rsync-file\n```\n# a comment\n```\n## Notes\n## Notes\n"
    assert [anchor for _, anchor in tables.headings(text)] == [
        "what-a-guest-is",
        "rsync-tree-rsync-file",
        "notes",
        "notes-1",
    ]


def test_the_page_of_the_studies_names_keys_that_there_are() -> None:
    """The key of each ``key: value`` is in a preset, or another page explains it."""
    other = [path for path in PAGES if path.name != "studies.md"]
    known = "\n".join(path.read_text(encoding="utf-8") for path in [*PRESETS.glob("*.yaml"), *other])
    named = re.findall(r"`(\w+): [^`]+`", (ROOT / "docs" / "studies.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    assert [key for key in named if not re.search(rf"\b{key}:|`{key}`", known)] == []


def test_every_picture_is_of_a_run_of_the_package_and_shown_somewhere() -> None:
    there = {path.name: path for path in (ROOT / "docs" / "images").iterdir() if path.is_file()}
    runs = {name: run for name, (run, _) in images.IMAGES.items()} | images.SCREENSHOTS
    assert there.keys() == runs.keys(), "run 'make images', and delete what nothing draws any more"
    targets = {match["target"] for page in PAGES for match in _LINK.finditer(page.read_text(encoding="utf-8"))}
    for name, run in runs.items():
        assert (images.RUNS / f"{run}.tar.xz").is_file()
        assert any(target.endswith(f"images/{name}") for target in targets), name
    for name, (_, figure) in images.IMAGES.items():
        assert figure in FIGURES
        assert "matplotlib" not in there[name].read_text(encoding="utf-8")
    for name in images.SCREENSHOTS:
        assert there[name].read_bytes().startswith(b"\x89PNG")
        assert there[name].stat().st_size < MOST_BYTES


def test_the_readme_is_short_and_shows_the_run_of_its_table() -> None:
    text = README.read_text(encoding="utf-8")
    assert sum(any(one.isalnum() for one in word) for word in text.split()) <= MOST_WORDS
    assert images.SCREENSHOTS["report.png"] == tables.SHOWN_RUN
    assert f"`{tables.SHOWN_RUN}`" in text
