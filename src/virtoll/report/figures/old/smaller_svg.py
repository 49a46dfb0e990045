"""The same drawing in fewer bytes, for a page that holds a dozen of them: what Matplotlib's SVG says twice goes.

Only the text of the SVG that Matplotlib wrote is read, no XML in general. Coordinates are rounded to a thousandth of a
point, which is a hundredth of a printer's dot; nothing else that is drawn changes.
"""

import re
from collections import Counter

# What Matplotlib numbers by itself; an identifier that a figure gave (`set_gid`) stays.
_NUMBERED = re.compile(r"(?:figure|axes|legend|text|patch|line2d|matplotlib\.axis|[xy]tick|\w*Collection)_\d+")
_IDENTIFIER = re.compile(r' id="([^"]+)"')
_REFERENCE = re.compile(r'(xlink:href="#|url\(#)([^")]+)')
_NUMBER = re.compile(r"(?<![\d.])([1-9]\d*\.\d{4,})")
_LETTERS = re.compile(r'(?:<use xlink:href="#[^"]+"(?: transform="translate\(-?[\d.]+ 0\)")?/>)+')
_MARKERS = re.compile(r'<g( clip-path="[^"]*")?>((?:<use [^>]*? style="[^"]*"/>)+)</g>')
_STYLE = re.compile(r' style="([^"]*)"')


def smaller(svg: str, name: str) -> str:
    """The SVG with fewer bytes; identifiers begin with `name`, so that those of several drawings differ.

    The comments that say what letters spell stay.
    """
    for command in "MLQC":
        svg = svg.replace(f" \n{command} ", command).replace(f"\n{command} ", command)
    svg = svg.replace(" \nz", "z").replace("\nz", "z").replace('z\n"', 'z"').replace(' \n"', '"')
    svg = re.sub(r">\s+<", "><", svg)
    svg = _STYLE.sub(lambda found: f' style="{found[1].replace("; ", ";").replace(": ", ":")}"', svg)
    svg = _NUMBER.sub(lambda found: f"{float(found[1]):.3f}".rstrip("0").rstrip("."), svg)
    return _with_names(_words_once(_MARKERS.sub(_one_style, svg)), name)


def _one_style(found: re.Match[str]) -> str:
    """Markers in a row that look alike: the look is said of their group."""
    looks = set(_STYLE.findall(found[2]))
    if len(looks) > 1:
        return found[0]
    return f'<g{found[1] or ""} style="{looks.pop()}">{_STYLE.sub("", found[2])}</g>'


def _words_once(svg: str) -> str:
    """Of words that come several times, letter by letter, the first is named and the others refer to it."""
    counts = Counter(_LETTERS.findall(svg))
    seen: dict[str, str] = {}

    def once(found: re.Match[str]) -> str:
        word = found[0]
        if word in seen:
            return f'<use xlink:href="#{seen[word]}"/>'
        shorter = re.sub(r'transform="translate\((-?[\d.]+) 0\)"', r'x="\1"', word)
        if counts[word] == 1 or word.count("<use") == 1:
            return shorter
        seen[word] = f"word-{len(seen)}"
        return f'<g id="{seen[word]}">{shorter}</g>'

    return _LETTERS.sub(once, svg)


def _with_names(svg: str, name: str) -> str:
    """Short identifiers, and none that nothing refers to."""
    referred = {identifier for _, identifier in _REFERENCE.findall(svg)}
    short = {identifier: f"{name}-{place:x}" for place, identifier in enumerate(sorted(referred))}

    def named(found: re.Match[str]) -> str:
        if found[1] in short:
            return f' id="{short[found[1]]}"'
        return "" if _NUMBERED.fullmatch(found[1]) else f' id="{name}-{found[1]}"'

    return _REFERENCE.sub(lambda found: f"{found[1]}{short[found[2]]}", _IDENTIFIER.sub(named, svg))
