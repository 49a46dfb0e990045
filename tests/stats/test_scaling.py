"""How a rate goes with the size of what is asked, by hand: what is one row, ratios within a block, shares, loads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.by_hand import clock, plain, point, sink, source, trial

from virtoll.runfolder.records import MetricRecord, TrialRecord
from virtoll.stats.scaling import Scaling, Step, scalings
from virtoll.stats.values import Observation, Task, canonical

RATE = MetricRecord("forward", "rate", "frames/s", "higher", "points", title="forwarding", resource="packet path")
LOAD = MetricRecord("forward", "load", "ns", "lower", "figures", title="loading", resource="packet path")


def task(parameters: dict[str, Any], size: str = "", metric: MetricRecord = RATE) -> Task:
    return Task("forward", metric, canonical(parameters), size)


class Run:
    """Trials and their values, one after another."""

    def __init__(self) -> None:
        self.trials: list[TrialRecord] = []
        self.values: list[Observation] = []

    def add(
        self,
        platform: str,
        block: int,
        parameters: dict[str, Any],
        rate: float,
        *,
        size: str = "",
        metric: MetricRecord = RATE,
        **more: Any,
    ) -> None:
        number = 10 + len(self.trials)
        points = more.pop("points", (plain(None, 100),))
        self.trials.append(trial(number, *points, platform=platform, parameters=parameters, **more))
        self.values.append(Observation(task(parameters, size, metric), platform, number, block, 0, rate))

    def scalings(self, *platforms: str) -> tuple[Scaling, ...]:
        return scalings([one.task for one in self.values], self.values, self.trials, platforms)


def step_of(parameters: dict[str, Any], rates: tuple[float, ...], ratios: tuple[float, ...], **more: Any) -> Step:
    given: dict[str, Any] = {"platform": "p", "factor": "routes", "shares": (), "jain": None, "load_ns": (), **more}
    size = parameters[given["factor"]]
    return Step(task=task(parameters, more.pop("words", "")), size=size, rates=rates, ratios=ratios, **given)


def test_a_row_is_a_platform_over_the_sizes_of_one_factor() -> None:
    """Three blocks of 10 and 1000 routes, the last without 10; a block's rate is the median of its rounds."""
    run = Run()
    small, large = {"routes": 10, "destinations": 10}, {"routes": 1000, "destinations": 4}
    run.add("q", 0, small, 70.0)
    run.add("q", 0, large, 35.0)
    for block, rate in ((0, 50.0), (0, 30.0), (0, 40.0), (1, 20.0), (2, 8.0)):
        run.add("p", block, large, rate)
    for block, rate in ((0, 80.0), (1, 100.0)):
        run.add("p", block, small, rate)
    run.add("alone", 0, small, 1.0)
    run.add("p", 0, {"frame_size_bytes": 64}, 9.0)
    run.add("p", 0, small, 3e6, metric=LOAD)
    first, second = run.scalings("p", "none", "alone", "q")
    assert first == Scaling(
        "p", "routes", "", (step_of(small, (80, 100), (1, 1)), step_of(large, (40, 20, 8), (0.5, 0.2)))
    )
    assert [one.rate for one in first.steps] == [90, 20]
    assert [one.ratio for one in first.steps] == [1, pytest.approx(0.35)]
    assert (second.platform, [one.ratios for one in second.steps]) == ("q", [(1,), (0.5,)])


def test_what_else_differs_makes_a_row_of_its_own_and_is_told() -> None:
    """Destinations come with a table and are no other question; a NIC is one."""
    run = Run()
    for nic in ("own", "shared"):
        for count in (1, 2):
            run.add("p", 0, {"routers": count, "nic": nic}, 100.0 / count, size=f"{nic} NIC, {count} routers")
    for count in (1, 4):
        run.add("p", 0, {"transmitters": count, "nic": "own"}, 10.0 * count)
    found = run.scalings("p")
    assert [(one.factor, one.others) for one in found] == [
        ("routers", '{"nic": "own"}'),
        ("routers", '{"nic": "shared"}'),
        ("transmitters", '{"nic": "own"}'),
    ]
    assert [one.words for one in found] == ["own NIC", "shared NIC", ""]
    assert [[one.ratio for one in row.steps] for row in found] == [[1, 0.5], [1, 0.5], [1, 4]]
    assert {one.factor for row in found[:2] for one in row.steps} == {"routers"}


def test_without_a_rate_of_the_smallest_size_there_is_no_ratio() -> None:
    run = Run()
    run.add("p", 0, {"routes": 1}, 0.0)
    run.add("p", 1, {"routes": 5}, 7.0)
    run.add("p", 0, {"routes": 5}, 3.0)
    (found,) = run.scalings("p")
    assert [(one.ratios, one.ratio) for one in found.steps] == [((), None)] * 2
    assert [one.rates for one in found.steps] == [(0,), (3, 7)]


def test_guests_side_by_side_have_their_shares_and_their_fairness() -> None:
    """Of 100 frames in a second one guest forwards 60 and the other 20: Jain's index is 80^2 / (2 (60^2 + 20^2))."""
    run = Run()
    run.add("p", 0, {"routers": 1}, 90.0)
    both = point(None, [source(0, intended=60), source(1, intended=60)], [sink(0, forwarded=60), sink(1, forwarded=20)])
    run.add("p", 0, {"routers": 2}, 80.0, points=(both,))
    (found,) = run.scalings("p")
    assert [(one.shares, one.jain) for one in found.steps] == [((), None), ((60, 20), pytest.approx(0.8))]


def test_loading_a_table_takes_what_the_outside_clock_says() -> None:
    run = Run()
    none: list[dict[str, Any] | None] = [None, {}, {"routing_table": None}, {"routing_table": {"clock": None}}]
    for result in [*none, *({"routing_table": {"clock": clock(ns).to_json()}} for ns in (400, 600))]:
        run.add("p", 0, {"routes": 10}, 1.0, result=result)
    run.add("p", 0, {"routes": 20}, 1.0, result={"routing_table": {"clock": clock(1).replace(marks=None).to_json()}})
    (found,) = run.scalings("p")
    assert [one.load_ns for one in found.steps] == [(400, 600), ()]
