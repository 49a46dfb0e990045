"""What the guests themselves cost: the way to readiness, memory idle and after work, host CPU per job."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.figures import caveats, legends, markers
from virtoll.report.figures.bars import names_width
from virtoll.report.figures.base import FigureSpec, blocks_text, coverage_text, said_quantity
from virtoll.report.figures.lines import axis
from virtoll.report.figures.marks import (
    SAID,
    by_platform,
    crosses,
    figure,
    flags,
    labels_of,
    layer,
    note,
    number,
    on_paper,
    panel_width,
    rule_through,
)
from virtoll.report.figures.style import (
    MUTED,
    PAPER,
    SIZES,
    TONES,
    Specification,
    Width,
    nice_log_ticks,
    pixels,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests import CpuUse, GuestCost

_PARTS: Mapping[str, str] = dict(zip(("spawn", "kernel", "init"), TONES, strict=True))
_HOLLOW = "in all"
_MIB = 2**20
_ROW_POINTS = 19.0  # from one platform to the next
_SPREAD = 1.8  # within a row, half of the distance from its first marker to its end, by that between markers
_CUT = 3.0  # times a ratio: an interval that goes further is cut there
_ROOM = 1.35
_TICKS = 5


def draw(analysis: Analysis, width: Width) -> Specification:
    """Three panels with one row a platform: milliseconds, MiB, and CPU time as a multiple of the baseline's."""
    shown = [row.platform for row in analysis.guests]
    left = names_width({platform: [caveats.name(analysis, platform)] for platform in shown}, SIZES[width].text)
    wide = panel_width(width, 3, left, each=8)
    drawn = [
        panel | {"width": wide, "height": round(pixels(_ROW_POINTS) * len(shown), 1)}
        for panel in (_ready(analysis, width), _memory(analysis, width), _processor(analysis, width))
    ]
    parts = [legends.box(name, tone) for name, tone in _PARTS.items()]
    known = any(row.spawn is not None for row in analysis.guests)
    entries = [*(parts if known else []), *legends.of_caveats(analysis, shown)]
    below = legends.legend(width, entries, left, most=len(entries))
    own_offsets: Specification = {"scale": {"yOffset": "independent"}}
    return figure([{"hconcat": drawn, "spacing": 14, "resolve": own_offsets}, *below])


def _rows(analysis: Analysis, *, labelled: bool = False) -> Specification:
    """The encoding that a panel's layers have in common: a row a platform."""
    names = [caveats.name(analysis, row.platform) for row in analysis.guests]
    shown = {"labelExpr": labels_of(names), "labels": labelled, "labelPadding": 6}
    return {
        "y": {
            "field": "row",
            "type": "ordinal",
            "scale": {"domain": list(range(len(names))), "padding": 0},
            "axis": shown | {"title": None, "domain": False, "ticks": False},
        }
    }


def _logarithmic(ends: Sequence[float], title: str) -> Specification:
    """An axis with room around what it has to show."""
    low, high = min(ends, default=1.0) / _ROOM, max(ends, default=1.0) * _ROOM
    ticks = nice_log_ticks(low, high) if ends else []
    ticks = ticks[:: -(-len(ticks) // _TICKS) or 1]
    return axis((low, high), title, scale={"type": "log"}, ticks=ticks, names=[f"{tick:g}" for tick in ticks])


def _ready(analysis: Analysis, width: Width) -> Specification:
    """A way through time to each guest's answer, in its parts; one of which nothing more is known is hollow."""
    totals = [row.ready.median / 1e6 for row in analysis.guests if row.ready is not None]
    across = _logarithmic([min(totals) / 2, *totals] if totals else [], "ready, ms (log)")
    begin = across["scale"]["domain"][0]
    values = [datum for row, cost in enumerate(analysis.guests) for datum in _way(analysis, cost, row, begin)]
    ends: Specification = {"x": {"field": "from", **across}, "x2": {"field": "to"}, "tooltip": SAID}
    tone: Specification = {
        "condition": [{"test": f"datum.part === '{name}'", "value": paint} for name, paint in _PARTS.items()],
        "value": MUTED,
    }
    bar: Specification = {"type": "bar", "size": round(pixels(_ROW_POINTS) * 0.62, 2)}
    open_bar = bar | {"fill": PAPER, "strokeWidth": 1.4}
    layers = []
    if any("part" in datum and "open" not in datum for datum in values):
        layers.append(layer(bar, ends | {"fill": tone}, "datum.part && !datum.open"))
    if any("open" in datum for datum in values):
        dash: Specification = {"condition": {"test": "datum.caveat", "value": [3, 2]}, "value": [1, 0]}
        layers.append(layer(open_bar, ends | {"stroke": tone, "strokeDash": dash}, "datum.open"))
    if any("low" in datum for datum in values):
        layers += on_paper({"x": {"field": "low", **across}, "x2": {"field": "high"}})
    if not layers:  # a panel without data has its axes all the same
        layers.append(layer({"type": "point"}, {"x": {"field": "value", **across}}))
    return _panel("", width, values, layers, _rows(analysis, labelled=True))


def _panel(
    how: str,
    width: Width,
    values: Sequence[Mapping[str, Any]],
    layers: Sequence[Specification],
    rows: Specification,
) -> Specification:
    """`how`: to read it, where there is something."""
    title = note(how if values else "not read in this run", width)
    return {"title": title, "data": {"values": list(values)}, "encoding": rows, "layer": list(layers)}


def _way(analysis: Analysis, cost: GuestCost, row: int, begin: float) -> Iterable[dict[str, Any]]:
    """The parts that reach into the panel, in ms, the last of them with the whole's value; the whole where none is
    known."""
    if cost.ready is None:
        return
    known = {
        name: part.median / 1e6
        for name, part in zip(_PARTS, (cost.spawn, cost.kernel, cost.init), strict=True)
        if part is not None
    }
    name = caveats.name(analysis, cost.platform)
    total = f"ready after {said_quantity(cost.ready, 'ns')}"
    common: dict[str, Any] = {"platform": cost.platform, "row": row}
    common |= {"caveat": True, "open": True} if cost.platform in analysis.caveats else {}
    whole: dict[str, Any] = {"value": number(cost.ready.median / 1e6)}
    if cost.ready.interval is not None:
        whole |= {"low": number(cost.ready.interval.low / 1e6), "high": number(cost.ready.interval.high / 1e6)}
    moment, segments = 0.0, list[dict[str, Any]]()
    for part, length in known.items():
        ends = {"from": number(max(moment, begin)), "to": number(max(moment + length, begin))}
        sentence = f"{name}: {part} {units.nanoseconds(1e6 * length)}; {total}"
        segments.append(common | {"part": part, **ends, "said": sentence})
        moment += length
    if not segments:
        sentence = f"{name}: {total}; cannot be split into phases"
        ends = {"from": begin, "to": whole["value"]}
        segments.append(common | {"part": _HOLLOW, "open": True, **ends, "said": sentence})
    yield from segments[:-1]
    yield segments[-1] | whole


def _offset(domain: Sequence[Any]) -> Specification:
    """Within a row, from above."""
    scale = {"domain": list(domain), "paddingInner": 1, "paddingOuter": _SPREAD}
    return {"field": "within", "type": "nominal", "scale": scale}


def _memory(analysis: Analysis, width: Width) -> Specification:
    values = list(_held(analysis))
    ends = [datum[end] for datum in values for end in ("value", "low", "high") if end in datum]
    across = _logarithmic(ends, "host memory, MiB (log)")
    face: Specification = {"condition": {"test": "datum.within === 1", **by_platform(analysis)}, "value": PAPER}
    dots = _dots(analysis, across, _offset((0, 1)), face, 4.4)
    return _panel("open: idle; filled: after work", width, values, dots, _rows(analysis))


def _held(analysis: Analysis) -> Iterable[dict[str, Any]]:
    """What a guest's processes hold idle (`within` 0) and after work (1), in MiB; nothing where they hold none."""
    for row, cost in enumerate(analysis.guests):
        for within, (part, when) in enumerate(((cost.idle, "idle"), (cost.worked, "after work"))):
            if part is None or part.median <= 0:
                continue
            sentence = f"{caveats.name(analysis, cost.platform)}, {when}: {said_quantity(part, 'bytes')}"
            made: dict[str, Any] = {"platform": cost.platform, "row": row, "within": within}
            made |= {"value": number(part.median / _MIB), "said": sentence}
            if part.interval is not None and part.interval.low > 0:
                low, high = number(part.interval.low / _MIB), number(part.interval.high / _MIB)
                made |= {"low": low, "high": high, "from": low, "to": high}
            yield made | flags(caveat=cost.platform in analysis.caveats)


def _processor(analysis: Analysis, width: Width) -> Specification:
    rows = {row.platform: place for place, row in enumerate(analysis.guests)}
    shown = [use for use in analysis.host_cpu if use.ratio is not None and use.platform in rows]
    tasks = list(dict.fromkeys(use.task for use in shown))
    values = [_use(analysis, use, rows[use.platform], tasks.index(use.task)) for use in shown]
    ends = [datum[end] for datum in values for end in ("value", "from", "to") if end in datum]
    across = _logarithmic([1.0, *ends], f"host CPU per job, × {analysis.baseline or 'baseline'} (log)")
    dots = _dots(analysis, across, _offset(range(max(len(tasks), 2))), by_platform(analysis), 3.6)
    return _panel("", width, values, [rule_through("x", 1), *dots], _rows(analysis))


def _use(analysis: Analysis, use: CpuUse, row: int, within: int) -> dict[str, Any]:
    """One job's CPU time as a multiple of the baseline's."""
    ratio = use.ratio or 1.0
    made: dict[str, Any] = {"platform": use.platform, "workload": use.task.workload, "row": row, "within": within}
    between = ""
    if use.interval is not None:
        made |= {"low": number(use.interval.low), "high": number(use.interval.high)}
        made |= {
            "from": number(max(use.interval.low, ratio / _CUT)),
            "to": number(min(use.interval.high, ratio * _CUT)),
        }
        covered = units.percent(use.interval.coverage)
        between = f", {covered} interval {units.between(use.interval.low, use.interval.high, 'times')}"
    used = f"{units.nanoseconds(use.per_unit.median)} a {use.unit}"
    times = words.estimate(ratio, use.interval, "times")
    sentence = f"{times} {analysis.baseline}'s{between}, {words.counted(use.per_unit.blocks, 'block')}; {used}"
    return made | {
        "value": number(ratio),
        "said": f"{caveats.name(analysis, use.platform)}, {use.task.label}: {sentence}",
    }


def _dots(
    analysis: Analysis, across: Specification, offset: Specification, face: Specification, points: float
) -> list[Specification]:
    """Markers with their intervals, in one row several below one another."""
    at: Specification = {"x": {"field": "value", **across}, "yOffset": offset}
    ends: Specification = {"x": {"field": "from", **across}, "x2": {"field": "to"}, "yOffset": offset}
    stroke, shape = by_platform(analysis), by_platform(analysis, "shape")
    marker: Specification = {"type": "point", "size": markers.area(points - 0.4), "strokeWidth": 1.3}
    layers = [
        layer({"type": "rule", "strokeWidth": 1.3}, ends | {"stroke": stroke, "tooltip": SAID}, "isValid(datum.from)"),
        layer(marker, at | {"stroke": stroke, "shape": shape, "fill": face, "tooltip": SAID}),
    ]
    return [*layers, crosses(at)] if analysis.caveats else layers


def caption(analysis: Analysis) -> str:
    """What to see."""
    tasks = list(dict.fromkeys(use.task.label for use in analysis.host_cpu if use.ratio is not None))
    jobs = f" Within a row the jobs are, from above: {', '.join(tasks)}." if tasks else ""
    parts = [part for row in analysis.guests for part in (row.ready, row.idle, row.worked) if part is not None]
    return (
        "Left: the way from the first process to the guest's answer, by the outside clock, medians; an open bar with a "
        "whole outline cannot be split into phases. Middle: PSS and page tables of the guest's processes on the host. "
        "Right: CPU time of those processes over a job, as a multiple of the baseline's in the same block. Left and "
        f"middle: {coverage_text(parts)}. Right: 95 % intervals, cut at a factor of three.{jobs} "
        f"{blocks_text(analysis)}."
    )


def why_not(analysis: Analysis) -> str | None:
    """A start or a reading of memory is needed."""
    return None if analysis.guests else "nothing of the guests themselves was read in this run"


COSTS = FigureSpec("The guests themselves", caption, draw, why_not)
