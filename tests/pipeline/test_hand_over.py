"""Each trial and each point of a run has a reading of how far its CPUs are from each other, before it and after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.agents import OperationAgent
from tests.support.facts import assert_facts
from tests.support.hand_overs import reading
from tests.support.real_run import measure_experiment

from virtoll.agent.operations.hand_over import HandOverReply, HandOverRequest
from virtoll.pipeline import session
from virtoll.pipeline.execution import measure
from virtoll.pipeline.progress import SilentProgress
from virtoll.platforms.fake.site import model_site
from virtoll.runfolder.hand_over import HandOver, HandOverSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

FORWARD = {"workload": "forward", "sweep": "rates", "rates_mbit_per_second": [10, 20], "frame_size_bytes": 64}


class CountingAgent(OperationAgent):
    """Reads so long a round trip as it was asked before: each reading is another one."""

    def __init__(self) -> None:
        super().__init__(hand_over=self._read)

    def _read(self, request: HandOverRequest) -> HandOverReply:
        return HandOverReply(tuple(reading(len(self.asked), pair) for pair in request.pairs))


@pytest.fixture
def agent(monkeypatch: pytest.MonkeyPatch) -> CountingAgent:
    """On the host of the models, whose guests have two of its four CPUs."""
    made = CountingAgent()
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(session, "model_site", lambda: replace(model_site(), counters=made))
    return made


def run(folder: Path, **changed: Any) -> tuple[TrialRecord, ...]:
    """The trials of one block of a model."""
    defaults = {"platforms": [experiments.fake("model")], "baseline": "model", "control": None, "blocks": 1}
    experiment = experiments.parsed(**{**defaults, "guest": {"vcpus": 2}, **changed})
    measure(experiment, folder / "run", ["run"], SilentProgress())
    return RunFolder.open(folder / "run").trials()


def times(span: HandOverSpan | None) -> tuple[float | None, float | None]:
    """Before and after."""
    assert span is not None
    return span.before_ns, span.after_ns


@pytest.mark.usefixtures("agent")
def test_a_trials_readings_enclose_those_of_its_points(tmp_path: Path) -> None:
    for trial in run(tmp_path, workloads=[FORWARD, "superpi"]):
        assert (trial.status, trial.reason) == ("ok", None)
        points = [*(trial.points or ()), *(trial.cpu_points or ())]
        first, last = times(trial.hand_over)
        assert first is not None
        order = [first]
        for point in points:
            order += filter(None, times(point.hand_over))
        assert [*order, last] == [first + number for number in range(2 * len(points) + 2)]
        assert trial.hand_over is not None
        assert {each.cpus for each in trial.hand_over.before} == {(0, 1)}, "the guest's, of this model"


@pytest.mark.usefixtures("agent")
def test_guests_at_once_are_read_once_for_all(tmp_path: Path) -> None:
    asked = {"guests": [2], "vcpus": [1], "affinity": "apart"}
    (trial, *_) = run(tmp_path, workloads=["superpi"], scenario="scale", scale=asked, guest=None)
    assert len(trial.members) == 2
    assert trial.hand_over is not None
    assert [each.cpus for each in trial.hand_over.before] == [(0, 1)]
    assert len(trial.hand_over.after) == 1


def test_a_guest_on_one_cpu_has_the_reason(agent: CountingAgent, tmp_path: Path) -> None:
    for trial in run(tmp_path, guest={"vcpus": 1}):
        assert trial.hand_over is not None
        assert (trial.hand_over.before, trial.hand_over.after) == ((), ())
        assert_facts(str(trial.hand_over.reason), "two CPUs")
    assert agent.asked == []


def test_a_model_without_a_host_is_not_read(tmp_path: Path) -> None:
    assert {trial.hand_over for trial in run(tmp_path)} == {None}


def assert_read(read: HandOver) -> None:
    """A reading, or a reason why there is none."""
    assert (read.round_trip_ns is None) == (read.reason is not None)
    assert len(set(read.cpus)) == 2


@pytest.mark.lab
def test_real_trials_and_points_are_read(tmp_path: Path) -> None:
    forward = {"workload": "forward", "point_milliseconds": 20, "cpu_milliseconds": 20, "frame_size_bytes": 64}
    folder = measure_experiment(tmp_path, platforms=["netns"], baseline="netns", workloads=[forward], control=None)
    spans = []
    for trial in folder.trials():
        spans += [trial.hand_over, *(point.hand_over for point in (*(trial.points or ()), *(trial.cpu_points or ())))]
    for calibration in folder.calibrations():
        spans += [point.hand_over for point in calibration.points]
    assert spans
    for span in spans:
        assert span is not None
        assert (len(span.before), len(span.after), span.reason) == (1, 1, None)
        for read in (*span.before, *span.after):
            assert_read(read)
