"""Guests next to the measured one: what a file may ask for, what is planned, and what a host cannot hold."""

from __future__ import annotations

import os
from collections import Counter
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import neighbours
from tests.support.facts import assert_facts, refused

from virtoll.errors import UsageError
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.requirements import bytes_of, memory_at_once, why_impossible

MIB = 2**20
TESTBED = {
    "generator": {"host": {"ssh": "left"}, "interfaces": ["eth1"]},
    "sink": {"host": {"ssh": "left"}, "interfaces": ["eth2"]},
    "hypervisor": {"host": "local", "interfaces": ["eth3", "eth4"]},
}
OVER_SSH = {
    "generator": {"host": "local", "interfaces": ["eth1"]},
    "sink": {"host": "local", "interfaces": ["eth2"]},
    "hypervisor": {"host": {"ssh": "box"}, "interfaces": ["eth3", "eth4"]},
}
NICS_BESIDE = {"generator": "eth5", "sink": "eth6", "hypervisor": ["eth7", "eth8"]}


def test_a_list_of_values_makes_a_condition_of_each() -> None:
    asked = ["idle", {"load": ["light", "heavy"], "affinity": ["shared", "apart"]}, {"load": "idle", "guests": 2}]
    found = [one.label for one in experiments.parsed(**neighbours(neighbours=asked)).conditions]
    assert found == [
        "idle guest, same CPUs",
        "light load, same CPUs",
        "light load, other CPUs",
        "heavy load, same CPUs",
        "heavy load, other CPUs",
        "2 x idle guest, same CPUs",
    ]


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"neighbours": None}, ["'neighbours'", "idle", "light", "heavy"]),
        ({"scenario": None}, ["'neighbours'", "'scenario: neighbours'"]),
        ({"neighbours": ["busy"]}, ["'neighbours[0].load'"]),
        ({"neighbours": ["forward"]}, ["'forward'", "'rate_share'"]),
        ({"neighbours": [{"load": "forward", "rate_share": 1.5}]}, ["'neighbours[0].rate_share'"]),
        ({"neighbours": [{"load": "idle", "rate_share": 0.5}]}, ["'rate_share'", "'load: forward'", "'idle'"]),
        ({"neighbours": [{"load": "network-flood", "guests": 2}]}, ["'neighbours[0]'", "network-flood", "'guests'"]),
        ({"neighbours": [{"load": "idle", "platform": "xen"}]}, ["'xen'", "native", "netns"]),
        ({"neighbours": ["idle", {"load": "idle", "guests": 1}]}, ["'idle guest, same CPUs'"]),
        ({"neighbours": [{"load": "light", "cpus": 3}]}, ["'neighbours[0].cpus'", "load"]),
        ({"guest": {"image": "tiny"}}, ["light", "image full"]),
        (
            {"scenario": None, "neighbours": None, "testbed": TESTBED | {"neighbour": NICS_BESIDE}},
            ["'testbed.neighbour'", "'scenario: neighbours'"],
        ),
        (
            {
                "testbed": TESTBED | {"neighbour": NICS_BESIDE},
                "neighbours": [{"load": "forward", "rate_share": 0.5, "guests": 2}],
            },
            ["'neighbours[0]'", "'load: forward'", "'guests'"],
        ),
        (
            {"platforms": [{"platform": "ssh", "destination": "box"}], "baseline": "ssh"},
            ["'platforms[0]'", "take ssh out"],
        ),
    ],
)
def test_what_cannot_be_is_refused(changed: dict[str, Any], facts: list[str]) -> None:
    with refused(*facts, error=UsageError):
        experiments.parsed(**neighbours(**changed))


@pytest.mark.parametrize(("cpus", "is_skipped"), [(2, True), (3, True), (4, False)])
@pytest.mark.parametrize("platform", ["netns", "fake"])
def test_traffic_of_a_neighbour_is_not_sent_from_the_generators_cpu(
    monkeypatch: pytest.MonkeyPatch, platform: str, cpus: int, *, is_skipped: bool
) -> None:
    """Two generators on one CPU would be what is measured; a model's needs none."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    asked = neighbours(
        platforms=[platform],
        baseline=platform,
        neighbours=["light", {"load": "forward", "rate_share": 0.5}],
        workloads=[{"workload": "forward"}, {"workload": "superpi", "digits": 1000}],
    )
    experiment = experiments.parsed(**asked)
    reasons = {
        (trial.workload.workload, trial.condition.load): why_impossible(trial, experiment)
        for trial in plan_of(experiment).trials
        if trial.condition is not None
    }
    reason = reasons.pop(("forward", "forward"))
    assert set(reasons.values()) == {None}
    if is_skipped and platform != "fake":
        assert_facts(reason or "", "forward", "generator", "CPU")
    else:
        assert reason is None


def test_a_guest_is_alone_first_in_the_middle_and_last_of_each_round() -> None:
    """All conditions of a platform stand between its own entries alone, seconds apart."""
    asked = neighbours(neighbours=["idle", "light", "heavy"], blocks=2, rounds=2)
    experiment = experiments.parsed(**asked)
    plan = plan_of(experiment)
    assert plan == plan_of(experiment)
    measured = [trial for trial in plan.trials if not trial.warm_up]
    assert all(trial.condition is None for trial in plan.trials if trial.warm_up)
    groups = [list(group) for _, group in groupby(measured, lambda one: (one.block, one.round, one.platform.label))]
    assert len(groups) == 2 * 2 * 2
    for group in groups:
        conditions = [trial.condition for trial in group]
        assert [place for place, one in enumerate(conditions) if one is None] == [0, 3, 5]
        assert {one.label for one in conditions if one} == {one.label for one in experiment.conditions}
    assert len({tuple(trial.condition for trial in group) for group in groups}) > 1, "always in the same order"


def test_the_control_is_measured_alone() -> None:
    """It is there for what is compared between platforms: once a round."""
    asked = neighbours(platforms=["native", "native-again", "netns"], blocks=3, rounds=2)
    trials = [one for one in plan_of(experiments.parsed(**asked)).trials if one.platform.label == "native-again"]
    assert all(one.condition is None for one in trials)
    assert Counter(one.warm_up for one in trials) == {True: 3, False: 3 * 2}


def test_in_the_papers_order_each_condition_is_repeated_in_a_row() -> None:
    experiment = experiments.parsed(**neighbours(order="paper", blocks=2))
    conditions = [trial.condition for trial in plan_of(experiment).trials]
    assert [one and one.load for one in conditions] == [None, None, "light", "light"] * 2


@pytest.mark.parametrize(
    ("allowed", "apart"), [((0,), None), ((0, 1), (1,)), ((0, 1, 2), (1,)), ((0, 1, 2, 3), (1,)), ((4, 5, 6, 7), (5,))]
)
def test_guests_apart_have_cpus_of_their_own_or_the_idle_generators(
    allowed: tuple[int, ...], apart: tuple[int, ...] | None
) -> None:
    pinning = Pinning((allowed[0],), allowed[-1], allowed[-2 if len(allowed) > 2 else -1])
    if len(allowed) == 1:
        pinning = Pinning((), None, None)
    assert pinning.of_neighbour("apart", 1, allowed) == apart
    assert pinning.of_neighbour("shared", 1, allowed) == pinning.guest_cpus
    assert pinning.of_neighbour("unpinned", 1, allowed) == ()


def test_where_traffic_needs_the_only_other_cpu_no_guest_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    asked = neighbours(
        neighbours=[{"load": "light", "affinity": ["shared", "apart"]}],
        workloads=[{"workload": "forward", "frame_size_bytes": 64}, "superpi"],
    )
    experiment = experiments.parsed(**asked)
    skipped = {
        (trial.workload.workload, trial.condition.affinity)
        for trial in plan_of(experiment).trials
        if why_impossible(trial, experiment) and trial.condition
    }
    assert skipped == {("forward", "apart")}


def reasons(**changed: Any) -> dict[tuple[str, str], str | None]:
    """Why no trial with guests beside can be, by its platform and condition; None: it can."""
    experiment = experiments.parsed(**neighbours(**changed))
    return {
        (trial.platform.label, trial.condition.label): why_impossible(trial, experiment)
        for trial in plan_of(experiment).trials
        if trial.condition is not None
    }


def test_guests_beside_are_on_the_measured_ones_host() -> None:
    """On a nested host a load is a program: the NICs that lead there are the measured guest's."""
    found = reasons(
        platforms=["native", "netns", {"platform": "xen", "host": "nested:xen"}],
        neighbours=["light", {"load": "idle", "platform": "netns"}, "network-flood"],
    )
    possible = {(label, words.split(",")[0]) for (label, words), reason in found.items() if reason is None}
    assert possible == {
        ("native", "light load"),
        ("netns", "light load"),
        ("xen-nested", "light load"),
        ("native", "idle guest"),
        ("netns", "idle guest"),
        ("native", "network flood"),
        ("netns", "network flood"),
    }
    assert_facts(found["xen-nested", "idle guest, in netns, same CPUs"] or "", "netns", "xen-nested")
    assert_facts(found["xen-nested", "network flood, same CPUs"] or "", "network-flood", "NICs", "nested xen")


@pytest.mark.parametrize("nics", [None, NICS_BESIDE], ids=["none", "its-own"])
def test_over_ssh_a_guest_beside_forwards_by_nics_of_its_own(nics: dict[str, Any] | None) -> None:
    """Without any those loads alone are skipped, and the reason says how to have them."""
    found = reasons(
        testbed=OVER_SSH | {"neighbour": nics},
        guest={"marks": "channel"},
        platforms=["native", "qemu-tcg"],
        neighbours=["light", {"load": "idle", "guests": 2}, {"load": "forward", "rate_share": 0.5}, "network-flood"],
    )
    assert len(found) == 2 * 4
    refused = {words.split(",")[0]: reason for (_, words), reason in found.items() if reason is not None}
    assert set(refused) == (set() if nics else {"forwarding at 50 %", "network flood"})
    for reason in refused.values():
        assert_facts(reason, "NICs", "ssh box", "'testbed.neighbour'")


def test_behind_a_testbeds_nics_there_are_guests_beside_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator's CPU is another host's, so that two CPUs here are enough for guests apart beside traffic."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1})
    wanted = ["network-flood", {"load": "light", "affinity": "apart"}]
    found = reasons(testbed=TESTBED, platforms=["netns"], baseline="netns", neighbours=wanted, workloads=["forward"])
    assert set(found.values()) == {None}


def test_nics_that_are_handed_in_whole_have_one_guest() -> None:
    handed = {"platform": "qemu-kvm", "attachment": "passthrough", "vfio": ["0000:03:00.0", "0000:04:00.0"]}
    (found,) = reasons(testbed=TESTBED, platforms=[{**handed, "label": "whole"}], baseline="whole").values()
    assert_facts(found or "", "whole", "NICs", "'vfio'")


def test_the_plan_counts_the_guests_beside(tmp_path: Path) -> None:
    asked = neighbours(neighbours=["idle", {"load": "light", "guests": 3}, {"load": "idle", "memory": "64MiB"}])
    experiment = experiments.parsed(**asked)
    sizes = memory_at_once(plan_of(experiment), experiment)
    assert sizes == {256 * MIB: 2 * (1 + 3), 64 * MIB: 2}
    assert bytes_of(sizes) == 8 * 256 * MIB + 2 * 64 * MIB
    planned = virtoll("plan", experiments.write(tmp_path, **asked), "--trials").stdout
    assert_facts(planned, "3 x light load", "10 guests", "2.12 GiB")


@pytest.mark.parametrize(("gib", "fit"), [(4.7, 15), (4.8, None), (0.6, 0)])
def test_guests_beside_that_the_host_has_no_memory_for_are_skipped(
    monkeypatch: pytest.MonkeyPatch, gib: float, fit: int | None
) -> None:
    """16 of 256 MiB beside one of 256 MiB, and 512 MiB that the host keeps: 4.75 GiB."""
    monkeypatch.setattr("virtoll.pipeline.requirements.available_bytes", lambda: int(gib * 2**30))
    found = reasons(platforms=["netns"], baseline="netns", neighbours=[{"load": "idle", "guests": 16}])
    (reason,) = found.values()
    if fit is None:
        assert reason is None
    else:
        assert_facts(reason or "", "16 guests", "256 MiB", fit, "512 MiB")
