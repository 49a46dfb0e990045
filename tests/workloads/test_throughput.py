"""NDR and PDR: the search on models of known capacity and loss, and what of it is stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support import experiments
from tests.support.by_hand import distribution
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts
from tests.support.traffic_trials import GENERATOR, forwarding, forwarding_bench
from tests.support.workload_trials import assert_problem
from tests.support.workload_trials import measure as workload_trial

from virtoll import units
from virtoll.agent.operations.traffic import TrafficRequest
from virtoll.pipeline.execution import measure
from virtoll.pipeline.progress import SilentProgress, outcome
from virtoll.report import page
from virtoll.report.build import load_analysis
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.traffic_records import TrafficReply
from virtoll.stats.bounds import TWO_BOUNDS, lower_bounds, without_two_bounds
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.conditional_throughput import PERCENTILES, pooled_percentiles
from virtoll.workloads.base import Bench
from virtoll.workloads.loss_ratio_search import Counted, Goal, GoalBounds, search
from virtoll.workloads.throughput import DELAY_SHARES, Throughput, ThroughputParameters

NDR = Goal("ndr", 0.0, 0.5, 0.02, 1.0, 5.0)
PDR = Goal("pdr", 0.005, 0.5, 0.02, 1.0, 5.0)
CAPACITY = 1e9 / (900 + 0.2 * 64)  # of the fake platform's router, frames/s of 64 B


def searched(
    capacity: float, loss: float = 0.0, generator: float = 1e9, limit: float = 1000.0, most: float = 2e6
) -> tuple[GoalBounds, GoalBounds]:
    """The search on a router that forwards so many frames/s, and loses a share of them besides."""

    def trial(load: float, seconds: float) -> Counted:
        intended = int(load * seconds)
        offered = min(intended, int(generator * seconds))
        return Counted(load, seconds, intended, offered, int(min(offered, capacity * seconds) * (1 - loss)))

    ndr, pdr = search((NDR, PDR), (1000.0, most), limit, trial)
    return ndr, pdr


@pytest.mark.parametrize("capacity", [20_000.0, 333_333.0, 1_000_000.0, 1_900_000.0])
def test_both_bounds_of_a_known_capacity_are_within_the_width(capacity: float) -> None:
    for found in searched(capacity):
        assert found.ended == "width"
        assert found.lower is not None
        assert found.upper is not None
        highest = capacity / (1 - found.goal.loss_ratio)
        assert found.lower.load <= highest <= found.upper.load
        assert found.upper.load - found.lower.load <= 0.0201 * found.upper.load
        assert found.lower.trials
        assert found.upper.trials
        assert found.conditional_throughput == pytest.approx(capacity, rel=0.0201)


def test_a_router_that_always_loses_a_little_has_a_pdr_and_no_ndr() -> None:
    ndr, pdr = searched(1_000_000.0, loss=0.003)
    assert (ndr.ended, ndr.lower, ndr.conditional_throughput) == ("least-rate", None, None)
    assert ndr.upper is not None
    assert pdr.ended == "width"
    assert pdr.lower is not None
    assert pdr.upper is not None
    assert pdr.lower.load <= 1_000_000 * 0.997 / 0.995 <= pdr.upper.load


@pytest.mark.parametrize("generator", [1e9, 800_000.0])
def test_what_the_generator_bounds_has_no_upper_bound(generator: float) -> None:
    """Whether nothing is lost at the highest load, or the generator cannot send that much."""
    for found in searched(3e6, generator=generator):
        assert (found.ended, found.upper) == ("generator-bound", None)
        assert found.lower is not None
        assert found.lower.load == pytest.approx(min(generator / (1 - found.goal.loss_ratio), 2e6), rel=0.0201)


def test_a_search_whose_time_is_over_keeps_what_it_knows() -> None:
    ndr, pdr = searched(1_000_000.0, limit=3.0)
    assert {ndr.ended, pdr.ended} == {"time-limit"}


def test_trials_are_long_enough_for_the_queues_up_to_the_limit() -> None:
    wanted = ThroughputParameters()
    rates = (1e6, 125_600.0, 62_800.0, 12_560.0, 1000.0)
    assert [wanted.seconds_at(rate) for rate in rates] == [1.0, 1.0, 2.0, 10.0, 10.0]


def test_a_slow_guests_search_takes_longer() -> None:
    workload = Throughput(ThroughputParameters(trial_seconds=0.2))
    native, twice, slow = (workload.estimate_seconds(slowdown) for slowdown in (1.0, 2.0, 50.0))
    assert native < twice < slow
    assert workload.estimate_seconds(0.5) == native


def test_a_trial_longer_than_what_decides_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"trial_seconds.*sum_seconds"):
        ThroughputParameters(trial_seconds=2.0, sum_seconds=1.0)


def run(into: Path, *platforms: Any) -> RunFolder:
    asked = {"platforms": list(platforms), "workloads": [{"workload": "throughput"}], "blocks": 1, "rounds": 1}
    measure(experiments.parsed(baseline="model", **asked), into, ["virtoll"], SilentProgress())
    return RunFolder.open(into)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    into = tmp_path_factory.mktemp("throughput") / "run"
    return run(
        into,
        fake("model", jitter=0.0),
        fake("lossy", jitter=0.0, loss=0.003),
        fake("fast", jitter=0.0, cost=0.25),
        fake("noisy", jitter=0.01),
    )


@pytest.fixture(scope="module")
def trials(folder: RunFolder) -> dict[str, TrialRecord]:
    return {trial.platform: trial for trial in folder.trials()}


def goals(trial: TrialRecord) -> dict[str, dict[str, Any]]:
    assert trial.status == "ok", trial.reason
    assert trial.result is not None
    return {goal["name"]: goal for goal in trial.result["goals"]}


def test_the_models_capacity_is_found_and_every_point_kept(trials: dict[str, TrialRecord]) -> None:
    trial = trials["model"]
    for goal in goals(trial).values():
        lower, upper = goal["lower"], goal["upper"]
        assert lower["rate_frames_per_second"] <= CAPACITY / (1 - goal["loss_ratio"]) <= upper["rate_frames_per_second"]
        assert (goal["exceed_ratio"], lower["trial_ns"], upper["trial_ns"]) == (0.5, 10**9, 10**9)
        assert trial.points is not None
        for bound in (lower, upper):
            rates = {trial.points[number].intended_rate_frames_per_second for number in bound["points"]}
            assert rates == {bound["rate_frames_per_second"]}
    assert trial.result is not None
    assert list(trial.result["figures"]) == ["pdr", "ndr"]
    assert trial.result["figures"]["pdr"] == pytest.approx(CAPACITY, rel=0.0201)


def test_three_points_of_delay_follow_the_search(trials: dict[str, TrialRecord]) -> None:
    trial = trials["model"]
    assert trial.result is not None
    assert trial.points is not None
    asked = [(one["share_of_pdr"], trial.points[one["point"]]) for one in trial.result["delays"]]
    assert [share for share, _ in asked] == list(DELAY_SHARES)
    assert [point.intended_rate_frames_per_second for _, point in asked] == [
        pytest.approx(share * trial.result["figures"]["pdr"]) for share in DELAY_SHARES
    ]
    delays = [point.sink.per_source[0].delay_ns for _, point in asked]
    assert [one.p999 for one in delays if one] == sorted(one.p999 or 0 for one in delays if one)
    assert len(delays) == len(trial.points) - trial.result["delays"][0]["point"]


def test_loss_and_the_generators_ceiling_are_said(trials: dict[str, TrialRecord]) -> None:
    lossy = goals(trials["lossy"])
    assert (lossy["ndr"]["ended"], lossy["ndr"]["lower"], lossy["pdr"]["ended"]) == ("least-rate", None, "width")
    for goal in goals(trials["fast"]).values():
        assert (goal["ended"], goal["upper"]) == ("generator-bound", None)
    noisy = goals(trials["noisy"])["pdr"]
    assert noisy["conditional_throughput_frames_per_second"] == pytest.approx(CAPACITY, rel=0.05)


def test_the_progress_says_what_was_found(trials: dict[str, TrialRecord]) -> None:
    """The points' last one is paced, and not flat out."""
    trial = trials["model"]
    assert trial.result is not None
    assert_facts(outcome(trial), "PDR", units.frame_rate(trial.result["figures"]["pdr"]))
    assert_facts(outcome(trials["lossy"]), "PDR")


def test_two_lower_bounds_make_no_ratio(folder: RunFolder) -> None:
    """Where the generator ended the search of both; with one bound alone the ratio is one itself."""
    analysis = load_analysis(folder.path)
    bounds = lower_bounds(analysis.tasks, analysis.curves, analysis.headrooms, analysis.searches)
    assert {(label, task.metric.name) for label, task in bounds} == {("fast", "pdr"), ("fast", "ndr")}
    measured = [Comparison("fast", task, Verdict.UNKNOWN) for task in analysis.tasks]
    assert [one.caveat for one in without_two_bounds(measured, bounds, "fast")] == [TWO_BOUNDS, TWO_BOUNDS]
    assert [one.caveat for one in without_two_bounds(measured, bounds, "model")] == [None, None]


def test_percentiles_of_several_histograms_are_those_of_all_frames() -> None:
    one = distribution(count=90, histogram=((10, 60), (20, 30)))
    other = distribution(count=10, histogram=((20, 8), (500, 2)))
    assert pooled_percentiles([one, other], PERCENTILES) == (10, 20, 500, 500)
    assert pooled_percentiles([one], (0.5,)) == (10,)


def test_the_page_and_the_tables_show_bounds_and_delays(folder: RunFolder) -> None:
    analysis = load_analysis(folder.path)
    assert not analysis.curves, "a search is no sweep"
    text = page.render_page(ReportInput(analysis), {})
    assert_facts(text, "generator-bound", "NDR", "PDR")
    tables = {table.name: table for table in csv_tables(ReportInput(analysis))}
    bounds = [
        dict(zip(tables["conditional_throughput"].header, row, strict=True))
        for row in tables["conditional_throughput"].rows
    ]
    model = next(row for row in bounds if (row["platform"], row["goal"]) == ("model", "pdr"))
    assert (model["ended"], model["lower_trial_ns"], model["exceed_ratio"]) == ("width", 10**9, 0.5)
    fast = next(row for row in bounds if (row["platform"], row["goal"]) == ("fast", "pdr"))
    assert (fast["ended"], fast["upper_frames_per_second"]) == ("generator-bound", None)
    assert {row[2] for row in tables["delay_below_pdr"].rows} == set(DELAY_SHARES)


def throughput(bench: Bench, **wanted: float) -> Any:
    return workload_trial("throughput", bench, **wanted)


def test_points_of_a_search_are_flat_out_first_and_delays_last() -> None:
    bench = forwarding_bench(forwarding(200_000))
    measured = throughput(bench, trial_seconds=0.1, sum_seconds=0.2, search_seconds=3.0)
    assert measured.problem is None
    assert measured.result["ceiling_frames_per_second"] == GENERATOR
    rates = [point.intended_rate_frames_per_second for point in measured.points]
    assert rates[0] is None
    pdr = measured.result["figures"]["pdr"]
    assert pdr == pytest.approx(200_000, rel=0.03)
    assert rates[-len(DELAY_SHARES) :] == [pytest.approx(share * pdr) for share in DELAY_SHARES]
    for goal in measured.result["goals"]:
        for bound in (goal["lower"], goal["upper"]):
            assert {rates[number] for number in bound["points"]} == {bound["rate_frames_per_second"]}


@pytest.mark.parametrize(("apart", "ceiling"), [(False, GENERATOR), (True, 1.5 * GENERATOR)])
def test_frames_that_a_guests_own_queue_refused_were_offered(apart: bool, ceiling: float) -> None:
    peer = forwarding(200_000)
    traffic = peer.answers["traffic"]
    assert callable(traffic)

    def refusing(request: TrafficRequest) -> TrafficReply:
        reply = traffic(request)
        assert isinstance(reply, TrafficReply)
        refused = tuple(one.replace(refused_frames=one.offered_frames // 2) for one in reply.sources)
        return reply.replace(sources=refused)

    peer.answers["traffic"] = refusing
    measured = throughput(forwarding_bench(peer, receives_apart=apart), trial_seconds=0.1, search_seconds=1.0)
    assert measured.result["ceiling_frames_per_second"] == ceiling


def test_a_generator_below_the_least_rate_is_a_problem() -> None:
    measured = throughput(forwarding_bench(forwarding()), least_rate_frames_per_second=GENERATOR, trial_seconds=0.1)
    assert_problem(measured, f"{GENERATOR:.0f} frames/s")
    assert len(measured.points) == 1


@pytest.mark.parametrize("cost", [1.0075, 1.0095])
def test_two_capacities_one_percent_apart_are_never_two(tmp_path: Path, cost: float) -> None:
    """They lie on either side of a step of the search, in each block alike."""
    asked = {"workloads": [{"workload": "throughput"}], "blocks": 3, "rounds": 1, "baseline": "host"}
    platforms = [fake("host", jitter=0.0), fake("box", jitter=0.0, cost=cost, seed=2)]
    measure(experiments.parsed(platforms=platforms, **asked), tmp_path / "run", ["virtoll"], SilentProgress())
    told = [one for one in load_analysis(tmp_path / "run").comparisons if one.platform == "box"]
    assert len(told) == 2
    for one in told:
        assert one.simultaneous is not None
        assert one.simultaneous.low < 1 / cost < one.simultaneous.high
        assert one.at_least is None or one.at_least <= cost


def test_a_search_out_of_time_is_not_slower(tmp_path: Path) -> None:
    """The box has a tenth of the host's capacity; its search for the PDR, and no other, needs some more seconds."""
    asked = {"workloads": [{"workload": "throughput", "search_seconds": 10.5}], "blocks": 3, "rounds": 1}
    platforms = [fake("host", jitter=0.0), fake("box", jitter=0.0, cost=10.0)]
    experiment = experiments.parsed(platforms=platforms, baseline="host", **asked)
    measure(experiment, tmp_path / "run", ["virtoll"], SilentProgress())
    analysis = load_analysis(tmp_path / "run")
    out_of_time = {(row.platform, row.task.metric.name) for row in analysis.searches if "time-limit" in row.ended}
    assert out_of_time == {("box", "pdr")}
    bounds = {(platform, task.metric.name) for platform, task in analysis.lower_bounds}
    assert bounds == {("box", "pdr")}
    assert {one.verdict for one in analysis.comparisons if one.task.metric.name == "pdr"} == {Verdict.UNKNOWN}
    told_all = in_process("report", tmp_path / "run", "--json")
    assert told_all.returncode == 0, told_all.stderr
    assert "Infinity" not in told_all.stdout
