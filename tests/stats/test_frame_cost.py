"""CPU time per forwarded frame from the idle time of CPUs, and what is said where the sender's core forwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.records import MetricRecord
from virtoll.runfolder.traffic_records import Point, ProcessorIdle
from virtoll.stats.analysis import Analysis, RunData, analyse
from virtoll.stats.bounds import NOT_PINNED
from virtoll.stats.compare import DIFFERENT, Verdict
from virtoll.stats.frame_cost import frame_costs
from virtoll.stats.sweeps import curves, point_values

TRUTH = Truth(REALISTIC, wired=True, blocks=3, frame_sizes=(64,))
FEW, MANY, BETWEEN_NS = 1_000, 20_000, 400_000_000
REST_NS = {0: 9_000_000, 1: 3_000_000}
GUEST, SENDER = 0, 1
ON_THE_GUESTS = Forwarding((GUEST,), "threaded NAPI", None)
ON_THE_SENDERS = Forwarding(None, None, "threaded NAPI: refused")
COST = MetricRecord(
    workload="forward",
    name="cpu_per_frame",
    unit="ns",
    better="lower",
    source="cpu_points",
    title="IP forwarding: cpu per frame",
    resource="packet path",
    primary=False,
)


def point(of: Point, frames: int, cost_ns: Mapping[int, float], lost: int = 0) -> Point:
    """A point with so many frames, at which each CPU was busy for its rest and so long for each of them."""
    source, sink = of.sources[0], of.sink.per_source[0]
    assert of.cpu is not None
    idle = (
        ProcessorIdle(cpu, BETWEEN_NS, BETWEEN_NS - REST_NS[cpu] - round(frames * cost_ns[cpu]), "timer_list")
        for cpu in REST_NS
    )
    return replace(
        of,
        backend="af-packet",
        sources=(replace(source, intended_frames=frames, offered_frames=frames, unsent_frames=0),),
        sink=replace(of.sink, per_source=(replace(sink, forwarded_frames=frames - lost, lost_frames=lost),)),
        cpu=replace(of.cpu, generator_cores=(SENDER,), sink_core=SENDER, idle=tuple(idle)),
    )


def pair(of: Point, cost_ns: Mapping[int, float], lost: int = 0) -> tuple[Point, Point]:
    return point(of, FEW, cost_ns), point(of, MANY, cost_ns, lost)


def metered(
    data: RunData, costs: Mapping[str, Mapping[int, float]], instrument: Mapping[int, float], where: Forwarding
) -> RunData:
    """The run with such points: what a frame takes on each CPU, by platform, and with nothing between."""
    trials = [
        replace(trial, cpu_points=pair(trial.points[0], costs[trial.platform]))
        if trial.workload == "forward" and trial.points
        else trial
        for trial in data.trials
    ]
    calibrations = [replace(one, cpu_points=pair(one.points[0], instrument)) for one in data.calibrations]
    boots = [replace(boot, forwarding=where) for boot in data.boots]
    manifest = replace(data.manifest, metrics=(*data.manifest.metrics, COST))
    return replace(data, trials=tuple(trials), boots=tuple(boots), calibrations=tuple(calibrations), manifest=manifest)


@pytest.fixture(scope="module")
def data() -> RunData:
    return run_data(TRUTH)


def each(data: RunData, of: Mapping[int, float]) -> dict[str, Mapping[int, float]]:
    return dict.fromkeys((entry.label for entry in data.manifest.platforms), of)


def values(data: RunData) -> set[int]:
    """All costs, rounded."""
    found = frame_costs(data.trials, data.boots, data.calibrations).values()
    assert found
    return {round(one.value) for one in found if one.value is not None}


def reasons(data: RunData) -> set[str]:
    return {one.none_because for one in frame_costs(data.trials, data.boots, data.calibrations).values()}


def test_the_cost_of_a_frame_is_on_the_cpus_that_forward_less_the_sinks(data: RunData) -> None:
    """What the sender's core does is not the router's, and what is busy at rest is in both points."""
    run = metered(data, each(data, {GUEST: 1500.0, SENDER: 5000.0}), {GUEST: 600.0, SENDER: 900.0}, ON_THE_GUESTS)
    assert values(run) == {900}


def test_where_the_sender_forwards_all_cpus_count_and_generator_and_sink_come_off(data: RunData) -> None:
    run = metered(data, each(data, {GUEST: 100.0, SENDER: 4000.0}), {GUEST: 50.0, SENDER: 2000.0}, ON_THE_SENDERS)
    assert values(run) == {2050}


def test_a_guest_that_shares_its_cpu_with_the_sender_is_measured_on_all(data: RunData) -> None:
    shared = Forwarding((GUEST, SENDER), "threaded NAPI", None)
    run = metered(data, each(data, {GUEST: 700.0, SENDER: 4000.0}), {GUEST: 0.0, SENDER: 2000.0}, shared)
    assert values(run) == {2700}


def test_a_disturbed_end_of_a_run_changes_nothing(data: RunData) -> None:
    """Two pairs of six."""
    run = metered(data, each(data, {GUEST: 1500.0, SENDER: 0.0}), {GUEST: 600.0, SENDER: 0.0}, ON_THE_GUESTS)
    slow = {GUEST: 9000.0, SENDER: 0.0}
    disturbed = []
    for one in run.calibrations:
        own = one.cpu_points or ()
        others = (pair(one.points[0], slow) if one.when == "end" else own) * 2
        disturbed.append(replace(one, cpu_points=(*own, *others)))
    assert values(replace(run, calibrations=tuple(disturbed))) == {900}


def test_what_cannot_be_known_has_a_reason_and_no_value(data: RunData) -> None:
    cost = {GUEST: 1500.0, SENDER: 0.0}
    run = metered(data, each(data, cost), {GUEST: 600.0, SENDER: 0.0}, ON_THE_GUESTS)
    uncalibrated = replace(run, calibrations=data.calibrations)
    free = metered(data, each(data, {GUEST: 500.0, SENDER: 0.0}), {GUEST: 600.0, SENDER: 0.0}, ON_THE_GUESTS)
    lossy = replace(
        run,
        trials=tuple(
            replace(one, cpu_points=pair(one.cpu_points[0], cost, MANY // 10)) if one.cpu_points else one
            for one in run.trials
        ),
    )
    for other, words in (
        (uncalibrated, "what generator and sink cost with nothing between was not measured"),
        (free, "it is no more than what generator and sink cost with nothing between"),
        (lossy, "more than 5 % of the frames were lost, or the idle time of a CPU is not known"),
    ):
        assert reasons(other) == {words}
        assert not values(other)


def test_a_trial_without_such_points_has_none_and_says_so(data: RunData) -> None:
    run = replace(data, manifest=replace(data.manifest, metrics=(*data.manifest.metrics, COST)))
    found = analyse(run)
    assert {gap.reason for gap in found.gaps} == {"no points for the CPU time of a frame were measured"}


def compared(analysis: Analysis, metric: str) -> Sequence[tuple[Verdict, str | None]]:
    return [
        (one.verdict, one.caveat)
        for one in (*analysis.comparisons, *analysis.control)
        if one.task.metric.name == metric
    ]


def test_a_rate_of_the_senders_core_has_no_verdict_and_the_cpu_time_of_a_frame_has(data: RunData) -> None:
    costs = {
        label: {GUEST: 0.0, SENDER: 2000.0 + 1000.0 * REALISTIC[label].get("packet path", 1.0)} for label in REALISTIC
    }
    found = analyse(metered(data, costs, {GUEST: 0.0, SENDER: 2000.0}, ON_THE_SENDERS))
    rates = compared(found, "maximum_forwarding_rate")
    assert rates
    assert {verdict for verdict, _ in rates} == {Verdict.UNKNOWN}
    assert NOT_PINNED in {caveat for _, caveat in rates}
    told = next(one for one in found.comparisons if one.caveat == NOT_PINNED)
    assert "threaded NAPI: refused" in told.reason
    assert any(verdict in DIFFERENT for verdict, _ in compared(found, "cpu_per_frame"))


def test_what_the_guests_own_queue_refused_was_not_the_senders_limit(data: RunData) -> None:
    """Where the sender's core forwards, only the sender can have refused it."""
    trials = [
        replace(trial, points=(*trial.points[:-1], _refused(trial.points[-1])))
        for trial in data.trials
        if trial.platform == "native" and trial.points
    ]
    points = point_values(trials)
    assert {one.lossless for one in curves(points)} == {True}
    assert {one.lossless for one in curves(points, ["native"])} == {False}
    assert {one.lossless for one in curves(points, ["netns"])} == {True}


def _refused(last: Point) -> Point:
    """Nothing lost, and as many frames refused as left."""
    source, sink = last.sources[0], last.sink.per_source[0]
    many = source.offered_frames
    source = replace(source, intended_frames=2 * many, unsent_frames=many, refused_frames=many)
    arrived = replace(sink, forwarded_frames=many, lost_frames=0)
    return replace(last, sources=(source,), sink=replace(last.sink, per_source=(arrived,)))
