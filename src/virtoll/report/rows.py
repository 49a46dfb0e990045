"""Rows of text for the report's tables: what the templates print."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Shown:
    """One cell of a table: what stands big, what small below it, its class, and what a pointer shows.

    `words`: its verdict, which stands beside the number.
    """

    main: str
    small: str = ""
    kind: str = ""
    hint: str = ""
    but: str = ""
    span: int = 1
    words: str = ""


@dataclass(frozen=True)
class TableRow:
    """A row's head and cells."""

    head: str
    cells: tuple[Shown, ...]
