"""What the instrument costs: it is read around every trial, an injected load shows, and old records say nothing."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.experiments import fake
from tests.support.facts import assert_facts, refused
from tests.support.model_runs import measured

from virtoll.agent.operations.counters import CountersRequest
from virtoll.agent.operations.jobs import RunRequest
from virtoll.agent.request import Request
from virtoll.errors import UsageError
from virtoll.pipeline.overhead import OverheadMeter
from virtoll.platforms.fake.driver import FakeAgent, FakePeer
from virtoll.report.build import load
from virtoll.report.headline import overhead_line
from virtoll.runfolder.record import Record
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import Analysis, RunData, analyse

BURNT_NS = 20_000_000
JOBS = [{"workload": "superpi", "digits": 1000}]


def run(into: Path, **changed: Any) -> RunData:
    changed = {"baseline": "model", "workloads": JOBS, "blocks": 2, **changed}
    return load(measured(experiments.parsed(**changed), into).path)


def burn() -> None:
    """CPU time of this process, whatever else runs."""
    until = time.process_time_ns() + BURNT_NS
    while time.process_time_ns() < until:
        pass


def test_a_controller_that_works_while_a_guest_is_measured_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CPU time that is burnt between request and answer is in the interval; what is burnt outside is not."""
    answer = FakeAgent.answer

    def busy(agent: FakeAgent, request: Request[Record]) -> Record:
        if isinstance(request, RunRequest):
            burn()
        return answer(agent, request)

    monkeypatch.setattr(FakeAgent, "answer", busy)
    data = run(tmp_path / "run", platforms=[fake("model")])
    costs = [trial.overhead for trial in data.trials]
    assert costs
    for cost in costs:
        assert cost is not None
        (measured,) = cost.measured
        assert measured.after.controller_cpu_ns - measured.before.controller_cpu_ns >= BURNT_NS
        assert cost.trial.before.monotonic_ns <= measured.before.monotonic_ns
        assert measured.after.monotonic_ns <= cost.trial.after.monotonic_ns
    analysis = analyse(data)
    assert analysis.overhead is not None
    # The model's answer takes no time, so the controller's share is what the burning had of its CPU.
    passed = [one.measured[0].after.monotonic_ns - one.measured[0].before.monotonic_ns for one in costs if one]
    assert analysis.overhead.largest_share >= BURNT_NS / min(passed)
    assert_facts(overhead_line(analysis), "controller", "%", "CPU")


def test_a_reading_knows_only_processes_that_are_there() -> None:
    """An agent that is gone has no CPU time, which is not zero."""
    found = OverheadMeter({"gone": 2**22 + 1}).read()
    assert found.agents_cpu_ns == {"gone": None}
    assert found.monotonic_ns > 0


def test_counters_can_be_switched_off_and_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both run in the same rounds. Without counters nobody is asked for any, and what they cost is found."""
    asked: list[str] = []
    for kind in (FakeAgent, FakePeer):
        answer = kind.answer

        def counting(agent: Any, request: Request[Record], answer: Any = answer) -> Record:
            if isinstance(request, CountersRequest) and request.interfaces != ("lo",):
                asked.append("counters")
                agent.world.wire.cost = 1.25  # what the counters cost
            return answer(agent, request)  # type: ignore[no-any-return]

        monkeypatch.setattr(kind, "answer", counting)
    forward = [{"workload": "forward", "frame_size_bytes": 64}]
    both = [fake("model", jitter=0.0), fake("bare", counters="none", jitter=0.0)]
    data = run(tmp_path / "run", platforms=both, workloads=forward, rounds=3, blocks=3)
    assert asked
    points = {
        label: [point for trial in data.trials if trial.platform == label for point in trial.points or ()]
        for label in ("model", "bare")
    }
    assert all(point.hops for point in points["model"])
    assert points["bare"]
    assert not any(point.hops or point.surroundings for point in points["bare"])
    assert {trial.overhead.counters for trial in data.trials if trial.platform == "bare" and trial.overhead} == {False}
    analysis = analyse(data)
    (effect,) = (one for one in analysis.overhead_effects if one.comparison.task.metric.primary)
    assert effect.platform == "model"
    assert effect.comparison.share == pytest.approx(1.25, rel=0.01)
    assert len(effect.comparison.pairs) == 3
    assert effect.comparison.interval is not None
    assert_facts(overhead_line(analysis), "counters", "model IP forwarding")

    asked.clear()
    run(tmp_path / "none", platforms=[fake("model", counters="none")], workloads=forward, blocks=1)
    assert asked == []


def test_old_records_have_no_cost_of_zero(tmp_path: Path) -> None:
    data = run(tmp_path / "run", platforms=[fake("model")])
    assert all(trial.overhead for trial in RunFolder.open(tmp_path / "run").trials())
    old = replace(data, trials=tuple(trial.replace(overhead=None) for trial in data.trials))
    analysis: Analysis = analyse(old)
    assert analysis.overhead is None
    assert overhead_line(analysis) == ""


def test_other_counters_than_all_or_none_are_refused() -> None:
    with refused("'platforms[1].counters'", "'some'", "all, none", error=UsageError):
        experiments.parsed(platforms=["native", {"platform": "netns", "counters": "some"}])
    allowed = experiments.parsed(platforms=["native", {"platform": "netns", "counters": "none"}])
    assert [one.label for one in allowed.platforms] == ["native", "netns-uncounted"]
