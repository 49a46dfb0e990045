"""The host's level from two samples or a few, whose growth is reckoned by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.support.by_hand import SECOND
from tests.support.facts import assert_facts

from virtoll.runfolder.records import FitnessRecord, Pressure
from virtoll.stats.fitness import THRESHOLDS, FitnessLevel, HostFitness, host_fitness

FIT, DEGRADED, UNFIT = FitnessLevel.FIT, FitnessLevel.DEGRADED, FitnessLevel.UNFIT
HOST = {"cpus": 4, "memory_bytes": 1000, "hypervisor": None}
FIRST = FitnessRecord(
    monotonic_ns=5 * SECOND,
    realtime_ns=0,
    after_trial=None,
    steal_ns=100,
    busy_ns=1000,
    idle_ns=2000,
    load_1m=0.4,
    pressure=Pressure(0, 7000, 9000),
    swap_in_pages=50,
    swap_out_pages=60,
    frequency_khz=None,
    temperature_millicelsius=None,
    throttle_count=3,
    kernel_messages=(),
    memory_available_bytes=600,
)
LAST = FIRST.replace(monotonic_ns=15 * SECOND, after_trial=3, busy_ns=1600, idle_ns=2400, load_1m=9.0)
THE_LABS_OWN = ("b2in0: port 1(l2in0) entered blocking state", "l2in0: entered allmulticast mode")


def branded(
    last: dict[str, Any], host: dict[str, Any] | None = None, first: dict[str, Any] | None = None
) -> HostFitness:
    """Of ten seconds, in which the host was busy for 600 ns and idle for 400; `last`: what else had grown by then."""
    return host_fitness([FIRST.replace(**(first or {})), LAST.replace(**last)], {**HOST, **(host or {})})


def test_a_quiet_host_is_fit_and_says_why() -> None:
    found = branded({})
    assert (found.level, found.reasons, found.kernel_messages, found.samples) == (FIT, (), (), 2)
    assert [one.threshold for one in found.findings] == list(THRESHOLDS)
    assert {one.threshold.name: one.value for one in found.findings} == {
        "steal": 0,
        "memory pressure": 0,
        "disk pressure": 0,
        "swap": 0,
        "throttling": 0,
        "kernel messages": 0,
        "other load": 0.1,
        "memory in use": 0.4,
        "nested": 0,
    }
    assert {one.level for one in found.findings} == {FIT}


@pytest.mark.parametrize(
    ("name", "last", "host", "value", "level"),
    [
        ("steal", {"steal_ns": 104}, {}, 4 / 1004, FIT),
        ("steal", {"steal_ns": 105, "busy_ns": 1595}, {}, 0.005, DEGRADED),
        ("steal", {"steal_ns": 149, "busy_ns": 1551}, {}, 0.049, DEGRADED),
        ("steal", {"steal_ns": 150, "busy_ns": 1550}, {}, 0.05, UNFIT),
        ("steal", {"busy_ns": 1000, "idle_ns": 2000}, {}, None, None),
        ("memory pressure", {"pressure": Pressure(0, 16_999, 9000)}, {}, 0.0009999, FIT),
        ("memory pressure", {"pressure": Pressure(0, 17_000, 9000)}, {}, 0.001, DEGRADED),
        ("memory pressure", {"pressure": Pressure(0, 507_000, 9000)}, {}, 0.05, UNFIT),
        ("memory pressure", {"pressure": None}, {}, None, None),
        ("disk pressure", {"pressure": Pressure(0, 7000, 1_009_000)}, {}, 0.1, DEGRADED),
        ("disk pressure", {"pressure": Pressure(0, 7000, 5_009_000)}, {}, 0.5, UNFIT),
        ("swap", {"swap_in_pages": 51}, {}, 1, DEGRADED),
        ("swap", {"swap_in_pages": 4050, "swap_out_pages": 6059}, {}, 9999, DEGRADED),
        ("swap", {"swap_in_pages": 4050, "swap_out_pages": 6060}, {}, 10_000, UNFIT),
        ("swap", {"swap_in_pages": None}, {}, None, None),
        ("swap", {"swap_out_pages": None}, {}, None, None),
        ("throttling", {"throttle_count": 4}, {}, 1, DEGRADED),
        ("throttling", {"throttle_count": 103}, {}, 100, UNFIT),
        ("throttling", {"throttle_count": 2}, {}, 0, FIT),
        ("kernel messages", {"kernel_messages": ("MCE: error", "tun: new", "MCE: error", "oops")}, {}, 2, DEGRADED),
        ("kernel messages", {"kernel_messages": THE_LABS_OWN}, {}, 0, FIT),
        ("other load", {}, {"cpus": 0}, None, None),
        ("other load", {}, {"cpus": None}, None, None),
        ("memory in use", {"memory_available_bytes": 100}, {}, 0.9, DEGRADED),
        ("memory in use", {"memory_available_bytes": 20}, {}, 0.98, UNFIT),
        ("memory in use", {"memory_available_bytes": None}, {}, 0.4, FIT),
        ("memory in use", {}, {"memory_bytes": None}, None, None),
        ("nested", {}, {"hypervisor": "kvm"}, 1, DEGRADED),
    ],
)
def test_each_limit_is_reached_from_it_on(
    name: str, last: dict[str, Any], host: dict[str, Any], value: float | None, level: FitnessLevel | None
) -> None:
    """And nothing else: the run has the level of the worst."""
    found = branded(last, host)
    told = {one.threshold.name: one for one in found.findings}
    assert told[name].value == (None if value is None else pytest.approx(value, abs=1e-12))
    assert told[name].level is level
    others = {one.level for one in found.findings if one.threshold.name != name} - {None}
    assert others == {FIT}
    assert found.level is (level or FIT)
    assert len(found.reasons) == (found.level is not FIT)


@pytest.mark.parametrize("field", ["steal_ns", "busy_ns", "idle_ns"])
def test_what_a_host_does_not_tell_is_not_zero(field: str) -> None:
    unread: dict[str, Any] = {field: None}
    found = host_fitness([FIRST.replace(**unread), LAST], {"cpus": 4})
    told = {one.threshold.name: one.value for one in found.findings}
    assert (told["steal"], told["memory in use"], told["nested"]) == (None, None, None)
    unknown: dict[str, Any] = {"load_1m": None, "memory_available_bytes": None}
    found = branded(unknown, first=unknown)
    told = {one.threshold.name: one.value for one in found.findings}
    assert (told["other load"], told["memory in use"], told["swap"]) == (None, None, 0)


def test_reasons_are_numbers_with_what_they_mean() -> None:
    """9.9 of 4 CPUs' load before the first trial; 5 % of the CPU time taken away."""
    found = branded({"steal_ns": 150, "busy_ns": 1550, "throttle_count": 10}, {"hypervisor": "kvm"}, {"load_1m": 9.9})
    assert found.level is UNFIT
    told = ("steal", "5.00 %"), ("throttling", "7"), ("load", "2.48"), ("virtual machine", "kvm")
    for reason, facts in zip(found.reasons, told, strict=True):
        assert_facts(reason, *facts)


@pytest.mark.parametrize("samples", [[], [FIRST]])
def test_a_host_that_was_not_watched_is_not_believed(samples: Sequence[FitnessRecord]) -> None:
    found = host_fitness(samples, HOST)
    assert (found.level, found.samples, len(found.reasons)) == (DEGRADED, len(samples), 1)
    assert_facts(found.reasons[0], "host's state", "not recorded")
    told = {one.threshold.name: one.value for one in found.findings}
    assert told["swap"] is None
    assert told["kernel messages"] == (0 if samples else None)
    assert host_fitness([FIRST, LAST], HOST).reasons == ()


def test_a_counter_that_fell_began_anew_and_counts_from_there() -> None:
    """Three throttle events before the host was started again, and five after it."""
    counts = [3, 6, 0, 5]
    samples = [LAST.replace(after_trial=number or None, throttle_count=one) for number, one in enumerate(counts)]
    told = {one.threshold.name: one.value for one in host_fitness(samples, HOST).findings}
    assert told["throttling"] == 8
    gap = [LAST.replace(throttle_count=one) for one in (3, None, 4)]
    told = {one.threshold.name: one.value for one in host_fitness(gap, HOST).findings}
    assert told["throttling"] == 1


def test_nothing_is_counted_from_one_part_of_a_merged_run_to_the_next() -> None:
    """Ten events and then two; one host's load was the larger; without being merged it is 10 + 90 + 2."""
    first, second = FIRST.replace(throttle_count=0), LAST.replace(throttle_count=10)
    third = FIRST.replace(throttle_count=100, load_1m=2.0)
    fourth, fifth = LAST.replace(throttle_count=101), LAST.replace(throttle_count=102, steal_ns=120)
    samples = [first, second, third, fourth, fifth]

    def told(*, merged: bool) -> dict[str, float | None]:
        return {one.threshold.name: one.value for one in host_fitness(samples, HOST, merged=merged).findings}

    assert told(merged=True)["throttling"] == 12
    assert told(merged=True)["other load"] == 0.5
    assert told(merged=True)["steal"] == pytest.approx(20 / 2020)
    assert (told(merged=False)["throttling"], told(merged=False)["other load"]) == (102, 0.1)
    assert host_fitness([], HOST, merged=True).level is DEGRADED
    assert host_fitness(samples, HOST) == host_fitness(samples, HOST, merged=False)
    heard = fifth.replace(kernel_messages=("tun: new", "oops"))
    assert host_fitness([*samples, heard, heard], HOST).kernel_messages == ("oops",)
