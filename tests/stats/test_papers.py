"""The papers' own summaries against numbers made by hand."""

from __future__ import annotations

import typing

import pytest
from tests.support.by_hand import job, task
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.experiment.file import ExperimentFile
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import analyse
from virtoll.stats.papers import PAPER_METHODS, PaperCell, PaperRow, PaperSummary, PaperTable, paper_table
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task

# Sum 90, mean 10; squared deviations 0 1 4 1 0 1 0 1 4 = 12; s = sqrt(12 / 8) = 1.224745; s / 3 = 0.408248;
# t(0.975, 8) = 2.306004 (any table), so the half width is 0.941424.
NINE = [10.0, 11, 12, 9, 10, 11, 10, 9, 8]


JOB = task("job", "marks")
RATE = task("job", "figures", name="ops", better="higher", primary=False)


def summary(name: str, values: list[float]) -> PaperSummary | None:
    return PAPER_METHODS[name].summarise(values)


def test_schlossers_mean_and_t_interval_of_nine() -> None:
    found = summary("mean-t95", NINE)
    assert found is not None
    assert (found.centre, found.count, found.dropped) == (10, 9, 0)
    assert found.low == pytest.approx(10 - 0.941424, abs=1e-5)
    assert found.high == pytest.approx(10 + 0.941424, abs=1e-5)


def test_sureshs_mean_and_deviation() -> None:
    found = summary("mean-sd", NINE)
    assert found is not None
    assert found.centre == 10
    assert (found.low, found.high) == pytest.approx((10 - 1.224745, 10 + 1.224745), abs=1e-6)


def test_camargos_median_of_the_last_three_of_four() -> None:
    assert summary("median-drop-first", [100, 3, 1, 2]) == PaperSummary(2, 1, 3, 3, 1)
    assert summary("median-drop-first", [100, 3, 1]) == PaperSummary(2, 1, 3, 2, 1)


def test_too_few_values_are_no_summary_and_no_spread() -> None:
    assert summary("median-drop-first", [100]) is None
    assert summary("mean-t95", []) is None
    assert summary("mean-sd", []) is None
    for name in ("mean-t95", "mean-sd"):
        assert summary(name, [7.0]) == PaperSummary(7, None, None, 1)


def test_an_experiment_may_name_each_of_them() -> None:
    (allowed, _) = typing.get_args(ExperimentFile.model_fields["summary"].annotation)
    assert set(typing.get_args(allowed)) == set(PAPER_METHODS)


def test_a_runs_rows_stand_beside_its_comparisons() -> None:
    """The same comparisons with and without; shares are centre over centre, turned so that 1 is as fast."""
    plain = analyse(run_data(Truth(REALISTIC, blocks=4)))
    analysis = analyse(run_data(Truth(REALISTIC, blocks=4, summary="median-drop-first", order="paper")))
    assert plain.paper == PaperTable()
    assert plain.comparisons == analysis.comparisons
    assert analysis.in_paper_order
    assert not plain.in_paper_order
    rows = {(one.platform, one.task.label): one for one in analysis.paper.rows}
    assert len(rows) == len(analysis.cells)
    task = next(task for task in analysis.tasks if task.workload == "forkwait")
    values = {
        platform: [one.value for one in sorted(analysis.cells[platform, task].observations, key=lambda one: one.block)]
        for platform in ("native", "netns")
    }
    own, base = (sorted(values[platform][1:])[1] for platform in ("netns", "native"))
    assert rows["netns", task.label].summary.centre == own
    assert rows["netns", task.label].share == pytest.approx(base / own)
    assert rows["native", task.label].share == 1
    assert 0.7 < (rows["netns", "IPv4 forwarding 68 B"].share or 0) < 0.95  # a cost of 1.18, and higher is better
    assert analyse(run_data(Truth(REALISTIC, summary="of a later Virtoll"))).paper == PaperTable()


def test_two_values_have_a_deviation() -> None:
    assert summary("mean-sd", [1.0, 3.0]) == PaperSummary(2, 2 - 2**0.5, 2 + 2**0.5, 2)


def cells(own: Task, point: ScalePoint | None = None, **values: tuple[float, ...]) -> dict[PaperCell, CellSummary]:
    """A value a block, in the order measured, which is not that of the trials' numbers."""
    return {
        (platform, own, point): summarise(
            [Observation(own, platform, 9 - place, place, place, value) for place, value in enumerate(found)][::-1]
        )
        for platform, found in values.items()
    }


def test_shares_are_by_the_baselines_centre_whichever_way_is_better() -> None:
    """The first value of each is left out: of times 4 and of rates 8 is the baseline's centre."""
    method = PAPER_METHODS["median-drop-first"]
    both = cells(JOB, base=(9, 3, 4, 5), p=(1, 0, 0.5, 16)) | cells(RATE, base=(9, 8), p=(1, 2, 4, 16), q=(7, 16))
    given: dict[str, typing.Any] = {"platforms": ("base", "p", "q"), "tasks": (JOB, RATE), "unavailable": ()}
    table = paper_table(method, both, [], baseline="base", **given)
    assert table.rows == (
        PaperRow("base", JOB, PaperSummary(4, 3, 5, 3, 1), 1, 0.8, 4 / 3),
        PaperRow("p", JOB, PaperSummary(0.5, 0, 16, 3, 1), 8, 0.25, None),
        PaperRow("base", RATE, PaperSummary(8, 8, 8, 1, 1), 1, 1, 1),
        PaperRow("p", RATE, PaperSummary(4, 2, 16, 3, 1), 0.5, 0.25, 2),
        PaperRow("q", RATE, PaperSummary(16, 16, 16, 1, 1), 2, 2, 2),
    )
    assert table.drawn == ((RATE, None),), "the duration of a job that tells its rate is that rate once more"
    without = paper_table(method, both, [], baseline=None, **given)
    assert without.rows[1] == PaperRow("p", JOB, PaperSummary(0.5, 0, 16, 3, 1), None)
    single = paper_table(PAPER_METHODS["mean-sd"], cells(JOB, base=(4.0,), p=(8.0,)), [], baseline="base", **given)
    assert single.rows[1] == PaperRow("p", JOB, PaperSummary(8, None, None, 1), 0.5, None, None)
    assert single.drawn == ()


def test_a_cell_without_values_says_what_most_of_its_trials_came_to() -> None:
    trials = [
        job(1, None, status="invalid"),
        *(job(number, None, status="failed") for number in (2, 3)),
        *(job(number, None) for number in (4, 5, 6)),
        job(7, None, platform="q"),
        job(8, None, platform="gone", status="skipped"),
    ]
    table = paper_table(
        PAPER_METHODS["median-drop-first"],
        cells(JOB, base=(9,)),
        trials,
        platforms=("base", "p", "q", "r", "gone"),
        tasks=(JOB,),
        baseline="base",
        unavailable=("gone",),
    )
    assert {platform: why for (platform, *_), why in table.missing.items()} == {
        "base": "too few values",
        "p": "failed",
        "q": "not measured",
        "r": "not run",
        "gone": "not available",
    }
    assert (table.rows, table.drawn) == ((), ())


def test_several_guests_at_once_are_set_beside_the_baseline_with_as_many() -> None:
    """Of each number of guests the first repetition is dropped, and its share is of the baseline's at that number."""
    few, many = ScalePoint(guests=1, vcpus=1, memory_bytes=2**29), ScalePoint(guests=8, vcpus=1, memory_bytes=2**28)
    both = cells(JOB, few, base=(99, 3, 4, 5), p=(99, 6, 8, 7)) | cells(JOB, many, base=(1, 30, 10, 20))
    table = paper_table(
        PAPER_METHODS["median-drop-first"],
        both,
        [job(1, None, platform="p", status="failed").replace(scale=many)],
        platforms=("base", "p"),
        tasks=(JOB,),
        points=(few, many),
        baseline="base",
        unavailable=(),
    )
    assert table.rows == (
        PaperRow("base", JOB, PaperSummary(4, 3, 5, 3, 1), 1, 0.8, 4 / 3, point=few),
        PaperRow("p", JOB, PaperSummary(7, 6, 8, 3, 1), 4 / 7, 0.5, 4 / 6, point=few),
        PaperRow("base", JOB, PaperSummary(20, 10, 30, 3, 1), 1, 20 / 30, 2, point=many),
    )
    assert table.missing == {("p", JOB, many): "failed"}
