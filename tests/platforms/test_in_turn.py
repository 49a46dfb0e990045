"""Real guests that take turns: all of a round at once, each with its own books and way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.support.facts import assert_facts
from tests.support.guests import STARVED, right_or_disturbed
from tests.support.real_run import measure_experiment

from virtoll.report.build import load_analysis
from virtoll.report.methods import methods_of
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.stats.hops import locate
from virtoll.stats.values import forwarded_rate

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(600)]
PLATFORMS = ["native", "native-again", "netns", "qemu-tcg"]
FORWARD: dict[str, Any] = {
    "workload": "forward",
    "frame_size_bytes": 64,
    "sweep": "from-flat-out",
    "first_rate_frames_per_second": 1000,
    "rate_factor": 4,
    "point_milliseconds": 50,
    "cpu_milliseconds": 0,
}


def measured(folder: Path, **changed: Any) -> RunFolder:
    """One block of three rounds."""
    run = measure_experiment(
        folder,
        platforms=PLATFORMS,
        baseline="native",
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        rounds=3,
        workloads=[{**FORWARD, **changed}],
    )
    assert [(one.platform, one.reason) for one in run.trials() if not right_or_disturbed(one)] == []
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return measured(tmp_path_factory.mktemp("turns"))


@pytest.fixture(scope="module")
def trials(run: RunFolder) -> tuple[TrialRecord, ...]:
    return run.trials()


def in_turn(trials: Sequence[TrialRecord]) -> list[TrialRecord]:
    return [trial for trial in trials if any(point.in_turn for point in trial.points or ())]


def test_guests_of_later_rounds_take_turns(trials: Sequence[TrialRecord]) -> None:
    if any(STARVED in (trial.reason or "") for trial in trials if not trial.shortened):
        pytest.skip("a first round was disturbed, so that its guest had to be measured whole again")
    together = in_turn(trials)
    assert together
    assert all(trial.shortened and trial.round for trial in together)
    for number, of_round in groupby(sorted(together, key=lambda trial: trial.round), lambda trial: trial.round):
        points = [(trial.platform, point) for trial in of_round for point in trial.points or ()]
        assert set(Counter(platform for platform, _ in points).values()) == {1}, number
        assert {point.in_turn.guests for _, point in points if point.in_turn} == {len(points)}
    assert not [trial for trial in together if trial.platform == "qemu-tcg"], "overload does it harm"


def test_the_methods_say_so(run: RunFolder, trials: Sequence[TrialRecord]) -> None:
    guests = {point.in_turn.guests for trial in in_turn(trials) for point in trial.points or () if point.in_turn}
    assert_facts(methods_of(load_analysis(run.path)).markdown(), max(guests), "took turns", "25 ms", "3 ms")


def test_each_has_its_own_books_and_way(trials: Sequence[TrialRecord]) -> None:
    ways: dict[str, set[str | None]] = {}
    for trial in in_turn(trials):
        (point,) = trial.points or ()
        (source,), (arrived,) = point.sources, point.sink.per_source
        assert source.offered_frames + source.unsent_frames == source.intended_frames
        assert arrived.forwarded_frames + arrived.lost_frames == source.offered_frames
        assert sum(loss.frames for loss in locate(point)) == arrived.lost_frames
        ways.setdefault(trial.platform, set()).add(point.hops[0].interface if point.hops else None)
        if trial.status == "ok":
            assert source.bursts_ns is not None
            assert source.bursts_ns >= point.duration_ns
            assert (forwarded_rate(point) or 0) > 0
    assert all(len(interfaces) == 1 for interfaces in ways.values())
    assert len(set().union(*ways.values())) == len(ways)


def test_bursts_are_alternate(trials: Sequence[TrialRecord]) -> None:
    """Between a guest's first frame and its last the others have theirs."""
    for trial in in_turn(trials):
        (point,) = trial.points or ()
        source = point.sources[0]
        if point.in_turn is None or source.first_sent_monotonic_ns is None or source.last_sent_monotonic_ns is None:
            continue
        over_ns = source.last_sent_monotonic_ns - source.first_sent_monotonic_ns
        turns = point.in_turn
        others_ns = (turns.bursts - 1) * (turns.guests - 1) * turns.burst_ns
        assert turns.bursts > 1
        assert over_ns >= others_ns + (turns.bursts - 1) * turns.burst_ns


def test_what_is_sent_by_packet_sockets_takes_no_turns(tmp_path: Path) -> None:
    alone = measured(tmp_path, backend="af-packet", first_rate_frames_per_second=4000).trials()
    assert in_turn(alone) == []
    assert any(trial.shortened for trial in alone)
