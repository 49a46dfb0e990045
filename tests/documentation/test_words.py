"""What a user reads has none of the phrases that the glossary does not use. Docstrings of code are not text."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.support.repository import ROOT

SOURCE = ROOT / "src" / "virtoll"
GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TEXTS = sorted([*(SOURCE / "experiment").rglob("*.yaml"), *SOURCE.rglob("*.j2")])
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_HEADING = "## Words that are not used\n"


def unused_phrases() -> list[str]:
    """The first column of the glossary's table."""
    rows = GLOSSARY.read_text(encoding="utf-8").partition(_HEADING)[2].partition("\n## ")[0].splitlines()
    cells = [row.split("|")[1] for row in rows if row.startswith("| ") and not row.startswith(("| ---", "| not |"))]
    return [phrase.strip() for cell in cells for phrase in cell.split(",")]


@cache
def pattern() -> re.Pattern[str]:
    """Any of them, as whole words, over the end of a line too."""
    phrases = (r"\s+".join(map(re.escape, phrase.split())) for phrase in unused_phrases())
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


def spoken(source: str, *, command_line: bool = False) -> Iterator[str]:
    """String constants of Python code that may be shown, which have a space; docstrings only of the command line."""
    nodes = list(ast.walk(ast.parse(source)))
    silent = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    if command_line:
        silent -= {
            id(node.body[0].value)
            for node in nodes
            if isinstance(node, ast.FunctionDef) and isinstance(node.body[0], ast.Expr)
        }
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from () if id(node) in silent else (node.value,)


def test_the_glossary_has_a_table_of_phrases() -> None:
    assert {"brand", "cannot be had", "hardly"} <= set(unused_phrases())


def test_the_search_finds_a_phrase_in_text_and_not_in_a_docstring_of_code() -> None:
    code = '"""Hardly seen."""\nsays = f"{1} frames were hardly\\n lost"\nname = "grave"\n'
    assert [one for one in spoken(code) if pattern().search(one)] == [" frames were hardly\n lost"]
    assert pattern().search("it lets\nfall frames")
    assert not pattern().search("an engraved brandy")


def test_what_a_command_or_a_report_says_has_none_of_them() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {text!r}"
        for path in sorted(SOURCE.rglob("*.py"))
        for text in spoken(path.read_text(encoding="utf-8"), command_line=path.parent.name == "cli")
        if pattern().search(text)
    ]
    assert found == []


def test_pages_templates_and_experiments_have_none_of_them() -> None:
    found = []
    for path in [*PAGES, *TEXTS]:
        text = path.read_text(encoding="utf-8")
        if path == GLOSSARY:
            text = text.partition(_HEADING)[0]
        text = _CODE.sub("code", text) if path.suffix == ".md" else text
        found += [f"{path.relative_to(ROOT)}: {match[0]!r}" for match in pattern().finditer(text)]
    assert found == []
