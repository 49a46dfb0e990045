"""The same work in several guests at once, as models: asked for, planned, begun together, compared."""

from __future__ import annotations

import csv
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import fake
from tests.support.facts import assert_facts, refused
from tests.support.model_runs import killed_run, measured, run

from virtoll.agent import turns
from virtoll.errors import UsageError
from virtoll.pipeline import requirements
from virtoll.pipeline.execution import resume
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.pipeline.requirements import data_bytes, guests_at_once, memory_at_once, why_impossible
from virtoll.pipeline.scale import Barrier, GuestLost
from virtoll.pipeline.threads import at_once
from virtoll.platforms.fake.driver import FakeHost
from virtoll.report.build import build_report, load_analysis, look_at
from virtoll.runfolder.records import TrialRecord, start_skew_ns
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.store import RunFolder
from virtoll.stats import values
from virtoll.stats.compare import Verdict

pytestmark = pytest.mark.usefixtures("undrawn")
MIB = 2**20
JOB = [{"workload": "superpi", "digits": 131_072}]


def scale(guests: list[int] | None = None, **changed: Any) -> dict[str, Any]:
    """The keys of an experiment of several guests at once; ``guests``: how many."""
    return {"scenario": "scale", "scale": {"guests": guests or [1, 2]}, "workloads": JOB, **changed}


def test_each_number_of_guests_has_its_size() -> None:
    asked = {"guests": [1, 4], "vcpus": [1, 2], "memory": {1: "2039MiB", 4: "811MiB"}}
    found = experiments.parsed(**scale(scale=asked)).scale
    assert found is not None
    assert found.points == (
        ScalePoint(1, 1, 2039 * MIB),
        ScalePoint(1, 2, 2039 * MIB),
        ScalePoint(4, 1, 811 * MIB),
        ScalePoint(4, 2, 811 * MIB),
    )


def test_sizes_default_to_those_of_the_experiment() -> None:
    found = experiments.parsed(**scale([3], guest={"vcpus": 2, "memory": "128MiB"})).scale
    assert found is not None
    assert found.points == (ScalePoint(3, 2, 128 * MIB),)


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"scale": None}, ["'scale'", "guests"]),
        ({"scenario": None}, ["'scale'", "'scenario: scale'"]),
        ({"scale": {"guests": []}}, ["'scale.guests'"]),
        ({"scale": {"guests": [0]}}, ["'scale.guests[0]'"]),
        ({"scale": {"guests": [129]}}, ["'scale.guests[0]'"]),
        ({"scale": {"guests": [2, 2]}}, ["'guests'", "twice"]),
        ({"scale": {"guests": [1], "vcpus": [1, 1]}}, ["'vcpus'", "twice"]),
        ({"scale": {"guests": [1, 2], "memory": {1: "1GiB"}}}, ["'memory'", "2 guests"]),
        ({"scale": {"guests": [1], "memory": {1: "1MiB"}}}, ["'memory'", "64 MiB"]),
        ({"scale": {"guests": [1], "most": {"xen": 1}}}, ["'xen'", "native, netns"]),
        ({"scale": {"guests": [4], "most": {"netns": 2}}}, ["'scale.guests'", "netns"]),
        ({"scale": {"guests": [1], "pinned": True}}, ["'scale.pinned'", "guests"]),
        (
            {"platforms": ["native", {"platform": "qemu-kvm", "host": "nested:kvm"}]},
            ["this machine", "qemu-kvm-nested"],
        ),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        experiments.parsed(**scale(**changed))


def test_a_group_of_guests_has_its_trials_in_a_row() -> None:
    """In each block every platform comes once at every number that it is to have, with its rounds after a warm-up."""
    asked = scale(scale={"guests": [1, 2, 4], "most": {"netns": 2}}, blocks=3, rounds=2)
    experiment = experiments.parsed(**asked)
    plan = plan_of(experiment)
    assert plan == plan_of(experiment)
    assert [trial.number for trial in plan.trials] == list(range(len(plan.trials)))
    batches = plan.batches()
    found = Counter(
        (batch[0].block, batch[0].platform.label, batch[0].scale and batch[0].scale.guests) for batch in batches
    )
    cells = {("native", 1), ("native", 2), ("native", 4), ("netns", 1), ("netns", 2)}
    assert found == Counter((block, *cell) for block in range(3) for cell in cells)
    for batch in batches:
        assert [(trial.warm_up, trial.round) for trial in batch] == [(True, 0), (False, 0), (False, 1)]
    order = [[batch[0].platform.label for batch in batches if batch[0].block == block] for block in range(3)]
    assert len(set(map(tuple, order))) > 1, "always in the same order"


@pytest.mark.parametrize("boot", ["block", "each-workload"])
def test_in_a_papers_order_a_platform_has_all_its_numbers_in_a_row(boot: str) -> None:
    """Number after number, each workload's repetitions in a row, in guests that are started once for them."""
    asked = scale(scale={"guests": [4, 1], "most": {"netns": 1}}, blocks=3, rounds=2, order="paper", boot=boot)
    experiment = experiments.parsed(**{**asked, "workloads": [*JOB, {"workload": "forkwait", "processes": 500}]})
    plan = plan_of(experiment)
    cells = [
        (label, guests, workload)
        for label, guests in (("native", 4), ("native", 1), ("netns", 1))
        for workload in ("superpi", "forkwait")
    ]
    found = [
        (one.platform.label, one.scale and one.scale.guests, one.workload.workload, one.block) for one in plan.trials
    ]
    assert found == [(*cell, block) for cell in cells for block in range(3)]
    assert {(one.round, one.warm_up) for one in plan.trials} == {(0, False)}
    each = 1 if boot == "each-workload" else 2
    assert [len(batch) for batch in plan.batches()] == [3 * each] * (len(cells) // each)


def test_what_all_guests_take_is_added_up() -> None:
    workloads = [{"workload": "zfg", "size_bytes": MIB, "rounds": 1}]
    experiment = experiments.parsed(**scale([1, 8], workloads=workloads))
    plan = plan_of(experiment)
    one = data_bytes(plan_of(experiments.parsed(workloads=workloads, platforms=["native"])))
    assert memory_at_once(plan, experiment).total() == 8
    assert data_bytes(plan) == 8 * one > 0


def test_fewer_guests_may_take_more_memory_than_the_most() -> None:
    point = {"guests": [1, 8], "memory": {1: "1GiB", 8: "64MiB"}}
    experiment = experiments.parsed(**scale([1, 8]) | {"scale": point})
    plan = plan_of(experiment)
    sizes = memory_at_once(plan, experiment)
    assert sizes == {1024 * MIB: 1}
    assert guests_at_once(plan, sizes) == 8


def test_guests_beyond_the_hosts_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "available_bytes", lambda: 1536 * MIB)
    asked = scale([4, 5], guest={"memory": "256MiB"})
    experiment = experiments.parsed(**asked)
    reasons = {
        trial.scale and trial.scale.guests: why_impossible(trial, experiment) for trial in plan_of(experiment).trials
    }
    assert reasons[4] is None
    facts = ("5 guests", "256 MiB", "1.50 GiB", "4 guests", "512 MiB", "'guest.memory'", "'scale.overcommit: true'")
    assert_facts(reasons[5] or "", *facts)
    wished = experiments.parsed(**{**asked, "scale": {"guests": [5], "overcommit": True}})
    assert {why_impossible(trial, wished) for trial in plan_of(wished).trials} == {None}


def test_what_needs_the_generator_is_skipped_with_what_to_take_instead() -> None:
    experiment = experiments.parsed(**scale([2], workloads=[{"workload": "forward", "frame_size_bytes": 64}]))
    (reason,) = {why_impossible(trial, experiment) for trial in plan_of(experiment).trials}
    assert_facts(reason or "", "forward", "generator", "transmitters", "virtual-routers")


def test_a_size_names_whose_server_and_whose_client_it_is() -> None:
    both: list[dict[str, Any]] = [{"rows": 1000, "server": server} for server in ("own", "shared", "shared-database")]
    # Tasks of these sizes are made from records of a real database alone.
    assert [values._size(one, both) for one in both] == ["own server", "shared server", "shared database"]
    ends: list[dict[str, Any]] = [{"client": "guest", "peer_files": "memory"}, {"client": "peer", "peer_files": "disk"}]
    for one in ends:
        assert_facts(values._size(one, ends), f"client {one['client']}", f"peer files {one['peer_files']}")


MODELS = [fake("model", seed=1), fake("again", seed=2), fake("slow", seed=3, cost=2.0, host_cpus=2)]


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of 1, 2 and 8 guests at once."""
    into = tmp_path_factory.mktemp("scale") / "run"
    return run(into, platforms=MODELS, control="again", blocks=4, rounds=2, **scale([1, 2, 8]))


def test_cost_and_crowding_of_a_model_are_found(crowded: RunFolder) -> None:
    """Twice as slow, and two CPUs for all its guests: 2 times slower with one or two of them, 8 times with eight."""
    trials = crowded.latest_trials()
    assert {(one.status, one.reason) for one in trials} == {("ok", None)}
    assert all(one.scale is not None and len(one.members) == one.scale.guests for one in trials)
    assert all(one.clock is None and one.result is None for one in trials)
    assert all(len({member.boot for member in one.members}) == len(one.members) for one in trials)
    started = Counter(boot.scale.guests for boot in crowded.boots() if boot.scale is not None)
    assert started == {guests: len(MODELS) * 4 * guests for guests in (1, 2, 8)}, "guests of groups of that size"
    groups = crowded.groups()
    assert Counter(group.block for group in groups) == dict.fromkeys(range(4), len(MODELS) * 3)
    assert all((group.up_monotonic_ns or 0) >= group.began_monotonic_ns for group in groups)
    found = load_analysis(crowded.path).at_once
    (task,) = found.tasks
    shares = {}
    for point in found.points:
        slow, alike = found.comparison("slow", task, point), found.comparison("again", task, point)
        assert slow is not None
        assert slow.verdict is Verdict.SLOWER
        assert_facts(slow.against, point.label)
        shares[point.guests] = slow.share
        assert alike is not None
        assert alike.verdict is Verdict.ALIKE
    assert shares == pytest.approx({1: 1 / 2, 2: 1 / 2, 8: 1 / 8}, rel=0.05)
    rows = {(row.platform, row.point.guests): row for row in found.rows}
    assert [rows["model", guests].speedup for guests in (1, 2, 8)] == pytest.approx([1, 2, 8], rel=0.05)
    assert [rows["slow", guests].speedup for guests in (1, 2, 8)] == pytest.approx([1, 2, 2], rel=0.05)
    assert all(row.skew is not None and row.skew < 0.01 for row in rows.values())
    assert {(group.platform, group.point.guests, group.starts, group.failed) for group in found.groups} == {
        (label, guests, 4, 0) for label in ("model", "again", "slow") for guests in (1, 2, 8)
    }


def test_the_report_has_tables_and_a_figure_of_it(crowded: RunFolder) -> None:
    built = build_report(crowded.path)
    page = built.path.read_text(encoding="utf-8")
    assert 'id="scale"' in page
    assert "8 guests" in page
    assert 'id="cost"' not in page, "nothing was measured in one guest alone"
    tables = built.path.parent / "tables"
    rows = list(csv.DictReader((tables / "scale.csv").open(encoding="utf-8")))
    assert [(row["platform"], row["guests"]) for row in rows] == [
        (label, guests) for label in ("model", "again", "slow") for guests in ("1", "2", "8")
    ]
    assert {row["verdict"] for row in rows if row["platform"] == "model"} == {""}
    assert {row["verdict"] for row in rows if row["platform"] == "slow"} == {"slower"}
    groups = list(csv.DictReader((tables / "groups.csv").open(encoding="utf-8")))
    assert len(groups) == 9
    cells = list(csv.DictReader((tables / "cells.csv").open(encoding="utf-8")))
    assert {row["condition"] for row in cells} == {"1 guest", "2 guests", "8 guests"}
    assert (built.path.parent / "figures" / "guests-at-once.svg").exists()


def test_a_papers_order_and_summary_of_guests_at_once(tmp_path: Path) -> None:
    """Each group is started once, and of its four values the first is in no median."""
    asked = scale([1, 8], order="paper", summary="median-drop-first")
    folder = run(tmp_path / "run", platforms=MODELS, control="again", blocks=4, **asked)
    assert Counter((one.platform, one.scale.guests) for one in folder.groups()) == {
        (label, guests): 1 for label in ("model", "again", "slow") for guests in (1, 8)
    }
    analysis = load_analysis(folder.path)
    shares = {(row.platform, row.point and row.point.guests): row.share for row in analysis.paper.rows}
    slow = {guests: share for (platform, guests), share in shares.items() if platform == "slow"}
    assert slow == pytest.approx({1: 1 / 2, 8: 1 / 8}, rel=0.05)
    assert {(row.summary.count, row.summary.dropped) for row in analysis.paper.rows} == {(3, 1)}
    built = build_report(folder.path)
    assert 'id="paper-summary"' in built.path.read_text(encoding="utf-8")
    table = list(csv.DictReader((built.path.parent / "tables" / "paper_summary.csv").open(encoding="utf-8")))
    assert {(row["platform"], row["guests"]) for row in table} == {(label, str(guests)) for label, guests in shares}


@pytest.mark.parametrize(
    ("affinity", "impossible"),
    [("unpinned", set()), ("shared", {(1, 8), (4, 8)}), ("apart", {(1, 8), (4, 2), (4, 4), (4, 8)})],
)
def test_guests_that_are_pinned_need_the_cpus_for_it(
    monkeypatch: pytest.MonkeyPatch, affinity: str, impossible: set[tuple[int, int]]
) -> None:
    """No generator works beside them, so that all of the host's CPUs are theirs."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    asked = {"guests": [1, 4], "vcpus": [1, 2, 4, 8], "affinity": affinity}
    monkeypatch.setattr(requirements, "available_bytes", lambda: 2**40)
    experiment = experiments.parsed(**scale(scale=asked))
    found = {
        (point.guests, point.vcpus): reason
        for trial in plan_of(experiment).trials
        if (point := trial.scale) is not None and (reason := why_impossible(trial, experiment)) is not None
    }
    assert set(found) == impossible
    if impossible:
        assert_facts(found[1, 8], "1 guest", 8, 4, f"'scale.affinity: {affinity}'", "unpinned")


def test_guests_by_virtual_cpus_are_on_as_many_and_have_a_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    asked = {"guests": [1, 2], "vcpus": [1, 2], "affinity": "apart"}
    folder = run(tmp_path, platforms=MODELS, control="again", blocks=2, **scale(scale=asked))
    found = Counter(
        (boot.scale.guests, boot.requested.vcpus, boot.requested.cpus)
        for boot in folder.boots()
        if boot.scale is not None and boot.requested is not None
    )
    each = len(MODELS) * 2
    assert found == dict.fromkeys([(1, 1, (0,)), (2, 1, (0,)), (2, 1, (1,))], each) | dict.fromkeys(
        [(1, 2, (0, 1)), (2, 2, (0, 1)), (2, 2, (2, 3))], each
    )
    built = build_report(tmp_path)
    assert (built.path.parent / "figures" / "over-vcpus.svg").exists()
    assert 'id="figure-over-vcpus"' in built.path.read_text(encoding="utf-8")


def failing(failure: str, **parameters: Any) -> list[dict[str, Any]]:
    """A model that is well, and one whose third guest of several fails."""
    return [fake("model", seed=1), fake("frail", seed=2, failure=failure, failing_instance=2, **parameters)]


def of(folder: RunFolder, label: str, guests: int) -> list[TrialRecord]:
    return [
        one
        for one in folder.latest_trials()
        if one.platform == label and one.scale is not None and one.scale.guests == guests
    ]


def test_a_guest_that_dies_costs_the_trial_and_is_named(tmp_path: Path) -> None:
    """The others end their jobs; the guests are started anew for the next trial, and then no more."""
    folder = run(tmp_path, platforms=failing("dies", dies_at_job=2), rounds=4, blocks=1, **scale([1, 4]))
    assert {one.status for one in of(folder, "model", 4)} == {"ok"}
    assert {one.status for one in of(folder, "frail", 1)} == {"ok"}
    found = of(folder, "frail", 4)
    assert [one.status for one in found] == ["ok", "failed", "ok", "failed", "skipped"]
    (reason,) = {one.reason or "" for one in found if one.status == "failed"}
    assert_facts(reason, "guest 3 of 4", "died")
    assert reason in str(found[-1].reason)
    assert all(one.evidence for one in found if one.status == "failed")
    groups = [one for one in folder.groups() if one.scale.guests == 4 and one.platform == "frail"]
    assert [(one.status, len(one.boots)) for one in groups] == [("ok", 4)] * 2


def test_a_guest_that_dies_while_it_is_parked_costs_that_trial_alone(tmp_path: Path) -> None:
    """It is found out before the trial's job, when the guests are to run again."""
    folder = run(tmp_path, platforms=failing("dies-at-rest"), blocks=1, **scale([4]))
    (failed,) = of(folder, "frail", 4)
    assert failed.status == "failed"
    assert_facts(failed.reason or "", "guest 3 of 4", "parked")
    assert failed.evidence
    assert {one.status for one in of(folder, "model", 4)} == {"ok"}
    assert folder.state().state == "complete"


def test_a_guest_that_does_not_start_is_named(tmp_path: Path) -> None:
    folder = run(tmp_path, platforms=failing("never-ready"), blocks=1, **scale([4]))
    (skipped,) = of(folder, "frail", 4)
    assert skipped.status == "skipped"
    assert_facts(skipped.reason or "", "guest 3 of 4", "of-4-003-frail/0")
    (group,) = [one for one in folder.groups() if one.platform == "frail"]
    assert (group.status, group.reason, len(group.boots)) == ("failed", skipped.reason, 3)
    assert group.up_monotonic_ns is None
    assert {one.status for one in of(folder, "model", 4)} == {"ok"}


@pytest.mark.parametrize(
    ("failure", "parameters", "facts"),
    [
        ("wrong-check", {}, ["guest 3 of 4", "check value", "'wrong'"]),
        ("loses-marks", {}, ["guest 3 of 4", "mark", "timekeeper"]),
        ("none", {"late_milliseconds": 500}, ["1.00 %"]),
    ],
)
def test_what_cannot_be_believed_of_one_guest_is_not_of_all(
    tmp_path: Path, failure: str, parameters: dict[str, Any], facts: list[str]
) -> None:
    folder = run(tmp_path, platforms=failing(failure, **parameters), blocks=1, **scale([4]))
    (invalid,) = of(folder, "frail", 4)
    assert invalid.status == "invalid"
    assert_facts(invalid.reason or "", *facts)
    assert len(invalid.members) == 4, "what the guests did is stored all the same"
    if parameters:
        assert start_skew_ns([one.clock for one in invalid.members]) == pytest.approx(500e6, rel=0.2)


def test_models_begin_together_however_long_the_controller_is_held_up() -> None:
    """Between asking two of them, and not only for some seconds; a second time is another moment."""
    host, hour_ns = FakeHost(guests=3), 3600 * 10**9
    assert [host.begin_together(name, number * hour_ns) for number, name in enumerate("abc")] == [0, 0, 0]
    assert [host.begin_together(name, number * hour_ns) for number, name in ((5, "b"), (6, "a"))] == [5 * hour_ns] * 2
    host.one_less()
    assert host.begin_together("d", 9 * hour_ns) == 9 * hour_ns


def test_an_interrupted_run_goes_on_where_it_was(tmp_path: Path) -> None:
    asked = {"platforms": MODELS, "control": "again", "rounds": 2, **scale([1, 3])}
    killed_run(tmp_path, 10, **asked)
    resume(tmp_path, SilentProgress())
    folder = RunFolder.open(tmp_path)
    assert folder.state().state == "complete"
    assert len(folder.trials()) == len(folder.manifest.plan.trials), "a finished trial was measured again"
    assert {one.status for one in folder.latest_trials()} == {"ok"}


@pytest.mark.parametrize(
    ("jitter", "left", "blocks"), [(0.01, [], 3), (0.3, ["1 guest", "2 guests"], 5)], ids=["clear", "noisy"]
)
def test_blocks_are_added_until_each_number_of_guests_is_decided(
    tmp_path: Path, jitter: float, left: list[str], blocks: int
) -> None:
    asked = experiments.parsed(
        platforms=[fake("model", seed=1, jitter=0.002), fake("dear", seed=2, cost=1.2, jitter=jitter)],
        baseline="model",
        blocks={"least": 3, "most": 5, "until": "decided"},
        **scale([1, 2]),
    )
    folder = measured(asked, tmp_path / "run", look=look_at)
    (look,) = folder.looks()
    for undecided, guests in zip(look.undecided, left, strict=True):
        assert_facts(undecided, "dear", "Super Pi 131072 digits", guests)
    assert {trial.block for trial in folder.trials()} == set(range(blocks))


def test_a_plan_counts_the_guests_that_are_up_at_once(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, **scale([1, 6], guest={"memory": "128MiB"}))
    planned = virtoll("plan", file, "--trials", runs=tmp_path).stdout
    assert_facts(planned, "native superpi digits=131072 in", "6 guests", "128 MiB", "768 MiB")


def test_threads_have_turns_and_wait_at_the_same_time() -> None:
    """Each job waits for what the next one does, which it only can while the first has given up its turn."""
    there = [threading.Event() for _ in range(3)]
    working: list[int] = []

    def job(number: int) -> int:
        working.append(number)
        assert working == [number], "two threads worked at the same time"
        working.remove(number)
        there[number].set()
        with turns.given_up():
            for event in there:
                assert event.wait(60)
        return number

    assert at_once([partial(job, number) for number in range(3)]) == [0, 1, 2]


def test_a_thread_that_keeps_its_turn_is_not_disturbed() -> None:
    seen: list[str] = []

    def keeps() -> None:
        with turns.kept():
            seen.append("begins")
            with turns.given_up():
                seen.append("waits")
            seen.append("ends")

    at_once([keeps, keeps])
    assert seen == ["begins", "waits", "ends"] * 2


def test_a_wait_at_the_line_ends_where_another_guest_is_lost() -> None:
    line = Barrier(2)
    began: list[int] = []

    def waits() -> None:
        with pytest.raises(GuestLost):
            line.start()
        began.append(1)

    at_once([waits, line.leave])
    assert began == [1]


def test_all_begin_when_the_last_one_is_there() -> None:
    line = Barrier(3)
    found = at_once([line.start] * 3)
    assert all(delay_ns > 0 for delay_ns in found)
    at_once([line.finish] * 3)
