"""The same work in guests with more and more virtual CPUs (Suresh and Kannan 2014, Figure 3): value and CPU time."""

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import legends
from virtoll.report.figures.base import FigureSpec, blocks_text, drawn_in_a_column
from virtoll.report.figures.lines import LinePanel, LinePoint, axis, labels_room, line_panel, side_by_side, upright_room
from virtoll.report.figures.marks import figure, panel_width
from virtoll.report.figures.style import COUNTS, Specification, Width, pixels
from virtoll.report.rows import grouped, platforms_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import ScaleRow
from virtoll.stats.values import Task

_PANEL_POINTS = 125.0  # high
_ABOVE = 1.1  # times the largest value


def _panels(analysis: Analysis) -> dict[tuple[Task, int], list[ScaleRow]]:
    """Each task and number of guests that was measured with two numbers of virtual CPUs or more, and its rows."""
    primary = (row for row in analysis.at_once.rows if row.task.metric.primary)
    groups = grouped(primary, lambda row: (row.task, row.point.guests))
    return {key: rows for key, rows in groups.items() if len({row.point.vcpus for row in rows}) > 1}


def draw(analysis: Analysis, width: Width) -> Specification:
    """A row for each task and number of guests: what one guest does, and the CPU time that it takes of the host."""
    panels = _panels(analysis)
    left = upright_room(width, lines=1)
    size = (panel_width(width, 2, 0, each=left + 6), pixels(_PANEL_POINTS))
    drawn = []
    for (task, guests), rows in panels.items():
        times = {row: row.cpu_ns for row in rows if row.cpu_ns is not None}
        shown = [({row: row.each for row in rows}, (task.metric.unit, "one guest"))]
        shown += [(times, ("ns", "host CPU time of a guest"))] if times else []
        beside = [_panel(analysis, values, named, width, size) for values, named in shown]
        title = task.label if guests == 1 else f"{task.label}, {rows[0].point.label}"
        drawn.append(side_by_side(title, beside, width))
    platforms = platforms_of(analysis, (row for rows in panels.values() for row in rows))
    entries = [*legends.platforms(analysis, platforms), *legends.of_caveats(analysis, platforms)]
    return figure([*drawn, *legends.legend(width, entries, left)])


def _panel(
    analysis: Analysis, values: dict[ScaleRow, float], named: tuple[str, str], width: Width, size: tuple[float, float]
) -> Specification:
    """A line for each platform, upwards from zero; ``named``: the values' unit, and what they are."""
    unit, title = named
    scale, shown_unit = units.axis_unit(max(values.values()), unit)
    lines: dict[str, list[LinePoint]] = {}
    for row, value in sorted(values.items(), key=lambda item: item[0].point.vcpus):
        lines.setdefault(row.platform, []).append(LinePoint(row.point.vcpus, value / scale, tooltip=_words(row)))
    vcpus = sorted({row.point.vcpus for row in values})
    limits = (0.0, _ABOVE * max(values.values()) / scale)
    upright = axis(limits, f"{title}, {shown_unit}", extent=labels_room(width))
    upright["axis"] |= COUNTS | {"tickCount": 6}
    across = axis((vcpus[0], vcpus[-1]), "virtual CPUs of a guest", ticks=vcpus, names=list(map(str, vcpus)))
    in_order = {platform: lines[platform] for platform in analysis.platforms if platform in lines}
    workload = next(iter(values)).task.workload
    return line_panel(analysis, LinePanel("", workload, in_order, across, upright, limits=limits, size=size))


def _words(row: ScaleRow) -> str:
    """'1 guest with 2 virtual CPUs, a build: one guest 6.10 s, CPU time of a guest 3.10 s, medians over 6 trials'."""
    cpus = words.counted(row.point.vcpus, "virtual CPU")
    each = "" if row.point.guests == 1 else " each"
    what, over = f"one guest {units.value(row.each, row.task.metric.unit)}", "median"
    if row.cpu_ns is not None:
        what, over = f"{what}, CPU time of a guest {units.nanoseconds(row.cpu_ns)}", "medians"
    trials = words.counted(row.trials, "trial")
    return f"{row.point.label} with {cpus}{each}, {row.task.label}: {what}, {over} over {trials}"


def caption(analysis: Analysis) -> str:
    """What to see."""
    return (
        "Left: what one guest does, by how many virtual CPUs it has. Right: the CPU time that its processes take of "
        "the host, with what the workload made ready; a rising line is work that more CPUs add. "
        f"Markers are medians over the trials of {blocks_text(analysis)}."
    )


def why_not(analysis: Analysis) -> str | None:
    """Two numbers of virtual CPUs are needed."""
    return None if _panels(analysis) else "no workload was measured with two numbers of virtual CPUs"


OVER_VCPUS = FigureSpec("Over virtual CPUs", caption, draw, why_not, in_a_column=drawn_in_a_column)
