"""How far a run's CPUs were from each other: in the host's line, in the tables, and nowhere if it was not read."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.facts import assert_facts
from tests.support.hand_overs import BUSY, reading, span
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.report.cpu_distance import distances_line, far_line
from virtoll.report.csv_table import CsvTable
from virtoll.report.dataset.rows import rows_of
from virtoll.report.dataset.tables import TABLES
from virtoll.report.document import report_document
from virtoll.report.headline import host_line
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.report.terminal import answer_terminal
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.runfolder.traffic_records import Point, SinkCounts
from virtoll.stats import readings
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.between_runs import By, between_runs, common_pairs, side_by_side
from virtoll.stats.compare import Pair
from virtoll.stats.compared import Reading
from virtoll.stats.hand_over import cpu_distances

PINNING = {"guest_cpus": [0], "generator_cpu": 1, "sink_cpu": 1, "distance": "same L3"}
FAR = HandOverSpan((reading(330),), (reading(330),))
NEAR = HandOverSpan((reading(52),), (reading(52),))


@pytest.fixture
def data() -> RunData:
    """A run of which one trial in ten was far, and each point after the first of a trial near."""
    made = run_data(Truth(REALISTIC, blocks=1))
    trials = []
    for number, trial in enumerate(made.trials):
        around = FAR if number % 10 == 0 else NEAR
        points = None if trial.points is None else tuple(point.replace(hand_over=around) for point in trial.points)
        trials.append(trial.replace(hand_over=around, points=points))
    return replace(made, trials=tuple(trials), manifest=made.manifest.replace(pinning=PINNING))


def slowed(point: Point) -> Point:
    """The same frames, which took half as long again to arrive."""
    later = (counts.replace(last_received_monotonic_ns=_stretched(counts)) for counts in point.sink.per_source)
    return point.replace(sink=point.sink.replace(per_source=tuple(later)), hand_over=FAR)


def _stretched(counts: SinkCounts) -> int:
    first, last = counts.first_received_monotonic_ns, counts.last_received_monotonic_ns
    assert first is not None
    assert last is not None
    return first + round(1.5 * (last - first))


@pytest.fixture
def moved() -> RunData:
    """Three blocks of three rounds: in one round of each the CPUs are far, and frames take half as long again."""
    made = run_data(Truth(REALISTIC, blocks=3, rounds=3, frame_sizes=(68, 504)))
    trials = []
    for trial in made.trials:
        if trial.points is not None:
            far = trial.round == trial.block
            points = [slowed(point) if far else point.replace(hand_over=NEAR) for point in trial.points]
            trials.append(trial.replace(points=tuple(points)))
        else:
            trials.append(trial)
    return replace(made, trials=tuple(trials))


def tables(data: RunData) -> dict[str, CsvTable]:
    return {table.name: table for table in csv_tables(ReportInput(analyse(data)))}


def test_the_hosts_line_has_both_distances_and_their_share() -> None:
    readings = [reading(52)] * 90 + [reading(330)] * 10
    line = distances_line(cpu_distances(readings), PINNING)
    assert_facts(line, "CPU 1", "same L3", "52 ns", "330 ns", "10.0", "100 readings")
    steady = distances_line(cpu_distances([reading(52)] * 9), PINNING)
    assert_facts(steady, "CPU 1", "52 ns")
    assert "330" not in steady


def test_the_hosts_line_of_a_run_is_of_all_its_readings(data: RunData) -> None:
    assert_facts(host_line(analyse(data)), "CPU 1", "same L3", "52 ns", "330 ns")


def test_of_what_was_not_read_nothing_is_said() -> None:
    assert distances_line((), PINNING) == ""
    assert "cache line" not in host_line(analyse(run_data(Truth(REALISTIC, blocks=1))))


def test_a_pair_that_could_not_be_read_has_its_reason() -> None:
    assert_facts(distances_line(cpu_distances([reading(None)] * 3), None), "CPU 1", BUSY)


def test_the_kernels_word_is_of_the_pair_that_it_is_of() -> None:
    line = distances_line(cpu_distances([reading(52, (1, 2)), reading(52)]), PINNING)
    assert re.findall(r"CPU 1 and (\d)( \(same L3\))?", line) == [("2", ""), ("0", " (same L3)")]


def test_of_many_pairs_those_that_were_far_are_named() -> None:
    near = [reading(50, (1, other)) for other in range(2, 9) for _ in range(4)]
    far = [reading(time, (1, 0)) for time in (50, 50, 330, 330)]
    line = distances_line(cpu_distances([*near, *far]), None)
    assert line.startswith("CPU 1 and 0 hand")
    assert_facts(line, "6 more pairs", "hand_over.csv")


def test_each_reading_is_a_row_of_its_table(data: RunData) -> None:
    rows = tables(data)["hand_over"].records()
    points = sum(len(trial.points or ()) for trial in data.trials)
    assert len(rows) == 2 * (len(data.trials) + points)
    first = data.trials[0]
    assert {(row["cpu"], row["other_cpu"], row["round_trip_ns"]) for row in rows if row["trial"] == first.trial} == {
        (1, 0, 330.0)
    }
    assert {row["points"] for row in rows} == {None, "points"}
    assert "hand_over" not in tables(run_data(Truth(REALISTIC, blocks=1))), "an older run has no such table"


def test_points_and_samples_have_what_was_read_around_them(data: RunData) -> None:
    expected = {trial.trial: trial.hand_over for trial in data.trials}
    for row in tables(data)["points"].records():
        around = expected[row["trial"]]
        assert around is not None
        assert (row["hand_over_before_ns"], row["hand_over_after_ns"]) == (around.before_ns, around.after_ns)
    for name in ("samples", "points"):
        columns = {column.name: column for column in TABLES[name].columns}
        for measured in rows_of(data)[name]:
            assert columns["hand_over_before_ns"].value(measured) in {52.0, 330.0}


def test_of_several_pairs_a_points_column_has_the_furthest(data: RunData) -> None:
    far = span([52, 330], [None, None])
    trials = tuple(
        trial.replace(points=trial.points and tuple(point.replace(hand_over=far) for point in trial.points))
        for trial in data.trials
    )
    for row in tables(replace(data, trials=trials))["points"].records():
        assert (row["hand_over_before_ns"], row["hand_over_after_ns"]) == (330.0, None)


def test_verdicts_are_of_the_trials_that_were_near(moved: RunData) -> None:
    """They are those of the same run in which the far trials had given no value."""
    without = tuple(
        trial.replace(status="invalid", reason="far") if trial.points and trial.round == trial.block else trial
        for trial in moved.trials
    )
    found, expected = analyse(moved), analyse(replace(moved, trials=without))
    assert found.comparisons == expected.comparisons
    assert found.control == expected.control
    assert {cell: found.cells[cell].median for cell in found.cells} == {
        cell: expected.cells[cell].median for cell in expected.cells
    }
    assert found.two_states == ()
    assert readings.cells_of(found, Reading.VALUE) == readings.cells_of(expected, Reading.VALUE), "for claims"
    pairs = [Pair("netns", "runc")]
    assert side_by_side(found, pairs).comparisons == side_by_side(expected, pairs).comparisons
    sides: tuple[By, By] = ("cost", "values")
    for by in sides:
        of_two = [between_runs(run, expected, common_pairs(run, expected, by), by) for run in (found, expected)]
        assert of_two[0].comparisons == of_two[1].comparisons


def test_what_being_far_costs_each_platform_is_told(moved: RunData) -> None:
    analysis = analyse(moved)
    line = far_line(analysis)
    rate = r"native IPv4 forwarding 504 B: (\d+) kframes/s near, (\d+) kframes/s far, 33 % less"
    told = re.search(rate, line)
    assert told is not None, line
    assert float(told[2]) / float(told[1]) == pytest.approx(2 / 3, rel=0.05)
    frames = [trial for trial in moved.trials if trial.points is not None]
    assert_facts(line, f"{len(frames) // 3} of {len(frames)} values")
    assert any(line in str(shown) for shown in answer_terminal(analysis, 80))
    assert far_line(analyse(run_data(Truth(REALISTIC, blocks=1)))) == ""


def test_near_and_far_are_in_tables_and_document(moved: RunData) -> None:
    analysis = analyse(moved)
    rows = tables(moved)["far_rates"].records()
    assert report_document(analysis, (), Path("run"), Path("page"), None)["far_rates"] == rows
    native = [row for row in rows if row["platform"] == "native"]
    assert len(native) == 2
    for row in native:
        assert row["far_median"] / row["near_median"] == pytest.approx(2 / 3, rel=0.05)
        assert row["far_share"] == row["far_median"] / row["near_median"]
        assert row["left_out"] == row["far_trials"] == row["near_trials"] / 2
        assert row["explained_share"] > 0.9
    cells = [row for row in tables(moved)["cells"].records() if row["cpu_distance"]]
    assert {(row["cpu_distance"], row["left_out"]) for row in cells} == {("near", 0), ("far", 1)}
    assert "far_rates" not in tables(run_data(Truth(REALISTIC, blocks=1)))
    distance = next(column for column in TABLES["samples"].columns if column.name == "cpu_distance")
    samples = [distance.value(sample) for sample in rows_of(moved)["samples"]]
    assert samples.count("near") == 2 * samples.count("far") > 0
