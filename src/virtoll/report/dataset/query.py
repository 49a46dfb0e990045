"""SQL over the tables of a dataset, by DuckDB, which may read these files and do nothing else.

Main types: ``Sources`` (the Parquet files by table), ``Answer`` (columns, and rows as they come). Main function:
``query``. One statement that reads is taken. The connection is in memory, takes no extension by itself, spills nothing
to disk, and its settings are locked before the statement runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from virtoll.errors import UsageError
from virtoll.report.dataset.arrow import VERSION_KEY, package
from virtoll.report.dataset.tables import VERSION

if TYPE_CHECKING:
    import duckdb as duck
    import pyarrow as pa

BUCKETS: Final = ("s3://", "gs://", "r2://")
"""How the address of a bucket begins, which DuckDB reads by its extension httpfs."""
_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # names of tables are never our variables
    "temp_directory": "",
    "memory_limit": "50%",
    "preserve_insertion_order": "true",
}
_READING: Final = frozenset({"SELECT", "EXPLAIN", "MULTI"})  # the last is what PIVOT is made of
_EXPLAIN: Final = re.compile(r"\s*explain\s+(analyze\s+)?(\((?:analyze|format \w+)(?:,[^()]*)?\)\s*)?", re.IGNORECASE)
_FETCHED_AT_ONCE: Final = 10_000


@dataclass(frozen=True)
class Sources:
    """The Parquet files of each table, as paths or addresses; one of a bucket may have a ``*``.

    ``exported``: whether some are of an export, which another Virtoll may have written: its version is then asked for.
    """

    files: Mapping[str, Sequence[str]]
    exported: bool = False

    @property
    def in_buckets(self) -> bool:
        """Whether some are in a bucket."""
        return any(path.startswith(BUCKETS) for paths in self.files.values() for path in paths)


class Answer:
    """What a statement answers: ``columns``, each name once, and the rows as they come, or all of it by Arrow."""

    def __init__(self, connection: duck.DuckDBPyConnection, sql: str) -> None:
        """``connection``: DuckDB's, with the views; ``UsageError`` where the statement is wrong."""
        self._connection, self._sql = connection, sql
        with _in_one_sentence():
            self._relation = connection.sql(sql)
        self.columns = _each_once(self._relation.columns)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """The rows, some thousand at a time in memory; ``UsageError`` where one cannot be computed."""
        with _in_one_sentence():
            self._connection.execute(self._sql)
        while True:
            with _in_one_sentence():
                some = self._connection.fetchmany(_FETCHED_AT_ONCE)
            if not some:
                return
            yield from some

    def arrow(self) -> pa.Table:
        """All rows as a table; ``UsageError`` where pyarrow is missing, or a row cannot be computed."""
        package("pyarrow", "a table")
        with _in_one_sentence():
            table: pa.Table = self._relation.to_arrow_table()
        return table.rename_columns(self.columns)


def query(sql: str, sources: Sources) -> Answer:
    """The answer to one statement that reads, over a view of each table; ``UsageError`` for a wrong one."""
    duckdb = package("duckdb", "a query")
    with _in_one_sentence():
        reads = _reads(duckdb.extract_statements(sql), duckdb)
    if not reads:
        raise UsageError('SQL: give one statement that reads, such as "select platform, value from samples"')
    with _in_one_sentence():
        connection = duckdb.connect(":memory:", config=_SETTINGS)
        _prepare(connection, sources)
    return Answer(connection, sql)


def _reads(statements: Sequence[duck.Statement], duckdb: Any) -> bool:
    """Whether it is one statement that reads; what EXPLAIN ANALYZE explains is executed, and so has to read too."""
    if len(statements) != 1 or statements[0].type.name not in _READING:
        return False
    explained = _EXPLAIN.match(statements[0].query) if statements[0].type.name == "EXPLAIN" else None
    if explained is not None:
        return _reads(duckdb.extract_statements(statements[0].query[explained.end() :]), duckdb)
    return statements[0].type.name != "EXPLAIN"


def _prepare(connection: duck.DuckDBPyConnection, sources: Sources) -> None:
    """The views; then nothing but their files can be read, and no setting changed."""
    if sources.in_buckets:
        _load_httpfs(connection)
    allowed = [path for paths in sources.files.values() for path in paths]
    buckets = sorted({path.partition("*")[0] for path in allowed if path.startswith(BUCKETS)})
    connection.execute(f"set allowed_paths = {_list([path for path in allowed if not path.startswith(BUCKETS)])}")
    connection.execute(f"set allowed_directories = {_list(buckets)}")
    for name, files in sources.files.items():
        if files:
            connection.read_parquet(list(files), union_by_name=sources.exported).create_view(name)
            if sources.exported:
                _refuse_other_version(connection, files)
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def _refuse_other_version(connection: duck.DuckDBPyConnection, files: Sequence[str]) -> None:
    statement = "select distinct decode(value) from parquet_kv_metadata(?) where decode(key) = ?"
    versions = sorted(version for (version,) in connection.execute(statement, [list(files), VERSION_KEY]).fetchall())
    if versions != [str(VERSION)]:
        words = f"version {' and '.join(versions)} of the dataset" if versions else "no tables of a dataset"
        raise UsageError(f"{files[0]}: holds {words}, this virtoll reads {VERSION}; export the runs again")


def _load_httpfs(connection: duck.DuckDBPyConnection) -> None:
    duckdb = package("duckdb", "a query")
    try:
        connection.execute("load httpfs")
    except duckdb.Error:
        raise UsageError(
            "a bucket is read by DuckDB's extension httpfs, which is not installed; install it once with a network: "
            "python -c \"import duckdb; duckdb.sql('install httpfs')\""
        ) from None


def _list(texts: Sequence[str]) -> str:
    """A list of texts in SQL."""
    return "[" + ", ".join("'" + text.replace("'", "''") + "'" for text in texts) + "]"


def _each_once(names: Sequence[str]) -> list[str]:
    """The names of columns; a later one of the same name is numbered."""
    columns: list[str] = []
    for name in names:
        number, column = 1, name
        while column in columns:
            number += 1
            column = f"{name}_{number}"
        columns.append(column)
    return columns


@contextmanager
def _in_one_sentence() -> Iterator[None]:
    """DuckDB's complaint as a ``UsageError`` of one sentence, without its drawing of the place."""
    duckdb = package("duckdb", "a query")
    try:
        yield
    except (duckdb.OutOfMemoryException, MemoryError):
        raise UsageError("SQL: this needs more memory than a query may take; ask for fewer rows or columns") from None
    except duckdb.Error as error:
        lines = [line.strip() for line in str(error).partition("\n\nLINE ")[0].splitlines() if line.strip()]
        complaint = re.sub(r"\s+", " ", "; ".join(line.rstrip(".!") for line in lines))
        raise UsageError(f"SQL: {complaint}; docs/dataset.md has every table and column") from None
    except RuntimeError as error:
        if "interrupted" not in str(error):
            raise
        raise KeyboardInterrupt from None  # what DuckDB makes of it
