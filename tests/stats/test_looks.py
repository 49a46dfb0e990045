"""Looks fixed in advance: their levels add up to 5 %, and a run ends where all that is primary is decided."""

from dataclasses import replace

import pytest
from tests.support.analyses import with_parts
from tests.support.facts import assert_facts, refused
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.looks import PLANNED, Looks
from virtoll.runfolder.records import LookRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.stats.isolation import ALONE_WORDS
from virtoll.stats.looks import decided, look, undecided


def test_the_planned_levels() -> None:
    assert sum(level for _, level in PLANNED.plan) == pytest.approx(0.05)
    assert [PLANNED.level_at(blocks) for blocks in (3, 5, 7, 9, 12)] == [0.02, 0.01, 0.01, 0.005, 0.005]
    assert [PLANNED.next_after(blocks) for blocks in (0, 3, 4, 11, 12, 20)] == [3, 5, 5, 12, None, None]


def test_between_two_looks_the_next_ones_level_counts() -> None:
    """An interrupted run has seen the look before and must not spend its level twice."""
    assert [PLANNED.level_at(blocks) for blocks in (2, 4, 8, 10, 13)] == [0.02, 0.01, 0.005, 0.005, 0.005]


@pytest.mark.parametrize(
    ("least", "most", "blocks"),
    [(3, 12, (3, 5, 7, 9, 12)), (5, 9, (5, 7, 9)), (4, 20, (4, 5, 7, 9, 12, 20)), (3, 3, (3,))],
)
def test_other_bounds_spend_five_percent_too(least: int, most: int, blocks: tuple[int, ...]) -> None:
    looks = Looks.between(least, most)
    assert tuple(at for at, _ in looks.plan) == blocks
    assert sum(level for _, level in looks.plan) == pytest.approx(0.05)
    assert all(level > 0 for _, level in looks.plan)


@pytest.mark.parametrize(("least", "most"), [(1, 5), (5, 4)])
def test_impossible_bounds_are_refused(least: int, most: int) -> None:
    with refused(least, most, error=ValueError):
        Looks.between(least, most)


def run(noise: float, blocks: int) -> Analysis:
    """A run whose manifest fixes the planned looks."""
    data = run_data(Truth(REALISTIC, blocks=blocks, noise=noise, rounds=3, frame_sizes=(68,)))
    experiment = data.manifest.experiment | {"looks": [list(look) for look in PLANNED.plan]}
    return analyse(replace(data, manifest=data.manifest.replace(experiment=experiment)))


def test_a_run_is_judged_at_the_level_of_its_last_look() -> None:
    assert [run(0.01, blocks).level for blocks in (3, 5, 9)] == [0.02, 0.01, 0.005]
    assert Looks.of({}) is None


def test_a_run_is_decided_when_nothing_primary_is_unknown() -> None:
    clear, noisy = run(0.005, 5), run(0.3, 3)
    assert decided(clear.comparisons)
    assert undecided(clear.comparisons) == []
    assert not decided(noisy.comparisons)
    assert {one.verdict for one in undecided(noisy.comparisons)} == {Verdict.UNKNOWN}
    assert not decided([])


def test_what_is_not_measured_or_not_primary_is_not_waited_for() -> None:
    known, *_ = run(0.005, 5).comparisons
    missing = replace(known, verdict=Verdict.NOT_MEASURED)
    second = replace(
        known, verdict=Verdict.UNKNOWN, task=replace(known.task, metric=known.task.metric.replace(primary=False))
    )
    assert decided([known, missing, second])
    assert not decided([missing, second])


def test_the_record_of_a_look_names_what_is_left() -> None:
    """In the words of each part of a run: alone, beside others, and several at once."""
    analysis = run(0.3, 3)
    left = undecided(analysis.comparisons)[0]
    decided_too = replace(left, platform="known", verdict=Verdict.ALIKE)
    beside = replace(left, platform="p", condition="a noisy neighbour", against=ALONE_WORDS)
    many = replace(left, platform="q", condition="4 guests", against="as many of the baseline's")
    analysis = with_parts(
        analysis,
        comparisons=(decided_too, left),
        isolation=replace(analysis.isolation, comparisons=(beside,)),
        at_once=replace(analysis.at_once, comparisons=(many,)),
    )
    found = look(analysis, 3)
    assert found == LookRecord(3, 0.02, found.undecided, ended=False)
    for told, facts in zip(
        found.undecided, ([left.platform], ["p", "a noisy neighbour"], ["q", "4 guests"]), strict=True
    ):
        assert_facts(told, left.task.label, *facts)
    known = with_parts(analysis, comparisons=(decided_too,), isolation=replace(analysis.isolation, comparisons=()))
    known = with_parts(known, at_once=replace(analysis.at_once, comparisons=()))
    assert look(known, 5) == LookRecord(5, 0.02, (), ended=True)
