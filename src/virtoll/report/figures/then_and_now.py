"""Then and now: for each paper the shares that it prints, and this run's of the same, on one logarithmic axis."""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from virtoll.claims import ThenAndNow
from virtoll.claims.then_and_now import Beside, Now
from virtoll.reference.published import Study
from virtoll.report.figures.base import blocks_text, drawn_always
from virtoll.report.figures.old import caveat_signs
from virtoll.report.figures.old.base import OldFigureSpec, new_figure
from virtoll.report.figures.old.style import INK, MUTED
from virtoll.report.figures.style import nice_log_ticks, platform_styles
from virtoll.report.then_and_now import place
from virtoll.stats.analysis import Analysis

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_ROWS, _LEAST_ROWS = 40, 2
_REACH = 20.0  # of an interval's ends, times its estimate: beyond it nothing is known
Group = tuple[str, Sequence[Beside]]


def then_and_now_figures(beside: ThenAndNow) -> dict[str, OldFigureSpec]:
    """One figure for each paper of which at least two numbers have a share and something beside it."""
    studies = {one.study.name: one.study for one in beside.rows}
    found = {}
    for name, study in studies.items():
        groups = _groups([one for one in beside.of(name) if one.question.then.low])
        if sum(len(rows) for _, rows in groups) >= _LEAST_ROWS:
            found[f"then-and-now-{name}"] = OldFigureSpec(
                f"Then and now: {_short(study)}",
                partial(_caption, study=study, groups=groups, all_rows=len(beside.of(name))),
                partial(_draw, groups=groups),
                drawn_always,
                section="then and now",
            )
    return found


def _short(study: Study) -> str:
    """'Schlosser, Duelli, Goll'."""
    return study.citation.split(":", maxsplit=1)[0]


def _groups(rows: Sequence[Beside]) -> list[Group]:
    """By table or figure of the paper: of more than fit the largest, in the paper's order, the last one cut short."""
    by_source: dict[str, list[Beside]] = {}
    for one in rows:
        by_source.setdefault(one.question.source, []).append(one)
    left, kept = _MOST_ROWS, {}
    for source, own in sorted(by_source.items(), key=lambda one: -len(one[1])):
        if left > 0:
            kept[source] = own[:left]
            left -= len(own)
    return [(source, kept[source]) for source in by_source if source in kept]


def _draw(analysis: Analysis, groups: Sequence[Group]) -> "Figure":
    """A row for each number, below the heading of its table; the paper's share open, the run's filled."""
    count = sum(len(rows) + 1 for _, rows in groups)
    figure = new_figure(0.9 + 0.22 * count)
    panel = figure.subplots()
    limits = _limits(groups)
    _axes(panel, groups, limits)
    for height, one in _heights(groups):
        if isinstance(one, Beside):
            _then(panel, one, height)
            for index, now in enumerate(one.nows):
                _now(panel, analysis, now, height + 0.08 + 0.26 * index / max(len(one.nows) - 1, 1), limits)
    _legend(figure, analysis, groups)
    return figure


def _heights(groups: Sequence[Group]) -> Iterator[tuple[int, str | Beside]]:
    """Headings and rows, each with its place from the top."""
    height = 0
    for source, rows in groups:
        yield height, source
        for one in rows:
            height += 1
            yield height, one
        height += 1


def _ends(now: Now) -> tuple[float, float, float]:
    """Estimate and both ends of its interval, those that say nothing cut off."""
    estimate = now.ratio.estimate or 1.0
    interval = now.ratio.interval
    if interval is None:
        return estimate, estimate, estimate
    return estimate, max(interval.low, estimate / _REACH), min(interval.high, estimate * _REACH)


def _limits(groups: Sequence[Group]) -> tuple[float, float]:
    values = [1.0]
    for _, rows in groups:
        for one in rows:
            values += [end for end in (one.question.then.low, one.question.then.high) if end]
            values += [end for now in one.nows for end in _ends(now)]
    return min(values) / 1.3, max(values) * 1.3


def _axes(panel: "Axes", groups: Sequence[Group], limits: tuple[float, float]) -> None:
    from matplotlib.ticker import NullLocator

    panel.set_xscale("log")
    panel.set_xlim(*limits)
    ticks = nice_log_ticks(limits[0] * 100, limits[1] * 100)
    panel.set_xticks([tick / 100 for tick in ticks], [f"{tick:g} %" for tick in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
    panel.set_xlabel("share of performance (logarithmic)")
    placed = list(_heights(groups))
    names = [one if isinstance(one, str) else f"{one.question.what}, {place(one)}" for _, one in placed]
    panel.set_yticks([height for height, _ in placed], names)
    for label, (_, one) in zip(panel.get_yticklabels(), placed, strict=True):
        label.set_fontsize(6.5)
        if isinstance(one, str):
            label.set_fontweight("bold")
    panel.set_ylim(len(placed) - 0.4, -0.6)
    panel.tick_params(axis="y", length=0)
    panel.grid(visible=False, axis="y")
    panel.axvline(1, color=INK, linewidth=0.8, zorder=1)


def _then(panel: "Axes", one: Beside, height: int) -> None:
    """The paper's share: an open ring, a bar between both where it is a range, an arrow where it is a bound."""
    then = one.question.then
    if then.low is None or then.high is None:
        return
    if then.high > then.low:
        panel.plot([then.low, then.high], [height - 0.16] * 2, color=MUTED, linewidth=1.2, zorder=2)
    places = {then.low, then.high} if math.log(then.high / then.low) > 0.02 else {then.high}
    marker = {"at_most": "<", "at_least": ">"}.get(then.relation, "o")
    panel.plot(
        sorted(places),
        [height - 0.16] * len(places),
        marker=marker,
        markersize=4.6,
        markerfacecolor="white",
        markeredgecolor=INK,
        markeredgewidth=0.9,
        linestyle="none",
        zorder=3,
    )


def _now(panel: "Axes", analysis: Analysis, now: Now, height: float, limits: tuple[float, float]) -> None:
    style = platform_styles(analysis.platforms)[now.ratio.platform]
    estimate, low, high = _ends(now)
    panel.plot([max(low, limits[0]), min(high, limits[1])], [height] * 2, color=style.colour, linewidth=1.2, zorder=3)
    panel.plot(
        estimate,
        height,
        marker=style.marker,
        markersize=4.2,
        color=style.colour,
        linestyle="none",
        zorder=4,
    )
    caveat_signs.cross(panel, analysis, now.ratio.platform, estimate, height)


def _legend(figure: "Figure", analysis: Analysis, groups: Sequence[Group]) -> None:
    from matplotlib.lines import Line2D

    standings = {now.ratio.platform: now.standing.short for _, rows in groups for one in rows for now in one.nows}
    shown = [platform for platform in analysis.platforms if platform in standings]
    styles = platform_styles(analysis.platforms)
    handles = [
        Line2D(
            [],
            [],
            marker="o",
            markersize=4.6,
            markerfacecolor="white",
            markeredgecolor=INK,
            linestyle="none",
            label="then: the paper",
        )
    ]
    for platform in shown:
        name = ", ".join(filter(None, (caveat_signs.name(analysis, platform), standings[platform])))
        style = styles[platform]
        handles.append(
            Line2D([], [], color=style.colour, marker=style.marker, markersize=4.2, linewidth=1.2, label=f"now: {name}")
        )
    figure.legend(handles=[*handles, *caveat_signs.handles(analysis, shown)], loc="outside lower center", ncols=3)


def _caption(analysis: Analysis, study: Study, groups: Sequence[Group], all_rows: int) -> str:
    """What to see."""
    drawn = sum(len(rows) for _, rows in groups)
    rest = f" {drawn} of {all_rows} numbers are drawn; all are in the table below." if drawn < all_rows else ""
    return (
        "Open: the paper's share of its own bare host's performance, or of the same platform alone; an arrowhead is a "
        f"bound. Filled: this run's share of the same, with its 95 % interval, {blocks_text(analysis)}. Compare the "
        "order of the platforms and how a share changes, not the distance between both: the paper's host was "
        f"{study.hardware}.{rest}"
    )
