"""Runs that lack CPUs: one CPU for all, and two runs at once. No point without its CPU is stored as a result."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.facts import missing_facts
from tests.support.playground import Playground, playground
from tests.support.real_run import measuring

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import CalibrationRecord, Point
from virtoll.workloads.starvation import LEAST_CPU_SHARE, cpu_share

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(900)]
FORWARD = {
    "workload": "forward",
    "sweep": "from-flat-out",
    "first_rate_frames_per_second": 1000,
    "point_milliseconds": 200,
    "cpu_milliseconds": 100,
}


@pytest.fixture
def place() -> Iterator[Playground]:
    with playground(root=True) as made:
        yield made


@pytest.fixture
def one_cpu() -> Iterator[None]:
    """What is started meanwhile may use the last CPU alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    yield
    os.sched_setaffinity(0, before)


def experiment(folder: Path, name: str) -> Path:
    return experiments.write(
        folder,
        name=name,
        platforms=["native", "netns"],
        baseline="native",
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        rounds=1,
        workloads=[FORWARD],
    )


def had_its_cpu(point: Point) -> bool:
    share = cpu_share(point)
    return share is None or share >= LEAST_CPU_SHARE


def assert_no_starved_result(path: Path) -> None:
    """Each trial and calibration had its CPUs at every point, or is no result and says that it had not."""
    folder = RunFolder.open(path)
    records: list[TrialRecord | CalibrationRecord] = [*folder.trials(), *folder.calibrations()]
    assert len(folder.trials()) == 2
    for record in records:
        points = [*(record.points or ()), *(record.cpu_points or ())]
        if record.status == "ok":
            assert all(map(had_its_cpu, points)), record
        elif not all(map(had_its_cpu, points)):
            assert not missing_facts(record.reason or "", "CPU", "95%"), record.reason


@pytest.mark.usefixtures("one_cpu")
def test_a_run_on_one_cpu_stores_no_starved_result(place: Playground) -> None:
    arguments, folder = measuring(experiment(place.runs, "alone"))
    running = place.run(*arguments)
    assert running.process.returncode == 0, running.said
    assert_no_starved_result(folder)


def test_two_runs_at_once_store_no_starved_result(place: Playground) -> None:
    with ExitStack() as stack:
        begun = []
        for name in ("first", "second"):
            runs = place.runs / name
            runs.mkdir()
            arguments, folder = measuring(experiment(runs, name))
            begun.append((stack.enter_context(place.start(*arguments)), folder))
        for running, folder in begun:
            assert running.end() == 0, running.said
            assert_no_starved_result(folder)
