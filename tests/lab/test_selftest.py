"""``virtoll selftest`` on real guests: what a router inside them does is in the books, and a wrong book is caught."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.guests import STARVED
from tests.support.playground import playground

from virtoll.report import load_analysis
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import SinkCounts
from virtoll.selftest.checks import findings
from virtoll.selftest.findings import Outcome
from virtoll.stats.analysis import Analysis, RunData, analyse

pytestmark = [pytest.mark.lab, pytest.mark.root]


MOST_ATTEMPTS = 3


def was_starved(run: Path) -> bool:
    """Whether a busy host kept the generator of one of its trials off its CPU: what it lacks says nothing of faults."""
    trials = run / "trials.jsonl"
    return trials.exists() and STARVED in trials.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with playground(root=True) as place:
        for attempt in range(1, MOST_ATTEMPTS + 1):
            into = place.runs / f"selftest-{attempt}"
            tested = place.run("selftest", "--short", "--only", "path", "--only", "facts", "--json", "--into", into)
            if tested.process.returncode == 0 or attempt == MOST_ATTEMPTS or not was_starved(into):
                break
        assert tested.process.returncode == 0, tested.said
        assert '"found_all": true' in tested.said
        yield into


def test_known_harm_and_other_guests_are_found(folder: Path) -> None:
    found = list(csv.DictReader(io.StringIO((folder / "selftest.csv").read_text())))
    assert {(one["check"], one["outcome"]) for one in found} == {("path", "found"), ("facts", "found")}
    dropped = [one for one in found if "dropped" in one["fault"]]
    assert len(dropped) == 2
    assert all(float(one["measured"]) > 0 for one in dropped)  # how many: a busy generator offers fewer frames


def harmed(data: RunData, label: str, change: Callable[[SinkCounts], SinkCounts]) -> Analysis:
    """The analysis of a run whose instrument had booked a platform's frames otherwise."""

    def wrong(trial: TrialRecord) -> TrialRecord:
        if trial.platform != label:
            return trial
        (first, *others) = trial.points or ()
        sink = first.sink.replace(per_source=tuple(change(one) for one in first.sink.per_source))
        return trial.replace(points=(first.replace(sink=sink), *others))

    return analyse(replace(data, trials=tuple(map(wrong, data.trials))))


@pytest.mark.parametrize(
    ("label", "fault", "change"),
    [
        ("right", "no loss", lambda one: one.replace(lost_frames=1)),
        # Not a fixed number: a busy generator offers fewer frames, of which that could be the tenth part.
        ("drop-10", "1 of 10 ", lambda one: one.replace(lost_frames=one.lost_frames - 4)),
        ("duplicate-100", "duplicated", lambda one: one.replace(duplicate_frames=0)),
        ("swap-100", "overtaken", lambda one: one.replace(reordered_frames=12)),
        ("delay", "delay", lambda one: one.replace(delay_ns=None)),
        ("delay", "delay", lambda one: one.replace(delay_ns=one.delay_ns.replace(minimum=0))),
    ],
)
def test_an_instrument_with_wrong_books_misses(
    folder: Path, label: str, fault: str, change: Callable[[SinkCounts], SinkCounts]
) -> None:
    analysis = load_analysis(folder / "path")
    wrong = findings("path", harmed(analysis.data, label, change), short=True)
    assert [one.what for one in wrong if one.outcome is Outcome.MISSED and fault in one.what] != []
    assert sum(one.outcome is Outcome.MISSED for one in wrong) == 1


def test_an_instrument_that_takes_any_guest_misses(folder: Path) -> None:
    data = load_analysis(folder / "facts").data
    taken = replace(data, trials=tuple(one.replace(status="ok", reason=None) for one in data.trials))
    found = findings("facts", analyse(taken), short=True)
    assert {(bool(one.injected), one.outcome) for one in found} == {(False, Outcome.FOUND), (True, Outcome.MISSED)}
