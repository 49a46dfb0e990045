"""A table as a CSV file: what ``tables`` and ``guest_tables`` are made of."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Row = Sequence[Any]


@dataclass(frozen=True)
class CsvTable:
    """A file name without its ending, the column names, and rows as wide; None is an empty field."""

    name: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]

    def text(self) -> str:
        """The whole CSV file; floats with all their digits."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return out.getvalue()
