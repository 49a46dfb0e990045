"""Series of many runs by hand: which are made, in which families they are searched, and the numbers of a change."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.support.by_hand import task as task_of
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.change_points import fewest
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.history import History, Kind, RunOfHistory, Series, SeriesOf, history_of, run_of_history
from virtoll.stats.values import Task

DATA = run_data(Truth(REALISTIC, blocks=2))
JOB = task_of("job", "marks", {"n": 1}, name="time")
RATE = task_of("flow", "points", name="rate")
SIDE = replace(RATE, metric=RATE.metric.replace(name="side", primary=False))
COUNT, CHANGED = 16, 9


def of(kind: Kind = Kind.SHARE, platform: str = "p", task: Task = RATE) -> SeriesOf:
    return SeriesOf(kind, platform, task.workload, task.metric.name, task.metric.unit, task.parameters)


def run(
    values: Mapping[SeriesOf, float], titled: str = "", fitness: FitnessLevel = FitnessLevel.FIT, **host: Any
) -> RunOfHistory:
    """A run of these values; `titled`: what it calls its tasks."""
    tasks = {
        task.metric.name: replace(task, metric=task.metric.replace(title=titled or task.metric.title))
        for task in (JOB, RATE, SIDE)
    }
    manifest = DATA.manifest.replace(host={**DATA.manifest.host, **host})
    return RunOfHistory(manifest, dict(values), {one: tasks[one.metric] for one in values}, fitness)


def levels(low: float = 80.0, high: float = 160.0, changed: int = CHANGED, count: int = COUNT) -> list[float]:
    """So many values near `low`, and the rest near `high`: by turns at, 1 % above and 1 % below."""
    return [(low if place < changed else high) * (1.0, 1.01, 1 / 1.01)[place % 3] for place in range(count)]


def history(series: Mapping[SeriesOf, Sequence[float | None]], level: float = 0.05) -> History:
    """Runs in which a series has a value or none."""
    count = max(map(len, series.values()))
    rows = [{one: own[place] for one, own in series.items() if own[place] is not None} for place in range(count)]
    return history_of([run({key: value for key, value in row.items() if value is not None}) for row in rows], level)


def only(found: History) -> Series:
    (one,) = found.series
    return one


@pytest.mark.parametrize(
    ("series", "factor"),
    [(of(), 2.0), (of(Kind.OWN), 2.0), (of(Kind.OWN, task=JOB), 0.5), (of(task=JOB), 2.0)],
)
def test_a_change_is_told_as_performance(series: SeriesOf, factor: float) -> None:
    """A share and a rate that double are twice as fast, a duration that does half as fast; runs 3 and 12 have none."""
    values: list[float | None] = [*levels()]
    values[3:3], values[12:12] = [None], [None]
    found = only(history({series: values}))
    assert found.runs == (0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17)
    assert found.values == tuple(levels())
    assert found.changes is not None
    (told,) = found.changes
    assert (told.before, told.after, told.earliest, told.latest) == (9, 10, 9, 10)
    assert told.factor == pytest.approx(factor)
    # Of 63 differences 6 are 2 % below that and 15 1 %; the twelfth: floor(31.5 - 1.96 sqrt(63 x 17 / 12)).
    assert told.low == pytest.approx(factor / 1.01, rel=1e-6)
    assert told.high == pytest.approx(factor * 1.01, rel=1e-6)
    assert 0 < told.p_adjusted <= 0.05
    assert [(one.first, one.last) for one in found.stretches] == [(0, 9), (10, 17)]
    assert [one.level for one in found.stretches] == pytest.approx([80, 160])
    assert found.correlation is not None
    assert (found.of, found.alike, found.needed) == (series, False, 11)


def test_ends_of_what_is_possible_are_runs_of_the_history() -> None:
    """The seventh to ninth of sixteen values are halfway: the change may be anywhere about them."""
    logs = [0.0, 0.1, -0.1, 0.1, -0.1, 0.0, 0.5, 0.4, 0.6, 1.0, 1.1, 0.9, 1.1, 0.9, 1.0, 1.0]
    values: list[float | None] = [None, *(math.exp(one) for one in logs)]
    found = only(history({of(): values}))
    assert found.changes is not None
    (told,) = found.changes
    assert told.earliest <= told.before < told.after <= told.latest
    assert (told.earliest, told.latest) == (6, 10)


def test_too_few_values_are_one_stretch_and_no_change() -> None:
    found = only(history({of(): levels(count=10)}))
    assert (found.changes, found.correlation, found.alike, found.needed) == (None, None, False, 11)
    (stretch,) = found.stretches
    assert (stretch.first, stretch.last, stretch.level) == (0, 9, statistics.median(found.values))


def test_kinds_and_primary_metrics_are_families_of_their_own() -> None:
    """Of thirty series 14 values are needed, of one 11 (the smallest in which an order is rare enough)."""
    shares = {of(platform=f"p{number}"): levels() for number in range(30)}
    others = {of(Kind.OWN): levels(), of(task=SIDE): levels(), of(Kind.OWN, task=SIDE): levels()}
    found = history({**shares, **others})
    assert [one.needed for one in found.series] == [fewest(30)] * 30 + [11] * 3
    assert fewest(30) == 14
    assert [one.of for one in found.series] == [*shares, *others]
    assert [one.of for one in found.shares] == [*shares, of(task=SIDE)]
    assert found.level == 0.05
    rare = history({of(): levels()}, level=0.001)
    assert (rare.level, only(rare).needed) == (0.001, fewest(1, 0.001))
    assert fewest(1, 0.001) > 11
    assert [one.p_adjusted <= 0.001 for one in only(rare).changes or ()] == [True]


def test_series_are_in_the_order_of_the_newest_run_and_named_as_in_it() -> None:
    old = run({of(platform="gone"): 1.0, of(platform="b"): 1.0, of(platform="a"): 1.0}, "old words")
    new = run({of(platform="a"): 1.0, of(platform="b"): 1.0}, "new words")
    found = history_of([old, new])
    assert [(one.of.platform, one.task.metric.title) for one in found.series] == [
        ("a", "new words"),
        ("b", "new words"),
        ("gone", "old words"),
    ]
    assert found.runs == (old, new)


def test_what_is_slower_since_its_last_change_is_a_share() -> None:
    undone = [*levels(160, 80), *levels(160, 160)]
    found = history(
        {
            of(platform="slower"): [*levels(160, 160), *levels(160, 80)],
            of(platform="faster"): [*levels(80, 80), *levels(80, 160)],
            of(platform="undone"): undone,
            of(platform="same"): [*levels(80, 80), *levels(80, 80)],
            of(Kind.OWN, "slower"): [*levels(160, 160), *levels(160, 80)],
        }
    )
    assert [one.of.platform for one in found.slower_since] == ["slower"]
    assert [len(one.changes or ()) for one in found.series] == [1, 1, 2, 0, 1]


def test_what_the_manifests_say_is_told_where_the_change_may_be() -> None:
    kernels = ["6.1", "6.1", "6.2", "6.2", "6.3", "6.4"]
    found = history_of([run({of(): 1.0}, kernel=kernel) for kernel in kernels])
    assert [(step.after, step.changes[0].before, step.changes[0].after) for step in found.steps] == [
        (2, "6.1", "6.2"),
        (4, "6.2", "6.3"),
        (5, "6.3", "6.4"),
    ]
    told = (only(history({of(): levels()})).changes or ())[0]
    between = {(2, 4): [4], (1, 4): [2, 4], (2, 3): [], (4, 5): [5], (0, 5): [2, 4, 5]}
    for (earliest, latest), places in between.items():
        own = found.steps_of(replace(told, earliest=earliest, latest=latest))
        assert [step.after for step in own] == places, (earliest, latest)
    assert found.runs[0].name == DATA.manifest.run


def test_a_run_of_these_platforms_and_workloads() -> None:
    whole = run({of(): 1.0, of(platform="q"): 2.0, of(Kind.OWN, task=JOB): 3.0})
    for platforms, workloads, kept in (
        ((), (), [1, 2, 3]),
        (("p",), (), [1, 3]),
        ((), ("flow",), [1, 2]),
        (("p", "q"), ("job",), [3]),
        (("none",), (), []),
    ):
        own = whole.of_these(platforms, workloads)
        assert list(own.values.values()) == kept
        assert own.tasks == {key: whole.tasks[key] for key in own.values}
        assert own.manifest is whole.manifest


@pytest.fixture(scope="module")
def analysis() -> Analysis:
    return analyse(DATA)


def test_a_history_takes_shares_and_medians_without_control_and_caveats(analysis: Analysis) -> None:
    """Of a run with a caveat on one platform, and a share and a median of nothing."""
    compared = {one.platform: one for one in analysis.comparisons}
    task = compared["runc"].task
    cells = {("native", task): analysis.cells["native", task], ("native-again", task): analysis.cells["native", task]}
    cells |= {(label, task): replace(analysis.cells["native", task], median=7.0) for label in ("runc", "netns", "odd")}
    cells["odd", task] = replace(cells["odd", task], median=0.5)
    cells["zero", task] = replace(cells["odd", task], median=0.0)
    given: list[Comparison] = [
        replace(compared["runc"], task=task, share=0.5, caveat=None, verdict=Verdict.SLOWER),
        replace(compared["runc"], platform="netns", task=task, share=0.7, caveat="emulated"),
        replace(compared["runc"], platform="odd", task=task, share=None, caveat=None),
        replace(compared["runc"], platform="zero", task=task, share=0.0, caveat=None),
    ]
    told = replace(analysis, comparisons=tuple(given), cells=cells, caveats={"netns": "emulated"})
    found = run_of_history(told)
    assert found.values == {
        SeriesOf.named(Kind.SHARE, "runc", task): 0.5,
        SeriesOf.named(Kind.OWN, "native", task): analysis.cells["native", task].median,
        SeriesOf.named(Kind.OWN, "runc", task): 7.0,
        SeriesOf.named(Kind.OWN, "odd", task): 0.5,
    }
    assert found.tasks == dict.fromkeys(found.values, task)
    assert found.manifest is analysis.data.manifest
    assert SeriesOf.named(Kind.SHARE, "runc", task) == of(Kind.SHARE, "runc", task)


@pytest.mark.parametrize(
    ("unfit", "doubted"),
    [
        ((), False),
        ((0, 1), False),
        (range(5), True),
        (range(9, 16), True),
        ((9, 10, 11), False),
        ((9, 10, 11, 12), True),
    ],
)
def test_a_change_between_runs_of_an_unfit_host_is_doubted(unfit: Sequence[int], doubted: bool) -> None:
    """Nine runs before the change and seven after it."""
    rows = [
        run({of(): value}, fitness=FitnessLevel.UNFIT if place in unfit else FitnessLevel.DEGRADED)
        for place, value in enumerate(levels(160.0, 80.0))
    ]
    found = history_of(rows)
    (series,) = found.slower_since
    assert found.is_by_unfit_runs(series) is doubted


def test_a_host_that_became_unfit_is_among_what_changed() -> None:
    order = [FitnessLevel.FIT, FitnessLevel.DEGRADED, FitnessLevel.UNFIT, FitnessLevel.UNFIT, FitnessLevel.FIT]
    found = history_of([run({of(): 1.0}, fitness=level) for level in order])
    steps = {step.after: [(change.before, change.after) for change in step.changes] for step in found.steps}
    assert steps == {2: [("degraded", "unfit")], 4: [("unfit", "fit")]}
