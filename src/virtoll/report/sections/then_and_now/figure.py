"""Then and now: for each paper the shares that it prints, and this run's of the same, on one logarithmic axis."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from virtoll.claims.then_and_now import Now, PublishedAnswer
from virtoll.reference.published import Study
from virtoll.report import words
from virtoll.report.figures import legends, markers
from virtoll.report.figures.base import FigureSeries, FigureSpec, blocks_text
from virtoll.report.figures.caveats import SIGN
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    figure,
    flags,
    labels_of,
    layer,
    number,
    of_styles,
    panels,
    rule_through,
    text_width,
    with_data,
)
from virtoll.report.figures.style import (
    INK,
    MUTED,
    PAPER,
    SIZES,
    PlatformStyle,
    Specification,
    Width,
    nice_log_ticks,
    platform_styles,
)
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import grouped
from virtoll.report.sections.then_and_now.page import place, said_now, said_then
from virtoll.stats.analysis import Analysis

TITLE: Final = "Then and now"
_MOST_ROWS, _LEAST_ROWS = 40, 2
_REACH = 20.0  # of an interval's ends, times its estimate: beyond it nothing is known
_ROW: Final = 22.0  # pixels
_LETTERS: Final = 58  # of a row's name in a line
_SHAPES: Final[Mapping[str, str]] = {"at_most": markers.TO_THE_LEFT, "at_least": markers.TO_THE_RIGHT}
Group = tuple[str, Sequence[PublishedAnswer]]


@dataclass(frozen=True)
class _Look:
    """What all panels have in common: each platform's look, the ends of the axis in percent, and a panel's width."""

    styles: Mapping[str, PlatformStyle]
    limits: tuple[float, float]
    across: float


def figures_by_paper(source: ReportInput) -> dict[str, FigureSpec]:
    """One figure for each paper of which at least two numbers have a share and something beside it."""
    figures = {}
    for name in dict.fromkeys(row.study.name for row in source.then_and_now.rows):
        rows = source.then_and_now.of(name)
        groups = groups_of(rows)
        if groups:
            study = rows[0].study
            authors = study.citation.split(":", maxsplit=1)[0]
            figures[name] = FigureSpec(
                f"{TITLE}: {authors}",
                partial(_caption, study=study, groups=groups, all_rows=len(rows)),
                partial(_draw, groups=groups),
            )
    return figures


def groups_of(rows: Iterable[PublishedAnswer]) -> list[Group]:
    """By table or figure of the paper: of more than fit the largest, in the paper's order, the last one cut short.

    Only numbers with a share; none if there are too few for a figure.
    """
    with_share = (row for row in rows if row.question.then.low)
    by_source = grouped(with_share, lambda row: row.question.source)
    if sum(map(len, by_source.values())) < _LEAST_ROWS:
        return []
    left, kept = _MOST_ROWS, {}
    for source, of_source in sorted(by_source.items(), key=lambda item: -len(item[1])):
        if left > 0:
            kept[source] = of_source[:left]
            left -= len(of_source)
    return [(source, kept[source]) for source in by_source if source in kept]


def _draw(analysis: Analysis, width: Width, groups: Sequence[Group]) -> Specification:
    return draw(groups, analysis.platforms, width)


def draw(groups: Sequence[Group], platforms: Sequence[str], width: Width) -> Specification:
    """A panel for each table, a row for each number; the paper's share open, the run's filled."""
    names = [_name(row) for _, rows in groups for row in rows]
    left = max(text_width(line, SIZES[width].text) for lines in names for line in lines) + 14
    look = _Look(platform_styles(platforms), _limits(groups), round(width.pixels - 10 - left, 1))
    drawn = [_panel(look, *group, last=group is groups[-1]) for group in groups]
    return figure([panels(drawn, 1, spacing=6), *legends.legend(width, _entries(look, groups), left, most=3)])


def _name(row: PublishedAnswer) -> list[str]:
    return textwrap.wrap(f"{row.question.what}, {place(row)}", _LETTERS)


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
        for row in rows:
            values += [end for end in (row.question.then.low, row.question.then.high) if end]
            values += [end for now in row.nows for end in _ends(now)]
    return 100 * min(values) / 1.3, 100 * max(values) * 1.3


def _panel(look: _Look, source: str, rows: Sequence[PublishedAnswer], *, last: bool) -> Specification:
    ticks = nice_log_ticks(*look.limits)
    names = [f"{tick:g} %" for tick in ticks]
    title = "performance in % of the reference (logarithmic)" if last else None
    across = axis(look.limits, title, scale={"type": "log"}, ticks=ticks, names=names, labelled=last)
    across["axis"] |= {"ticks": last, "domain": last}
    upright = axis((len(rows) - 0.4, -0.6), None, ticks=range(len(rows)), names=[])
    upright["axis"] |= {
        "grid": False,
        "ticks": False,
        "domain": False,
        "labelPadding": 6,
        "labelExpr": labels_of(list(map(_name, rows))),
    }
    data = [datum for line, row in enumerate(rows) for datum in _data(row, line)]
    return {
        "title": source,
        "width": look.across,
        "height": round(_ROW * len(rows), 1),
        "data": {"values": data},
        "layer": [rule_through("x", 100), *_layers(look, across, upright, data)],
    }


def _layers(
    look: _Look, across: Specification, upright: Specification, data: Sequence[Mapping[str, Any]]
) -> list[Specification]:
    y: Specification = {"y": {"field": "place", **upright}}
    paint, shape = of_styles(look.styles), of_styles(look.styles, "shape")
    ring: Specification = {"type": "point", "size": markers.area(4.6), "fill": PAPER, "stroke": INK, "strokeWidth": 1.2}
    point: Specification = {"type": "point", "size": markers.area(4.2), "strokeWidth": 0}
    cross: Specification = {"type": "point", "shape": markers.CROSS, "size": markers.area(4), "stroke": INK}
    then_x, now_x = {"x": {"field": "then", **across}}, {"x": {"field": "value", **across}}
    drawn = {
        "until": layer(
            {"type": "rule", "stroke": MUTED, "strokeWidth": 1.5},
            {"x": {"field": "then", **across}, "x2": {"field": "until"}, **y},
            "isValid(datum.until)",
        ),
        "from": layer(
            {"type": "rule", "strokeWidth": 1.5},
            {"x": {"field": "from", **across}, "x2": {"field": "to"}, **y, "stroke": paint},
            "isValid(datum.from)",
        ),
        "value": layer(point, now_x | y | {"fill": paint, "shape": shape, "tooltip": SAID}, "isValid(datum.value)"),
        "caveat": layer(cross | {"strokeWidth": 1, "fill": None}, now_x | y, "datum.caveat"),
    }
    outlines = {datum.get("outline") for datum in data}
    rings = [
        layer(ring | {"shape": sign}, then_x | y | {"tooltip": SAID}, f"datum.outline === '{name}'")
        for name, sign in {"about": "circle", **_SHAPES}.items()
        if name in outlines
    ]
    return [*with_data(drawn.items(), data), *rings]


def _data(row: PublishedAnswer, line: int) -> Iterator[Specification]:
    """The paper's share (or both ends of it) above, and the run's below it."""
    then = row.question.then
    if then.low is not None and then.high is not None:
        apart = math.log(then.high / then.low) > 0.02
        outline = then.relation if then.relation in _SHAPES else "about"
        made = {"place": number(line - 0.16), "outline": outline, "said": said_then(row)}
        yield made | {"then": number(100 * then.low)} | ({"until": number(100 * then.high)} if apart else {})
        if apart:
            yield made | {"then": number(100 * then.high)}
    workload = row.question.now.workload
    for index, now in enumerate(row.nows):
        estimate, low, high = _ends(now)
        made = {
            "platform": now.ratio.platform,
            "workload": workload if isinstance(workload, str) else now.ratio.task,
            "place": number(line + 0.08 + 0.26 * index / max(len(row.nows) - 1, 1)),
            "value": number(100 * estimate),
            "said": said_now(row, now),
        }
        interval = now.ratio.interval
        if interval is not None:
            made |= {"from": number(100 * low), "to": number(100 * high), "low": number(100 * interval.low)}
            made |= {"high": number(100 * interval.high)} if math.isfinite(interval.high) else {}
        yield made | flags(caveat=now.ratio.functional)


def _entries(look: _Look, groups: Sequence[Group]) -> list[legends.Entry]:
    nows = [now for _, rows in groups for row in rows for now in row.nows]
    marked = {now.ratio.platform: now.ratio.caveat for now in nows if now.ratio.caveat}
    standings = {now.ratio.platform: now.standing.short for now in nows}
    entries = [legends.Entry("then: the paper", shape="circle", fill=PAPER, stroke=INK, points=4.6)]
    for label, style in look.styles.items():
        if label in standings:
            name = words.with_commas(f"{label} {SIGN}" if label in marked else label, standings[label])
            entries.append(replace(legends.of_style(f"now: {name}", label, style), dash=(1, 0)))
    sign = legends.Entry("", shape=markers.BOX, fill=PAPER, stroke=INK)
    return entries + [replace(sign, label=f"{SIGN} ×  {caveat}") for caveat in dict.fromkeys(marked.values())]


def of_run(
    then_and_now: Sequence[PublishedAnswer], platforms: Sequence[str], blocks: str
) -> tuple[partial[Specification], str] | None:
    """What draws one run's rows at a width, and its caption; None if there are too few."""
    groups = groups_of(then_and_now)
    if not groups:
        return None
    return partial(draw, groups, platforms), caption(then_and_now[0].study, groups, len(then_and_now), blocks)


def _caption(analysis: Analysis, study: Study, groups: Sequence[Group], all_rows: int) -> str:
    """What to see."""
    return caption(study, groups, all_rows, blocks_text(analysis))


def caption(study: Study, groups: Sequence[Group], all_rows: int, blocks: str) -> str:
    """What to see; `blocks`: how often it was measured, in words."""
    drawn = sum(len(rows) for _, rows in groups)
    rest = f" {drawn} of {all_rows} numbers are drawn; all are in the table below." if drawn < all_rows else ""
    return (
        "Open: performance in the paper, in % of its bare host or of the same platform alone; an arrowhead is a "
        f"bound. Filled: the same of this run, with its 95 % interval, {blocks}. Compare the "
        "order of the platforms and how a percentage changes, not the distance between both: the paper's host was "
        f"{study.hardware}.{rest}"
    )


BY_PAPER: Final = FigureSeries(TITLE, figures_by_paper)
