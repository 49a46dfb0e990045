"""Rounds in a whole run with models: warm-ups, three host entries, the size of jobs, and an end when all is decided."""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.experiments import FEW_POINTS, fake
from tests.support.facts import assert_facts, refused
from tests.support.model_runs import StopAfter, measured

from virtoll.errors import GuestCannot, GuestDied, UsageError
from virtoll.experiment.model import WorkloadChoice
from virtoll.pipeline import sizing
from virtoll.pipeline.execution import Look, resume
from virtoll.pipeline.progress import SilentProgress
from virtoll.report.build import load, load_analysis
from virtoll.report.headline import order_line
from virtoll.report.methods import methods_of
from virtoll.runfolder.records import LookRecord, SizingRun, duration_ns
from virtoll.runfolder.store import RunFolder
from virtoll.workloads.base import Bench
from virtoll.workloads.sweep import source_rate

PLATFORMS = [fake("model"), fake("model-again", seed=2), fake("dear", cost=2.0, seed=3)]
ASKED: dict[str, Any] = {
    "baseline": "model",
    "control": "model-again",
    "platforms": PLATFORMS,
    "workloads": [{"workload": "superpi", "digits": 1000}, FEW_POINTS],
    "blocks": 2,
    "rounds": 3,
}


def run(into: Path, progress: SilentProgress | None = None, look: Look | None = None, **changed: Any) -> RunFolder:
    return measured(experiments.parsed(**{**ASKED, **changed}), into, progress, look)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return run(tmp_path_factory.mktemp("rounds") / "run")


def test_every_trial_is_stored_with_its_round(folder: RunFolder) -> None:
    trials = folder.trials()
    assert {trial.status for trial in trials} == {"ok"}
    planned = [(p.trial, p.block, p.round, p.warm_up, p.platform) for p in folder.manifest.plan.trials]
    assert [(t.trial, t.block, t.round, t.warm_up, t.platform) for t in trials] == planned
    assert len(trials) == 2 * 2 * (3 + 3 * 4), "blocks, workloads; three warm-ups, and three rounds of four"


@pytest.mark.parametrize(
    ("order", "boots"),
    [("randomised", {(0, 1): 3, (0, 2): 3, (1, 1): 3, (1, 2): 3}), ("paper", {(0, 1): 3, (0, 2): 3})],
)
def test_each_workload_can_have_guests_of_its_own(
    tmp_path: Path, order: str, boots: dict[tuple[int, int], int]
) -> None:
    """By (block, attempt): each workload has boots of its own; in the paper's order one for all repetitions."""
    anew = run(tmp_path / "run", order=order, boot="each-workload")
    assert Counter((one.block, one.attempt) for one in anew.boots()) == boots
    assert {one.status for one in anew.boots()} == {"ok"}
    used: dict[str | None, set[str]] = {}
    for trial in anew.trials():
        assert trial.status == "ok", trial.reason
        used.setdefault(trial.boot, set()).add(trial.workload)
    assert set(used) == {one.boot for one in anew.boots()}
    assert all(len(workloads) == 1 for workloads in used.values()), used
    assert anew.manifest.experiment["boot"] == "each-workload"
    if order == "paper":
        assert_facts(order_line(load_analysis(anew.path)), "each workload", "booted")


def test_guests_live_for_a_block_by_default(folder: RunFolder) -> None:
    assert {one.attempt for one in folder.boots()} == {1}
    assert folder.manifest.experiment["boot"] == "block"


def test_an_interrupted_run_goes_on_in_guests_of_each_workloads_own(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"boot": "each-workload", "blocks": 1, "rounds": 1}
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", StopAfter(4), **asked)
    resume(tmp_path / "run", SilentProgress())
    whole = RunFolder.open(tmp_path / "run")
    assert [one.trial for one in whole.latest_trials()] == list(range(6))
    used = {(one.boot, one.workload) for one in whole.latest_trials()}
    assert len({boot for boot, _ in used}) == len(used), "a guest served two workloads"


def test_warm_ups_are_kept_and_in_no_summary(folder: RunFolder) -> None:
    """A sweep is warmed up by its first point."""
    warm = [trial for trial in folder.trials() if trial.warm_up]
    first = sorted(t.platform for t in warm if t.workload == "superpi" and t.block == 0)
    assert first == ["dear", "model", "model-again"]
    assert {len(trial.points or ()) for trial in warm if trial.workload == "forward"} == {1}
    data = load(folder.path)
    assert data.warm_ups == tuple(warm)
    analysis = load_analysis(folder.path)
    summarised = {seen.trial for cell in analysis.cells.values() for seen in cell.observations}
    assert summarised == {trial.trial for trial in folder.trials() if not trial.warm_up}
    counted = {name: sum(counts.values()) for name, counts in analysis.statuses.items()}
    assert counted == {"model": 24, "model-again": 12, "dear": 12}


def test_jobs_are_sized_on_the_host_and_equal_on_all_platforms(folder: RunFolder) -> None:
    """The host takes 200 ms for what all repeat; its runs say so, and the value of a trial is that of one repeat."""
    size, of_dear = folder.sizings()
    assert (size.workload, size.platform, size.boot, size.reason) == ("superpi", "model", "model/0", None)
    assert (of_dear.platform, of_dear.repeats) == ("dear", size.repeats)
    assert [one.repeats for one in of_dear.runs] == [1], "one repeat is too short, as on the host"
    took = [duration_ns(one.clock) for one in size.runs]
    assert size.runs[0].repeats == 1
    assert size.runs[-1].repeats == size.repeats > 1
    assert size.runs[-2].repeats == size.repeats
    assert all(nanoseconds is not None for nanoseconds in took)
    assert min(nanoseconds or 0 for nanoseconds in took[-2:]) >= 200_000_000
    repeats = {(t.workload, t.warm_up): t.repeats for t in folder.trials()}
    once = dict.fromkeys([("superpi", True), ("forward", True), ("forward", False)], 1)
    assert repeats == once | {("superpi", False): size.repeats}
    cells = load_analysis(folder.path).cells
    values = {platform: cell.median for (platform, task), cell in cells.items() if task.workload == "superpi"}
    assert values["model"] == pytest.approx(9e6, rel=0.1), "9000 ns a digit"
    assert values["dear"] == pytest.approx(18e6, rel=0.1)


@pytest.mark.parametrize(("cost", "fewer"), [(30.0, 1), (10.0, 3)])
def test_a_slow_guest_runs_a_job_as_often_as_takes_it_long_enough(tmp_path: Path, cost: float, fewer: int) -> None:
    """The host needs many repeats for 200 ms; the slow guest takes that long for one or three."""
    folder = run(tmp_path / "run", platforms=[*PLATFORMS[:2], fake("slow", cost=cost, seed=3)], blocks=1)
    host, slow = folder.sizings()
    assert host.repeats > 3
    assert (slow.platform, slow.repeats, [one.repeats for one in slow.runs]) == ("slow", fewer, [1, 1])
    repeats = {(t.platform, t.repeats) for t in folder.trials() if t.workload == "superpi" and not t.warm_up}
    assert repeats == {("model", host.repeats), ("model-again", host.repeats), ("slow", fewer)}
    cells = load_analysis(folder.path).cells
    values = {platform: cell.median for (platform, task), cell in cells.items() if task.workload == "superpi"}
    assert values["slow"] == pytest.approx(cost * values["model"], rel=0.1)


def test_a_job_that_is_long_enough_runs_once(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", workloads=[{"workload": "superpi", "digits": 100_000}], blocks=1)
    assert [(one.repeats, len(one.runs)) for one in folder.sizings()] == [(1, 2)]


@pytest.mark.parametrize("changed", [{"rounds": 1}, {"order": "paper"}], ids=["one round", "order of a paper"])
def test_what_runs_as_its_parameters_say_is_not_sized(tmp_path: Path, changed: dict[str, Any]) -> None:
    folder = run(tmp_path / "run", **changed)
    assert folder.sizings() == ()
    assert {(trial.repeats, trial.round, trial.warm_up) for trial in folder.trials()} == {(1, 0, False)}


def test_a_host_that_cannot_be_asked_leaves_the_jobs_as_they_are(tmp_path: Path) -> None:
    """The reason is stored; the other platforms are measured all the same."""
    broken = [fake("model", failure="loses-marks"), *PLATFORMS[1:]]
    folder = run(tmp_path / "run", platforms=broken, blocks=1)
    first, second = folder.sizings()
    assert first == second
    assert first.boot == "model/0", "it is well: only what it took is not known"
    assert (first.repeats, first.reason is not None and "mark" in first.reason) == (1, True)
    assert {t.repeats for t in folder.trials()} == {1}
    assert {t.status for t in folder.trials() if t.platform == "dear"} == {"ok"}


def test_a_size_that_could_not_be_found_is_looked_for_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One moment in which the host failed does not leave the job short in all blocks; both attempts are stored."""
    # The private seam: elsewhere a run for a job's size looks like a trial.
    measure, failures = sizing._run, iter([GuestDied("model/0: killed once")])

    def fails_once(choice: WorkloadChoice, bench: Bench, repeats: int) -> SizingRun:
        for failure in failures:
            raise failure
        return measure(choice, bench, repeats)

    monkeypatch.setattr(sizing, "_run", fails_once)
    folder = run(tmp_path / "run", blocks=1)
    failed, found, of_dear = folder.sizings()
    assert of_dear.platform == "dear"
    assert (failed.repeats, failed.boot) == (1, "model/0")
    assert_facts(failed.reason or "", "model/0", "killed once")
    assert (found.boot, found.reason) == ("model/0/2", None)
    trials = [trial for trial in folder.trials() if trial.workload == "superpi" and not trial.warm_up]
    assert {trial.repeats for trial in trials} == {found.repeats} != {1}
    assert {trial.status for trial in trials} == {"ok"}


def test_a_host_that_cannot_do_it_is_well_and_is_not_ended_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its trials then say so themselves, each in the same words."""

    def cannot(*_: object) -> SizingRun:
        raise GuestCannot("no shell")

    monkeypatch.setattr(sizing, "_run", cannot)
    folder = run(tmp_path / "run", blocks=1)
    assert {(one.boot, one.reason) for one in folder.sizings()} == {("model/0", "no shell")}
    assert [boot.boot for boot in folder.boots() if boot.platform == "model"] == ["model/0"]


def test_a_run_for_its_size_whose_mark_was_held_up_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host is well, so that it goes on as it is: one attempt, and no run of a duration that is not known."""
    measure, runs = sizing._run, itertools.count()  # as above

    def held_up_twice(choice: WorkloadChoice, bench: Bench, repeats: int) -> SizingRun:
        if next(runs) in (0, 2):
            # What a run for a job's size raises where nothing is known of it; nobody else sees it.
            raise sizing._NotMeasuredError("both marks of the job reached the timekeeper at once")
        return measure(choice, bench, repeats)

    monkeypatch.setattr(sizing, "_run", held_up_twice)
    folder = run(tmp_path / "run", blocks=1)
    found, of_dear = folder.sizings()
    assert (found.boot, found.reason) == ("model/0", None)
    assert found.runs[-1].repeats == found.runs[-2].repeats == found.repeats > 1
    assert next(runs) == len(found.runs) + 2 + len(of_dear.runs)
    assert {trial.status for trial in folder.trials()} == {"ok"}


def test_a_resumed_run_goes_on_with_the_sizes_that_it_has(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", StopAfter(20))
    before = RunFolder.open(tmp_path / "run").sizings()
    resume(tmp_path / "run", SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    assert folder.sizings()[: len(before)] == before
    assert [one.platform for one in folder.sizings()] == ["model", "dear"]
    assert {t.repeats for t in folder.trials() if t.workload == "superpi" and not t.warm_up} == {before[0].repeats}


UNTIL = {"least": 3, "most": 8, "until": "decided"}
LEVELS = {3: 0.02, 5: 0.01, 7: 0.01}


class Looks:
    """Says after so many blocks that all is decided; ``seen``: the blocks that it was asked after."""

    def __init__(self, decided_after: int) -> None:
        self.decided_after = decided_after
        self.seen: list[int] = []

    def __call__(self, folder: RunFolder, blocks: int) -> LookRecord:
        self.seen.append(blocks)
        assert {trial.block for trial in folder.trials()} == set(range(blocks))
        assert blocks in LEVELS
        undecided = () if blocks >= self.decided_after else ("dear, superpi",)
        return LookRecord(blocks, LEVELS[blocks], undecided, ended=not undecided)


def test_a_run_ends_at_the_look_that_finds_all_decided(tmp_path: Path) -> None:
    looks = Looks(decided_after=5)
    folder = run(tmp_path / "run", look=looks, blocks=UNTIL, rounds=1)
    assert looks.seen == [3, 5]
    assert [(one.blocks, one.ended) for one in folder.looks()] == [(3, False), (5, True)]
    assert {trial.block for trial in folder.trials()} == {0, 1, 2, 3, 4}
    assert folder.state().state == "complete"
    assert folder.manifest.experiment["looks"] == [[3, 0.02], [5, 0.01], [7, 0.01], [8, 0.01]]
    statuses = load_analysis(folder.path).statuses["dear"]
    assert {status: count for status, count in statuses.items() if count} == {"ok": 10}
    again = Looks(decided_after=5)
    resume(folder.path, SilentProgress(), again)
    assert again.seen == [], "a look is taken once"
    assert {trial.block for trial in RunFolder.open(folder.path).trials()} == {0, 1, 2, 3, 4}


def test_a_run_that_is_never_decided_ends_with_its_last_block(tmp_path: Path) -> None:
    looks = Looks(decided_after=99)
    folder = run(tmp_path / "run", look=looks, blocks=UNTIL, rounds=1)
    assert looks.seen == [3, 5, 7]
    assert {trial.block for trial in folder.trials()} == set(range(8))


def test_a_run_that_is_not_run_until_decided_is_not_looked_at(tmp_path: Path) -> None:
    looks = Looks(decided_after=1)
    run(tmp_path / "run", look=looks, blocks=4, rounds=1)
    assert looks.seen == []


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"blocks": {"least": 5, "most": 4, "until": "decided"}}, ["'blocks'", 5, 4]),
        ({"blocks": {"least": 3}}, ["missing", "'blocks.until'"]),
        ({"blocks": {"until": "bored"}}, ["'blocks.until'"]),
        ({"blocks": {"until": "decided"}, "order": "paper"}, ["'blocks.until'", "paper"]),
    ],
    ids=["turned round", "no until", "another word", "order of a paper"],
)
def test_what_cannot_be_run_until_decided_is_refused(changed: dict[str, Any], facts: list[Any]) -> None:
    with refused(*facts, error=UsageError):
        experiments.parsed(**{**ASKED, **changed})


def test_later_rounds_from_flat_out_measure_the_best_point_alone(tmp_path: Path) -> None:
    """The CPU time of a frame is of whole trials, and no trial lacks a value."""
    folder = run(tmp_path / "run", workloads=[{**FEW_POINTS, "cpu_milliseconds": 10}])
    rounds = [trial for trial in folder.trials() if not trial.warm_up]
    first = {(trial.platform, trial.block): trial for trial in rounds if not trial.shortened}
    assert {trial.round for trial in first.values()} == {0}
    later = [trial for trial in rounds if trial.shortened]
    assert {trial.round for trial in later} == {1, 2}
    for trial in later:
        whole = first[trial.platform, trial.block].points or ()
        best = max(whole, key=source_rate).intended_rate_frames_per_second
        assert [point.intended_rate_frames_per_second for point in trial.points or ()] == [best]
        assert trial.cpu_points is None
    analysis = load_analysis(folder.path)
    (rate,) = (task for task in analysis.tasks if task.metric.primary)
    assert len(analysis.cells["model", rate].observations) == 2 * 3 * 2, "blocks, rounds, entries"
    assert not analysis.gaps
    assert_facts(methods_of(analysis).markdown(), "flat out", "later rounds", "first round")
