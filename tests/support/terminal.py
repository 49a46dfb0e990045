"""What the command line prints of an analysis, as text of so many columns."""

import io
from collections.abc import Iterable

from rich.console import Console, RenderableType

from virtoll.report import answer_terminal
from virtoll.stats.analysis import Analysis


def printed(parts: Iterable[RenderableType], width: int) -> str:
    """What a console without colours prints of them."""
    console = Console(width=width, file=io.StringIO(), record=True, color_system=None, markup=False, highlight=False)
    for part in parts:
        console.print(part, width=width)
    return console.export_text()


def answer_text(analysis: Analysis, width: int = 80) -> str:
    """The answer of a run."""
    return printed(answer_terminal(analysis, width), width)
