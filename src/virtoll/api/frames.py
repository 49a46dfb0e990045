"""Rows of a run as a table of pandas, whose columns have the same types for every run.

Main function: ``frame_of``. What the columns are is in ``report/row_tables.py``. pandas is the extra ``data``, and is
imported by it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from virtoll.errors import UsageError, remedy_for
from virtoll.version import __version__

if TYPE_CHECKING:
    import pandas as pd

Rows = Literal["medians", "comparisons", "trials"]


def types_of(of: Rows) -> dict[str, str]:
    """The columns of these rows, with pandas' types; each of these but a list's has a missing value of its own."""
    from virtoll.report.row_tables import ROWS
    from virtoll.report.table import ValueKind

    types = {
        ValueKind.TEXT: "string",
        ValueKind.COUNT: "Int64",
        ValueKind.NUMBER: "Float64",
        ValueKind.ANSWER: "boolean",
        ValueKind.LIST: "object",
    }
    return {column.name: types[column.kind] for column in ROWS[of].columns}


def units_of(of: Rows) -> dict[str, str]:
    """The units of the columns that have one, in words that need no other column's name beside them."""
    from virtoll.report.row_tables import ROWS
    from virtoll.report.table import ValueKind

    words = {"`unit`": "as the column unit says", "share": "share of the baseline's performance"}
    numbers = (column for column in ROWS[of].columns if column.kind is ValueKind.NUMBER)
    return {column.name: words.get(column.unit, column.unit) for column in numbers if column.unit}


def frame_of(rows: Sequence[Mapping[str, Any]], of: Rows, run: str) -> pd.DataFrame:
    """The rows as a table: what is missing is NA, and never zero; one without rows has its columns too.

    Its ``attrs`` have the run's name, the version of Virtoll that read it, and units. Raises ``UsageError`` where
    pandas is not installed.
    """
    try:
        import pandas as pd
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise UsageError(f"a frame needs pandas, which is not installed; {remedy_for('data')}") from None
    types = types_of(of)
    columns = list(rows[0]) if rows else list(types)
    frame = pd.DataFrame(rows, columns=columns, dtype="object")
    frame = frame.astype({name: types[name] for name in columns if name in types})
    frame.attrs = {"run": run, "virtoll": __version__, "units": units_of(of)}
    return frame
