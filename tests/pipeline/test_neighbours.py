"""Guests next to the measured one run, are recorded with what they did, and cost their own trials alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from tests.support import experiments
from tests.support.experiments import fake, neighbours
from tests.support.facts import Fact, assert_facts, missing_facts, refused
from tests.support.model_runs import killed_run, measured, run_with_neighbours

from virtoll.errors import GuestCannot
from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.selection import Selection
from virtoll.pipeline.execution import resume
from virtoll.pipeline.neighbours import Neighbours
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.report.build import load
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import analyse
from virtoll.stats.compare import Verdict

if TYPE_CHECKING:
    from virtoll.pipeline.live_guest import LiveGuest
    from virtoll.pipeline.session import RunSession

BESIDE_BAD = "light load, in bad"


class _Data:
    """A data directory in memory."""

    volume = SimpleNamespace(on_disk=False, file_system="tmpfs")


@pytest.mark.parametrize(
    ("data", "no_data", "facts"),
    [(None, "/full has no room", ["/full has no room"]), (_Data(), None, ["memory", "/var/tmp", "tmpfs"])],
)
def test_a_load_of_the_disk_that_would_be_in_memory_is_no_load(
    data: _Data | None, no_data: str | None, facts: list[str]
) -> None:
    """Else it would write to the guest's memory, and the disk would seem well isolated."""
    live = cast("LiveGuest", SimpleNamespace(data=data, no_data=no_data))
    beside = Neighbours(cast("RunSession", None), cast("RunFolder", None), SilentProgress())
    condition = Condition("disk")
    with refused(condition.load, "data directory", *facts, error=GuestCannot), beside.loaded((live,), condition):
        pass


def test_a_guest_beside_that_never_starts_is_tried_three_times_a_block(tmp_path: Path) -> None:
    """Like the measured one; the first of two is well, and is started anew each time."""
    folder = run_with_neighbours(
        tmp_path / "run",
        platforms=[fake("model"), fake("bad", failure="never-ready", failing_instance=2)],
        neighbours=[{"load": "light", "platform": "bad", "guests": 2}],
        blocks=1,
        rounds=4,
    )
    beside = [trial for trial in folder.trials() if trial.condition is not None]
    starts = [boot.status for boot in folder.boots() if boot.platform == "bad" and boot.instance == 2]
    assert starts.count("failed") == 3
    tried = [trial for trial in beside if not missing_facts(trial.reason or "", "guest 2 of 2")]
    assert all(re.search(r"beside-bad/0/\d", trial.reason or "") for trial in tried)
    given_up = [trial for trial in beside if not missing_facts(trial.reason or "", "3 times")]
    assert len(tried) == 3
    assert len(tried) + len(given_up) == len(beside)


def test_each_guest_beside_is_in_the_record_with_what_it_did(tmp_path: Path) -> None:
    folder = run_with_neighbours(
        tmp_path / "run",
        platforms=[fake("model"), fake("other")],
        neighbours=[
            "idle",
            {"load": "heavy", "guests": 2, "platform": "other"},
            {"load": "forward", "rate_share": [0.5, 0.95]},
        ],
        blocks=1,
    )
    trials = [trial for trial in folder.latest_trials() if trial.platform == "model"]
    assert all(trial.status == "ok" and not trial.neighbours for trial in trials if trial.condition is None)
    beside = {trial.condition: trial.neighbours for trial in trials if trial.condition is not None}
    boots = {boot.boot for boot in folder.boots()}
    assert all(one.boot in boots for own in beside.values() for one in own)
    assert [len(own) for own in beside.values()] == [one.guests for one in beside]
    idle, heavy = beside[Condition("idle")], beside[Condition("heavy", guests=2, platform="other")]
    assert [(one.platform, one.argv) for one in idle] == [("model", ())]
    assert {one.platform for one in heavy} == {"other"}
    assert all(one.argv[:2] == ("stress", "--cpu") and one.progress for one in heavy)
    for share in (0.5, 0.95):
        (one,) = beside[Condition("forward", rate_share=share)]
        assert one.traffic is not None
        assert one.maximum_frames_per_second is not None
        assert one.traffic.intended_rate_frames_per_second == pytest.approx(share * one.maximum_frames_per_second)
        (sent,), (arrived,) = one.traffic.sources, one.traffic.sink.per_source
        assert sent.offered_frames == arrived.forwarded_frames + arrived.lost_frames > 0
    maxima = [one for one in folder.maxima() if one.platform == "model"]
    assert len(maxima) == 1, "found more than once in a boot"
    assert maxima[0].frame_size_bytes == 68, "the smallest of Schlosser et al."
    assert maxima[0].maximum_frames_per_second == pytest.approx(
        max(
            sum(one.forwarded_frames for one in point.sink.per_source) * 1e9 / point.duration_ns
            for point in maxima[0].points
        )
    )


def test_a_platform_that_only_guests_beside_have_is_started_for_them(tmp_path: Path) -> None:
    """A filter leaves it without trials of its own; where it is not there, those beside it are skipped."""
    asked = neighbours(
        platforms=[fake("model"), fake("other"), fake("absent", failure="unavailable")],
        baseline="model",
        neighbours=[{"load": "idle", "platform": ["other", "absent"]}],
        blocks=1,
    )
    chosen = parse_experiment(experiments.text(**asked), experiments.FILE, catalogue(), Selection(platforms=("model",)))
    folder = measured(chosen, tmp_path / "run")
    reasons = {(one.condition and one.condition.platform, one.status): one.reason for one in folder.trials()}
    assert {one.platform for one in folder.trials()} == {"model"}
    assert set(reasons) == {(None, "ok"), ("other", "ok"), ("absent", "skipped")}
    assert_facts(reasons["absent", "skipped"] or "", "beside", "'failure: none'")


@pytest.mark.parametrize(
    ("failure", "status", "facts"),
    [
        ("load-ends", "invalid", [BESIDE_BAD, "stress"]),
        ("load-stands-still", "invalid", [BESIDE_BAD, "CPU time"]),
        ("dies-under-load", "failed", [BESIDE_BAD, "died"]),
        ("never-ready", "failed", [BESIDE_BAD, "beside-bad/0"]),
        ("too-small", "invalid", ["memory", "256 MiB", "1 MiB"]),
    ],
)
def test_a_guest_beside_that_fails_costs_its_own_trials_and_is_named(
    tmp_path: Path, failure: str, status: str, facts: list[Fact]
) -> None:
    """The measured guest is well: its other trials, and its own boot, go on."""
    folder = run_with_neighbours(
        tmp_path / "run",
        platforms=[fake("model"), fake("bad", failure=failure)],
        neighbours=["idle", {"load": "light", "platform": "bad"}],
        blocks=1,
        rounds=2,
    )
    own = [trial for trial in folder.latest_trials() if trial.platform == "model" and not trial.warm_up]
    beside_bad = [trial for trial in own if trial.condition == Condition("light", platform="bad")]
    assert Counter(trial.status for trial in own if trial not in beside_bad) == {"ok": 2 * 4}
    assert {trial.status for trial in beside_bad} == {status}
    for trial in beside_bad:
        assert_facts(trial.reason or "", *facts)
    assert [boot.status for boot in folder.boots() if boot.platform == "model" and boot.instance == 0] == ["ok"]
    if failure == "dies-under-load":
        assert all(trial.evidence for trial in beside_bad), "what the guest said last is lost"
    analysis = analyse(load(folder.path))
    why = [one.reason for one in analysis.isolation.comparisons if one.verdict is Verdict.NOT_MEASURED]
    assert any(not missing_facts(reason, *facts) for reason in why), why


def test_a_measured_guest_that_fails_leaves_no_load_behind(tmp_path: Path) -> None:
    """A load that went on would be in the next trial."""
    folder = run_with_neighbours(
        tmp_path / "run", platforms=[fake("model", failure="dies", dies_at_job=6, interference=9.0)], blocks=1, rounds=3
    )
    alone = [one for one in folder.latest_trials() if one.condition is None and one.status == "ok" and not one.warm_up]
    took = [one.clock.guest.user_cpu_ns for one in alone if one.clock and one.clock.guest]
    assert len(took) > 3
    assert max(took) < 2 * min(took), "it was loaded while it was alone"


def test_a_run_that_is_interrupted_goes_on_at_its_first_unfinished_trial(tmp_path: Path) -> None:
    asked = neighbours(platforms=[fake("model", interference=0.5)], neighbours=["idle", "light"], blocks=2)
    killed_run(tmp_path / "run", 7, **asked)
    resume(tmp_path / "run", SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    planned = [(one.trial, one.condition) for one in folder.manifest.plan.trials]
    assert [(one.trial, one.condition) for one in folder.latest_trials()] == planned
    assert Counter(one.trial for one in folder.trials()) == dict.fromkeys((number for number, _ in planned), 1)
