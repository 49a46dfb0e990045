"""Tables of a dataset by Arrow, and as Parquet files: typed columns with units, zstd, and the dataset's version.

Main functions: ``schema_of``, ``arrow_tables``, ``write_parquet``, ``as_kind``. pyarrow, pandas and polars are the
extra ``data``: each is imported where it is used, and one that is missing is a ``UsageError`` with its remedy.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from virtoll.errors import RunFolderError, StorageError, UsageError, remedy_for
from virtoll.report.dataset.rows import rows_of
from virtoll.report.dataset.tables import TABLES, VERSION, OfRun
from virtoll.report.table import ValueKind
from virtoll.runfolder.packing import PLAIN_NAME
from virtoll.runfolder.sums import UNDER_WAY
from virtoll.runfolder.under_way import under_way
from virtoll.stats.analysis import RunData

if TYPE_CHECKING:
    import pyarrow as pa

Kind = Literal["arrow", "pandas", "polars"]
"""Whose table is wanted."""
Package = Literal["pyarrow", "duckdb", "pandas", "polars"]
VERSION_KEY: Final = "virtoll.dataset"
"""In a file's metadata: the version of the tables. ``virtoll.table`` beside it has the table's name."""


def package(name: Package, what_for: str) -> Any:
    """A package of the extra ``data``; ``UsageError`` where it is not installed. ``what_for``: a sentence's subject."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise UsageError(f"{what_for} needs {name}, which is not installed; {remedy_for('data')}") from None
    except ImportError as error:  # of a library that is there, as without memory for it
        reason = " ".join(str(error).split())
        raise UsageError(
            f"{what_for} needs {name}, which cannot be loaded ({reason}); see that memory is left, or install it again"
        ) from error


def schema_of(table: str) -> pa.Schema:
    """The schema of a table: each column with its type, whether it may be missing, and its unit and meaning."""
    pa = package("pyarrow", "a table of the dataset")
    types = {
        ValueKind.TEXT: pa.string(),
        ValueKind.COUNT: pa.int64(),
        ValueKind.NUMBER: pa.float64(),
        ValueKind.ANSWER: pa.bool_(),
    }
    fields = []
    for column in TABLES[table].columns:
        unit = "" if column.kind is ValueKind.ANSWER else column.unit
        described = {"unit": unit, "meaning": column.meaning}
        fields.append(pa.field(column.name, types[column.kind], column.nullable, described))
    return pa.schema(fields, {VERSION_KEY: str(VERSION), "virtoll.table": table})


def arrow_tables(data: RunData) -> dict[str, pa.Table]:
    """Every table of ``TABLES`` of a run; one of which it has nothing has no rows.

    Raises ``RunFolderError`` where a number does not fit into 64 bits.
    """
    return {name: _table(name, rows) for name, rows in rows_of(data).items()}


def _table(name: str, rows: Sequence[OfRun]) -> pa.Table:
    pa = package("pyarrow", "a table of the dataset")
    schema = schema_of(name)
    columns = []
    for field, column in zip(schema, TABLES[name].columns, strict=True):
        try:
            columns.append(pa.array(list(map(column.value, rows)), field.type))
        except (pa.ArrowInvalid, OverflowError) as error:
            run = rows[0].manifest.run
            raise RunFolderError(
                f"run {run}: {field.name} of {name} holds what is no {field.type}: a record is damaged, restore it"
            ) from error
    return pa.table(columns, schema=schema)


def with_schema(table: pa.Table, name: str) -> pa.Table:
    """A table that was read of files, with its schema: columns in their order, with units and meanings."""
    schema = schema_of(name)
    return table.select(schema.names).cast(schema)


def write_parquet(table: pa.Table, path: Path) -> None:
    """Write a table so that a reader sees a whole file or none; OSError."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    with under_way(path.parent, f".{path.name}{UNDER_WAY}") as beside:
        new = beside / "table"
        parquet.write_table(table, new, compression="zstd")
        new.chmod(0o644)
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)


def export(data: RunData, folder: Path) -> tuple[Path, ...]:
    """Write every table of a run to ``folder/TABLE/RUN.parquet``, beside those of other runs; the files.

    Raises ``RunFolderError`` where the run's name can be no file's, and ``StorageError`` where they cannot be written.
    """
    written = []
    if not PLAIN_NAME.fullmatch(data.manifest.run):
        raise RunFolderError(f"the run's name {data.manifest.run!r} can be no file's; restore its manifest.json")
    for name, table in arrow_tables(data).items():
        path = folder / name / f"{data.manifest.run}.parquet"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_parquet(table, path)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}; give another folder") from error
        written.append(path)
    return tuple(written)


def as_kind(table: pa.Table, kind: Kind) -> Any:
    """The same table for pandas or polars; what is missing is missing there too, and never zero or NaN.

    Raises ``UsageError`` where the package is not installed, or there is no such kind.
    """
    if kind == "arrow":
        return table
    if kind == "polars":
        return package("polars", "a table as polars").from_arrow(table)
    if kind != "pandas":
        raise UsageError(f"as_={kind!r}: not known; choose one of: arrow, pandas, polars")
    pandas, pa = package("pandas", "a table as pandas"), package("pyarrow", "a table of the dataset")
    types: Mapping[Any, Any] = {
        pa.string(): pandas.StringDtype(),
        pa.int64(): pandas.Int64Dtype(),
        pa.float64(): pandas.Float64Dtype(),
        pa.bool_(): pandas.BooleanDtype(),
    }
    return table.to_pandas(types_mapper=types.get)


def known_table(name: str) -> None:
    """``UsageError`` where there is no such table."""
    if name not in TABLES:
        raise UsageError(f"table {name!r} is not known; choose one of: {', '.join(TABLES)}")
