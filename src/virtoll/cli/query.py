"""``virtoll query``: SQL over the samples, points, boots and runs of a folder of runs (docs/dataset.md)."""

from __future__ import annotations

import csv
import json
import math
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from virtoll.cli import complete
from virtoll.cli.output import Json, say_on_stderr, say_progress, show_table, write_out
from virtoll.errors import StorageError, UsageError

if TYPE_CHECKING:
    from virtoll.report.dataset.query import Answer

_MOST_SHOWN: Final = 200  # rows of a table for a person


def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="One statement that reads, such as 'select platform from runs'.")
    ],
    places: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Runs, folders of runs, folders of 'virtoll export --parquet', or s3:// addresses of these; all runs "
            "of the runs folder when not given.",
            autocompletion=complete.runs,
        ),
    ] = None,
    *,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
    as_json: Json = False,
    parquet: Annotated[
        Path | None, typer.Option("--parquet", metavar="FILE", help="Write the answer as a Parquet file.")
    ] = None,
) -> None:
    """Ask runs by SQL: the tables samples, points, boots and runs.

    docs/dataset.md has every column. What is read of a run is kept; a run that changed is read again.
    """
    if as_csv + as_json + (parquet is not None) > 1:
        raise UsageError("--csv, --json and --parquet exclude each other; give one of them")
    from virtoll.api.dataset import gather
    from virtoll.report.csv_table import no_formula
    from virtoll.report.dataset.query import query as ask

    gathered = gather(places or [], say_progress)
    for sentence in gathered.left_out:
        say_on_stderr(f"virtoll: {sentence}")
    answer = ask(sql, gathered.sources)
    if parquet is not None:
        _write(answer, parquet)
    elif as_json:
        _print_json(answer)
    elif as_csv:
        writer = csv.writer(_StandardOutput(), lineterminator="\n")
        writer.writerow(map(no_formula, answer.columns))
        for row in answer.rows():
            writer.writerow([no_formula(_text(value)) for value in row])
    else:
        _show(answer)


class _StandardOutput:
    """What `csv` writes to."""

    def write(self, text: str) -> int:
        """A line."""
        return write_out(text)


def _show(answer: Answer) -> None:
    """A table for a person, cut where nobody reads on."""
    rows = list(islice(answer.rows(), _MOST_SHOWN + 1))
    show_table([dict(zip(answer.columns, row, strict=True)) for row in rows[:_MOST_SHOWN]])
    if len(rows) > _MOST_SHOWN:
        say_on_stderr(f"virtoll: these are the first {_MOST_SHOWN} rows; --csv, --json or --parquet FILE has all")


def _print_json(answer: Answer) -> None:
    """A list with an object for each row, one a line."""
    lines = (
        json.dumps(dict(zip(answer.columns, map(_plain, row), strict=True)), ensure_ascii=False, default=str)
        for row in answer.rows()
    )
    write_out("[" + ",\n ".join(lines) + "]\n")


def _write(answer: Answer, path: Path) -> None:
    from virtoll.report.dataset.arrow import write_parquet

    table = answer.arrow()
    try:
        write_parquet(table, path)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}; give another file") from error


def _text(value: Any) -> str:
    """A value in CSV: what is missing is empty."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it: what is no number there is null."""
    if isinstance(value, Decimal):
        value = float(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value
