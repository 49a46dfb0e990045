"""Each part of an analysis has what is its own: cautions, bounds, hosts, guests beside and at once, on a small run."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest
from tests.support.by_hand import clock, held, point, reading, sink, source
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.small_run import (
    PLATFORMS,
    as_much_refused,
    asked,
    compared,
    data,
    forwarded_by,
    hosts_of,
    manifested,
    platforms,
    task_of,
    trials,
)

from virtoll.runfolder.campaign_records import MergedRecord
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.guest_records import CpuSpan, Forwarding, HostCpu
from virtoll.runfolder.overhead_records import Overhead, OverheadReading, OverheadSpan
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.traffic_records import Cpu, Point, ProcessorIdle
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.bounds import NOT_PINNED, TWO_BOUNDS
from virtoll.stats.cautions import Caution
from virtoll.stats.compare import Verdict
from virtoll.stats.isolation import SENDER_BOUND

IDLE = Condition("idle")


def test_cautions_are_of_results_alone() -> None:
    """Forged frames came in a trial of netns; where netns has a caveat, nothing else is said of it."""

    def forged(one: TrialRecord) -> TrialRecord:
        if one.platform != "netns" or not one.points:
            return one
        return one.replace(points=tuple(own.replace(sink=own.sink.replace(forged_frames=3)) for own in one.points))

    told_of = analyse(trials(forged))
    assert told_of.cells == analyse(data()).cells, "they change no figure"
    found = {one.caution: one.concerns for one in told_of.cautions}
    assert found[Caution.FORGED] == "netns (64 B)"
    shapes = [Made("netns", "forward", {"frame_size_bytes": 88, "ip_version": version}) for version in (4, 6)]
    shapes.append(Made("netns", "transmitters", {"frame_size_bytes": 1500}))
    both = trials(forged, made_up_run({"netns": {}}, shapes, baseline=None))
    known = manifested(both, metrics=tuple(one for one in both.manifest.metrics if one.workload == "forward"))
    told = {one.caution: one.concerns for one in analyse(known).cautions}[Caution.FORGED]
    assert sorted(told.removeprefix("netns (").removesuffix(")").split(", ")) == ["1500 B", "IPv4", "IPv6"]
    assert_facts(found[Caution.UNLOCATED], "native (64 B)", "native-again (64 B)", "netns (64 B)")
    assert_facts(found[Caution.SHARED_CORE], "generator", "sink", "core 1")
    marked = analyse(platforms("netns", trials(forged), caveat="nested"))
    assert "netns" not in {one.caution: one.concerns for one in marked.cautions}[Caution.UNLOCATED]
    near = analyse(
        made_up_run(PLATFORMS, [Made("native", "forward", {"frame_size_bytes": 64}, value=9e5)], calibrated_rate=1e6)
    )
    assert near.generator_bound("native", task_of(near, "forward"))
    assert not near.generator_bound("netns", task_of(near, "forward"))
    assert near.cautions[0].caution is Caution.GENERATOR_BOUND
    assert not analyse(data()).generator_bound("netns", task_of(analyse(data()), "forward"))
    bare = analyse(replace(data(), calibrations=()))
    assert Caution.UNCALIBRATED not in {one.caution for one in bare.cautions}


def test_what_is_near_the_instruments_limit_is_told_of_results_alone() -> None:
    """netns lost nothing, runc came to the ceiling; with a caveat neither is a result. Other frames have no ceiling."""
    size = {"frame_size_bytes": 64}
    made = [
        Made("native", "forward", size, value=5e5),
        Made("netns", "forward", size, value=3e5, lossless=True),
        Made("runc", "forward", size, value=9.5e5),
    ]
    given = made_up_run(PLATFORMS, made, calibrated_rate=1e6)
    kinds = (Caution.GENERATOR_BOUND, Caution.LOSSLESS, Caution.UNCALIBRATED)

    def told(changed: RunData) -> dict[Caution, str]:
        return {one.caution: one.concerns for one in analyse(changed).cautions if one.caution in kinds}

    assert told(given) == {Caution.GENERATOR_BOUND: "runc (64 B)", Caution.LOSSLESS: "netns (64 B)"}
    assert told(platforms("netns", platforms("runc", given, caveat="nested"), caveat="nested")) == {}
    others = tuple(one.replace(parameters={**one.parameters, "frame_size_bytes": 1500}) for one in given.calibrations)
    unknown = told(replace(given, calibrations=others))
    assert_facts(unknown[Caution.UNCALIBRATED], "native (64 B)", "netns (64 B)", "runc (64 B)")


def test_three_values_of_a_parameter_are_drawn_alone_and_beside_others() -> None:
    sizes = (1000, 2000, 4000)
    alone = [Made("native", "superpi", {"digits": one}, value=1e5 * one) for one in sizes]
    (panel,) = analyse(made_up_run({"native": {}}, alone, blocks=2)).over_parameters
    assert (panel.parameter, panel.values, panel.condition) == ("digits", sizes, "alone")
    assert [curve.platform for curve in panel.curves] == ["native"]
    others = [replace(one, condition=IDLE) for one in alone]
    panels = analyse(made_up_run({"native": {}}, [*alone, *others], blocks=2)).over_parameters
    assert [one.condition for one in panels] == ["alone", IDLE.label]


def test_rates_that_say_less_have_no_verdict() -> None:
    """Both lost nothing flat out; or the host's kernel forwards on the core that sends."""
    made = [
        Made(label, "forward", {"frame_size_bytes": 64}, value=rate, lossless=True)
        for label, rate in (("native", 4e5), ("netns", 3e5))
    ]
    both = analyse(made_up_run(PLATFORMS, made))
    assert both.lower_bounds == {(label, task_of(both, "forward")) for label in ("native", "netns")}
    assert compared(both, "netns", "forward").caveat == TWO_BOUNDS
    faster = [replace(made[0], value=3e5), replace(made[1], value=4e5, lossless=False)]
    one = compared(analyse(made_up_run(PLATFORMS, faster)), "netns", "forward")
    assert (one.verdict, one.at_least) == (Verdict.UNKNOWN, None)
    nowhere = Forwarding(None, None, "no threads")
    boots = tuple(boot.replace(forwarding=nowhere) for boot in data().boots)
    sender = analyse(replace(data(), boots=boots))
    assert sender.forwarded_elsewhere.keys() == {"native", "native-again", "netns"}
    only_base = tuple(boot.replace(forwarding=nowhere) if boot.platform == "native" else boot for boot in data().boots)
    for found in (sender, analyse(replace(data(), boots=only_base))):
        rates = [one for one in (*found.comparisons, *found.control) if one.share and one.task.is_forwarding_rate]
        assert {one.caveat for one in rates} == {NOT_PINNED}
        assert {one.platform for one in rates} == {"netns", "native-again"}


def test_what_a_queue_refused_was_not_forwarded() -> None:
    """All that was sent arrived, and as much again was refused before it: lost where threads of the kernel take it."""
    made = [Made("native", "forward", {"frame_size_bytes": 64}, value=4e5, lossless=True)]
    plain = made_up_run({"native": {}}, made)

    given = trials(as_much_refused, plain)
    assert len(analyse(given).lower_bounds) == 1
    queued = forwarded_by(given, Forwarding((0,), "threaded NAPI", None))
    assert analyse(queued).lower_bounds == frozenset()
    assert len(analyse(replace(plain, boots=queued.boots)).lower_bounds) == 1


def test_blocks_of_several_hosts_are_tested_by_host() -> None:
    hosts = hosts_of(3)
    merged = analyse(manifested(hosts=hosts, merged=MergedRecord("c", ())))
    assert merged.host_of == {0: "host-0", 1: "host-1", 2: "host-2"}
    assert [host for host, _ in compared(merged, "netns").hosts] == ["host-0", "host-1", "host-2"]
    assert [(one.name, one.fingerprint, one.blocks) for one in merged.across_hosts.hosts] == [
        (f"host-{at}", f"f{at}", (at,)) for at in range(3)
    ]
    five = made_up_run(PLATFORMS, [Made("native", "superpi"), Made("netns", "superpi")], blocks=5)
    (drifting, apart) = analyse(five), analyse(manifested(five, hosts=hosts_of(5)))
    assert drifting.drift is not None
    assert drifting.drift.blocks == 5
    assert apart.drift is None, "blocks of several hosts are in no order"
    marked = analyse(platforms("netns", five, caveat="nested")).drift
    assert marked is not None
    assert marked != drifting.drift, "without what is no result"
    anew = trials(lambda one: one.replace(trial=100 - one.trial))
    assert [one.trial for one in analyse(anew).observations] == sorted(one.trial for one in anew.trials)
    of_parts = analyse(manifested(anew, hosts=hosts, merged=MergedRecord("c", ()))).observations
    assert [one.trial for one in of_parts] == [one.trial for one in anew.trials], "by the clock, side by side"
    restarted = [data().fitness[0].replace(after_trial=None, throttle_count=count) for count in (0, 50)]
    parts = replace(merged.data, fitness=tuple(restarted))
    assert {one.value for one in analyse(parts).fitness.findings if one.threshold.name == "throttling"} == {None}
    single = analyse(manifested(hosts=hosts[:1]))
    assert (single.host_of, compared(single, "netns").hosts) == ({}, ())


def test_what_guests_cost_is_of_those_that_were_started_alone() -> None:
    given = replace(data(), footprints=(held("netns/0", files_bytes=7), held("netns/9", files_bytes=7)))
    (row,) = (one for one in analyse(given).guests if one.platform == "netns")
    assert row.files is not None
    assert (row.files.median, row.files.blocks) == (7, 1)
    assert [one.platform for one in analyse(given).guests] == ["native", "native-again", "netns"]
    others = tuple(one.replace(scale=ScalePoint(2, 1, 64)) if one.platform == "netns" else one for one in given.boots)
    assert [one.platform for one in analyse(replace(given, boots=others)).guests] == ["native", "native-again"]


def test_facts_that_are_not_as_the_baselines_are_told() -> None:
    boots = tuple(
        one.replace(mismatches=("CPUs: asked 1, inside 2",)) if one.platform == "netns" else one for one in data().boots
    )
    assert analyse(replace(data(), boots=boots)).unlike == {"netns": ("CPUs",)}
    all_of_them = tuple(one.replace(mismatches=("CPUs: asked 1, inside 2",)) for one in data().boots)
    assert analyse(replace(data(), boots=all_of_them)).unlike == {}, "the baseline is no other"
    assert analyse(manifested(replace(data(), boots=boots), baseline=None)).unlike == {}
    assert analyse(data()).unlike == {}


def test_the_instruments_use_is_of_all_trials_with_and_without_counters() -> None:
    def cost(share: int, *, counters: bool) -> Overhead:
        first, last = (OverheadReading(moment, used, 0, {}) for moment, used in ((0, 0), (100, share)))
        return Overhead(counters, OverheadSpan(first, last), (OverheadSpan(first, last),))

    def observed(one: TrialRecord) -> TrialRecord:
        return one.replace(overhead=cost(5, counters=True) if one.platform == "native" else cost(3, counters=False))

    found = analyse(trials(observed))
    assert found.overhead is not None
    assert found.overhead_uncounted is not None
    assert (found.overhead.trials, found.overhead.share) == (6, 0.05)
    assert (found.overhead_uncounted.trials, found.overhead_uncounted.share) == (12, 0.03)
    twin = platforms("netns", platform="native", counters=False, parameters=data().manifest.platforms[1].parameters)
    effects = analyse(twin).overhead_effects
    assert [(one.platform, one.comparison.platform) for one in effects] == [("native", "netns")] * 2
    assert effects[0].comparison.share in [pytest.approx(one, rel=0.03) for one in (1 / 1.3, 0.8)]


def test_what_a_run_has_not_is_empty() -> None:
    plain = analyse(data())
    assert (plain.overhead, plain.overhead_uncounted, plain.overhead_effects) == (None, None, ())
    assert (plain.host_cpu, plain.consolidations, plain.neighbour_routers) == ((), (), ())
    assert plain.across_hosts.hosts == ()
    assert (plain.searches, plain.over_parameters) == ((), ())
    assert plain.paper_method is None
    assert (plain.alarms, plain.two_states, plain.in_paper_order) == ((), (), False)
    assert analyse(asked(summary="of a later Virtoll")).paper_method is None
    means = analyse(asked(summary="mean-sd"))
    assert means.paper_method is not None
    assert means.paper_method.name == "mean-sd"
    assert {row.platform for row in means.paper.rows} == {"native", "native-again", "netns"}
    gone = analyse(platforms("runc", asked(summary="mean-sd"), available=False))
    assert {why for (platform, *_), why in gone.paper.missing.items() if platform == "runc"} == {"not available"}


def test_points_curves_and_tasks_are_found_by_their_keys() -> None:
    analysis = analyse(data())
    forward, job = task_of(analysis, "forward"), task_of(analysis, "superpi")
    curve = analysis.curve("netns", forward)
    assert curve is not None
    assert (curve.platform, curve.parameters) == ("netns", forward.parameters)
    assert analysis.curve("netns", job) is None
    assert analysis.own_task(replace(forward, size="other words")) is forward
    assert analysis.own_task(replace(forward, parameters="{}")) is None
    assert analysis.comparison("gone", job) is None
    assert {one.platform for one in analysis.points} == {"native", "native-again", "netns"}
    in_order = [own for own in analysis.tasks if own in (job, forward)]
    assert list(analysis.cells) == [
        (platform, own) for platform in ("native", "native-again", "netns") for own in in_order
    ]
    assert (analysis.blocks, analysis.rounds, analysis.baseline) == (3, frozenset({1}), "native")
    assert {one.platform for one in analysis.clocks} == {"native", "native-again", "netns"}
    assert {one.backend for one in analysis.ceilings} == {"live-frames"}
    assert {one.name for one in analysis.backends} == {"live-frames", "xdp"}
    assert [len(own) for own in (analysis.losses, analysis.paces, analysis.order)] == [6, len(analysis.paces), 18]
    assert analysis.paces != ()
    assert [(one.family, one.metric.workload) for one in analysis.detectable] == [
        ("os-level", own.workload) for own in analysis.tasks if own.workload == "superpi" or own is forward
    ]
    assert analysis.equivalence.platforms == ("native", "native-again", "netns")
    flags = next(row for row in analysis.equivalence.rows if "flags" in row.name)
    assert flags.values["native"] is not None
    assert analysis.fitness.samples == len(data().fitness)


def test_cpu_time_of_the_host_is_by_job_and_set_against_the_baselines() -> None:
    def used(one: TrialRecord) -> TrialRecord:
        spent = 30 if one.platform == "netns" else 10
        return one.replace(
            host_cpu=HostCpu(reading(0, 0), reading(10, spent), (CpuSpan(reading(0, 0), reading(10, spent)),))
        )

    found = {(one.platform, one.task.workload): one for one in analyse(trials(used)).host_cpu}
    assert found["netns", "superpi"].ratio == pytest.approx(3)
    assert found["native", "superpi"].ratio is None
    marked = analyse(platforms("netns", trials(used), caveat="nested")).host_cpu
    assert {one.ratio for one in marked if one.platform == "netns"} == {None}


@cache
def beside() -> RunData:
    size = {"frame_size_bytes": 64}
    made = [
        Made(label, workload, parameters, value=value * factor, condition=condition)
        for label in ("native", "netns")
        for workload, parameters, value in (("superpi", {}, 1e8), ("forward", size, 5e5))
        for condition, factor in ((None, 1.0), (IDLE, 2.0 if workload == "superpi" else 0.5))
    ]
    return made_up_run({label: PLATFORMS[label] for label in ("native", "netns")}, made, blocks=3)


def test_conditions_stand_in_the_experiments_order() -> None:
    first, second = Condition("heavy"), IDLE
    made = [Made("native", "superpi", condition=condition) for condition in (None, second, first)]
    given = made_up_run({"native": {}}, made, blocks=2)
    for order in ([first, second], [second, first]):
        experiment = {**given.manifest.experiment, "conditions": [one.label for one in order]}
        assert analyse(manifested(given, experiment=experiment)).isolation.conditions == tuple(order)


def test_guests_beside_and_at_once_are_judged_by_the_runs_own_rules() -> None:
    analysis = analyse(beside())
    found = analysis.isolation
    assert found.conditions == (IDLE,)
    assert {(one.platform, one.task.workload): one.share for one in found.comparisons if one.share} == {
        (label, workload): pytest.approx(0.5, rel=0.05)
        for label in ("native", "netns")
        for workload in ("superpi", "forward")
    }
    assert {one.verdict for one in found.comparisons if one.share} == {Verdict.SLOWER}
    assert len(found.control) == 4
    assert [(one.platform, one.condition) for one in analysis.neighbour_routers] == [("native", IDLE), ("netns", IDLE)]
    never = replace(
        beside(),
        manifest=beside().manifest.replace(experiment={**beside().manifest.experiment, "looks": [[3, 1e-12]]}),
    )
    assert {one.verdict for one in analyse(never).isolation.comparisons if one.share} == {Verdict.UNKNOWN}
    marked = analyse(platforms("netns", beside(), caveat="nested")).isolation.comparisons
    assert {one.caveat for one in marked} == {None, "nested"}
    made = [
        Made(label, "superpi", value=value, scale=ScalePoint(guests, 1, 128 << 20))
        for label, value in (("native", 1e8), ("native-again", 1e8), ("netns", 2e8))
        for guests in (1, 2)
    ]
    several = made_up_run(PLATFORMS, made, blocks=3)
    at_once = analyse(several)
    assert at_once.comparisons == ()
    assert (at_once.baseline, at_once.blocks) == ("native", 3)
    netns = {one.condition: one.verdict for one in at_once.at_once.comparisons if one.platform == "netns"}
    assert netns == {"1 guest": Verdict.SLOWER, "2 guests": Verdict.SLOWER}
    assert {one.platform for one in at_once.at_once.control} == {"native-again"}
    assert [one.point.guests for one in at_once.at_once.groups] == [1, 2] * 3
    assert at_once.statuses["netns"]["ok"] == 6
    assert len(at_once.clocks[0].readings) == 9, "of each guest"
    assert {one.caveat for one in analyse(platforms("netns", several, caveat="nested")).at_once.comparisons} == {
        None,
        "nested",
    }
    assert math.isclose(sum(one.share or 0 for one in at_once.at_once.control), 2, rel_tol=0.05)


def paired_points(frame_ns: int) -> tuple[Point, Point]:
    """100 frames and 1100, for each of which CPU 0 was busy for so long, and for 500 ns besides."""

    def busy(frames: int) -> Point:
        idle = ProcessorIdle(0, 10**9, 10**9 - 500 - frames * frame_ns, "timer_list")
        cpu = Cpu(0, 0, 0, 0, generator_cores=None, sink_core=None, idle=(idle,))
        return point(None, [source(intended=frames)], [sink(forwarded=frames)], cpu=cpu, sink="xdp")

    return busy(100), busy(1100)


def test_cpu_time_of_a_frame_is_that_of_the_trial_less_the_calibrations() -> None:
    """30 ns in the trial, of which 12 are generator's and sink's; without calibrations it is a gap, with its reason."""
    given = trials(lambda one: one.replace(cpu_points=paired_points(30)) if one.workload == "forward" else one)
    calibrated = tuple(one.replace(cpu_points=paired_points(12)) for one in given.calibrations)
    analysis = analyse(replace(given, calibrations=calibrated))
    assert [one.value for one in analysis.observations if one.task.metric.source == "cpu_points"] == [18] * 9
    assert analysis.gaps == ()
    without = analyse(replace(given, calibrations=()))
    assert len(without.gaps) == 9
    assert_facts(without.gaps[0].reason, "generator", "sink")
    varied = trials(
        lambda one: one.replace(cpu_points=paired_points(3000 + one.trial % 5)) if one.workload == "forward" else one
    )
    elsewhere = analyse(forwarded_by(replace(varied, calibrations=calibrated), Forwarding(None, None, "no threads")))
    costs = [one for one in elsewhere.comparisons if one.share and one.task.metric.source == "cpu_points"]
    assert {(one.caveat, one.verdict) for one in costs} == {(None, Verdict.ALIKE)}, "wherever it is forwarded"


@pytest.mark.parametrize("where", ["alone", "beside", "at once"])
def test_with_two_speeds_of_the_host_nothing_within_their_gap_is_told(where: str) -> None:
    """One of three entries of the host's rounds takes half as long again; its guests take 1.3 times as long."""
    made = [
        Made(label, "superpi", value=value, condition=condition)
        for label, value in (("native", 1e8), ("netns", 1.3e8))
        for condition in ((None, IDLE) if where == "beside" else (None,))
    ]
    given = made_up_run({"native": {}, "netns": {}}, made, blocks=5, rounds=2)
    slow = [one.trial for one in given.trials if one.platform == "native"][::3]
    given = trials(
        lambda one: one.replace(clock=clock(150_000_000 + one.trial * 10_000)) if one.trial in slow else one, given
    )
    if where == "beside":
        given = replace(
            given,
            with_neighbours=tuple(
                one.replace(clock=clock(130_000_000 + one.trial * 10_000)) for one in given.with_neighbours
            ),
        )
    if where == "at once":
        several = [
            Made(label, "superpi", value=value, scale=ScalePoint(2, 1, 128 << 20))
            for label, value in (("native", 1e8), ("netns", 1.3e8))
        ]
        both = made_up_run({"native": {}, "netns": {}}, several, blocks=3)
        at_once = tuple(one.replace(trial=one.trial + 1000) for one in both.at_once)
        given = replace(given, at_once=at_once, groups=both.groups)
    analysis = analyse(given)
    ((state, job),) = [(one, one.task) for one in analysis.two_states]
    assert job == task_of(analysis, "superpi")
    assert state.factor == pytest.approx(1.5, rel=0.05)
    found = {
        "alone": analysis.comparisons,
        "beside": analysis.isolation.comparisons,
        "at once": analysis.at_once.comparisons,
    }[where]
    assert {one.verdict for one in found} == {Verdict.UNKNOWN}
    for one in found:
        assert_facts(one.reason, "two speeds", f"{state.factor:.2f}")


def test_what_is_told_beside_others_is_of_the_same_rates_as_alone() -> None:
    """A queue's refusals count as lost where the kernel's threads receive; the sender's core; a lower bound alone."""
    size = {"frame_size_bytes": 64}
    made = [
        Made("netns", "forward", size, value=5e5, lossless=lossless, condition=condition)
        for condition, lossless in ((None, False), (IDLE, True))
    ]
    given = made_up_run({"netns": {}}, made, baseline=None)

    def caveats(changed: RunData) -> set[str | None]:
        return {one.caveat for one in analyse(changed).isolation.comparisons if one.share is not None}

    assert caveats(given) == {SENDER_BOUND}
    refused = replace(given, with_neighbours=tuple(map(as_much_refused, given.with_neighbours)))
    assert caveats(refused) == {SENDER_BOUND}
    assert caveats(forwarded_by(refused, Forwarding((0,), "threaded NAPI", None))) == {None}
    alone = made_up_run({"netns": {}}, [replace(one, lossless=one.condition is None) for one in made], baseline=None)
    verdicts = {one.verdict for one in analyse(alone).isolation.comparisons if one.share is not None}
    assert verdicts == {Verdict.UNKNOWN}
    plain = made_up_run({"netns": {}}, [replace(one, lossless=False) for one in made], baseline=None)
    assert {one.verdict for one in analyse(plain).isolation.comparisons if one.share is not None} == {Verdict.ALIKE}
    assert caveats(forwarded_by(plain, Forwarding(None, None, None))) == {NOT_PINNED}


def test_guests_that_send_have_no_lower_bound() -> None:
    """All of what they send arrives: that is their own rate, and a router's where they forward."""
    for workload, bounds in (("transmitters", 0), ("forward", 1)):
        size = {"frame_size_bytes": 64}
        given = made_up_run({"native": {}}, [Made("native", workload, size, value=4e5, lossless=True)])
        assert len(analyse(given).lower_bounds) == bounds


def test_rates_of_a_list_and_over_the_sizes_of_a_table() -> None:
    listed = {"frame_size_bytes": 64, "sweep": "rates", "rates_mbit_per_second": [100.0, 200.0]}
    made = [Made("native", "forward", listed, value=5e5)]
    made += [Made("native", "forward", {"frame_size_bytes": 64, "routes": routes}, value=4e5) for routes in (10, 100)]
    analysis = analyse(made_up_run({"native": {}}, made, blocks=2))
    (curve,) = analysis.listed_rates.curves
    assert curve.platform == "native"
    assert [one.target_mbit_per_second for one in curve.points] == [100.0, 200.0, None]
    (scaling,) = analysis.scalings
    assert (scaling.platform, [step.size for step in scaling.steps]) == ("native", [10, 100])
    several = [replace(made[0], parameters={**listed, "sources": sources}) for sources in (1, 3)]
    found = analyse(made_up_run({"native": {}}, several, blocks=2)).listed_rates
    assert [(one.shape.sources, one.blocks) for one in found.accumulated] == [(1, 2), (3, 2)]


def test_what_is_told_against_the_baseline() -> None:
    """CPU flags are those more and less than the baseline's, not than the first's; a paper's shares are of it too."""
    flags = {"netns": ["a", "b"], "native": ["b", "c"], "native-again": ["b", "c"]}
    boots = tuple(one.replace(facts=Facts(cpu_flags=tuple(flags[one.platform]))) for one in data().boots)
    given = asked(summary="mean-sd")
    found = analyse(replace(given, boots=boots, manifest=given.manifest.replace(baseline="netns", control=None)))
    row = next(one for one in found.equivalence.rows if one.name == "CPU flags")
    assert (row.values["netns"], row.values["native"]) == ("2 flags", "2 flags; + c; − a")
    shares = {(one.platform, one.task.workload): one.share for one in found.paper.rows}
    assert shares["native", "superpi"] == pytest.approx(1.3, rel=0.03)
    two = analyse(manifested(hosts=(hosts_of(1)[0], hosts_of(2)[1].replace(blocks=(1, 2)))))
    assert two.host_of == {0: "host-0", 1: "host-1", 2: "host-1"}
    assert {one.platform for one in two.across_hosts.variations} == {"netns"}


def test_of_several_guests_at_once_a_look_has_the_level_of_its_blocks() -> None:
    """Three blocks are tested at 2 %, five at 1 %; a block that gave nothing is not one of them."""
    made = [
        Made(label, "superpi", value=value, scale=ScalePoint(2, 1, 128 << 20))
        for label, value in (("native", 1e8), ("netns", 1.3e8))
    ]
    looks = {"looks": [[3, 0.02], [5, 0.01]]}
    for blocks, level in ((3, 0.02), (4, 0.01), (5, 0.01)):
        given = made_up_run({"native": {}, "netns": {}}, made, blocks=blocks, experiment=looks)
        analysis = analyse(given)
        assert (analysis.level, analysis.blocks) == (level, blocks)
        (one,) = analysis.at_once.comparisons
        assert one.simultaneous is not None
        assert one.simultaneous.coverage == 1 - level
    lost = tuple(one.replace(status="failed") if one.block == 3 else one for one in given.at_once if one.block < 4)
    assert analyse(replace(given, at_once=lost)).level == 0.02
