"""Advice on several guests: how many at once meet a need, and parts of a need that are met side by side."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.support.advised import (
    FAILS,
    HOSTS,
    MEETS,
    NONE,
    OPEN,
    about,
    advice_of,
    checked,
    flat,
    law,
    of,
    routers,
    told,
)
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.report.advice import advice_view
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.scale import ScalePoint

HEAVY, FORWARDING = Condition("heavy"), Condition("forward", rate_share=0.95)


def at_once(values: Mapping[int, float], label: str = "native", **given: Any) -> list[Made]:
    """Jobs in so many guests at once, ns."""
    return [
        Made(label, "superpi", value=value, scale=ScalePoint(guests, 1, 2**28), **given)
        for guests, value in values.items()
    ]


def test_so_many_guests_meet_a_need_and_the_law_says_what_is_beyond() -> None:
    numbers = (1, 2, 4, 8, 16)
    made = [*at_once({n: law(n) for n in numbers}), *at_once({n: law(n) for n in numbers}, "runc")]
    run = made_up_run(HOSTS, made, blocks=6)
    between = advice_of(run, f"superpi duration<{law(12) / 1e9:.2f}s")
    (found,) = of(between, "runc").guests
    assert (found.at_least, found.not_with) == (8, 16)
    assert_facts(about(between, "runc"), "8 guests", "not 16 guests")
    assert {row.cells[-1].value for row in advice_view(between, ()).rows if row.head == "runc"} == {8}
    assert found.fit is not None
    assert found.fit.fits
    assert found.by_model in (9, 10, 11), "the truth is 12, and the interval and the model's error come off"
    assert not found.beyond
    beyond = advice_of(run, f"superpi duration<{law(24) / 1e9:.2f}s")
    (found,) = of(beyond, "runc").guests
    assert (found.at_least, found.not_with) == (16, None)
    assert found.by_model is not None
    assert 16 < found.by_model < 24
    assert found.beyond
    assert_facts(about(beyond, "runc"), found.by_model, "model", "beyond")
    assert told(beyond)["runc"] is MEETS


def test_no_more_guests_are_told_than_the_host_has_memory_for() -> None:
    numbers = (1, 2, 3, 4)
    made = [
        Made("native", "superpi", value=law(n, 0.1, 0.0), scale=ScalePoint(n, 1, 2**33), spread=0.001) for n in numbers
    ]
    (found,) = of(advice_of(made_up_run(HOSTS, made, blocks=4), "superpi duration<20s"), "native").guests
    assert (found.at_least, found.taken_bytes) == (4, 2**32)
    assert found.by_model == 5, "of 20 GiB, 4 by each"


def test_the_worst_guest_must_meet_it() -> None:
    made = at_once({1: 1e9, 4: 1.9e9}, spread=0.2)
    (found,) = of(advice_of(made_up_run(HOSTS, made, blocks=6), "superpi duration<2s"), "native").guests
    (step,) = [one for one in found.steps if one.guests == 4]
    assert step.findings[0].value is not None
    assert step.findings[0].value > 1.95e9, "not the mean guest's, which is within"


def test_guests_whose_times_jump_have_no_law() -> None:
    run = made_up_run(HOSTS, at_once({1: 1e9, 2: 1e9, 4: 2e9, 8: 4e9, 16: 8e9}), blocks=3)
    (found,) = of(advice_of(run, "superpi duration<5s"), "native").guests
    assert found.fit is not None
    assert not found.fit.fits
    assert (found.at_least, found.not_with, found.by_model) == (8, 16, None)


def test_routers_side_by_side_are_counted_by_the_slowest() -> None:
    sizes = {"frame_size_bytes": 64}
    made = [
        *routers({"native": 1e6}),
        Made("native", "virtual-routers", {**sizes, "routers": 2}, 8e5),
        Made("native", "virtual-routers", {**sizes, "routers": 4}, 8e5, by_source=(0.4, 0.3, 0.2, 0.1)),
    ]
    (found,) = of(advice_of(made_up_run(HOSTS, made), "router 64B 150kpps"), "native").guests
    assert (found.at_least, found.not_with) == (2, 4)


def test_a_rate_at_which_no_more_was_offered_never_fails_a_need() -> None:
    sizes = {"frame_size_bytes": 64}
    figures = {"latency_p99": 5e6, "replies_per_second": 100.0}
    made = [
        *routers({"native": 1e6}),
        Made(
            "native",
            "virtual-routers",
            {**sizes, "routers": 2, "total_rate_frames_per_second": 20_000},
            2e4,
            spread=0.0,
        ),
        Made("native", "nginx", {"rate_requests_per_second": 100}, 1e6, figures),
    ]
    run = made_up_run(HOSTS, made)
    (found,) = of(advice_of(run, "router 64B 100kpps"), "native").guests
    assert (found.at_least, found.not_with) == (None, None), "10 000 frames/s were sent to each"
    (found,) = of(advice_of(run, "router 64B 5kpps"), "native").guests
    assert found.at_least == 2
    assert told(advice_of(run, "web replies>90/s"))["native"] is MEETS
    assert told(advice_of(run, "web replies>300/s"))["native"] is OPEN, "100 requests/s were sent"
    assert told(advice_of(run, "web rate_requests_per_second=100 replies>300/s"))["native"] is FAILS, "as was asked"
    sent = Made("native", "iperf-udp", {"rate_bits_per_second": 10**8}, 95.0, {"received_share": 0.95, "duration": 1e9})
    sending = made_up_run(HOSTS, [sent])
    assert told(advice_of(sending, "udp received_rate>1Gbit/s"))["native"] is OPEN
    assert told(advice_of(sending, "udp received_share>99%"))["native"] is FAILS, "a share is of what was sent"
    assert told(advice_of(sending, "udp duration<100ms"))["native"] is OPEN
    swept = Made("native", "virtual-routers", {**sizes, "routers": 2}, 1e5)
    (found,) = of(advice_of(made_up_run(HOSTS, [*made, swept]), "router 64B 100kpps"), "native").guests
    assert found.not_with == 2


def side_by_side(database: float, beside_forwarding: float, forwarded_beside: float = 2.9e5) -> list[Made]:
    """p99 of a database alone and beside a guest that forwards; a router alone and beside heavy load."""

    def served(p99_ns: float, under: Condition | None) -> Made:
        figures = {"transactions_per_second": 100.0, "latency_average": 1e6, "latency_p95": 1e6, "latency_p99": p99_ns}
        forwarded = (3e5, forwarded_beside) if under == FORWARDING else None
        return Made("netns", "mariadb-oltp", {}, 1e9, figures, condition=under, neighbour=forwarded)

    def routed(rate: float, under: Condition | None) -> Made:
        forwarded = (3e5, forwarded_beside) if under == FORWARDING else None
        return Made("netns", "forward", {"frame_size_bytes": 64}, rate, condition=under, neighbour=forwarded)

    unders: Sequence[Condition | None] = (None, HEAVY, FORWARDING)
    databases = [served(beside_forwarding if under == FORWARDING else database, under) for under in unders]
    return [*databases, *(routed(5e5 if under is None else 3e5, under) for under in unders)]


def test_parts_are_met_side_by_side_beside_what_stands_for_the_others() -> None:
    run = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 9e6), blocks=6)
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice) == {"netns": MEETS, "native": NONE}
    router, database = of(advice, "netns").with_neighbours
    assert (router.loads, database.loads) == (("heavy",), ("forward",))
    (factor,) = database.factors
    assert factor.share == pytest.approx(5 / 9, rel=0.05)
    assert factor.held_out is not None
    assert not factor.why_not
    assert re.search(r"\b5\d %", about(advice, "netns"))
    idler = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 9e6, 1e5), blocks=6)
    advice = advice_of(idler, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice)["netns"] is OPEN
    _, database = of(advice, "netns").with_neighbours
    assert_facts(database.reason, "100000 frames/s")


def test_a_load_that_is_too_heavy_never_fails_a_part() -> None:
    run = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 50e6), blocks=6)
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice)["netns"] is OPEN
    _, database = of(advice, "netns").with_neighbours
    assert_facts(database.reason, "load", "more")
    alone_too_slow = advice_of(run, "router 64B 200kpps + oltp p99<2ms")
    assert told(alone_too_slow)["netns"] is FAILS, "what a guest cannot alone it cannot beside others"


def test_parts_measured_alone_have_the_experiment_of_neighbours() -> None:
    figures = {"transactions_per_second": 100.0, "latency_p99": 5e6}
    made = [*routers({"native": 1e6, "netns": 5e5}), Made("netns", "mariadb-oltp", {}, 1e9, figures)]
    advice = advice_of(made_up_run(HOSTS, made), "router 64B 200kpps + oltp p99<20ms")
    assert told(advice)["netns"] is OPEN
    assert {one.answer for one in of(advice, "netns").alone} == {MEETS}
    beside, *guests = checked(advice)
    assert beside["scenario"] == "neighbours"
    assert beside["neighbours"] == [{"load": "forward", "rate_share": 0.95}, {"load": "heavy"}]
    assert [one["workload"] for one in beside["workloads"]] == ["forward", "mariadb-oltp"]
    assert [one.get("scenario") for one in guests] == [None, "scale"]
    assert_facts(flat(advice), "'+'", "side by side")


def test_three_parts_of_three_loads_cannot_be_told_by_one_experiment() -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6}))
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms + memory copy>1GB/s")
    assert_facts(of(advice, "native").with_neighbours[0].reason, "no experiment", "several loads")
    assert any(one.note for one in advice.missing)
    checked(advice)
