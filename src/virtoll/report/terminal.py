"""The answer for a terminal: what the page's first screen says, in as few columns as the terminal has.

Main functions: `answer_terminal` (what must be read first, the ranking of each workload, what is not known) and
`matrices` (a table with a column for each platform, in as many parts as its columns need). What they give is printed
with the width that they were given. Must not: decide anything, or print.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from virtoll import units
from virtoll.report import answer, headline, words
from virtoll.report.answer import RankedPlatform, RankedTask
from virtoll.report.cpu_distance import far_line
from virtoll.stats.analysis import Analysis
from virtoll.stats.values import Task
from virtoll.system.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_STYLES = {"slower": "red", "faster": "green", "baseline": "bold", "not-known": "dim"}
_WIDEST = 15  # of a platform's column: "functional only"
_GENERATOR_BOUND = "generator-bound"
_BEFORE_CONTROL = (
    headline.left_out_line,
    answer.cost_to_know_line,
    headline.states_line,
    far_line,
    headline.caveat_line,
    headline.bound_line,
    headline.programs_line,
    headline.unlike_line,
)
_AFTER_CONTROL = (headline.detectable_line, headline.family_line, headline.host_line, headline.overhead_line)


def answer_terminal(analysis: Analysis, width: int, damage: Sequence[str] = ()) -> "list[RenderableType]":
    """The answer of a run, but for one of several guests at once, whose own is in `sections/scale`.

    `damage`: what of the run folder is not as it was when the run ended.
    """
    shown = beginning(analysis, damage)
    rows = ranked_rows(analysis)
    for row in rows:
        shown += [text(""), *_task(row, width)]
    lines = [answer.places_line(rows), *(line(analysis) for line in _BEFORE_CONTROL)]
    if analysis.baseline and not analysis.alarms:
        lines.append(headline.control_line(analysis))
    lines += [line(analysis) for line in _AFTER_CONTROL]
    return [*shown, text(""), *(text(line) for line in lines if line)]


def beginning(analysis: Analysis, damage: Sequence[str] = ()) -> "list[RenderableType]":
    """What was asked, how much was measured, and what must be read first."""
    lines = [text(answer.title_line(analysis), "bold"), text(answer.extent_line(analysis), "dim")]
    return [*lines, *(text(note, "bold") for note in answer.notes(analysis, damage))]


def text(line: str, style: str = "") -> "Text":
    """A line of which every letter is shown as it is: no markup, and nothing that steers a terminal."""
    from rich.text import Text

    return Text(printable(line), style)


def matrices(
    head: str, platforms: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: int
) -> "Iterator[Table]":
    """A table with a line for each row and a column for each platform; where these are too many, several of them.

    `rows`: what a line is about, and a cell of one or two lines for each platform.
    """
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table

    labels = (head, *(name for name, _ in rows))
    first = min(max(map(cell_len, labels)), width // 3)
    widths = []
    for place, platform in enumerate(platforms):
        parts = [part for _, cells in rows for part in cells[place].split("\n")]
        widths.append(min(max(map(cell_len, (platform, *parts))), _WIDEST))
    for places in _packed(widths, width - first - 2):
        table = Table(box=SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False)
        table.add_column(text(head), width=first, overflow="fold")
        for place in places:
            table.add_column(text(platforms[place]), justify="right", width=widths[place], overflow="fold")
        for name, cells in rows:
            table.add_row(text(name), *(text(cells[place]) for place in places))
        yield table


def _packed(widths: Sequence[int], room: int) -> Iterator[list[int]]:
    """The places of columns in as few lots as hold them in order; each column takes one letter more."""
    lot: list[int] = []
    left = room
    for place, width in enumerate(widths):
        if lot and left < width + 1:
            yield lot
            lot, left = [], room
        lot.append(place)
        left -= width + 1
    if lot:
        yield lot


def ranked_rows(analysis: Analysis) -> tuple[RankedTask, ...]:
    """A ranking for each workload, with what is generator-bound; without a baseline the medians."""
    if analysis.baseline is None:
        return tuple(row for task in headline.headline_tasks(analysis) if (row := _medians(analysis, task)).platforms)
    rows = []
    for row, ranking in zip(answer.ranked(analysis), answer.rankings(analysis), strict=True):
        platforms = (_bound(analysis, entry, ranking.task) for entry in row.platforms)
        rows.append(replace(row, platforms=tuple(platforms)))
    return tuple(rows)


def _medians(analysis: Analysis, task: Task) -> RankedTask:
    """Each platform's median with its interval, in the experiment's order and without a place."""
    entries = []
    for platform in analysis.platforms:
        cell = analysis.cells.get((platform, task))
        if cell is not None:
            between = cell.interval
            spread = units.between(between.low, between.high, task.metric.unit) if between else ""
            value = words.told_value(analysis, platform, task)
            entries.append(_bound(analysis, RankedPlatform("", platform, value, spread, ""), task))
    return RankedTask(task.label, tuple(entries), ())


def _bound(analysis: Analysis, entry: RankedPlatform, task: Task) -> RankedPlatform:
    bound = (_GENERATOR_BOUND,) if analysis.generator_bound(entry.platform, task) else ()
    return replace(entry, words=", ".join((entry.words or entry.kind, *bound)))


def _task(row: RankedTask, width: int) -> "Iterator[RenderableType]":
    """A workload's name, a line for each place, and those without a place."""
    from rich.padding import Padding
    from rich.table import Table

    yield text(row.task, "bold")
    table = Table(box=None, show_header=False, padding=(0, 0, 0, 2), pad_edge=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", max_width=2 * width // 5)
    table.add_column(justify="right", overflow="fold")
    table.add_column(overflow="fold")
    for entry in row.platforms:
        table.add_row(
            entry.place, text(entry.platform), text(entry.value), text(entry.words, _STYLES.get(entry.kind, ""))
        )
    yield table
    for others in row.others:
        yield Padding(text(others, "dim"), (0, 0, 0, 2))
