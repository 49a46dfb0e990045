"""Rows of text for the report's tables: what the templates print."""

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.report import words
from virtoll.stats.compare import Comparison, Verdict

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


@dataclass(frozen=True)
class TableRow:
    """A row's head and cells."""

    head: str
    cells: tuple[Shown, ...]


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


def comparison_cell(comparison: Comparison | None, but: str = "") -> Shown:
    """A comparison: its verdict big, the share with its interval below it; `but`: what limits it."""
    if comparison is None or comparison.share is None:
        return Shown("–", str(Verdict.NOT_MEASURED), "missing", comparison.reason if comparison else "")
    found = words.said(comparison)
    estimate = words.share(comparison.share, comparison.interval)
    small = words.share_and_interval(comparison.share, comparison.interval)
    if comparison.verdict is Verdict.UNKNOWN and comparison.caveat is None:
        small = f"estimate {estimate}"  # the interval is in the verdict
    kind = VERDICT_CLASS[comparison.verdict]
    return Shown(
        found.head, small, kind, f"{found.text}: {comparison.reason}", but, words=found.tail, value=comparison.share
    )
