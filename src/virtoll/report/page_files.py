"""The files of a page: itself, its figures as SVG and PDF, and its tables as CSV, in a folder that is still empty.

`write_folder` makes them anew for a folder that the user names.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from virtoll.errors import StorageError
from virtoll.report.csv_table import CsvTable
from virtoll.report.drawing import Drawing
from virtoll.report.renewal import renewed


def write_tables(target: Path, tables: Iterable[CsvTable]) -> list[str]:
    """Make `tables/`, one by one, so that none is kept when the next is made; their names. OSError."""
    folder = target / "tables"
    folder.mkdir()
    names = []
    for table in tables:
        table.write(folder / f"{table.name}.csv")
        names.append(table.name)
    return names


def write_page(target: Path, page: str, drawings: Iterable[Drawing]) -> None:
    """Make `figures/` and `index.html`; OSError, and what a drawing raises."""
    folder = target / "figures"
    folder.mkdir()
    for drawing in drawings:
        (folder / f"{drawing.name}.svg").write_text(drawing.svg, encoding="utf-8")
        (folder / f"{drawing.name}.pdf").write_bytes(drawing.pdf)
    (target / "index.html").write_text(page, encoding="utf-8")


def write_folder(
    target: Path, tables: Iterable[CsvTable], page: Callable[[Sequence[str]], str], drawings: Iterable[Drawing]
) -> None:
    """All of them in `target`, whole or not at all; `page`: made with the tables' names. StorageError."""
    try:
        with renewed(target, may_be_link=True) as folder:
            names = write_tables(folder, tables)
            write_page(folder, page(names), drawings)
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write the page to {target}: {reason}. Give another folder.") from error
