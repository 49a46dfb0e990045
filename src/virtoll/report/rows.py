"""Rows of text for the report's tables: what the templates print."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from virtoll import units
from virtoll.report import words
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.values import Task, places_of
from virtoll.stats.values import grouped as grouped  # noqa: PLC0414 - the sections take it from here

VERDICT_CLASS = {
    Verdict.SLOWER: "slower",
    Verdict.FASTER: "faster",
    Verdict.ALIKE: "alike",
    Verdict.UNKNOWN: "unknown",
    Verdict.FUNCTIONAL: "caveat",
    Verdict.NOT_MEASURED: "missing",
}


@dataclass(frozen=True)
class Shown:
    """One cell of a table: what stands big, what small below it, its class, and more of it for who asks (`hint`).

    `words`: its verdict, which stands beside the number. `value`: what a table is sorted by, where `main` has no number
    that says it.
    """

    main: str
    small: str = ""
    kind: str = ""
    hint: str = ""
    but: str = ""
    span: int = 1
    words: str = ""
    value: float | None = None


Known = TypeVar("Known")
UNKNOWN: Final = Shown("–", kind="missing")
"""A cell of which nothing is known."""


def known(value: Known | None, text: Callable[[Known], str], small: str = "") -> Shown:
    """A value in words; `UNKNOWN` if there is none."""
    return UNKNOWN if value is None else Shown(text(value), small)


def or_dash(value: Known | None, text: Callable[[Known], str], small: str = "", kind: str = "") -> Shown:
    """The same with a plain dash."""
    return Shown("–") if value is None else Shown(text(value), small, kind)


def factor(value: float) -> str:
    """'2.3 ×'."""
    return f"{units.significant(value)} ×"


@dataclass(frozen=True)
class TableRow:
    """A row's head and cells."""

    head: str
    cells: tuple[Shown, ...]


Matrix = tuple[str, Sequence[TableRow], list[tuple[str, str, str]]]


class OfPlatform(Protocol):
    """A row of statistics about a platform."""

    @property
    def platform(self) -> str:
        """The platform's label."""


class OfCell(OfPlatform, Protocol):
    """A row of statistics about a platform and task."""

    @property
    def task(self) -> Task:
        """What it did."""


CellRow = TypeVar("CellRow", bound=OfCell)


def platforms_of(analysis: Analysis, rows: Iterable[OfPlatform]) -> list[str]:
    """The platforms of these rows, in the run's order."""
    there = {row.platform for row in rows}
    return [platform for platform in analysis.platforms if platform in there]


def in_order(analysis: Analysis, rows: Iterable[CellRow]) -> list[CellRow]:
    """By task and platform, as in every other table; a cell's own rows stay as they are."""
    places = places_of(analysis.tasks)
    return sorted(rows, key=lambda row: (places[row.task], analysis.platforms.index(row.platform)))


def reasons(rows: Sequence[TableRow], platforms: Sequence[str]) -> list[tuple[str, str, str]]:
    """Why each comparison says what it says: (row's head, platform, reason).

    The last cells of a row are those of `platforms`.
    """
    return [
        (row.head, platform, cell.hint)
        for row in rows
        for platform, cell in zip(platforms, row.cells[len(row.cells) - len(platforms) :], strict=True)
        if cell.hint
    ]


def matrix(head: str, rows: Sequence[TableRow], platforms: Sequence[str]) -> Matrix:
    """A table of verdicts with its head, and why each of them is as it is."""
    return head, rows, reasons(rows, platforms)


def comparison_cell(comparison: Comparison | None, but: str = "") -> Shown:
    """A comparison: its verdict big, the share with its interval below it; `but`: what limits it."""
    if comparison is None or comparison.share is None:
        return Shown("–", str(Verdict.NOT_MEASURED), "missing", comparison.reason if comparison else "")
    sentence = words.said(comparison)
    estimate = words.share(comparison.share, comparison.interval)
    small = words.share_and_interval(comparison.share, comparison.interval)
    if comparison.verdict is Verdict.UNKNOWN and comparison.caveat is None:
        small = f"estimate {estimate}"  # the interval is in the verdict
    kind = VERDICT_CLASS[comparison.verdict]
    text = f"{sentence.text}: {comparison.reason}"
    return Shown(sentence.head, small, kind, text, but, words=sentence.tail, value=comparison.share)
