"""What the command line prints: sentences and JSON as they are, tables and the display of a run by rich.

rich is imported where a table or a display is shown: a sentence needs none of it.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import termios
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll.lab.debug import LOGGER, VERBOSE_VARIABLE, debug
from virtoll.system.printable import printable
from virtoll.version import __version__

if TYPE_CHECKING:
    from rich.console import Console

MOST_COLUMNS = 120
_DEEPER = 2
_MOST_CHARACTERS = 4000  # of a line on the standard error
_GAP, _LEAST_COLUMNS = "  ", 20  # between columns; of the last one
_QUIET = "VIRTOLL_QUIET"  # which the half of a command in the lab inherits
Json = Annotated[bool, typer.Option("--json", help="Print JSON for a program to read.")]


def _be_quiet(quiet: bool) -> None:
    if quiet:
        os.environ[_QUIET] = "1"


Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print errors and the report's path alone.", callback=_be_quiet)
]


def _be_verbose(verbose: bool) -> None:
    if verbose:
        os.environ[VERBOSE_VARIABLE] = "1"
        log_to_stderr()


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Log what is started and waited for to the standard error.",
        callback=_be_verbose,
    ),
]


def open_closed_streams() -> None:
    """Let what was closed by who started this process (``>&-``) lead to nothing, so that no file gets its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", encoding="utf-8"))


def log_to_stderr() -> None:
    """Show the debug log on the standard error, with times; its first line is the command itself."""
    import logging

    class Printable(logging.Formatter):
        """What a host or a guest said steers no terminal here either."""

        def format(self, record: logging.LogRecord) -> str:
            return printable(super().format(record))

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Printable("%(asctime)s %(name)s[%(process)d]: %(message)s"))
    logging.basicConfig(handlers=[handler])
    logging.getLogger(LOGGER).setLevel(logging.DEBUG)
    debug("%s: %s", __version__, sys.argv[1:])


def is_quiet() -> bool:
    """Whether only errors and the report's path are printed."""
    return bool(os.environ.get(_QUIET))


@cache
def console() -> Console:
    """The standard output, for what is wrapped to the terminal's width or has colours; without a terminal 80 columns.

    Texts are shown as they are, without markup. With NO_COLOR (https://no-color.org) nothing is coloured or bold.
    """
    return new_console(to_stderr=False)


def new_console(*, to_stderr: bool) -> Console:
    """A console of the standard output or error, on which no text steers the terminal, whoever wrote it.

    Names and reasons may come from other hosts, from guests and from run folders of anybody.
    """
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class Printable(Console):
        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                plain = segment.control or segment.text.isprintable()
                yield segment if plain else Segment(printable(segment.text), segment.style)

    plain = bool(os.environ.get("NO_COLOR"))
    return Printable(
        color_system=None if plain else "auto", stderr=to_stderr, markup=False, emoji=False, highlight=False
    )


def say(text: str) -> None:
    """A line to the standard output."""
    typer.echo(printable(text))


def say_on_stderr(text: str) -> None:
    """A line to the standard error: beside what a program may read from the standard output.

    Of a line without end the middle is left out: it quotes a file or a host, of which the beginning is enough.
    """
    typer.echo("\n".join(map(_bounded, printable(text).split("\n"))), err=True)


def _bounded(line: str) -> str:
    left_out = len(line) - _MOST_CHARACTERS
    half = _MOST_CHARACTERS // 2
    return line if left_out <= 0 else f"{line[:half]}... ({left_out} characters left out) ...{line[-half:]}"


def terminal_is_lost() -> bool:
    """Whether the standard output or the standard error is a terminal that was closed: it takes nothing any more."""
    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as error:
            if error.args[0] == errno.EIO:
                return True
    return False


def tell_on_stderr(text: str) -> None:
    """What goes on, on the standard error; nothing where it is to be quiet."""
    if not is_quiet():
        say_on_stderr(text)


def write_out(text: str) -> int:
    """A text for a program, as it is; on a terminal what would steer it is written out."""
    return sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def say_page(lead: str, page: Path) -> None:
    """Where a page is; on a terminal its path is a link (OSC 8)."""
    from rich.text import Text

    line = Text.assemble(lead, (printable(str(page)), f"link {page.as_uri()}"))
    console().print(line, soft_wrap=True)


def show_page(page: Path) -> None:
    """Open a page in a browser; root by sudo has none of its own, and is told the path."""
    import webbrowser

    if os.geteuid() == 0 and os.environ.get("SUDO_USER"):
        say_on_stderr(f"virtoll: a browser is not started as root; open {page} as {os.environ['SUDO_USER']}")
    elif not webbrowser.open(page.as_uri()):
        say_on_stderr(f"virtoll: there is no browser here; open {page}")


def say_progress(text: str) -> None:
    """A line to the standard error for a person who waits; nothing where it is no terminal, or is to be quiet."""
    if sys.stderr.isatty() and not is_quiet():
        say_on_stderr(text)


def columns() -> int:
    """How wide an answer is printed: as the terminal, but no wider than is read with ease; 80 without a terminal."""
    return min(console().width, MOST_COLUMNS)


def say_in_columns(line: str) -> None:
    """A line to the standard output in as many as the columns ask for, each further one deeper than the first."""
    from rich.text import Text

    depth = len(line) - len(line.lstrip(" "))
    parts = Text(printable(line[depth:])).wrap(console(), columns() - depth - _DEEPER)
    for number, part in enumerate(parts):
        typer.echo(" " * (depth + _DEEPER * bool(number)) + part.plain.rstrip())


def print_json(document: object) -> None:
    """A document for a program."""
    write_out(json.dumps(document, indent=1) + "\n")


def show(rows: list[dict[str, Any]], as_json: bool) -> None:
    """Rows as a table for a person or as JSON for a program; all rows have the same keys."""
    if as_json:
        print_json(rows)
    else:
        show_table(rows)


def show_table(rows: list[dict[str, Any]]) -> None:
    """Rows, a line each where the terminal is wide enough, below their keys; all rows have the same keys."""
    if not rows:
        say("none")
        return
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for key in rows[0]:
        table.add_column(key.replace("_", " "), overflow="fold")
    for row in rows:
        table.add_row(*(_cell(value) for value in row.values()))
    console().print(table)


def show_lines(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows of text, a line each: the last column is cut where it is longer than the terminal is wide, a name never."""
    from rich.cells import cell_len, set_cell_size
    from rich.text import Text

    *columns, _ = zip(titles, *rows, strict=True)
    widths = [max(map(cell_len, column)) for column in columns]
    rest = max(console().width - sum(wide + len(_GAP) for wide in widths), _LEAST_COLUMNS)
    for row in (titles, *rows):
        last = Text(printable(row[-1]))
        last.truncate(rest, overflow="ellipsis")
        cells = [set_cell_size(printable(cell), wide) for cell, wide in zip(row[:-1], widths, strict=True)]
        line = Text(_GAP.join([*cells, last.plain]), style="bold" if row is titles else "")
        console().print(line, soft_wrap=True)


def _cell(value: object) -> str:
    if isinstance(value, dict):
        return "\n".join(f"{key}: {text}" for key, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else printable(str(value))
