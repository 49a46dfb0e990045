"""The headline as a table for the terminal: shares of the baseline, their verdicts, what must be known of them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from virtoll.report.headline import (
    CAVEAT_SIGN,
    HeadlineCell,
    bound_line,
    caveat_line,
    control_line,
    headline_rows,
    headline_tasks,
    host_line,
    order_line,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Verdict

if TYPE_CHECKING:
    from rich.table import Table

# A terminal has no room for the words in every cell; the legend stands below the table.
SIGNS: Mapping[str, str] = {
    Verdict.NONE: "=",
    Verdict.UNDECIDED: "?",
    Verdict.NOT_MEASURED: "–",
    Verdict.FUNCTIONAL: "†",
}
LEGEND = "= no difference detectable   ? not decided   – not measured"
BOUND_SIGN, OPEN_SIGN = "g", "~"
MOST_COLUMNS = 6


def headline_table(analysis: Analysis) -> "Table":
    """The headline as a rich table for the terminal: shares of the baseline with their words, A/A and host below."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    baseline = analysis.baseline
    title = (
        f"Performance as a share of {baseline} (100 % = as fast)" if baseline else "Medians (no baseline: no shares)"
    )
    rows = headline_rows(analysis)
    cells_shown = [cell for row in rows for cell in row.cells]
    legend = LEGEND
    if any(cell.generator_bound for cell in cells_shown):
        legend += f"   {BOUND_SIGN} generator-bound"
    if any(cell.is_open for cell in cells_shown):
        legend += f"   {OPEN_SIGN} not shown, for correction or A/A noise, though its interval leaves out 100 %"
    lines = (
        legend,
        order_line(analysis),
        caveat_line(analysis),
        bound_line(analysis),
        control_line(analysis),
        host_line(analysis),
    )
    caption = "\n".join(filter(None, lines))
    many = len(headline_tasks(analysis)) > MOST_COLUMNS
    table = Table(title=title, caption=caption, caption_justify="left")
    if many:
        table.box, table.padding = SIMPLE_HEAD, (0, 0, 0, 1)
    heads = [f"{row.platform} {CAVEAT_SIGN}" if row.caveat else row.platform for row in rows]
    names = [task.short for task in headline_tasks(analysis)]
    cells = [[Text(*_cell_text(cell, baseline is not None)) for cell in row.cells] for row in rows]
    if many:  # as many workloads as no terminal is wide: they become the lines
        heads, names, cells = names, heads, [[line[place] for line in cells] for place in range(len(names))]
        table.add_column("workload")
    else:
        table.add_column("platform", no_wrap=True)
    for name in names:
        table.add_column(name, justify="right")
    for head, line in zip(heads, cells, strict=True):
        table.add_row(head, *line)
    return table


def _cell_text(cell: HeadlineCell, compared: bool) -> tuple[str, str]:
    """What stands in a cell of the terminal's table, and its style."""
    sign = OPEN_SIGN if cell.is_open else SIGNS.get(cell.words, cell.words)
    text = sign if cell.share is None else f"{cell.share_text} {sign}"
    text += f" {BOUND_SIGN}" if cell.generator_bound else ""
    text += f" {CAVEAT_SIGN}" if cell.caveat and CAVEAT_SIGN not in text else ""
    colours = {Verdict.SLOWER: "red", Verdict.FASTER: "green"}
    style = next((colour for verdict, colour in colours.items() if verdict == cell.words), "dim")
    return text, style if compared else ""
