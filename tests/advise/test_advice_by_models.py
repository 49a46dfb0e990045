"""Advice on sizes and numbers of CPUs that were not measured: by a model that fits, or by neighbouring values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
    alone,
    checked,
    flat,
    law,
    routers,
    told,
)
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run

from virtoll.advise.frame_sizes import frame_cost
from virtoll.advise.meets import measured
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import analyse
from virtoll.stats.ratios import Ratios

SIZES = (64, 256, 512, 1024, 1518)


def by_size(cost_ns: Mapping[int, float], **given: Any) -> list[Made]:
    return [one for size, cost in cost_ns.items() for one in routers({"netns": 1e9 / cost}, size, **given)]


def test_a_size_between_those_measured_has_the_models_answer() -> None:
    made = by_size({size: 1000 + 2 * size for size in SIZES})
    run = made_up_run(HOSTS, [*made, *routers({"native": 1e6})])
    truth = 1e9 / (1000 + 2 * 800)
    advice = advice_of(run, f"router 800B {truth / 2:.0f}pps")
    (finding,) = alone(advice, "netns").findings
    assert told(advice) == {"netns": MEETS, "native": OPEN, "runc": NONE}
    assert finding.value == pytest.approx(truth, rel=0.02)
    assert finding.fit is not None
    assert list(finding.fit.coefficients.values()) == pytest.approx([1000, 2], rel=0.05)
    assert finding.margin is not None
    assert finding.fit.held_out is not None
    assert finding.margin.at_least < finding.margin.times / (1 + finding.fit.held_out)
    assert_facts(about(advice, "netns"), "IP forwarding 800 B", "model")
    assert told(advice_of(run, f"router 800B {truth * 2:.0f}pps"))["netns"] is FAILS


def test_a_figure_of_a_size_in_between_has_the_models_answer_too() -> None:
    run = made_up_run(HOSTS, by_size({size: 1000 + 2 * size for size in SIZES}))
    need = "forward frame_size_bytes={} maximum_forwarding_rate>300kpps"
    assert told(advice_of(run, need.format(800)))["netns"] is MEETS
    assert told(advice_of(run, need.format(1500)))["netns"] is FAILS
    cells = measured(Ratios(analyse(run)), "forward", "maximum_forwarding_rate", {"frame_size_bytes": {"at_least": 1}})
    assert not isinstance(cells, str)
    cost = [replace(one, rounds={key: -log for key, log in one.rounds.items()}, lower_is_better=True) for one in cells]
    found = frame_cost(cost, 800)
    assert found is not None
    assert math.exp(found.cell.rounds[0, 0]) == pytest.approx(2600e-9, rel=0.03), "as of what a frame costs"
    jumps = made_up_run(HOSTS, by_size({size: 1000.0 if size < 600 else 4000.0 for size in SIZES}))
    advice = advice_of(jumps, need.format(800))
    assert told(advice)["netns"] is OPEN
    assert "does not fit" in flat(advice)
    assert advice.missing[0].document["workloads"] == [{"workload": "forward", "frame_size_bytes": 800}]


def test_a_model_that_does_not_fit_says_so_and_neighbouring_sizes_answer() -> None:
    cost = {size: 1000.0 if size < 600 else 4000.0 for size in SIZES}
    run = made_up_run(HOSTS, by_size(cost))
    slow = advice_of(run, "router 800B 100kpps")
    (finding,) = alone(slow, "netns").findings
    assert finding.fit is not None
    assert not finding.fit.fits
    assert "does not fit" in flat(slow)
    assert told(slow)["netns"] is MEETS, "frames of 1024 bytes are forwarded faster"
    assert told(advice_of(run, "router 800B 500kpps"))["netns"] is OPEN, "more than of 1024 bytes, fewer than of 512"
    assert told(advice_of(run, "router 800B 2Mpps"))["netns"] is FAILS, "frames of 512 bytes are not"


def test_beyond_the_sizes_measured_a_larger_frame_speaks_for_a_smaller() -> None:
    run = made_up_run(HOSTS, by_size({256: 1500.0, 512: 2000.0, 1024: 3000.0}))
    assert told(advice_of(run, "router 64B 100kpps"))["netns"] is MEETS
    assert told(advice_of(run, "router 64B 2Mpps"))["netns"] is OPEN
    assert told(advice_of(run, "router 1518B 100kpps"))["netns"] is OPEN
    advice = advice_of(run, "router 1518B 2Mpps")
    assert told(advice)["netns"] is FAILS
    assert_facts(about(advice, "netns"), "larger frame")


def test_where_larger_frames_are_faster_no_size_speaks_for_another() -> None:
    run = made_up_run(HOSTS, by_size({64: 9000.0, 512: 2000.0, 1518: 1000.0}))
    advice = advice_of(run, "router 256B 1kpps")
    assert told(advice)["netns"] is OPEN
    assert_facts(alone(advice, "netns").findings[0].reason, "larger frames", "higher rate")
    checked(advice)


def on_cpus(numbers: Sequence[int], time_ns: Callable[[int], float]) -> list[Made]:
    """The build of a kernel by a job for each virtual CPU, in one guest."""
    return [
        Made("runc", "kernel-compile", {"jobs": "vcpus"}, time_ns(n), scale=ScalePoint(1, n, 2**29), spread=0.005)
        for n in numbers
    ]


def test_a_number_of_cpus_between_those_measured_has_the_laws_answer() -> None:
    run = made_up_run(HOSTS, on_cpus((1, 2, 4, 8), lambda n: law(n, 0.1, 0.002) / n))
    truth = law(6, 0.1, 0.002) / 6
    advice = advice_of(run, f"kernel-compile vcpus=6 duration<{truth * 1.3 / 1e9:.3f}s")
    (finding,) = alone(advice, "runc").findings
    assert told(advice)["runc"] is MEETS
    assert finding.value == pytest.approx(truth, rel=0.03)
    assert_facts(about(advice, "runc"), "6 virtual CPUs", "model")
    assert told(advice_of(run, f"kernel-compile vcpus=6 duration<{truth / 1.3 / 1e9:.3f}s"))["runc"] is FAILS
    assert told(advice_of(run, "kernel-compile vcpus=2 duration<9s"))["runc"] is MEETS, "which was measured"
    assert told(advice_of(run, "kernel-compile vcpus=16 duration<9s"))["runc"] is OPEN, "beyond what was measured"


def test_cpus_that_give_nothing_more_have_no_law_of_their_own() -> None:
    few = made_up_run(HOSTS, on_cpus((1, 2, 4), lambda n: 1e9 / n))
    jumps = made_up_run(HOSTS, on_cpus((1, 2, 4, 8), lambda n: 1e9 if n < 4 else 1e8))
    for run in (few, jumps):
        advice = advice_of(run, "kernel-compile vcpus=3 duration<9s")
        assert told(advice)["runc"] is OPEN
        assert "does not fit" in flat(advice)
        checked(advice)
