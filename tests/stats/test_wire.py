"""The instrument's account of itself: ceilings and who comes near them, pace, delay, fairness, cautions."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from tests.support.drawings import render
from tests.support.synthetic_run import REALISTIC, Truth, run_data
from tests.support.terminal import answer_text

from virtoll.report.figures import FIGURES
from virtoll.report.headline import bound_line
from virtoll.report.page import render_page
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import parse_record
from virtoll.runfolder.traffic_records import CalibrationRecord
from virtoll.stats.analysis import Analysis, RunData, analyse
from virtoll.stats.cautions import Caution, shared_cores
from virtoll.stats.hops import Owner
from virtoll.stats.wire import cpu_rows, delay_rows, jain

WIRED = Truth(REALISTIC, wired=True, blocks=3)


@pytest.fixture(scope="module")
def wired() -> Analysis:
    return analyse(run_data(WIRED))


def with_ceiling(data: RunData, rate: float, **changed: Any) -> Analysis:
    """The same run, calibrated at this rate for every frame size."""
    calibrations = tuple(
        replace(record, points=tuple(_at(point, rate) for point in record.points), **changed)
        for record in data.calibrations
    )
    return analyse(replace(data, calibrations=calibrations))


def _at(point: Any, rate: float) -> Any:
    own = point.sink.per_source[0]
    span = round((own.forwarded_frames - 1) * 1e9 / rate)
    first = own.first_received_monotonic_ns
    return replace(point, sink=replace(point.sink, per_source=(replace(own, last_received_monotonic_ns=first + span),)))


def of(analysis: Analysis, caution: Caution) -> str | None:
    return next((one.concerns for one in analysis.cautions if one.caution is caution), None)


def test_a_cell_near_the_ceiling_is_generator_bound_and_one_far_from_it_is_not(wired: Analysis) -> None:
    task = next(task for task in wired.tasks if task.workload == "forward")
    best = wired.cells["native", task].median
    for factor, bound in ((1.05, True), (1.09, True), (1.2, False), (10.0, False)):
        found = with_ceiling(wired.data, best * factor)
        assert found.generator_bound("native", task) is bound, factor
        assert not found.generator_bound("qemu-tcg-e1000", task)
        assert ("native" in (of(found, Caution.GENERATOR_BOUND) or "")) is bound


def test_forged_frames_are_told_and_change_no_figure(wired: Analysis) -> None:
    """One frame with a wrong tag at each point of one platform; where frames have no tags nothing is said."""

    def forged(trial: TrialRecord) -> TrialRecord:
        if trial.platform != "netns" or trial.points is None:
            return trial
        seen = tuple(replace(one, sink=replace(one.sink, forged_frames=1, tag_bits=48)) for one in trial.points)
        return replace(trial, points=seen)

    assert of(wired, Caution.FORGED) is None
    found = analyse(replace(wired.data, trials=tuple(map(forged, wired.data.trials))))
    said = of(found, Caution.FORGED) or ""
    assert said.startswith("netns (")
    assert "68 B" in said
    assert "native" not in said
    assert found.cells == wired.cells


def test_generator_bound_is_said_wherever_the_number_stands(wired: Analysis) -> None:
    task = next(task for task in wired.tasks if task.workload == "forward")
    rate = wired.cells["native", task].median * 1.05
    found = with_ceiling(wired.data, rate)
    assert bound_line(found).startswith("Generator-bound: native (68 B")
    assert re.search(
        r"^ +1.* native +[\d.]+ .?frames/s  baseline, generator-bound *$", answer_text(found, 120), re.MULTILINE
    )
    drawn = {name: spec for name, spec in FIGURES.items() if spec.why_not(found) is None}
    page = render_page(found, {name: render(name, spec, found) for name, spec in drawn.items()})
    assert "native (68 B" in page
    assert page.count("generator-bound") > 5
    assert not bound_line(wired)


def test_the_lower_of_two_calibrations_counts(wired: Analysis) -> None:
    by_shape = {one.shape: one for one in wired.ceilings}
    assert len(by_shape) == 4
    for one in wired.ceilings:
        assert len(one.rates) == 2
        assert one.rate == min(one.rates)
        assert one.floor is not None
        assert one.floor.minimum_ns <= one.floor.p50_ns <= one.floor.p99_ns <= one.floor.maximum_ns


def test_a_failed_calibration_is_no_ceiling_and_is_said(wired: Analysis) -> None:
    failed = tuple(replace(one, status="failed", reason="refused", points=()) for one in wired.data.calibrations)
    found = analyse(replace(wired.data, calibrations=failed))
    assert found.ceilings == ()
    assert of(found, Caution.UNCALIBRATED) is not None
    assert of(found, Caution.GENERATOR_BOUND) is None


def test_another_back_end_has_another_ceiling(wired: Analysis) -> None:
    other = tuple(
        replace(one, points=tuple(replace(point, backend="af-xdp") for point in one.points))
        for one in wired.data.calibrations
    )
    found = analyse(replace(wired.data, calibrations=other))
    assert all(headroom.share is None for headroom in found.headrooms.values())


def test_losses_are_the_books_of_all_points(wired: Analysis) -> None:
    lost = sum(point.lost_frames for point in wired.points)
    assert lost > 0
    assert sum(row.lost_frames for row in wired.losses) == lost
    assert {owner for row in wired.losses for owner in row.by_owner} == {Owner.PLATFORM}


def test_a_run_of_an_older_agent_loses_nothing_but_the_places() -> None:
    old = analyse(run_data(replace(WIRED, wired=False)))
    assert {owner for row in old.losses for owner in row.by_owner} == {Owner.UNLOCATED}
    assert old.ceilings == ()
    assert of(old, Caution.UNCALIBRATED) is None
    assert all(row.median_error is None for row in old.paces)
    assert delay_rows(old.tasks, old.data.trials) == ()


def test_the_pace_is_between_the_first_and_the_last_frame(wired: Analysis) -> None:
    rows = [row for row in wired.paces if row.median_error is not None]
    assert rows
    for row in rows:
        assert row.median_error == pytest.approx(0, abs=1e-4)
        assert row.gap_variation is not None
    assert any(row.missed and row.unsent_share > 0 for row in wired.paces)
    assert of(wired, Caution.PACE_MISSED) is None


def test_delays_are_in_order_and_of_a_rate_without_loss(wired: Analysis) -> None:
    rows = delay_rows(wired.tasks, wired.data.trials)
    assert {row.what for row in rows} == {"lowest rate", "highest without loss"}
    for row in rows:
        assert row.minimum_ns <= row.p50_ns <= row.p90_ns <= row.p99_ns <= row.maximum_ns
        assert row.variation_ns == row.p99_ns - row.minimum_ns


def test_cpu_time_is_per_million_frames(wired: Analysis) -> None:
    rows = cpu_rows(wired.tasks, wired.data.trials, [0])
    assert rows
    for row in rows:
        assert row.generator_ns == pytest.approx(250e6, rel=0.01)
        assert row.sink_ns == pytest.approx(100e6, rel=0.01)
        assert row.guest_cores_ns is not None
    assert all(row.guest_cores_ns is None for row in cpu_rows(wired.tasks, wired.data.trials, [7]))


def test_jains_index() -> None:
    assert jain([5.0, 5.0, 5.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0]) == pytest.approx(0.5)
    assert jain([0.0, 0.0]) == 1.0


def test_shared_cores_are_named() -> None:
    two = {"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1}
    assert shared_cores(two) == "generator and sink share core 1"
    assert shared_cores({"guest_cpus": [0], "generator_cpu": 2, "sink_cpu": 1}) == ""
    assert shared_cores({"guest_cpus": [], "generator_cpu": None, "sink_cpu": None}) == ""
    assert shared_cores(None) == ""


def test_every_caution_has_words_and_advice() -> None:
    for caution in Caution:
        assert caution.title
        assert len(caution.meaning) > 20
        assert len(caution.advice) > 20


def test_a_calibration_of_an_unknown_form_is_refused() -> None:
    with pytest.raises(Exception, match="status"):
        parse_record(
            CalibrationRecord,
            {"when": "start", "realtime_ns": 0, "parameters": {}, "status": "maybe", "reason": None, "points": []},
        )
