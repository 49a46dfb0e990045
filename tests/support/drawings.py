"""Figures drawn in this process, by what draws them in a report's own; and who draws the reports of tests."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from typing import Final

import pytest

from virtoll.report import build, compared_page, drawer, history_page, reproduction
from virtoll.report.drawing import Drawer, Drawing, as_json, asked
from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import Specification, Width, config
from virtoll.stats.analysis import Analysis

_LEAST_SHRUNK = 0.97  # by which the converter may have to make a figure smaller than it was laid out


_BLANK: Final = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"></svg>'


class Blank(Drawer):
    """Stands for the process that draws: each figure is specified as always, and drawn as an empty SVG."""

    def __init__(self) -> None:
        """No process is started."""

    def rendered(
        self, name: str, draw: Callable[[Width], Specification], *, in_a_column: bool = False, stacks: bool = False
    ) -> Drawing:
        """An empty drawing."""
        _, drawing = asked(name, draw, in_a_column=in_a_column, stacks=stacks)
        drawing.drawn.set_result({"page": _BLANK, "svg": _BLANK, "pdf": base64.b64encode(b"%PDF-").decode()})
        return drawing


@contextmanager
def drawn_by(start: Callable[[], Drawer]) -> Iterator[None]:
    """Whatever draws a report in this process takes this drawer, and does not end it."""
    with pytest.MonkeyPatch.context() as changed:
        for module in (build, compared_page, history_page, reproduction):
            changed.setattr(module, "Drawer", lambda: nullcontext(start()))
        yield


@contextmanager
def drawn_by_one_process() -> Iterator[None]:
    """All draw with one process, which the first of them starts."""
    with ExitStack() as end, drawn_by(cache(lambda: end.enter_context(Drawer()))):
        yield


def render(name: str, spec: FigureSpec, analysis: Analysis) -> Drawing:
    """One figure of a run, drawn."""
    in_a_column = spec.in_a_column(analysis)
    return rendered(name, lambda width: spec.draw(analysis, width), in_a_column=in_a_column, stacks=spec.stacks)


def rendered(
    name: str, draw: Callable[[Width], Specification], *, in_a_column: bool = False, stacks: bool = False
) -> Drawing:
    """The same of what draws at a width."""
    request, drawing = asked(name, draw, in_a_column=in_a_column, stacks=stacks)
    drawing.drawn.set_result(drawer.answer(request))
    return drawing


def drawn(specification: Specification, width: Width) -> str:
    """The SVG of a specification, as it is before it is a page's or a file's."""
    return drawer.drawn(as_json(specification), config(width), width.pixels)


def files(drawing: Drawing) -> tuple[str, str, bytes]:
    """All that is drawn of it: the page's SVG, an SVG file and a PDF file."""
    return drawing.page, drawing.svg, drawing.pdf


def smallest_points(specification: Specification, width: Width) -> float:
    """The smallest text of a figure, in points where it is printed as wide as asked for."""
    svg = drawn(specification, width)
    box = re.search(r'viewBox="0 0 ([\d.]+) ', svg)
    assert box is not None
    shrunk = width.points / float(box[1])
    assert shrunk > 0.75 * _LEAST_SHRUNK, "what is drawn is wider than the figure"
    return min(float(one) for one in re.findall(r'font-size="([\d.]+)px"', svg)) * shrunk
