"""From a figure's specification to SVG, PDF and what a browser draws it from: the same bytes each time.

Vega-Lite runs in the converter itself (`vl_convert`), without a browser and without a network. The SVG on the page has
letters as text, and colours that the page may set (`figures/style.py`). Files have a light page's, on white.
"""

import functools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import FONT, Specification, Width, by_the_page, config, in_light, printable_texts
from virtoll.stats.analysis import Analysis

VEGA_LITE: Final = "6.4"
"""The version of Vega-Lite that draws, of those that are in the converter."""

_TAG = re.compile(r"<[^>]*>")
_NOT_DRAWN = re.compile(
    r' (?:role|aria-\w+|class|pointer-events|xmlns:xlink|version|font-family)="[^"]*"'
    r'| (?:(?:stroke-|fill-)?opacity|stroke-width)="1"| transform="translate\(0,0\)"'
)
_FRACTION = re.compile(r"(?<=\d)(?:(\.\d[1-9]|\.[1-9])\d*|\.0\d*)")  # its first two digits without zeros at the end
_EMPTY = re.compile(
    r'<path d="M[\d.]+,[\d.]+h-?[\d.]+v-?[\d.]+h-?[\d.]+Z"/>|<path(?: d="[^"]*")?(?: display="none")?/>|<g></g>|<g/>'
    r'|<line transform="[^"]*" x2="-?0" y2="-?0"(?![^>]*linecap)[^>]*/>'
)
_ALIKE = re.compile(r"<g>((?:<(?:line|path)\b[^>]*/>|<text\b[^>]*>[^<]*</text>)+)</g>")
_MARK = re.compile(r"<(?:line|path|text)\b[^>]*>")
_LOOK = re.compile(r' ((?:fill|stroke|stroke-width|stroke-dasharray|font-size|text-anchor))="([^"]*)"')
_OFTEN = 2
_DOT = re.compile(r"(M([\d.]+,[\d.]+))L\2(?=[M\"])")
_TWICE = re.compile(r"(<(?:line|path)\b[^>]*/>)\1+")
_PLACE = r'transform="translate\((-?[\d.]+),(-?[\d.]+)\)"'
_STRAIGHT = re.compile(rf'<line {_PLACE} x2="(-?[\d.]+)" y2="(-?[\d.]+)"')
_CIRCLE = re.compile(rf'<path {_PLACE} d="M([\d.]+),0A\3,\3,0,1,1,-\3,0A\3,\3,0,1,1,\3,0"')
_SHAPE = re.compile(rf'<path {_PLACE} d="([^"]*Z)"')
_IDENTIFIER = re.compile(r' id="([^"]+)"')
_REFERENCE = re.compile(r'((?:xlink:)?href="#|url\(#)([^")]+)')
_HEAD = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')


@dataclass(frozen=True)
class Drawing:
    """One figure: `page`: the SVG that stands on the page; `svg`: an SVG file's text; `pdf`: a PDF file's bytes.

    `specification`: what a browser draws it from, as JSON that may stand in an element `script`; None: nothing.
    `narrow`: the same as wide as a paper's column, where it can be read there.
    """

    name: str
    page: str
    svg: str
    pdf: bytes
    specification: str | None = None
    narrow: str | None = None


def render(name: str, spec: FigureSpec, analysis: Analysis) -> Drawing:
    """Draw one figure as SVG for the page, and as PDF for a paper, whose one column or two it is as wide as.

    The figure must have something to draw (`spec.why_not` is None).
    """
    return rendered(name, partial(spec.draw, analysis), in_a_column=spec.in_a_column(analysis))


def rendered(name: str, draw: Callable[[Width], Specification], *, in_a_column: bool = False) -> Drawing:
    """The same of what draws at a width; `in_a_column`: a paper has it in one of its columns."""
    specification = printable_texts(draw(Width.PAGE))
    page = drawn(specification, Width.PAGE)
    in_files = (_named(_shapes_once(page), name), _file(page, Width.PAGE.pixels))
    if not in_a_column:
        return Drawing(name, *in_files, _pdf(page, Width.PAGE), as_json(specification))
    narrow = printable_texts(draw(Width.COLUMN))
    pdf = _pdf(drawn(narrow, Width.COLUMN), Width.COLUMN)
    return Drawing(name, *in_files, pdf, as_json(specification), as_json(narrow))


def as_json(specification: Specification) -> str:
    """Compact, and without a character that could end an element of HTML."""
    text = json.dumps(specification, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def inline(drawing: Drawing, label: str) -> str:
    """The SVG for an HTML page, named for screen readers; `label` is text of HTML.

    Where a reader has none of the fonts, letters are wider than what was measured: nothing of them is cut off.
    """
    return by_the_page(drawing.page).replace("<svg", f'<svg role="img" aria-label="{label}" overflow="visible"', 1)


def drawn(specification: Specification, width: Width) -> str:
    """Drawn, with nothing in it that shows nothing; its view box is as wide as asked for, or as what is drawn."""
    import vl_convert

    made = vl_convert.vegalite_to_svg(specification, vl_version=VEGA_LITE, config=config(width))
    head = _HEAD.match(made)
    if head is None:
        raise ValueError("the converter gave no SVG with a width and a height")
    across, down = max(float(head[1]), width.pixels), float(head[2])
    attributes = f'viewBox="0 0 {across:g} {down:g}" font-family="{FONT}"'
    body = _TAG.sub(lambda tag: _FRACTION.sub(r"\1", _NOT_DRAWN.sub("", tag[0])), made[head.end() :])
    while (smaller := _EMPTY.sub("", body)) != body:
        body = smaller
    body = _ALIKE.sub(_said_once, _TWICE.sub(r"\1", body))
    body = _DOT.sub(r"\1Z", body)
    body = _CIRCLE.sub(r'<circle cx="\1" cy="\2" r="\3"', _STRAIGHT.sub(_as_path, body))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{body}'


def _as_path(found: re.Match[str]) -> str:
    """A straight line in half the letters."""
    x, y, across, down = found.groups()
    step = f"h{across}" if down == "0" else f"v{down}" if across == "0" else f"l{across},{down}"
    return f'<path d="M{x},{y}{step}"'


def _said_once(found: re.Match[str]) -> str:
    """A group's marks or letters: how all of them look is said of the group, which they inherit it from."""
    tags = _MARK.findall(found[1])
    first, *others = (dict(_LOOK.findall(tag)) for tag in tags)
    common = [(name, value) for name, value in first.items() if all(one.get(name) == value for one in others)]
    if len(tags) == 1 or not common:
        return found[0]
    said = [f' {name}="{value}"' for name, value in common]

    def shorter(tag: re.Match[str]) -> str:
        return functools.reduce(lambda text, one: text.replace(one, ""), said, tag[0])

    return f"<g{''.join(said)}>{_MARK.sub(shorter, found[1])}</g>"


def _shapes_once(svg: str) -> str:
    """A marker's outline that comes often is written once, and used where it stands."""
    counts = Counter(outline for _, _, outline in _SHAPE.findall(svg))
    numbers = {outline: number for number, (outline, count) in enumerate(counts.items()) if count > _OFTEN}

    def used(found: re.Match[str]) -> str:
        x, y, outline = found.groups()
        return f'<use href="#shape{numbers[outline]}" x="{x}" y="{y}"' if outline in numbers else found[0]

    shapes = "".join(f'<path id="shape{number}" d="{outline}"/>' for outline, number in numbers.items())
    end = svg.index(">") + 1
    return f"{svg[:end]}<defs>{shapes}</defs>{_SHAPE.sub(used, svg[end:])}" if numbers else svg


def _named(svg: str, name: str) -> str:
    """With identifiers that begin with the figure's name, numbered by where they come: the converter counts on."""
    numbers = {own: f"{name}-{place}" for place, own in enumerate(dict.fromkeys(_IDENTIFIER.findall(svg)))}
    svg = _IDENTIFIER.sub(lambda found: f' id="{numbers[found[1]]}"', svg)
    return _REFERENCE.sub(lambda found: f"{found[1]}{numbers[found[2]]}", svg)


def _file(svg: str, across: float) -> str:
    """A file of its own, as wide as asked for, in the colours of paper."""
    head = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if head is None:
        raise ValueError("the SVG has no view box")
    down = across * float(head[2]) / float(head[1])
    sized = svg.replace("<svg ", f'<svg width="{across:g}" height="{down:.6g}" ', 1)
    end = sized.index(">") + 1
    return in_light(_named(f'{sized[:end]}<rect width="100%" height="100%" fill="#ffffff"/>{sized[end:]}', "figure"))


def _pdf(svg: str, width: Width) -> bytes:
    """The converter takes a unit of SVG for a point."""
    import vl_convert

    return bytes(vl_convert.svg_to_pdf(_file(svg, width.points)))
