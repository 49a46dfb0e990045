"""Tables of runs for Arrow, pandas and polars: those of the dataset, of one run or of many (docs/dataset.md).

Main types: ``Runs``, and ``Tables``, what it has in common with a run. Main function: ``load_all``. Its libraries are
the extra ``data``, which is imported when a table is asked for.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from virtoll.api.dataset import Gathered, exported, folders_of, gather

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from virtoll.report.dataset.arrow import Kind

TableName = Literal["samples", "points", "boots", "runs"]


class Tables(ABC):
    """What has the tables of a dataset (docs/dataset.md)."""

    @overload
    def table(self, name: TableName, as_: Literal["arrow"] = "arrow") -> pa.Table: ...
    @overload
    def table(self, name: TableName, as_: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def table(self, name: TableName, as_: Literal["polars"]) -> pl.DataFrame: ...
    def table(self, name: TableName, as_: Kind = "arrow") -> Any:
        """All rows of a table: ``samples``, ``points``, ``boots`` or ``runs``, for ``arrow``, ``pandas`` or ``polars``.

        Of several runs, one that cannot be read is left out, with a warning. Raises ``UsageError`` where the table or
        the kind is not known, no run can be read, or a package is not installed: they are the extra ``data``.
        """
        from virtoll.report.dataset.arrow import as_kind, known_table

        known_table(name)
        return as_kind(self._arrow(name), as_)

    @abstractmethod
    def _arrow(self, name: TableName) -> pa.Table:
        """The table for Arrow."""


class Runs(Tables):
    """Several runs as one dataset. What is read of a run is kept in the cache; one that changed is read again."""

    def __init__(self, places: Sequence[str]) -> None:
        """``places``: runs, folders of runs or exports, as ``load_all`` takes them; none: all of the runs folder."""
        self._places = tuple(places)

    def __repr__(self) -> str:
        """As it can be loaded again."""
        return f"virtoll.load_all({', '.join(map(repr, self._places))})"

    @overload
    def query(self, sql: str, as_: Literal["arrow"] = "arrow") -> pa.Table: ...
    @overload
    def query(self, sql: str, as_: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def query(self, sql: str, as_: Literal["polars"]) -> pl.DataFrame: ...
    def query(self, sql: str, as_: Kind = "arrow") -> Any:
        """What one statement of SQL answers over these tables, as ``virtoll query`` does; errors as of ``table``."""
        from virtoll.report.dataset.arrow import as_kind
        from virtoll.report.dataset.query import query

        return as_kind(query(sql, self._gathered.sources).arrow(), as_)

    def _arrow(self, name: TableName) -> pa.Table:
        from virtoll.report.dataset.arrow import with_schema
        from virtoll.report.dataset.query import query

        return with_schema(query(f"from {name}", self._gathered.sources).arrow(), name)

    @cached_property
    def _gathered(self) -> Gathered:
        """Found and read at the first question; what is left out is told once."""
        gathered = gather(self._places, lambda _: None)
        for sentence in gathered.left_out:
            warnings.warn(sentence, stacklevel=4)
        return gathered


def load_all(*places: str | Path) -> Runs:
    """Several runs as one dataset: runs, folders of runs, or folders of exports; without any all of the runs folder.

    Raises ``UsageError`` where there is no such run; what is in a run is read when a table is asked for.
    """
    named = [str(place) for place in places]
    runs = [place for place in named if exported(place) is None]
    if runs or not named:
        folders_of(runs)
    return Runs(named)
