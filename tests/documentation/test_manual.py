"""The manual pages: all that help lists is in them, roff reads them without a warning, and their examples are right."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from tests.support.repository import load_tool

manual: ModuleType = load_tool("manual")
PAGES: dict[str, str] = manual.pages("2026-01-01")
TYPED = [(path, line) for path, lines in manual.EXAMPLES.items() for line, _ in lines]
ENTRIES = {one.path: one for one in manual.entries()}


def plain(text: str) -> str:
    """A page without its fonts and escapes."""
    return re.sub(r"\\f[BIR]", "", text).replace("\\-", "-").replace("\\(aq", "'").replace("\\&", "")


def test_each_command_has_a_page_with_each_of_its_options_and_arguments() -> None:
    assert set(PAGES) == {f"{path.replace(' ', '-')}.1" for path in ENTRIES}
    assert {"virtoll.1", "virtoll-run.1", "virtoll-image-show.1"} < set(PAGES)
    for path, entry in ENTRIES.items():
        lines = set(plain(PAGES[f"{path.replace(' ', '-')}.1"]).splitlines())
        for one in entry.command.get_params(entry.context):
            record = one.get_help_record(entry.context)
            assert record is None or {record[0], one.display_name_raw} & lines, (path, one.name)


def test_the_sections_are_those_of_man_pages_7() -> None:
    order = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES"]
    assert re.findall(r"^\.SH (.+)$", PAGES["virtoll.1"], re.MULTILINE) == [*order, "EXAMPLES", "SEE ALSO"]
    assert "-h, --help" in plain(PAGES["virtoll-run.1"])


@pytest.mark.parametrize(
    "reader", [("groff", "-man", "-ww", "-Tutf8"), ("mandoc", "-Tlint", "-Wwarning")], ids=lambda words: words[0]
)
def test_a_reader_of_roff_has_no_warning(reader: tuple[str, ...], tmp_path: Path) -> None:
    """Groff is there wherever tests are set up; mandoc is a second opinion."""
    if shutil.which(reader[0]) is None:
        pytest.skip(f"{reader[0]} is not installed")
    for name, text in PAGES.items():
        (tmp_path / name).write_text(text, encoding="ascii")
    paths = [str(tmp_path / name) for name in PAGES]
    said = subprocess.run([*reader, *paths], capture_output=True, text=True, check=False)
    warnings = said.stdout if reader[0] == "mandoc" else said.stderr
    assert (said.returncode, warnings) == (0, "")


@pytest.mark.parametrize(("path", "typed"), TYPED)
def test_an_example_is_a_command_with_options_that_there_are(path: str, typed: str) -> None:
    words = shlex.split(typed)
    longest = max((one for one in ENTRIES if f"{typed} ".startswith(f"{one} ")), key=len)
    entry = ENTRIES[longest]
    assert longest.startswith(path) or path == "virtoll"
    entry.command.make_context(longest, words[len(longest.split()) :], parent=entry.context.parent)


def test_what_means_something_to_roff_is_shown_as_it_stands() -> None:
    odd = ".It 's a \\n[b] \"c\" ~ ^ ` × -q, '--tune' and a-b"
    shown = "\n".join([".TH A 1", ".SH A", *manual._text(odd)])  # no page has so odd a text
    assert shown.isascii()
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    read = subprocess.run(["groff", "-man", "-ww", "-Tutf8"], input=shown, capture_output=True, text=True, check=True)
    assert read.stderr == ""
    assert odd in " ".join(re.sub(r"\x1b\[\d*m", "", read.stdout).split())


def test_the_date_is_that_of_the_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    (tmp_path / "virtoll-gone.1").write_text("of an older version")
    manual.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)
    text = (tmp_path / "virtoll-run.1").read_text(encoding="ascii")
    assert text == PAGES["virtoll-run.1"].replace("2026-01-01", "2023-11-14")
