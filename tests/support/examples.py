"""The examples of the documentation: every fenced block of every page, and the command lines among them.

Main type: `Block`. What its first line says after the language is the page's convention (CONTRIBUTING.md, "Write a
page").
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import typer.core
import typer.main
from tests.support.repository import ROOT
from typer.exceptions import TyperException

from virtoll.cli import app

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
_BLOCK = re.compile(r"^( *)```([^\n`]*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`(virtoll [a-z][^`\n]*)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it is, its language, what it is an example of, and its text."""

    page: Path
    line: int
    language: str
    kind: str
    text: str

    @property
    def name(self) -> str:
        """'docs/gate.md:74'."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks() -> Iterator[Block]:
    """Every fenced block of every page, in their order."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in _BLOCK.finditer(text):
            indent, said, body = match.groups()
            language, _, kind = said.strip().partition(" ")
            lines = (line.removeprefix(indent) for line in body.splitlines(keepends=True))
            yield Block(page, text.count("\n", 0, match.start()) + 1, language, kind, "".join(lines))


def commands_of(block: Block) -> Iterator[str]:
    """The command lines of Virtoll's in a block of a terminal's text, without what is said beside each."""
    text = block.text.replace("\\\n", " ")
    for line in text.splitlines():
        command = line.removeprefix("$ ").removeprefix("sudo ")
        if block.language == "" and not line.startswith("$ "):
            command = re.split(r" {2,}", command)[0]
        if command.startswith("virtoll "):
            yield command


def inline_commands() -> Iterator[tuple[str, str]]:
    """Command lines in the middle of a sentence, with their page."""
    for page in PAGES:
        text = _BLOCK.sub("", page.read_text(encoding="utf-8"))
        for match in _INLINE.finditer(text):
            yield str(page.relative_to(ROOT)), match[1]


def words_of(command: str) -> list[str]:
    """Its arguments, without 'virtoll', a comment, or what a shell does with its output."""
    words = shlex.split(command, comments=True)
    ends = [place for place, word in enumerate(words) if word in {"|", ">", ">>", "&&", ";"}]
    return words[1 : min(ends, default=len(words))]


@cache
def command_line() -> typer.core.TyperGroup:
    """All commands, read of their declarations once."""
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    return group


def misunderstood(words: Sequence[str]) -> str:
    """Why the command line would refuse these arguments; empty where it takes them. Nothing is started."""
    group, rest = command_line(), list(words)
    while rest and not rest[0].startswith("-"):
        name = rest.pop(0)
        if name not in group.commands:
            return f"no command {name!r}"
        found = group.commands[name]
        if not isinstance(found, typer.core.TyperGroup):
            break
        group = found
    else:
        found = group
    try:
        found.make_context(found.name or "", rest)
    except typer.Exit:  # it is '--help' or '--version'
        return ""
    except TyperException as error:
        return str(error)
    return ""
