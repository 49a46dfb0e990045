"""A program that draws: from Vega-Lite to SVG and PDF, the same bytes each time. `drawing` starts it and asks it.

It is a process beside the report's, started before there is anything to draw, and imports nothing of Virtoll: what
draws is ready when the run has been read, and its memory is given back with it. Vega-Lite runs in the converter itself
(`vl_convert`), without a browser and without a network.

A request is a line of JSON on standard input and its answer a line on standard output, in the same order. It ends at
the end of its input, and so with whoever started it, however that ended. Main functions: `answer`, `serve`.
"""

import base64
import functools
import json
import os
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Final

VEGA_LITE: Final = "6.4"
"""The version of Vega-Lite that draws, of those that are in the converter."""
LIGHT_INK: Final = "#1a1a1a"
_FONTS_VARIABLE: Final = "FONTCONFIG_FILE"

_TAGS = re.compile(r"(?:<[^>]*>)+")
_NOT_DRAWN = re.compile(
    r' (?:role|aria-\w+|class|pointer-events|xmlns:xlink|version|font-family)="[^"]*"'
    r'| (?:(?:stroke-|fill-)?opacity|stroke-width)="1"| transform="translate\(0,0\)"'
)
# A fraction's first two digits without zeros at the end: what is more of one, and one that is nothing.
_MORE = re.compile(r"(?<=\d)(?:(\.\d[1-9])\d+|(\.[1-9])0\d*)")
_NOTHING = re.compile(r"(?<=\d)\.0(?![1-9])\d*")
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
_REFERENCE = re.compile(r'#(?:(?<=href="#)|(?<=url\(#))([^")]+)')
_HEAD = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"[^>]*>')
_PROPERTY = re.compile(r"var\(--figure-\w+, (#\w+)\)")


def answer(request: dict[str, Any]) -> dict[str, str]:
    """What `drawing` asks for, drawn: `page`, an SVG for the page; `svg`, that of a file; `pdf`, a file as base64.

    `request`: the figure's `name`, and `shown` and `printed`: each a `specification`, its `config`, and how wide it is
    in `pixels` and `points`. Where `printed` is None, the PDF is of what is shown.
    """
    shown, printed = request["shown"], request["printed"] or request["shown"]
    page = _drawn(shown)
    paper = _on_paper(page)
    on_paper = paper if printed is shown else _on_paper(_drawn(printed))
    pdf = bytes(converter().svg_to_pdf(_sized(on_paper, printed["points"])))  # which takes a unit of SVG for a point
    return {
        "page": named(shapes_once(page), request["name"]),
        "svg": _sized(paper, shown["pixels"]),
        "pdf": base64.b64encode(pdf).decode(),
    }


@functools.cache
def converter() -> ModuleType:
    """`vl_convert` with the fonts that it brings, and none of the host's: they would change widths and bytes.

    It looks for fonts once, at its first conversion, and reads the same variable as fontconfig.
    """
    import vl_convert

    before = os.environ.get(_FONTS_VARIABLE)
    os.environ[_FONTS_VARIABLE] = str(Path(__file__).with_name("fonts.conf"))
    try:
        vl_convert.svg_to_png('<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>')
    finally:
        if before is None:
            del os.environ[_FONTS_VARIABLE]
        else:
            os.environ[_FONTS_VARIABLE] = before
    return vl_convert


def _drawn(request: dict[str, Any]) -> str:
    return drawn(request["specification"], request["config"], request["pixels"])


def drawn(specification: str, config: dict[str, Any], pixels: float) -> str:
    """Drawn, with nothing in it that shows nothing; its view box is as wide as asked for, or as what is drawn.

    `specification`: Vega-Lite's as JSON, all of it printable: at a letter that XML has not the converter takes the
    whole process along. `config`: how it looks. `pixels`: how wide it is.
    """
    made = converter().vegalite_to_svg(specification, vl_version=VEGA_LITE, config=config)
    head = _HEAD.match(made)
    if head is None:
        raise ValueError("the converter gave no SVG with a width and a height")
    across, down = max(float(head[1]), pixels), float(head[2])
    attributes = f'viewBox="0 0 {across:g} {down:g}" font-family="{config["font"]}"'
    body = _TAGS.sub(lambda tags: _NOTHING.sub("", _MORE.sub(r"\1\2", _NOT_DRAWN.sub("", tags[0]))), made[head.end() :])
    while (smaller := _EMPTY.sub("", body)) != body:
        body = smaller
    body = _ALIKE.sub(_said_once, _TWICE.sub(r"\1", body))
    body = _DOT.sub(r"\1Z", body)
    body = _CIRCLE.sub(r'<circle cx="\1" cy="\2" r="\3"', _STRAIGHT.sub(_as_path, body))
    return f'<svg xmlns="http://www.w3.org/2000/svg" {attributes}>{body}'


def _as_path(match: re.Match[str]) -> str:
    """A straight line in half the letters."""
    x, y, across, down = match.groups()
    step = f"l{across},{down}"
    if down == "0":
        step = f"h{across}"
    elif across == "0":
        step = f"v{down}"
    return f'<path d="M{x},{y}{step}"'


def _said_once(match: re.Match[str]) -> str:
    """A group's marks or letters: how all of them look is said of the group, which they inherit it from."""
    tags = _MARK.findall(match[1])
    first, *others = (dict(_LOOK.findall(tag)) for tag in tags)
    common = [(name, value) for name, value in first.items() if all(look.get(name) == value for look in others)]
    if len(tags) == 1 or not common:
        return match[0]
    attributes = [f' {name}="{value}"' for name, value in common]

    def shorter(tag: re.Match[str]) -> str:
        return functools.reduce(lambda text, attribute: text.replace(attribute, ""), attributes, tag[0])

    return f"<g{''.join(attributes)}>{_MARK.sub(shorter, match[1])}</g>"


def shapes_once(svg: str) -> str:
    """A marker's outline that comes often is written once, and used where it stands."""
    counts = Counter(outline for _, _, outline in _SHAPE.findall(svg))
    numbers = {outline: number for number, (outline, count) in enumerate(counts.items()) if count > _OFTEN}

    def used(match: re.Match[str]) -> str:
        x, y, outline = match.groups()
        return f'<use href="#shape{numbers[outline]}" x="{x}" y="{y}"' if outline in numbers else match[0]

    shapes = "".join(f'<path id="shape{number}" d="{outline}"/>' for outline, number in numbers.items())
    end = svg.index(">") + 1
    return f"{svg[:end]}<defs>{shapes}</defs>{_SHAPE.sub(used, svg[end:])}" if numbers else svg


def named(svg: str, name: str) -> str:
    """With identifiers that begin with the figure's name, numbered by where they come: the converter counts on."""
    identifiers = dict.fromkeys(_IDENTIFIER.findall(svg))
    numbers = {identifier: f"{name}-{place}" for place, identifier in enumerate(identifiers)}
    svg = _IDENTIFIER.sub(lambda match: f' id="{numbers[match[1]]}"', svg)
    return _REFERENCE.sub(lambda match: f"#{numbers[match[1]]}", svg)


def in_light(svg: str) -> str:
    """A drawing for a file of its own, in the colours of a light page."""
    return _TAGS.sub(lambda tags: _PROPERTY.sub(r"\1", tags[0]).replace("currentColor", LIGHT_INK), svg)


def _on_paper(svg: str) -> str:
    """In the colours of paper; no file has its size yet."""
    end = svg.index(">") + 1
    return in_light(named(f'{svg[:end]}<rect width="100%" height="100%" fill="#ffffff"/>{svg[end:]}', "figure"))


def _sized(svg: str, across: float) -> str:
    """As wide as asked for, whatever the unit."""
    head = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if head is None:
        raise ValueError("the SVG has no view box")
    down = across * float(head[2]) / float(head[1])
    return svg.replace("<svg ", f'<svg width="{across:g}" height="{down:.6g}" ', 1)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer line by line until the input ends; what cannot be drawn is answered by its `error`."""
    for line in requests:
        try:
            made = answer(json.loads(line))
        except ValueError as error:
            made = {"error": str(error)}
        answers.write(json.dumps(made).encode() + b"\n")
        answers.flush()


def main() -> None:
    """The program: an interrupt is for who started it, and what a library prints is no answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
