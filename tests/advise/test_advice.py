"""Advice on made-up runs whose truth is known: every answer, with its margin, its evidence and what would tell."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from tests.support import experiments
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
    jobs,
    printed,
    routers,
    told,
)
from tests.support.facts import assert_facts
from tests.support.made_up_run import Made, made_up_run
from tests.support.model_runs import measured

from virtoll.advise.missing import MOST_BLOCKS
from virtoll.experiment.parse import presets
from virtoll.report.build import load
from virtoll.runfolder.guest_records import Forwarding
from virtoll.stats.analysis import analyse

SWEPT = {"sweep": "rates", "rates_mbit_per_second": [10, 40, 100, 400, 1000], "point_milliseconds": 100}


def test_a_need_is_met_or_not_with_the_end_that_speaks_against_it() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "native-again": 1e9, "netns": 1.1e9, "runc": 4e9}), rounds=2)
    advice = advice_of(run, "superpi duration<2s")
    assert told(advice) == {"native": MEETS, "netns": MEETS, "runc": FAILS}, "the A/A control is no platform"
    assert advice.cautions == ()
    unlike = made_up_run(HOSTS, jobs({"native": 1e9, "native-again": 1.5e9}), rounds=2)
    (caution,) = advice_of(unlike, "superpi duration<2s").cautions
    assert_facts(caution, "A/A control", "baseline", "Super Pi 16384 digits")
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
    native, netns, runc = about(advice, "native"), about(advice, "netns"), about(advice, "runc")
    assert_facts(native, "baseline", MEETS.value)
    assert_facts(netns, MEETS.value, "1.8", "Super Pi 16384 digits", "duration<2s", "5 blocks", "10 trials")
    assert_facts(runc, FAILS.value, "0.50", "0.51")


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
    assert finding.margin is not None
    assert finding.margin.at_least < 1 < finding.margin.at_most
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
    assert finding.margin is None
    assert_facts(finding.reason, "one block")
    assert finding.value == pytest.approx(9e9, rel=0.05), "what was measured is shown"
    assert finding.reason in flat(advice)
    checked(advice)


def test_what_was_not_measured_is_told_with_the_experiment_that_would_tell() -> None:
    run = made_up_run(HOSTS, jobs({"native": 1e9, "netns": 1e9, "runc": 1e9}))
    for need in ("oltp p99<20ms threads=2", "router 64B 200kpps loss<0.1%", "fio bytes>10MB/s", "cpu duration<1s"):
        advice = advice_of(run, need)
        assert set(told(advice).values()) == {NONE}
        assert NONE.value in flat(advice)
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
    assert_facts(alone(advice, "qemu-kvm").reason, "/dev/kvm")
    assert all("qemu-kvm" not in json.dumps(one) for one in checked(advice))


def test_runs_without_a_baseline_or_with_a_failed_platform_have_advice() -> None:
    run = made_up_run({"netns": {}, "runc": {}}, jobs({"netns": 1e9, "runc": 1e9}), baseline=None)
    advice = advice_of(run, "superpi duration<2s")
    assert told(advice) == {"netns": MEETS, "runc": MEETS}
    assert checked(advice_of(run, "cpu duration<2s"))[0]["baseline"] == "netns"
    failed = tuple(
        one.replace(status="failed", reason="it died", clock=None) if one.platform == "runc" else one
        for one in run.trials
    )
    dead = advice_of(replace(run, trials=failed), "superpi duration<2s")
    assert told(dead) == {"netns": MEETS, "runc": NONE}
    assert_facts(alone(dead, "runc").reason, "failed", "it died")
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
    assert_facts(about(both, "native"), "tightest", 2)
    lacking = advice_of(run, "oltp threads=1 p99<20ms latency_average<20ms")
    assert told(lacking)["native"] is OPEN
    assert_facts(alone(lacking, "native").reason, "latency_average<20ms")


def test_functional_only_decides_nothing() -> None:
    platforms = {**HOSTS, "runc": {"host": "nested kvm", "caveat": "nested: functional only"}}
    advice = advice_of(made_up_run(platforms, jobs({"native": 1e9, "runc": 1e9})), "superpi duration<2s")
    assert told(advice)["runc"] is OPEN
    assert advice.family == 1
    assert_facts(about(advice, "runc"), OPEN.value, "nested: functional only")
    assert all("runc" not in json.dumps(one["platforms"]) for one in checked(advice))


def test_a_lower_bound_may_meet_a_need_and_never_fail_it() -> None:
    made = routers({"native": 1e6, "netns": 1e6}, lossless=True)
    run = made_up_run(HOSTS, made, calibrated_rate=1.05e6)
    assert set(analyse(run).lower_bounds) != set()
    met, more = advice_of(run, "router 64B 500kpps"), advice_of(run, "router 64B 2Mpps")
    assert told(met)["netns"] is MEETS
    assert_facts(flat(met), "generator-bound")
    assert told(more)["netns"] is OPEN
    (finding,) = alone(more, "netns").findings
    assert_facts(finding.reason, "lower bound")
    assert told(advice_of(run, "router 64B 500kpps loss<0.1%"))["netns"] is MEETS
    assert told(advice_of(run, "router 64B 2Mpps loss<0.1%"))["netns"] is OPEN


def test_a_rate_on_the_senders_core_says_nothing() -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6, "netns": 5e5}))
    there = Forwarding(cpus=None, means=None, reason="not as root")
    boots = tuple(one.replace(forwarding=there) if one.platform == "netns" else one for one in run.boots)
    for need in ("router 64B 100kpps", "router 64B 9Mpps", "router 64B 100kpps loss<0.1%"):
        advice = advice_of(replace(run, boots=boots), need)
        assert told(advice)["netns"] is OPEN
        assert_facts(about(advice, "netns"), "forwards", "not as root")


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


def test_the_maximum_bounds_each_rate_within_a_loss_or_a_delay() -> None:
    """A rate that is not forwarded is not forwarded without loss either."""
    run = made_up_run(HOSTS, routers({"native": 1e6, "netns": 2.5e5, "runc": 1e5}))
    for bound in ("loss<0.1%", "loss<=0%", "p99<1ms", "loss<1% p50<1ms"):
        advice = advice_of(run, f"router 64B 500kpps {bound}")
        answers = told(advice)
        assert (answers["netns"], answers["runc"]) == (FAILS, FAILS)
        assert answers["native"] is not FAILS
    assert_facts(about(advice, "netns"), FAILS.value, "0.49", "247 kframes/s at most")


@pytest.mark.parametrize("rate", [80, 95, 99, 101, 102, 103, 105, 120, 200])
@pytest.mark.parametrize("spread", [0.005, 0.02, 0.05])
def test_a_stricter_need_is_never_refused_less(rate: int, spread: float) -> None:
    run = made_up_run(HOSTS, routers({"native": 1e6, "netns": 1e5, "runc": 9e4}, spread=spread))
    plain = told(advice_of(run, f"router 64B {rate}kpps"))
    strict = told(advice_of(run, f"router 64B {rate}kpps loss<0.1%"))
    for platform, answer in plain.items():
        assert answer is not FAILS or strict[platform] is FAILS
        assert strict[platform] is not MEETS or answer is not FAILS


def test_the_quick_sweep_answers_a_need_with_a_loss(tmp_path: Path) -> None:
    """Routers of 1.1 M, 500 k, 100 k and 27.5 k frames/s: all is answered up to 0.65 of that and from 1.1 on."""
    costs = {"host": 1.0, "half": 2.2, "tenth": 11.0, "slow": 40.0}
    platforms = [experiments.fake(name, cost=cost, jitter=0.02, seed=int(cost)) for name, cost in costs.items()]
    quick = yaml.safe_load((presets() / "quick.yaml").read_text())
    sweep = {**quick["workloads"][0], "frame_size_bytes": 64}
    size = {key: quick[key] for key in ("blocks", "rounds")}
    experiment = experiments.parsed(platforms=platforms, baseline="host", workloads=[sweep], **size)
    run = load(measured(experiment, tmp_path / "run").path)
    for rate in (10_000, 19_000, 29_000, 70_000, 110_000, 200_000, 350_000, 550_000, 750_000, 1_200_000):
        answers = told(advice_of(run, f"router 64B {rate}pps loss<0.1%"))
        for name, cost in costs.items():
            needed = rate * cost / 1.1e6
            if not 0.65 < needed < 1.1:
                assert answers[name] is (MEETS if needed <= 0.65 else FAILS), (name, rate)
