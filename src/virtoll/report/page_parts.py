"""What all pages have in common: how a template becomes a page, its figures, and what the browser needs of it.

Main type: `FigureView`; main functions: `page_text` and `browser_context`. The templates' own common parts are
`head.html.j2`, `parts.html.j2` and `scripts.html.j2`. No numbers are computed here.
"""

import html
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from virtoll import units
from virtoll.report import browser
from virtoll.report.drawing import Drawing, as_json, inline
from virtoll.report.figures.markers import outline
from virtoll.report.figures.style import DARK, LIGHT, Width, config, platform_styles

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_SCRIPT_HERE = "<!-- script -->"
_DRAWING_HERE = re.compile("<!-- drawing [^ ]+ -->")


@dataclass(frozen=True)
class FigureView:
    """One figure of a page: a mark where its SVG goes in, or the reason why there is none.

    `specifications`: what a browser draws it from, by width, `browser.packed`. `drawing`: whose SVG it is, which is
    waited for when all else of the page is there.
    """

    name: str
    title: str
    section: str
    caption: str
    svg: str | None
    why_not: str | None
    specifications: Mapping[str, str] = field(default_factory=dict)
    drawing: Drawing | None = None


def drawn_view(drawing: Drawing, title: str, section: str, caption: str) -> FigureView:
    """A figure that is drawn; `title` and `caption` are plain texts."""
    by_width = {"page": drawing.specification, "column": drawing.narrow}
    packed = {width: browser.packed(text) for width, text in by_width.items() if text is not None}
    mark = f"<!-- drawing {drawing.name} -->"
    return FigureView(drawing.name, title, section, caption, mark, None, specifications=packed, drawing=drawing)


def browser_context(
    figures: Iterable[FigureView],
    run: str,
    platforms: Sequence[str],
    workloads: Iterable[str],
    *,
    outcomes: Sequence[str] = (),
    host: str = "",
    workload_of: Mapping[str, str] = MappingProxyType({}),
    caveats: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """What the common templates print: policy, colours, scripts and the library, which is there where figures ask.

    `run`: what the reader's choice is kept by. `platforms`, `workloads`, `outcomes` (of claims): what the page may be
    filtered by. `host`: what stands beside the run's name at the top of each printed page. `workload_of`: by the names
    of tasks. `caveats`: by platform.
    """
    has_figures = any(view.specifications for view in figures)
    styles = platform_styles(platforms)
    looks = [{"name": name, "paint": style.paint, "shape": outline(style.marker)} for name, style in styles.items()]
    return {
        "platform_names": set(platforms),
        "workload_of": workload_of,
        "caveats": caveats,
        "policy": browser.policy(),
        "licences": browser.licences(),
        "library": browser.library() if has_figures else (),
        "light": LIGHT,
        "dark": DARK,
        "printed_on_top": (run, host),
        "page_facts": {
            "run": run,
            "platforms": looks,
            "workloads": list(dict.fromkeys(workloads)),
            "outcomes": list(outcomes),
            "config": {width.name.lower(): config(width) for width in Width},
        },
    }


def page_text(template: str, context: Mapping[str, Any], figures: Iterable[FigureView]) -> str:
    """The whole page as HTML; `context` holds that of `browser_context`, and `figures` are those of the context.

    Raises what their drawings raise.
    """
    page = _environment().get_template(template).render(**context)
    page = _together(page).replace(_SCRIPT_HERE, f"<script>{browser.script()}</script>") + "\n"
    drawn = {view.svg: inline(view.drawing, html.escape(view.title)) for view in figures if view.drawing and view.svg}
    return _DRAWING_HERE.sub(lambda mark: _together(drawn[mark[0]]), page)


def _together(text: str) -> str:
    """A number stays beside its sign."""
    return re.sub(r"(?<=\d) (?=[%×])", "\u00a0", text)


@cache
def _environment() -> "Environment":
    """The templates: each is compiled once, however often a process makes its page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader([Path(__file__).parent / "templates", Path(__file__).parent / "sections"]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ns=units.nanoseconds, percent=units.percent, bytes=units.size, command=shlex.join, safe_svg=Markup
    )
    environment.filters["in_script"] = lambda value: Markup(as_json(value))  # noqa: S704 - escaped there
    environment.filters["css_text"] = _css_text
    return environment


def _css_text(text: str) -> "Markup":
    """Any text as a string of CSS that may stand in an element `style`."""
    from markupsafe import Markup

    plain = re.sub(r"[^A-Za-z0-9 .,:_-]", lambda letter: f"\\{ord(letter[0]):x} ", text)
    return Markup(f'"{plain}"')  # noqa: S704 - escaped here
