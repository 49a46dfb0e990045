"""A gate: what a run whose truth is known says of thresholds, and the command line's exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import virtoll
from tests.support.experiments import fake
from tests.support.made_up_run import Made, made_up_run

from virtoll.advise.gate import Gate, Outcome, judge_gate, parse_threshold
from virtoll.cli.needs import known_workloads
from virtoll.stats.analysis import analyse
from virtoll.stats.compare import Verdict

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
    assert ended.returncode == 3, ended.stderr
    assert "1 of 2 thresholds missed" in ended.stderr
    assert virtoll("gate", run).returncode == 0
    wide = ("gate", run, "--fail-if", "slow:superpi slowdown>2x", "--allow-unknown", "--json")
    told = json.loads(virtoll(*wide).stdout)
    assert told["checks"][0]["outcome"] == "met"
    for wrong, complaint in (
        ("slow:superpi slowdown<2x", "write 'slowdown>2x'"),
        ("slow:superpi slowdown>2", "a factor of 1 or more"),
        ("nobody:superpi slowdown>2x", "no such platform here; there are "),
        ("slow:kettle slowdown>2x", "the workload 'kettle' is not known"),
        ("slow:superpi digits=50 slowdown>2x", "no trial has digits=50"),
    ):
        refused = virtoll("gate", run, "--fail-if", wrong)
        assert (refused.returncode, complaint in refused.stderr) == (2, True), refused.stderr


def test_a_wrong_threshold_of_a_file_is_told_with_file_and_key(tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model")], baseline="model", thresholds=["model:superpi x<1"])
    refused = virtoll("plan", file)
    assert refused.returncode == 2
    assert f"{file}: key 'thresholds': threshold 'model:superpi x<1'" in refused.stderr
