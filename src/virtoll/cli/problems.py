"""How an error is printed: one sentence, or each thing that is wrong in a file with its place, its line and a caret."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from virtoll.errors import Problem, UsageError, VirtollError

_MOST_COLUMNS = 72  # of a line of the file
_CUT = "..."


def told(error: VirtollError) -> Iterator[str]:
    """The lines for the standard error."""
    problems = error.problems if isinstance(error, UsageError) else ()
    if not any(problem.text for problem in problems) and len(problems) < 2:
        yield f"virtoll: {error}"
        return
    for problem in problems:
        yield problem.located
        if problem.text:
            yield from _shown(problem)
    if len(problems) > 1:
        yield f"virtoll: {len(problems)} errors in {problems[0].file}; nothing was started"


def _shown(problem: Problem) -> Iterator[str]:
    """The line with its number, cut to where the problem is, and a line that points at it."""
    number, at = str(problem.line), (problem.column or 1) - 1
    start = 0
    if _width(problem.text) > _MOST_COLUMNS:
        start = max(0, min(at - _MOST_COLUMNS // 3, len(problem.text) - _MOST_COLUMNS))
    part = problem.text[start : start + _MOST_COLUMNS]
    lead = _CUT if start else ""
    before = lead + _displayed(problem.text[start:at])
    meant = problem.text[at : min(at + problem.length, start + _MOST_COLUMNS)]
    shown = lead + _displayed(part)
    if start + len(part) < len(problem.text):
        shown += _CUT
    margin = " " * max(4 - len(number), 0)
    yield f"{margin}{number} | {shown}"
    yield f"{margin}{' ' * len(number)} | {' ' * _width(before)}{'^' * max(_width(_displayed(meant)), 1)}"


def _displayed(text: str) -> str:
    """A tab takes four columns wherever it stands, so that the caret is below what it means."""
    return text.replace("\t", "    ")


def _width(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(_columns(character) for character in text)


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in ("W", "F") else 1
