"""Advice on made-up runs whose truth is known: every answer, with its margin, its evidence and what would tell."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.made_up_run import Made, made_up_run

from virtoll.advise import Advice, Answer, PlatformAdvice, Statement, advise, parse_needs
from virtoll.advise.frame_sizes import frame_cost
from virtoll.advise.meets import measured
from virtoll.advise.missing import MOST_BLOCKS
from virtoll.campaign.preview import catalogue, plan_of
from virtoll.campaign.requirements import possible
from virtoll.claims.ratios import Ratios
from virtoll.cli.advice_words import Told, document, experiment_line, lines
from virtoll.cli.needs import known_workloads
from virtoll.experiment.parse import parse_experiment
from virtoll.runfolder.conditions import Condition
from virtoll.runfolder.guest_records import Forwarding
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.analysis import RunData, analyse

KNOWN = known_workloads()
HOSTS: Mapping[str, Mapping[str, Any]] = {"native": {}, "native-again": {}, "netns": {}, "runc": {}}
MEETS, FAILS, OPEN, NONE = Answer.MEETS, Answer.FAILS, Answer.OPEN, Answer.NOT_MEASURED
SWEPT = {"sweep": "rates", "rates_mbit_per_second": [10, 40, 100, 400, 1000], "point_milliseconds": 100}


def advice_of(run: RunData, *needs: str) -> Advice:
    return advise(analyse(run), parse_needs(needs, KNOWN), KNOWN)


def told(advice: Advice) -> dict[str, Answer]:
    return {one.platform: one.answer for one in advice.platforms}


def of(advice: Advice, platform: str) -> PlatformAdvice:
    return next(one for one in advice.platforms if one.platform == platform)


def alone(advice: Advice, platform: str) -> Statement:
    (found,) = of(advice, platform).alone
    return found


def jobs(values: Mapping[str, float], **given: Any) -> list[Made]:
    return [Made(label, "superpi", value=value, **given) for label, value in values.items()]


def routers(rates: Mapping[str, float], size: int = 64, **given: Any) -> list[Made]:
    """Rates in frames/s."""
    return [Made(label, "forward", {"frame_size_bytes": size}, rate, **given) for label, rate in rates.items()]


def checked(advice: Advice) -> list[dict[str, Any]]:
    """The experiments of an advice, each of which this Virtoll can plan."""
    found = []
    for one in advice.missing:
        text = yaml.safe_dump(dict(one.document), sort_keys=False)
        experiment = parse_experiment(text, Path("advice.yaml"), catalogue())
        assert possible(plan_of(experiment), experiment).trials
        found.append(dict(one.document))
    return found


def printed(advice: Advice) -> str:
    """What a terminal shows before it is folded; the document is JSON."""
    shown = [Told(one.tells, yaml.safe_dump(dict(one.document)), 60.0, "") for one in advice.missing]
    json.dumps(document(advice, shown), allow_nan=False)
    return "\n".join([*lines(advice), *map(experiment_line, shown)])


def flat(advice: Advice) -> str:
    """The same in one line."""
    return " ".join(printed(advice).split())


def test_a_need_is_met_or_not_with_the_end_that_speaks_against_it() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "native-again": 1e9, "netns": 1.1e9, "runc": 4e9}), rounds=2)
    advice = advice_of(run, "superpi duration<2s")
    assert told(advice) == {"native": MEETS, "netns": MEETS, "runc": FAILS}, "the A/A control is no platform"
    assert advice.cautions == ()
    unlike = made_up_run(HOSTS, jobs({"native": 1e9, "native-again": 1.5e9}), rounds=2)
    assert advice_of(unlike, "superpi duration<2s").cautions == (
        "the A/A control differs from the baseline itself: Super Pi 16384 digits",
    )
    assert advice.family == 3
    (good,), (bad,) = alone(advice, "netns").findings, alone(advice, "runc").findings
    assert good.margin is not None
    assert bad.margin is not None
    assert good.margin.times == pytest.approx(2 / 1.1, rel=0.02)
    assert 1 < good.margin.at_least < good.margin.times < good.margin.at_most
    assert bad.margin.times == pytest.approx(0.5, rel=0.02)
    assert bad.margin.at_most < 1
    assert (good.blocks, good.trials, good.unit) == (5, 10, "ns")
    assert good.value == pytest.approx(1.1e9, rel=0.02)
    text = printed(advice)
    assert "native (the baseline): meets it\n" in text
    assert "netns: meets it\n  1.8 times what is needed, at least 1.8\n" in text
    assert "runc: does not meet it\n  0.50 times what is needed, at most 0.51\n" in text
    assert "Super Pi 16384 digits (duration<2s); 5 blocks, 10 trials" in text


def test_intervals_hold_together_so_that_more_platforms_leave_less_margin() -> None:
    made = jobs({"native": 1e9, "netns": 1e9, "runc": 1e9}, spread=0.05)
    few, many = made_up_run(HOSTS, made[:1]), made_up_run(HOSTS, made)
    margins = [alone(advice_of(run, "superpi duration<2s"), "native").findings[0].margin for run in (few, many)]
    assert margins[0] is not None
    assert margins[1] is not None
    assert margins[0].times == margins[1].times
    assert margins[0].at_least > margins[1].at_least > 1
    one, two = "superpi duration<2s", "superpi duration<2s duration<3s"
    assert [advice_of(many, need).family for need in (one, two)] == [3, 6]


def test_what_is_near_its_bound_cannot_be_said_and_blocks_would_tell() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "runc": 1.95e9}, spread=0.05))
    advice = advice_of(run, "superpi duration<2s")
    assert told(advice) == {"native": MEETS, "runc": OPEN, "netns": NONE}
    (finding,) = alone(advice, "runc").findings
    assert finding.more_blocks is not None
    assert finding.more_blocks > 0
    assert "both agree with what was measured" in flat(advice)
    (experiment, guests) = checked(advice)
    assert experiment["platforms"] == ["native", "native-again", "netns", "runc"]
    assert experiment["blocks"] == min(5 + finding.more_blocks, MOST_BLOCKS)
    assert experiment["workloads"] == [{"workload": "superpi"}]
    assert guests["scale"] == {"guests": [1, 2, 4, 8]}


def test_of_one_block_nothing_can_be_said() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "runc": 9e9}), blocks=1)
    advice = advice_of(run, "superpi duration<2s")
    assert set(told(advice).values()) == {OPEN, NONE}
    (finding,) = alone(advice, "runc").findings
    assert (finding.margin, finding.reason) == (None, "one block alone: no interval")
    assert finding.value == pytest.approx(9e9, rel=0.05), "what was measured is shown"
    assert "one block alone: no interval" in flat(advice)
    checked(advice)


def test_what_was_not_measured_is_told_with_the_experiment_that_would_tell() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "netns": 1e9, "runc": 1e9}))
    for need in ("oltp p99<20ms threads=2", "router 64B 200kpps loss<0.1%", "fio bytes>10MB/s", "cpu duration<1s"):
        advice = advice_of(run, need)
        assert set(told(advice).values()) == {NONE}
        assert "not measured" in flat(advice)
        experiment, _ = checked(advice)
        assert experiment["baseline"] == "native"
        assert experiment["guest"] == {"vcpus": 1, "memory": 268435456}
    (workload,) = checked(advice_of(run, "oltp p99<20ms threads=2"))[0]["workloads"]
    assert workload == {"workload": "mariadb-oltp", "threads": 2}
    (workload,) = checked(advice_of(run, "router 64B 200kpps loss<0.01%"))[0]["workloads"]
    needed = 200e3 * 84 * 8 / 1e6
    rates = workload["rates_mbit_per_second"]
    assert [rate for rate in rates if rate < needed][-1] == pytest.approx(0.98 * needed, rel=1e-3)
    assert next(rate for rate in rates if rate > needed) == pytest.approx(1.02 * needed, rel=1e-3)
    assert workload["point_milliseconds"] == 1000
    (workload,) = checked(advice_of(run, "router 64B 2kpps loss<0.01%"))[0]["workloads"]
    assert workload["point_milliseconds"] == 30_000, "as long as the loss takes to be seen at the least rate"


def test_a_platform_that_this_host_has_not_says_why() -> None:
    platforms = {**HOSTS, "qemu-kvm": {"available": False, "reason": "there is no /dev/kvm"}}
    advice = advice_of(made_up_run(platforms, jobs({"native": 1e9})), "superpi duration<2s")
    assert alone(advice, "qemu-kvm").reason == "there is no /dev/kvm"
    assert all("qemu-kvm" not in json.dumps(one) for one in checked(advice))


def test_a_run_without_a_baseline_and_one_in_which_a_platform_failed_are_told_as_well() -> None:
    run = made_up_run({"netns": {}, "runc": {}}, jobs({"netns": 1e9, "runc": 1e9}), baseline=None)
    advice = advice_of(run, "superpi duration<2s")
    assert told(advice) == {"netns": MEETS, "runc": MEETS}
    assert checked(advice_of(run, "cpu duration<2s"))[0]["baseline"] == "netns"
    failed = tuple(
        replace(one, status="failed", reason="it died", clock=None) if one.platform == "runc" else one
        for one in run.trials
    )
    dead = advice_of(replace(run, trials=failed), "superpi duration<2s")
    assert told(dead) == {"netns": MEETS, "runc": NONE}
    assert alone(dead, "runc").reason == "failed: it died"
    nothing = advice_of(replace(run, trials=()), "superpi duration<2s")
    assert set(told(nothing).values()) == {NONE}
    printed(nothing)


def test_every_bound_must_be_met_and_every_set_of_parameters() -> None:
    figures = {"transactions_per_second": 200.0, "latency_p95": 4e6, "latency_p99": 9e6}
    many = {**figures, "latency_p99": 60e6}
    made = [
        Made("native", "mariadb-oltp", {"threads": threads}, 1e9, own) for threads, own in ((1, figures), (4, many))
    ]
    run = made_up_run(HOSTS, made)
    assert told(advice_of(run, "oltp threads=1 p99<20ms transactions>100/s"))["native"] is MEETS
    assert told(advice_of(run, "oltp threads=1 p99<20ms transactions>500/s"))["native"] is FAILS
    both = advice_of(run, "oltp p99<20ms")
    assert told(both)["native"] is FAILS
    assert len(alone(both, "native").findings) == 2
    assert "the tightest of 2 measured values" in flat(both)
    lacking = advice_of(run, "oltp threads=1 p99<20ms latency_average<20ms")
    assert told(lacking)["native"] is OPEN
    assert alone(lacking, "native").reason == "nothing was measured of latency_average<20ms"


def test_functional_only_decides_nothing() -> None:
    platforms = {**HOSTS, "runc": {"host": "nested kvm", "caveat": "nested: functional only"}}
    advice = advice_of(made_up_run(platforms, jobs({"native": 1e9, "runc": 1e9})), "superpi duration<2s")
    assert told(advice)["runc"] is OPEN
    assert advice.family == 1
    assert "runc: cannot be said (nested: functional only: it decides nothing)" in flat(advice)
    assert all("runc" not in json.dumps(one["platforms"]) for one in checked(advice))


def test_a_lower_bound_may_meet_a_need_and_never_fail_it() -> None:
    made = routers({"native": 1e6, "netns": 1e6}, lossless=True)
    run = made_up_run(HOSTS, made, calibrated_rate=1.05e6)
    assert set(analyse(run).lower_bounds) != set()
    met, more = advice_of(run, "router 64B 500kpps"), advice_of(run, "router 64B 2Mpps")
    assert told(met)["netns"] is MEETS
    assert "cautions of this run: generator-bound: " in flat(met)
    assert told(more)["netns"] is OPEN
    (finding,) = alone(more, "netns").findings
    assert "a rate of it is a lower bound: more may be possible" in finding.reason
    assert told(advice_of(run, "router 64B 500kpps loss<0.1%"))["netns"] is MEETS
    assert told(advice_of(run, "router 64B 2Mpps loss<0.1%"))["netns"] is OPEN


def test_a_rate_on_the_senders_core_says_nothing() -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6, "netns": 5e5}))
    there = Forwarding(cpus=None, means=None, reason="not as root")
    boots = tuple(replace(one, forwarding=there) if one.platform == "netns" else one for one in run.boots)
    for need in ("router 64B 100kpps", "router 64B 9Mpps", "router 64B 100kpps loss<0.1%"):
        advice = advice_of(replace(run, boots=boots), need)
        assert told(advice)["netns"] is OPEN
        assert "netns forwards on" in flat(advice)


def test_a_router_without_bounds_is_what_is_forwarded_whatever_is_lost() -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6, "netns": 3e5, "runc": 1e5}))
    assert told(advice_of(run, "router 64B 200kpps")) == {"native": MEETS, "netns": MEETS, "runc": FAILS}


def test_a_router_with_a_loss_has_it_at_the_rate_that_came_through() -> None:
    made = [
        Made(label, "forward", {"frame_size_bytes": 64, **SWEPT}, rate)
        for label, rate in (("native", 1e6), ("netns", 3e5))
    ]
    advice = advice_of(made_up_run(HOSTS, made), "router 64B 100kpps loss<0.1%")
    (finding,) = alone(advice, "netns").findings
    assert told(advice)["netns"] is MEETS
    assert finding.value == pytest.approx(100e6 / (84 * 8), rel=0.01), (
        "what came through of the list's rates, not 300 000"
    )
    delayed = advice_of(made_up_run(HOSTS, made), "router 64B 100kpps p99<1ms")
    assert told(delayed)["netns"] is OPEN, "the run has no delays"


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
    assert "IP forwarding 800 B, which was not measured, by a model" in flat(advice)
    assert told(advice_of(run, f"router 800B {truth * 2:.0f}pps"))["netns"] is FAILS


def test_a_figure_of_a_size_between_those_measured_has_the_models_answer_too() -> None:
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


def test_beyond_the_sizes_measured_a_larger_frame_speaks_for_a_smaller_one_and_never_for_a_larger() -> None:
    run = made_up_run(HOSTS, by_size({256: 1500.0, 512: 2000.0, 1024: 3000.0}))
    assert told(advice_of(run, "router 64B 100kpps"))["netns"] is MEETS
    assert told(advice_of(run, "router 64B 2Mpps"))["netns"] is OPEN
    assert told(advice_of(run, "router 1518B 100kpps"))["netns"] is OPEN
    advice = advice_of(run, "router 1518B 2Mpps")
    assert told(advice)["netns"] is FAILS
    assert "a larger frame takes no less time" in flat(advice)


def test_where_larger_frames_are_faster_no_size_speaks_for_another() -> None:
    run = made_up_run(HOSTS, by_size({64: 9000.0, 512: 2000.0, 1518: 1000.0}))
    advice = advice_of(run, "router 256B 1kpps")
    assert told(advice)["netns"] is OPEN
    assert "larger frames were forwarded at a higher rate" in alone(advice, "netns").findings[0].reason
    checked(advice)


def at_once(values: Mapping[int, float], label: str = "native", **given: Any) -> list[Made]:
    """Jobs in so many guests at once, ns."""
    return [
        Made(label, "superpi", value=value, scale=ScalePoint(guests, 1, 2**28), **given)
        for guests, value in values.items()
    ]


def law(n: int, sigma: float = 0.25, kappa: float = 0.005) -> float:
    return 1e9 * (1 + sigma * (n - 1) + kappa * n * (n - 1))


def test_so_many_guests_meet_a_need_as_were_measured_and_the_law_says_what_is_between_and_beyond() -> None:
    numbers = (1, 2, 4, 8, 16)
    made = [*at_once({n: law(n) for n in numbers}), *at_once({n: law(n) for n in numbers}, "runc")]
    run = made_up_run(HOSTS, made, blocks=6)
    between = advice_of(run, f"superpi duration<{law(12) / 1e9:.2f}s")
    (found,) = of(between, "runc").guests
    assert (found.at_least, found.not_with) == (8, 16)
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
    assert "by the model, which is beyond what was measured" in flat(beyond)
    assert told(beyond)["runc"] is MEETS


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
    assert "6 virtual CPUs, which was not measured, by a model" in flat(advice)
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


HEAVY, FORWARDING = Condition("heavy"), Condition("forward", rate_share=0.95)


def side_by_side(database: float, beside_forwarding: float, forwarded_beside: float = 2.9e5) -> list[Made]:
    """p99 of a database alone and beside a guest that forwards; a router alone and beside heavy load."""

    def served(p99_ns: float, under: Condition | None) -> Made:
        figures = {"transactions_per_second": 100.0, "latency_average": 1e6, "latency_p95": 1e6, "latency_p99": p99_ns}
        forwarded = (3e5, forwarded_beside) if under == FORWARDING else None
        return Made("netns", "mariadb-oltp", {}, 1e9, figures, beside=under, neighbour=forwarded)

    def routed(rate: float, under: Condition | None) -> Made:
        forwarded = (3e5, forwarded_beside) if under == FORWARDING else None
        return Made("netns", "forward", {"frame_size_bytes": 64}, rate, beside=under, neighbour=forwarded)

    unders: Sequence[Condition | None] = (None, HEAVY, FORWARDING)
    databases = [served(beside_forwarding if under == FORWARDING else database, under) for under in unders]
    return [*databases, *(routed(5e5 if under is None else 3e5, under) for under in unders)]


def test_parts_are_met_side_by_side_beside_what_stands_for_the_others() -> None:
    run = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 9e6), blocks=6)
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice) == {"netns": MEETS, "native": NONE}
    router, database = of(advice, "netns").beside
    assert (router.loads, database.loads) == (("heavy",), ("forward",))
    (factor,) = database.factors
    assert factor.share == pytest.approx(5 / 9, rel=0.05)
    assert factor.held_out is not None
    assert not factor.why_not
    assert "keeps 5" in flat(advice)
    idler = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 9e6, 1e5), blocks=6)
    advice = advice_of(idler, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice)["netns"] is OPEN
    _, database = of(advice, "netns").beside
    assert database.reason == "the guest beside it forwarded 100000 frames/s, fewer than needed"


def test_a_load_that_is_too_heavy_never_fails_a_part() -> None:
    run = made_up_run({"native": {}, "netns": {}}, side_by_side(5e6, 50e6), blocks=6)
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms")
    assert told(advice)["netns"] is OPEN
    _, database = of(advice, "netns").beside
    assert "the load may take more than the guest that it stands for" in database.reason
    alone_too_slow = advice_of(run, "router 64B 200kpps + oltp p99<2ms")
    assert told(alone_too_slow)["netns"] is FAILS, "what a guest cannot alone it cannot beside others"


def test_parts_that_were_measured_alone_only_have_the_experiment_of_neighbours() -> None:
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
    assert "'+' asks for guests side by side" in flat(advice)


def test_three_parts_of_three_loads_cannot_be_told_by_one_experiment() -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6}))
    advice = advice_of(run, "router 64B 200kpps + oltp p99<20ms + memory copy>1GB/s")
    assert "no experiment has guests of several loads" in of(advice, "native").beside[0].reason
    assert any(one.note for one in advice.missing)
    checked(advice)
