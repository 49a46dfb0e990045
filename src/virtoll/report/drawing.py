"""From a figure's specification to SVG and PDF bytes that are the same each time (no dates, fixed identifiers)."""

import base64
import io
import re
import threading
from dataclasses import dataclass
from typing import Any, cast

from virtoll.report.figures.base import FigureSpec
from virtoll.report.figures.style import IN_A_COLUMN, SETTINGS
from virtoll.report.smaller_svg import smaller
from virtoll.stats.analysis import Analysis

_SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_PDF_METADATA = {"CreationDate": None, "Creator": None, "Producer": None}
_PICTURE = re.compile(r'(data:image/png;base64,)\s*([^"]*)')
_LOCK = threading.Lock()


@dataclass(frozen=True)
class Drawing:
    """One figure: `svg` is a whole SVG document's text, `pdf` a PDF file's bytes."""

    name: str
    svg: str
    pdf: bytes


def render(name: str, spec: FigureSpec, analysis: Analysis) -> Drawing:
    """Draw one figure twice, as SVG for the page and as PDF for a paper, whose one column or two it is as wide as.

    The figure must have something to draw (`spec.why_not` is None).
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    with _LOCK, mpl.rc_context(cast("Any", SETTINGS)):
        figure = spec.draw(analysis)
        dots_per_inch = figure.dpi
        svg, pdf = io.StringIO(), io.BytesIO()
        # `savefig` draws once more before each of them, which a figure of fixed size has no use for.
        cast("Any", FigureCanvasSVG(figure)).print_svg(svg, metadata=_SVG_METADATA)
        if spec.in_a_column(analysis):
            mpl.rcParams.update(cast("Any", IN_A_COLUMN))
            figure = spec.draw(analysis)
        else:
            figure.set_layout_engine("none")  # both have the layout that the first drawing found
        figure.set_dpi(dots_per_inch)  # of what is a picture in them; SVG itself has 72
        cast("Any", FigureCanvasPdf(figure)).print_pdf(pdf, metadata=_PDF_METADATA)
    return Drawing(name, _PICTURE.sub(_in_few_colours, svg.getvalue()), pdf.getvalue())


def _in_few_colours(found: re.Match[str]) -> str:
    """A picture of many markers (`figures/dots.py`) with a palette: a quarter of the bytes for a dozen colours."""
    from PIL import Image

    picture, smaller_picture = Image.open(io.BytesIO(base64.b64decode(found[2]))), io.BytesIO()
    picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(smaller_picture, format="png")
    return found[1] + base64.b64encode(smaller_picture.getvalue()).decode()


def inline(drawing: Drawing, label: str) -> str:
    """The SVG for an HTML page: no XML head, identifiers made unique by the figure's name, named for screen readers."""
    svg = drawing.svg[drawing.svg.index("<svg") :]
    svg = smaller(re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL), drawing.name)
    svg = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    svg = re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
