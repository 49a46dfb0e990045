"""From a figure that matplotlib draws to SVG and PDF that are the same each time (no dates, fixed identifiers)."""

import base64
import io
import re
import threading
from typing import Any, cast

from virtoll.report.figures.old.base import OldFigureSpec
from virtoll.report.figures.old.smaller_svg import smaller
from virtoll.report.figures.old.style import IN_A_COLUMN, SETTINGS
from virtoll.stats.analysis import Analysis

_SVG_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}
_PDF_METADATA = {"CreationDate": None, "Creator": None, "Producer": None}
_PICTURE = re.compile(r'(data:image/png;base64,)\s*([^"]*)')
_LOCK = threading.Lock()


def render_old(name: str, spec: OldFigureSpec, analysis: Analysis) -> tuple[str, str, bytes]:
    """Draw one figure twice: what stands on the page, the SVG file and the PDF file.

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
    whole = _PICTURE.sub(_in_few_colours, svg.getvalue())
    return smaller(_on_page(whole), name), whole, pdf.getvalue()


def _in_few_colours(found: re.Match[str]) -> str:
    """A picture of many markers (`figures/dots.py`) with a palette: a quarter of the bytes for a dozen colours."""
    from PIL import Image

    picture, smaller_picture = Image.open(io.BytesIO(base64.b64decode(found[2]))), io.BytesIO()
    picture.quantize(256, method=Image.Quantize.FASTOCTREE).save(smaller_picture, format="png")
    return found[1] + base64.b64encode(smaller_picture.getvalue()).decode()


def _on_page(svg: str) -> str:
    """Without XML's head, and as wide as its place."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<svg([^>]*?) width="[^"]*"', r"<svg\1", svg, count=1)
    return re.sub(r'<svg([^>]*?) height="[^"]*"', r"<svg\1", svg, count=1)
