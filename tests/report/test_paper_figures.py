"""Figures that a paper takes over: the PDF's width, fonts and text, and nothing that its edge cuts off."""

from pathlib import Path

import pytest
from tests.support.drawings import render, smallest_points
from tests.support.pdf_file import read_pdf
from tests.support.runs_for_papers import RUNS
from tests.support.synthetic_run import run_data

from virtoll.claims import then_and_now
from virtoll.report.figures import figures_of
from virtoll.report.figures.style import COLUMN_INCHES, PAGE_INCHES, SMALLEST_POINTS, Width
from virtoll.report.report_input import ReportInput
from virtoll.stats.analysis import analyse


@pytest.mark.parametrize("run", RUNS)
def test_a_figure_is_as_wide_as_a_papers_columns(run: str, tmp_path: Path) -> None:
    """By the file itself: its page, TrueType fonts (no Type 3), text of 6 points at least, lines and no picture."""
    analysis = analyse(run_data(RUNS[run]))
    widths = {}
    for figure, spec in figures_of(ReportInput(analysis, then_and_now=then_and_now(analysis))).items():
        if spec.why_not(analysis) is None:
            file = tmp_path / f"{figure}.pdf"
            drawing = render(figure, spec, analysis)
            file.write_bytes(drawing.pdf)
            found = read_pdf(file)
            widths[figure] = found.width / 72
            assert found.fonts == {"Type0", "CIDFontType2"}, figure
            assert found.embedded == {"FontFile2"}, figure
            assert found.pictures == 0, figure
            assert b"/CreationDate" not in drawing.pdf, figure
            width = Width.COLUMN if spec.in_a_column(analysis) else Width.PAGE
            assert smallest_points(spec.draw(analysis, width), width) >= SMALLEST_POINTS - 0.01, figure
    in_a_column = {figure for figure, width in widths.items() if width == pytest.approx(COLUMN_INCHES, abs=0.001)}
    assert "clock" in in_a_column
    assert ("cost" in in_a_column) is (run != "nested"), "a name beside each line takes room"
    others = {width for figure, width in widths.items() if figure not in in_a_column}
    assert all(width == pytest.approx(PAGE_INCHES, abs=0.001) for width in others)
