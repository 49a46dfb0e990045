"""What the command line prints: sentences and JSON as they are, tables and the display of a run by rich.

rich is imported where a table or a display is shown: a sentence needs none of it.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


@cache
def console() -> Console:
    """The standard output, for what is wrapped to the terminal's width or has colours."""
    from rich.console import Console

    return Console()


def say(text: str) -> None:
    """A line to the standard output."""
    typer.echo(text)


def say_on_stderr(text: str) -> None:
    """A line to the standard error: beside what a program may read from the standard output."""
    typer.echo(text, err=True)


def print_json(document: object) -> None:
    """A document for a program."""
    sys.stdout.write(json.dumps(document, indent=1) + "\n")


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows as a table for a person or as JSON for a program; all rows have the same keys."""
    if as_json:
        print_json(rows)
        return
    if not rows:
        say("none")
        return
    from rich.table import Table

    table = Table(show_edge=False)
    for key in rows[0]:
        table.add_column(key.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console().print(table)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {text}" for key, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
