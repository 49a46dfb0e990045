"""Several guests at once: what one of them did not report costs that metric's value of the trial, and no other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.made_up_run import Made, made_up_run

from virtoll.runfolder.records import GuestRun
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import RunData, analyse

POINTS = [ScalePoint(guests, 1, 128 << 20) for guests in (1, 3)]
LABELS = ("native", "runc")


def with_members(data: RunData, **changed: object) -> RunData:
    """The run in which the last of three guests of the baseline reported something else."""

    def other(members: tuple[GuestRun, ...]) -> tuple[GuestRun, ...]:
        return (*members[:-1], replace(members[-1], **changed))  # type: ignore[arg-type]

    trials = tuple(
        replace(one, members=other(one.members)) if one.platform == "native" and len(one.members) == 3 else one
        for one in data.at_once
    )
    return replace(data, at_once=trials)


@pytest.fixture(scope="module")
def data() -> RunData:
    made = [
        Made(label, "dd", value=2e9, figures={"bytes_per_second": 1e8}, scale=point)
        for label in LABELS
        for point in POINTS
    ]
    return made_up_run({label: {} for label in LABELS}, made, blocks=3)


def test_a_figure_that_one_guest_lacks_costs_no_duration(data: RunData) -> None:
    whole = analyse(data).at_once
    lacking = analyse(with_members(data, result={"figures": {}})).at_once
    duration, figure = whole.tasks
    assert (duration.metric.source, figure.metric.name) == ("marks", "bytes_per_second")
    for point in POINTS:
        assert lacking.row("native", duration, point) == whole.row("native", duration, point)
    assert whole.row("native", figure, POINTS[1]) is not None
    assert lacking.row("native", figure, POINTS[1]) is None
    assert lacking.row("native", figure, POINTS[0]) == whole.row("native", figure, POINTS[0])
    assert lacking.row("runc", figure, POINTS[1]) == whole.row("runc", figure, POINTS[1])
    assert {gap.reason for gap in lacking.gaps} == {"there is no figure 'bytes_per_second' above zero in the result"}
    assert len(lacking.gaps) == 3


def test_a_duration_that_one_guest_lacks_leaves_the_figures(data: RunData) -> None:
    whole, lacking = analyse(data).at_once, analyse(with_members(data, clock=None)).at_once
    duration, figure = whole.tasks
    assert lacking.row("native", duration, POINTS[1]) is None
    row, before = lacking.row("native", figure, POINTS[1]), whole.row("native", figure, POINTS[1])
    assert row is not None
    assert before is not None
    assert (row.each, row.together, row.trials) == (before.each, before.together, 3)
    assert (row.jain, row.slowest, row.skew, row.finished_ns) == (None, None, None, None), "not known, and not zero"
    assert before.jain == pytest.approx(1, abs=0.01)
