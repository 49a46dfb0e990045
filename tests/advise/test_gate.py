"""A gate: what a run whose truth is known says of thresholds, and the command line's exit codes."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import in_process as virtoll
from tests.support.experiments import fake
from tests.support.facts import assert_facts, assert_refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.advise.gate import Gate, Outcome, judge_gate, parse_threshold
from virtoll.api.needs import known_workloads
from virtoll.report.words import outward
from virtoll.stats.analysis import analyse
from virtoll.stats.compare import Verdict

pytestmark = pytest.mark.usefixtures("undrawn")
PLATFORMS = {"native": {}, "again": {"platform": "native-again"}, "netns": {}}


def judged(*texts: str, again: float = 1e7, spread: float = 0.01) -> Gate:
    """Of a platform that takes twice as long as the host: 20 ms and 10 ms."""
    made = [
        Made("native", "superpi", value=1e7, spread=spread),
        Made("again", "superpi", value=again, spread=spread),
        Made("netns", "superpi", value=2e7, spread=spread),
    ]
    known = known_workloads()
    return judge_gate(analyse(made_up_run(PLATFORMS, made)), [parse_threshold(one, known) for one in texts])


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("netns:superpi slowdown<3x", Outcome.MET),
        ("netns:superpi slowdown<1.5x", Outcome.MISSED),
        ("netns:superpi slowdown<2x", Outcome.UNKNOWN),
        ("*:superpi duration<25ms", Outcome.MET),
        ("netns:superpi duration<15ms", Outcome.MISSED),
        ("native:superpi duration<15ms", Outcome.MET),
        ("netns:forward 64B rate>1kpps", Outcome.UNKNOWN),
    ],
)
def test_a_threshold_is_told_by_its_whole_interval(text: str, outcome: Outcome) -> None:
    found = judged(text)
    assert found.outcome is outcome
    (check,) = found.checks
    assert (check.reason != "") is (outcome is Outcome.UNKNOWN)


def test_a_control_that_differs_lets_nothing_of_its_workload_be_told() -> None:
    found = judged("netns:superpi slowdown<1.5x", again=1.3e7)
    assert found.outcome is Outcome.UNKNOWN
    assert "A/A control" in found.checks[0].reason
    assert judged(again=1.3e7).outcome is Outcome.UNKNOWN
    assert judged().outcome is Outcome.MET


def test_a_forecast_of_more_than_twice_the_runs_blocks_is_no_advice() -> None:
    """1.9 to 2.1 times is left open by five blocks; 13 to 872 more would decide, by the noise of these five."""
    found = judged(*(f"netns:superpi slowdown<{limit}x" for limit in (1.9, 1.95, 2.05, 2.1)), spread=0.1)
    assert {check.outcome for check in found.checks} == {Outcome.UNKNOWN}
    assert found.more_blocks is None


@pytest.mark.parametrize("limit", [1.0, 1.5, 1.9, 1.99, 2.01, 2.1, 3.0])
@pytest.mark.parametrize("spread", [0.001, 0.1])
def test_a_gate_never_contradicts_the_page(limit: float, spread: float) -> None:
    made = [Made(one, "superpi", value=2e7 if one == "netns" else 1e7, spread=spread) for one in PLATFORMS]
    analysis = analyse(made_up_run(PLATFORMS, made))
    gate = judge_gate(analysis, [parse_threshold(f"netns:superpi slowdown<{limit}x", known_workloads())])
    (page,) = analysis.comparisons
    if page.verdict is Verdict.SLOWER and (page.at_least or 1) > limit:
        assert gate.outcome is not Outcome.MET
    if gate.outcome is Outcome.MISSED:
        assert page.simultaneous is not None
        assert page.simultaneous.high < 1 / limit


def test_a_run_ends_with_the_exit_code_of_its_gate(tmp_path: Path) -> None:
    thresholds = ["slow:superpi slowdown<9x"]
    platforms = [fake("model"), fake("slow", cost=2.0)]
    file = experiments.write(tmp_path, platforms=platforms, baseline="model", blocks=3, thresholds=thresholds)
    run = tmp_path / "run"
    ended = virtoll("run", file, "--into", run, "--fail-if", "slow:superpi slowdown>1.5x")
    assert_refused(ended, 1, 2, "missed", code=3)
    assert virtoll("gate", run).returncode == 0
    wide = ("gate", run, "--fail-if", "slow:superpi slowdown>2x", "--allow-unknown", "--json")
    told = json.loads(virtoll(*wide).stdout)
    assert told["checks"][0]["outcome"] == "met"
    again = virtoll("resume", run, "--fail-if", "slow:superpi slowdown>1.5x")
    assert_refused(again, 1, 2, "missed", code=3)
    exported(run, tmp_path / "virtoll.xml")
    for wrong, facts in (
        ("slow:superpi slowdown<2x", ["'slowdown>2x'"]),
        ("slow:superpi slowdown>2", ["factor", 1]),
        ("nobody:superpi slowdown>2x", ["platform", "model", "slow"]),
        ("slow:kettle slowdown>2x", ["workload 'kettle'", "superpi"]),
        ("slow:superpi digits=50 slowdown>2x", ["digits=50"]),
    ):
        told = virtoll("gate", run, "--fail-if", wrong)
        told.stderr = told.stderr.replace(wrong, "")
        assert_refused(told, *facts)


def exported(run: Path, file: Path) -> None:
    """To a file or the standard output."""
    by_file = virtoll("export", run, "--format", "junit", "--output", file)
    assert (by_file.returncode, by_file.stdout) == (0, "")
    assert virtoll("export", run, "--format", "junit").stdout == file.read_text(encoding="utf-8")
    assert_refused(virtoll("export", run, "--format", "xls"), "xls", "junit, markdown")
    nowhere = run / "no" / "file"
    assert_refused(virtoll("export", run, "--format", "bencher", "--output", nowhere), nowhere, code=1)


def test_a_run_that_cannot_tell_ends_with_4(tmp_path: Path) -> None:
    platforms = [fake("model"), fake("slow", cost=2.0)]
    file = experiments.write(tmp_path, platforms=platforms, baseline="model", blocks=1)
    asked = ("--fail-if", "slow:superpi slowdown>9x")
    ended = virtoll("run", file, "--into", tmp_path / "run", *asked)
    assert_refused(ended, "cannot tell", 1, code=4)
    assert virtoll("gate", tmp_path / "run", *asked, "--allow-unknown").returncode == 0


@pytest.mark.parametrize(
    ("low", "high", "unit", "told"),
    [
        (1.4996, 1.5004, "x", ("1.49", "1.51x")),
        (1.5, 2.0, "x", ("1.5", "2.0x")),
        (19_999_999.0, 20_000_001.0, "ns", ("19.9", "20.1 ms")),
        (2.0, math.inf, "x", ("least", "2.00x")),
        (0.0, 4e6, "ns", ("most", "4.00 ms")),
    ],
)
def test_the_ends_of_an_interval_are_rounded_outward(low: float, high: float, unit: str, told: tuple[str, ...]) -> None:
    assert_facts(outward(low, high, unit), *told)


def test_a_wrong_threshold_of_a_file_is_told_with_file_and_key(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model")], baseline="model", thresholds=["model:superpi x<1"])
    assert_refused(virtoll("plan", file), file, "key 'thresholds'", "'model:superpi x<1'")
