"""A rate near the generator's limit is marked wherever it stands: in the answer, in the terminal and on the page."""

from __future__ import annotations

import re

from tests.support.drawings import render
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.terminal import answer_text

from virtoll.report.figures import FIGURES
from virtoll.report.headline import bound_line
from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.stats.analysis import Analysis, analyse


def calibrated(rate: float) -> Analysis:
    """netns forwards 950 000 frames/s, native half as many, and generator and sink alone `rate`."""
    made = [
        Made(label, "forward", {"frame_size_bytes": 64}, value=value)
        for label, value in (("native", 5e5), ("netns", 9.5e5))
    ]
    return analyse(made_up_run({"native": {}, "netns": {}}, made, calibrated_rate=rate))


def test_a_generator_bound_rate_is_marked_wherever_it_stands() -> None:
    found = calibrated(1e6)
    assert_facts(bound_line(found), "netns", "64 B")
    assert "native" not in bound_line(found)
    assert re.search(r"netns.*frames/s.*generator-bound", answer_text(found, 120))
    drawn = {name: spec for name, spec in FIGURES.items() if spec.why_not(found) is None}
    page = render_page(ReportInput(found), {name: render(name, spec, found) for name, spec in drawn.items()})
    assert page.count("generator-bound") >= 5
    assert not bound_line(calibrated(1e7))
