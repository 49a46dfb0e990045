"""The self-test's rules: what is right is found, and an instrument that is wrong, blind or silent is caught."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from scipy.stats import binom
from tests.support.commands import virtoll
from tests.support.facts import assert_facts, assert_refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.experiment.parse import parse_experiment
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.selftest.checks import binomial_quantile, findings
from virtoll.selftest.experiments import DISK_MIB_PER_SECOND, EXPERIMENTS, RIGHT
from virtoll.selftest.findings import Finding, Measured, Outcome, at_most, count, effect, not_tested, nothing
from virtoll.selftest.table import csv_text, document, found_all, passed, rows, summary
from virtoll.stats.analysis import analyse

EXPERIMENT_FILE = Path("selftest.yaml")
WHAT = ("cpu", "half of a CPU", "times slower")
FOUND, MISSED, NOT_DECIDED = Outcome.FOUND, Outcome.MISSED, Outcome.NOT_DECIDED


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (2.0, 1.9, 2.1, FOUND),
        (1.9, 1.7, 1.95, FOUND),  # within 0.06 of the injected one
        (1.5, 1.4, 1.6, MISSED),  # sharp and wrong
        (3.0, 2.5, 3.5, MISSED),
        (2.0, 0.9, 4.5, NOT_DECIDED),  # no effect would lie in it as well
        (1.2, 0.9, 1.5, MISSED),  # it holds no effect, and not the injected one
        (0.5, 0.4, 0.6, MISSED),  # the wrong way round
    ],
)
def test_an_effect_must_be_seen_and_be_right(value: float, low: float, high: float, outcome: Outcome) -> None:
    assert effect(WHAT, 2.0, Measured(value, low, high), 1.0, 0.06).outcome is outcome


@pytest.mark.parametrize(
    ("value", "low", "high", "outcome"),
    [
        (1.0, 0.95, 1.05, FOUND),
        (0.999, 0.998, 0.9995, FOUND),  # off by next to nothing, and seen sharply
        (1.1, 1.05, 1.15, MISSED),  # an effect where there is none
        (0.946, 0.903, 0.992, MISSED),  # its own interval leaves out the truth
        (1.01, 1.001, 1.03, MISSED),
        (1.0, 0.7, 1.4, NOT_DECIDED),  # the fault itself would lie in it
        (1.0, 0.9, 1.25, NOT_DECIDED),
        (1.02, 0.80, 1.29, NOT_DECIDED),
        (1.25, 1.1, 1.4, MISSED),  # the fault lies in it, and its absence does not
    ],
)
def test_no_effect_is_distinguished_from_the_fault(value: float, low: float, high: float, outcome: Outcome) -> None:
    assert nothing(WHAT, Measured(value, low, high), 1.0, 1.2).outcome is outcome


@pytest.mark.parametrize(
    ("measured", "edges", "outcome"), [(10, 0, FOUND), (9, 1, FOUND), (9, 0, MISSED), (12, 1, MISSED)]
)
def test_frames_are_counted_to_the_last(measured: int, edges: int, outcome: Outcome) -> None:
    assert count(WHAT, 10, measured, edges).outcome is outcome


def test_false_findings_are_counted() -> None:
    assert [at_most(WHAT, number, 1).outcome for number in (0, 1, 2)] == [FOUND, FOUND, MISSED]


def test_what_was_not_measured_is_missed() -> None:
    silent = [effect(WHAT, 2.0, None, 1.0, 0.1), nothing(WHAT, None, 1.0, 1.2), count(WHAT, 0, None, 0)]
    silent.append(at_most(WHAT, None, 0))
    assert {one.outcome for one in silent} == {MISSED}
    assert all(one.reason for one in silent)


FINDINGS = [
    effect(WHAT, 2.0, Measured(2.05, 1.9, 2.2), 1.0, 0.06),
    count(("path", "1 of 10 frames dropped", "frames"), 10, 8, 1),
    not_tested(("disk", "all of it", ""), "no QEMU"),
]


@pytest.mark.parametrize(
    ("findings", "expected"),
    [(FINDINGS, False), (FINDINGS[:1], True), (FINDINGS[::2], True), (FINDINGS[2:], False), ([], False)],
)
def test_all_is_found_where_something_is_and_nothing_missed(findings: Sequence[Finding], expected: bool) -> None:
    assert found_all(findings) is expected
    assert document(findings)["found_all"] is expected
    assert passed(findings) is expected


def test_what_is_not_decided_is_neither_found_nor_a_failure() -> None:
    wide = effect(WHAT, 2.0, Measured(2.0, 0.9, 4.5), 1.0, 0.06)
    assert_facts(wide.reason, "interval")
    assert (passed([wide, FINDINGS[0]]), found_all([wide, FINDINGS[0]])) == (True, False)
    assert not passed([wide]), "nothing was found"
    assert_facts(summary([wide, FINDINGS[0]]), "1 found", "1 not decided")
    assert_facts(str(rows([wide])[0]["outcome"]), "not decided")


def test_the_table_has_every_number() -> None:
    first, second, third = csv.DictReader(io.StringIO(csv_text(FINDINGS)))
    assert (first["injected"], first["measured"], first["low"], first["high"]) == ("2.0", "2.05", "1.9", "2.2")
    assert (second["outcome"], second["rule"]) == ("missed", "within 1 of 10")
    assert (third["outcome"], third["injected"], third["reason"]) == ("not tested", "", "no QEMU")
    assert rows(FINDINGS)[0]["interval (95 %)"] == "1.9 to 2.2"
    assert rows(FINDINGS)[2]["outcome"] == "not tested: no QEMU"
    assert_facts(summary(FINDINGS), "1 found", "1 missed", "1 not tested")


@pytest.mark.parametrize(("load", "outcome"), [(0.4, MISSED), (14.0, NOT_DECIDED)])
def test_a_quota_on_a_busy_host_is_not_decided(load: float, outcome: Outcome) -> None:
    """A quarter of a CPU takes 1.7 times as long, where the guest beside it has half of one: 7 wait for each CPU."""
    labels = {RIGHT: 1e9, "cpu-25": 1.7e9}
    made = [Made(label, "superpi", {"digits": 16384}, value=value) for label, value in labels.items()]
    run = made_up_run({label: {"platform": "altered-netns"} for label in labels}, made, baseline=RIGHT)
    busy = replace(run, fitness=tuple(sample.replace(load_1m=load) for sample in run.fitness))
    (quarter,) = (one for one in findings("cpu", analyse(busy), short=False) if one.what.startswith("25 %"))
    assert quarter.outcome is outcome


@pytest.mark.parametrize(("faster", "outcome"), [(1.0, FOUND), (1.3, MISSED), (0.7, MISSED)])
def test_a_slow_disk_is_found_at_its_rate(faster: float, outcome: Outcome) -> None:
    written = {"size_bytes": 64 << 20, "rounds": 1}
    slow_ns = 1e9 * 64 / (faster * DISK_MIB_PER_SECOND)
    made = [Made(RIGHT, "zfg", written, value=slow_ns / 100), Made("slow", "zfg", written, value=slow_ns)]
    analysis = analyse(made_up_run({label: {"platform": "netns"} for label in (RIGHT, "slow")}, made, baseline=RIGHT))
    (finding,) = findings("disk", analysis, short=True)
    assert finding.outcome is outcome
    assert finding.measured is not None
    assert finding.measured.value == pytest.approx(faster * DISK_MIB_PER_SECOND, rel=0.03)


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_each_check_is_an_experiment_that_can_be_planned(name: str, short: bool) -> None:
    written = yaml.safe_dump(EXPERIMENTS[name](short), sort_keys=False)
    experiment = parse_experiment(written, EXPERIMENT_FILE, catalogue())
    assert experiment.baseline == RIGHT
    assert {trial.platform.label for trial in plan_of(experiment).trials} == {one.label for one in experiment.platforms}


def test_the_short_check_of_facts_boots_one_machine() -> None:
    machines = [one for one in EXPERIMENTS["facts"](True)["platforms"] if one["platform"] == "altered-qemu-tcg"]
    assert [one["label"] for one in machines] == ["machine-memory"]


def test_the_whole_compares_at_least_sixty_pairs_that_are_the_same() -> None:
    same = EXPERIMENTS["nothing"](False)
    assert (len(same["platforms"]) - 1) * len(same["workloads"]) >= 60


def test_an_unknown_check_is_named() -> None:
    assert_refused(virtoll("selftest", "--only", "gravity"), "--only", "'gravity'", *EXPERIMENTS)


@pytest.mark.parametrize(("probability", "chance"), [(0.999, 0.05), (0.95, 0.3), (0.5, 0.01)])
def test_the_binomial_quantile_is_that_of_scipy(probability: float, chance: float) -> None:
    for trials in (1, 7, 60):
        expected = int(binom.ppf(probability, trials, chance))
        assert binomial_quantile(probability, trials, chance) == expected
