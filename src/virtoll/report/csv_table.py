"""A table as a CSV file, and its rows for a program."""

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from virtoll.system.printable import printable

Row = Sequence[Any]
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_END = re.compile(r"(^|_)(low|high)$")


def times_slower(share: float | None) -> float | None:
    """A share of performance as a factor: 2 takes twice as long or does half as much, 0.5 is twice as fast."""
    return 1 / share if share else None


def no_formula(cell: Any) -> Any:
    """A cell of which a spreadsheet computes nothing: before a text that begins as a formula does stands an apostrophe.

    Texts come from experiments, hosts and guests. A number stays one, also below zero (OWASP, CSV Injection).
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA) or _NUMBER.fullmatch(cell):
        return cell
    return f"'{cell}"


class _Harmless(dict[str, str]):
    """Texts that neither a spreadsheet computes nor a terminal obeys, on which somebody prints the file.

    Each is made once: most of a table's texts stand in it many times.
    """

    def __missing__(self, text: str) -> str:
        harmless = printable(no_formula(text))
        self[text] = harmless
        return harmless


@dataclass(frozen=True)
class CsvTable:
    """A file name without its ending, the column names, and rows as wide; None is an empty field.

    As a file no cell is a formula (`no_formula`) or steers a terminal; for a program it is as it was.
    """

    name: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]

    def text(self) -> str:
        """The whole CSV file; floats with all their digits."""
        out = io.StringIO()
        self._to(out)
        return out.getvalue()

    def write(self, path: Path) -> None:
        """Make the file of this text, row by row; OSError."""
        with path.open("w", encoding="utf-8", newline="") as file:
            self._to(file)

    def _to(self, out: TextIO) -> None:
        writer = csv.writer(out, lineterminator="\n")
        harmless = _Harmless()
        for row in (self.header, *self.rows):
            writer.writerow([harmless[cell] if isinstance(cell, str) else cell for cell in row])

    def records(self) -> list[dict[str, Any]]:
        """The rows for a program, each as `record` gives it."""
        return [record(self.header, row) for row in self.rows]


def record(header: Sequence[str], row: Row) -> dict[str, Any]:
    """A row by its columns' names, in numbers that JSON has: one that is none is None.

    An end of an interval ('low', 'interval_high') has a second key, 'low_open': whether it is open. It is None then.
    """
    by_column: dict[str, Any] = {}
    for name, value in zip(header, row, strict=True):
        finite = not isinstance(value, float) or math.isfinite(value)
        by_column[name] = value if finite else None
        if _END.search(name):
            by_column[f"{name}_open"] = not finite
    return by_column
