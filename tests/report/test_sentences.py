"""The few sentences of a report that must stay as they are: whoever changes one of them looks at it here.

Whether their numbers are right is tested where they are made.
"""

from __future__ import annotations

from syrupy.assertion import SnapshotAssertion
from tests.support.report_page import page_of, text_of
from tests.support.report_runs import analysis_of
from tests.support.terminal import answer_text
from tests.support.verdicts import VERDICTS

from virtoll.report import words
from virtoll.report.exports import export_texts, exports_of
from virtoll.report.figures import FIGURES


def test_verdicts(snapshot: SnapshotAssertion) -> None:
    assert {name: words.said(one).text for name, one in VERDICTS.items()} == snapshot


def test_the_answer_in_a_terminal(snapshot: SnapshotAssertion) -> None:
    assert answer_text(analysis_of("rounds")) == snapshot


def test_notes_of_runs_that_lack_something(snapshot: SnapshotAssertion) -> None:
    runs = ("all failed", "interrupted", "one block", "no baseline", "control differs", "as a paper", "nested")
    notes = {run: [text_of(one) for one in page_of(analysis_of(run)).part("verdict") if one.tag == "p"] for run in runs}
    assert notes == snapshot


def test_methods(snapshot: SnapshotAssertion) -> None:
    """Without the last sentence, which has the version of Virtoll that wrote it."""
    text = export_texts(exports_of(analysis_of("nested")))["methods.md"]
    assert text.partition(" This text was made")[0] == snapshot


def test_captions(snapshot: SnapshotAssertion) -> None:
    analysis = analysis_of("nested")
    captions = {name: spec.caption(analysis) for name, spec in FIGURES.items() if spec.why_not(analysis) is None}
    assert captions == snapshot
