"""The headline as a table for the terminal: the verdicts, and below it what must be known of them."""

from typing import TYPE_CHECKING

from virtoll.report.headline import (
    CAVEAT_SIGN,
    HeadlineCell,
    bound_line,
    caveat_line,
    control_line,
    detectable_line,
    family_line,
    headline_rows,
    headline_tasks,
    host_line,
    observer_line,
    order_line,
    states_line,
    unlike_line,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import NOT_PINNED, TWO_BOUNDS
from virtoll.stats.compare import Verdict

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text

LEGEND = (
    "12% slower takes 1.12 times as long, 26× slower 26 times   ≥ at least   "
    "not known: between these shares of {baseline}   all such statements hold together with 95 %"
)
BOUND_SIGN = "g"
NO_VERDICTS = {
    TWO_BOUNDS: "no verdict: both lost nothing at the largest rate, so that both may be able to do more",
    NOT_PINNED: "no verdict: the kernel does not forward on the guest's CPUs, so that the rate is also the sender's",
}
MOST_COLUMNS = 6
_NARROWEST = 10  # characters: "26× slower", "within 10%"


def headline_table(analysis: Analysis) -> "Table":
    """The headline as a rich table for the terminal: a verdict in each cell, the A/A control in a row of its own."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    baseline = analysis.baseline
    title = f"Against {baseline}" if baseline else "Medians (no baseline: no shares)"
    rows = headline_rows(analysis)
    cells_shown = [cell for row in rows for cell in row.cells]
    legend = LEGEND.format(baseline=baseline) if baseline else ""
    if any(cell.generator_bound for cell in cells_shown):
        legend += f"   {BOUND_SIGN} generator-bound"
    lines = (
        legend,
        *(
            words
            for caveat, words in NO_VERDICTS.items()
            if any(cell.verdict is Verdict.UNKNOWN and cell.caveat == caveat for cell in cells_shown)
        ),
        order_line(analysis),
        caveat_line(analysis),
        unlike_line(analysis),
        bound_line(analysis),
        control_line(analysis),
        states_line(analysis),
        detectable_line(analysis),
        family_line(analysis),
        host_line(analysis),
        observer_line(analysis),
    )
    caption = "\n".join(filter(None, lines))
    many = len(headline_tasks(analysis)) > MOST_COLUMNS
    table = Table(
        title=title, caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=(0, 0, 0, 1), show_edge=False
    )
    control = analysis.data.manifest.control
    heads = [
        f"{row.platform}{f' {CAVEAT_SIGN}' if row.caveat else ''}{' (A/A)' if row.platform == control else ''}"
        for row in rows
    ]
    names = [task.short for task in headline_tasks(analysis)]
    cells = [[_cell_text(cell) for cell in row.cells] for row in rows]
    if many:  # as many workloads as no terminal is wide: they become the lines
        heads, names, cells = names, heads, [[line[place] for line in cells] for place in range(len(names))]
        table.add_column("workload")
    else:
        table.add_column("platform", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", min_width=_NARROWEST)
    for head, line in zip(heads, cells, strict=True):
        table.add_row(head, *line)
    return table


def _cell_text(cell: HeadlineCell) -> "Text":
    """What stands in a cell of the terminal's table: two lines, the bound below the finding."""
    from rich.text import Text

    head, tail = cell.short
    signs = f" {BOUND_SIGN}" if cell.generator_bound else ""
    if cell.caveat and cell.verdict is not Verdict.UNKNOWN:
        head = f"{head} {CAVEAT_SIGN}"
    style = {Verdict.SLOWER: "red", Verdict.FASTER: "green"}.get(cell.verdict) if cell.verdict else None
    text = Text(head + signs, style or ("" if cell.verdict is None else "dim"))
    return text.append(f"\n{tail}", "dim") if tail else text
