"""On which host CPUs guests side by side are: what is planned, what is started, and what the report calls it."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import in_process
from tests.support.experiments import fake
from tests.support.facts import assert_facts
from tests.support.machine import why_not_pinned
from tests.support.model_runs import measured
from tests.support.real_run import measure_experiment

from virtoll.experiment.model import Experiment
from virtoll.pipeline.pinning import Pinning, choose_pinning
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.requirements import guests_side_by_side, memory_at_once, why_impossible
from virtoll.report.build import load
from virtoll.runfolder.conditions import Affinity
from virtoll.runfolder.facts import Facts
from virtoll.stats.analysis import analyse

pytestmark = pytest.mark.usefixtures("undrawn")
EVERY = ["shared", "apart", "unpinned"]


@pytest.fixture
def eight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host with as many cores as the paper's."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))


def asked(**changed: Any) -> Experiment:
    """An experiment of routers side by side."""
    routers = {"workload": "virtual-routers", "routers": [1, 2, 4], "affinity": EVERY}
    return experiments.parsed(**{"workloads": [routers], "blocks": 1, **changed})


@pytest.mark.parametrize(
    ("vcpus", "cpus", "apart"),
    [
        (1, (0,), ()),
        (1, (0, 1), ((0,),)),
        (1, (0, 1, 2), ((0,),)),
        (1, (4, 5, 6, 7), ((4,), (5,))),
        (1, tuple(range(8)), tuple((cpu,) for cpu in range(6))),
        (2, tuple(range(8)), ((0, 1), (2, 3), (4, 5))),
        (3, tuple(range(8)), ((0, 1, 2), (3, 4, 5))),
    ],
)
def test_guests_apart_have_cpus_that_nothing_else_is_pinned_to(
    vcpus: int, cpus: tuple[int, ...], apart: tuple[tuple[int, ...], ...]
) -> None:
    pinning = choose_pinning(vcpus, cpus)
    assert pinning.most_apart(vcpus, cpus) == len(apart)
    for count in range(1, len(apart) + 1):
        assert pinning.side_by_side("apart", count, vcpus, cpus) == apart[:count]
    assert pinning.side_by_side("apart", len(apart) + 1, vcpus, cpus) is None
    own = pinning.guest_cpus
    assert pinning.side_by_side("shared", 3, vcpus, cpus) == (own, own, own)
    assert pinning.side_by_side("unpinned", 3, vcpus, cpus) == ((), (), ())
    taken = [cpu for one in apart for cpu in one]
    assert len(taken) == len(set(taken))
    assert not {pinning.generator_cpu, pinning.sink_cpu} & set(taken)


@pytest.mark.parametrize(
    ("vcpus", "cpus", "apart"),
    [(1, range(2), (1,)), (1, range(4), (1,)), (2, range(5), (2, 3)), (2, range(8), (2, 3)), (2, range(3), None)],
)
def test_a_guest_beside_has_the_loads_cpus_where_there_are_no_others(
    vcpus: int, cpus: range, apart: tuple[int, ...] | None
) -> None:
    pinning = choose_pinning(vcpus, tuple(cpus))
    assert pinning.of_neighbour("apart", vcpus, tuple(cpus)) == apart


@pytest.mark.parametrize(
    ("count", "generator", "sink"),
    [
        (1, None, None),
        (2, 1, 1),  # the trial's own
        (3, 2, 1),
        (4, 1, 2),  # one is free, and may be a guest's beside it: better that than the trial's generator
        (5, 2, 3),
        (6, 3, 2),
        (8, 5, 4),
    ],
)
def test_who_loads_a_guest_beside_has_cpus_of_its_own_where_there_are_any(
    count: int, generator: int | None, sink: int | None
) -> None:
    cpus = tuple(range(count))
    pinning = choose_pinning(1, cpus)
    found = pinning.of_load(cpus)
    assert (found.generator, found.sink) == (generator, sink)


def test_a_smaller_guest_apart_has_what_the_largest_leaves() -> None:
    pinning = Pinning((0, 1), 5, 4)
    assert pinning.side_by_side("apart", 4, 1, tuple(range(6))) == ((0,), (1,), (2,), (3,))


def test_what_the_host_has_too_few_cpus_for_is_skipped_with_what_fits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2, 3})
    experiment = asked(platforms=["netns"], baseline="netns")
    reasons = {
        (trial.workload.parameters.model_dump()["affinity"], trial.workload.parameters.model_dump()["routers"]): reason
        for trial in plan_of(experiment).trials
        if (reason := why_impossible(trial, experiment)) is not None
    }
    assert set(reasons) == {("apart", 4)}
    assert_facts(reasons["apart", 4], "4 guests", "guest.vcpus: 1", "'affinity: apart'", 2, "'affinity: shared'")
    routers = {"workload": "virtual-routers", "routers": 16, "affinity": "apart"}
    file = experiments.write(tmp_path, platforms=["netns"], baseline="netns", workloads=[routers], guest={"vcpus": 64})
    assert_facts(in_process("plan", file).stdout, "16 guests", "guest.vcpus: 64")


@pytest.mark.usefixtures("eight")
def test_neighbours_are_not_apart_from_guests_that_are_apart() -> None:
    experiment = asked(
        scenario="neighbours",
        platforms=["netns"],
        baseline="netns",
        neighbours=[{"load": "idle", "affinity": ["shared", "apart"]}],
    )
    skipped = Counter(
        (trial.condition and trial.condition.affinity, trial.workload.parameters.model_dump()["affinity"])
        for trial in plan_of(experiment).trials
        if why_impossible(trial, experiment) is not None
    )
    assert set(skipped) == {("apart", "apart")}


@pytest.mark.usefixtures("eight")
def test_the_plan_counts_each_affinitys_guests() -> None:
    experiment = asked(platforms=["netns"], baseline="netns")
    plan = plan_of(experiment)
    wanted: dict[tuple[str, Affinity], int] = {("netns", "shared"): 3, ("netns", "apart"): 3, ("netns", "unpinned"): 4}
    assert guests_side_by_side(plan.trials) == wanted
    assert memory_at_once(plan, experiment).total() == 1 + 3 + 3 + 4


@pytest.mark.usefixtures("eight")
def test_each_affinity_has_guests_of_its_own(tmp_path: Path) -> None:
    experiment = asked(platforms=[fake("model"), fake("dear", cost=2)], baseline="model", blocks=2)
    folder = measured(experiment, tmp_path / "run")
    assert {(one.status, one.reason) for one in folder.trials()} == {("ok", None)}
    own = [boot for boot in folder.boots() if (boot.platform, boot.block) == ("model", 0)]
    cpus = Counter((boot.instance > 0, boot.requested.cpus if boot.requested else None) for boot in own)
    # The platform's own, three on its CPU, three on others, and four on none that is said: not started twice.
    assert cpus == {(False, (0,)): 1, (True, (0,)): 3, (True, (1,)): 1, (True, (2,)): 1, (True, (3,)): 1, (True, ()): 4}
    firsts = {(trial.parameters["affinity"], trial.boot) for trial in folder.trials() if trial.block == 0}
    boots = {boot.boot: boot for boot in own}
    places = {(affinity, boots[boot].requested) for affinity, boot in firsts if boot in boots}
    assert {(affinity, one.cpus if one else None) for affinity, one in places} == {
        ("shared", (0,)),
        ("apart", (0,)),
        ("unpinned", ()),
    }
    found = analyse(load(folder.path)).scalings
    assert {(one.platform, one.words) for one in found} == {
        (label, words) for label in ("model", "dear") for words in ("same CPUs", "own CPUs", "not pinned")
    }


@pytest.mark.lab
@pytest.mark.root
@pytest.mark.timeout(600)
def test_real_guests_side_by_side_are_on_their_cpus(tmp_path: Path) -> None:
    """On two cores none can be apart; what the kernel forwards for guests that are not pinned is not pinned either.

    Where the kernel's threads are out of sight, the record of each guest says so.
    """
    unseen = why_not_pinned(root=True)
    routers = {"workload": "virtual-routers", "routers": 2, "total_rate_frames_per_second": 2000}
    workloads = [
        {**routers, "point_milliseconds": 100, "affinity": EVERY},
        {
            "workload": "transmitters",
            "rate_frames_per_second": 200,
            "duration_milliseconds": 1000,
            "affinity": "unpinned",
        },
    ]
    changed = {"platforms": ["netns"], "baseline": "netns", "blocks": 1, "rounds": 1, "workloads": workloads}
    folder, cpus = measure_experiment(tmp_path, **changed), tuple(sorted(os.sched_getaffinity(0)))
    boots = {boot.boot: boot for boot in folder.boots()}
    for trial in folder.latest_trials():
        affinity = trial.parameters["affinity"]
        if affinity == "apart" and len(cpus) < 4:
            assert trial.status == "skipped"
            assert_facts(trial.reason or "", "2 guests", "CPUs")
            continue
        assert (trial.status, trial.reason) == ("ok", None)
        assert [one.forwarded_frames > 0 for one in (trial.points or ())[0].sink.per_source] == [True, True]
        boot = boots[trial.boot or ""]
        pinned = () if affinity == "unpinned" else cpus[:1]
        assert (boot.requested and boot.requested.cpus, boot.fatal) == (pinned, ())
        assert (boot.facts or Facts()).cpus_allowed == len(pinned or cpus)
        assert boot.forwarding is not None
        assert (boot.forwarding.cpus, boot.forwarding.reason) == (None if unseen else pinned or cpus, unseen)
    others = Counter(boot.requested and boot.requested.cpus for boot in folder.boots() if boot.instance > 0)
    assert (others[cpus[:1]], others[()]) == (1, 2), "transmitters and routers have the same guests"
    assert others.total() == (3 if len(cpus) < 4 else 4)
