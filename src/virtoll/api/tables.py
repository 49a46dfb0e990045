"""Tables of runs for Arrow, pandas and polars: those of the dataset, of one run or of many (docs/dataset.md).

Main type: ``Runs``. Main functions: ``load_all``, ``table_of``. Its libraries are the extra ``data``, which is
imported where a table is asked for.
"""

from __future__ import annotations

import warnings
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


class Runs:
    """Several runs as one dataset. What is read of a run is kept in the cache; one that changed is read again."""

    def __init__(self, places: Sequence[str]) -> None:
        """``places``: runs, folders of runs or exports, as ``load_all`` takes them; none: all of the runs folder."""
        self._places = tuple(places)

    def __repr__(self) -> str:
        """As it can be loaded again."""
        return f"virtoll.load_all({', '.join(map(repr, self._places))})"

    @overload
    def table(self, name: TableName, as_: Literal["arrow"] = "arrow") -> pa.Table: ...
    @overload
    def table(self, name: TableName, as_: Literal["pandas"]) -> pd.DataFrame: ...
    @overload
    def table(self, name: TableName, as_: Literal["polars"]) -> pl.DataFrame: ...
    def table(self, name: TableName, as_: Kind = "arrow") -> Any:
        """All rows of a table: ``samples``, ``points``, ``boots`` or ``runs``, for ``arrow``, ``pandas`` or ``polars``.

        A run that cannot be read is left out, with a warning. Raises ``UsageError`` where the table or the kind is not
        known, no run can be read, or a package is not installed: they are the extra ``data``.
        """
        from virtoll.report.dataset.arrow import as_kind, known_table, with_schema
        from virtoll.report.dataset.query import query

        known_table(name)
        return as_kind(with_schema(query(f"from {name}", self._gathered.sources).arrow(), name), as_)

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


def table_of(folder: Path, name: TableName, as_: Kind) -> Any:
    """A table of one run; errors as of ``Runs.table``, and ``RunFolderError`` where the run cannot be read."""
    from virtoll.report.build import load
    from virtoll.report.dataset.arrow import arrow_tables, as_kind, known_table
    from virtoll.runfolder.damage import damage_told

    known_table(name)
    with damage_told(folder):
        return as_kind(arrow_tables(load(folder))[name], as_)
