"""Of which programs a reader is warned: those that slept, and those without a rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.report.document import report_document
from virtoll.report.headline import programs_line
from virtoll.runfolder.records import FitnessRecord, GuestClock, Pressure, TrialRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.cautions import Caution
from virtoll.stats.idle_programs import program_cautions

SECOND_NS = 1_000_000_000


def programs(
    workload: str,
    *,
    took: float = 3.2,
    cpu: Sequence[float] = (0.1,),
    stalled: float | None = 0.0,
    figures: Sequence[dict[str, Any] | None] = (None,),
    is_program: bool = True,
) -> Analysis:
    """Native alone, by one trial of each `cpu` and `figures` in turn, s; `stalled`: the host for a disk meanwhile."""
    made = [Made("native", workload, value=took * SECOND_NS, spread=0.0)]
    data = made_up_run({"native": {}}, made, blocks=max(len(cpu), len(figures)))

    def trial(place: int, record: TrialRecord) -> TrialRecord:
        assert record.clock is not None
        begin, end = 1, 1 + round(took * SECOND_NS)
        guest = GuestClock(begin, end, begin, end, round(cpu[place % len(cpu)] * SECOND_NS), 0)
        result = {"argv": ["program"], "figures": figures[place % len(figures)]} if is_program else {}
        return record.replace(clock=record.clock.replace(guest=guest), result=result)

    def sample(place: int) -> FitnessRecord:
        pressure = None if stalled is None else Pressure(0, 0, round(place * stalled * 1e6))
        return data.fitness[0].replace(after_trial=place - 1 if place else None, pressure=pressure)

    trials = tuple(trial(place, record) for place, record in enumerate(data.trials))
    return analyse(replace(data, trials=trials, fitness=tuple(map(sample, range(len(trials) + 1)))))


def warned(analysis: Analysis) -> set[Caution]:
    data = analysis.data
    return {one.caution for one in program_cautions(analysis.tasks, data.trials, data.fitness)}


def test_a_program_that_waits_for_nothing_and_hardly_works_slept() -> None:
    analysis = programs("dd")
    assert warned(analysis) == {Caution.IDLE_PROGRAM}
    assert_facts(programs_line(analysis), "dd", "native", "sleeps", "three")
    (written,) = report_document(analysis, (), Path("run"), Path("page"), None)["cautions"]
    assert (written["caution"], written["concerns"].startswith("dd")) == (Caution.IDLE_PROGRAM.title, True)


@pytest.mark.parametrize(
    ("workload", "given"),
    [
        ("dd", {"cpu": [1.1]}),
        ("dd", {"stalled": 1.0}),
        ("dd", {"stalled": None}),
        ("dd", {"cpu": [0.1, 0.1, 1.1]}),
        ("tcp-stream", {}),
        ("kernel-compile", {}),
        ("superpi", {"is_program": False}),
    ],
    ids=["works", "a-disk", "not-read", "a-busy-host", "network", "application", "a-job-of-the-agent"],
)
def test_what_works_or_waits_is_none_that_sleeps(workload: str, given: dict[str, Any]) -> None:
    analysis = programs(workload, **given)
    assert warned(analysis) == set()
    assert programs_line(analysis) == ""


def test_a_program_that_reports_no_rate_in_any_trial_is_told() -> None:
    without, some = {"read_bytes_per_second": None}, {"read_bytes_per_second": 5.0}
    assert warned(programs("dd", cpu=[3.0], figures=[without, without])) == {Caution.NO_RATES}
    assert warned(programs("dd", cpu=[3.0], figures=[without, some])) == set()
    assert warned(programs("dd", cpu=[3.0], figures=[{"version": "2.00a"}])) == set(), "it reports none at all"
