"""The whole path with the seeded model as the platform: what is injected is found, what fails is stored and named."""

from __future__ import annotations

import contextlib
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, model_runs
from tests.support.experiments import FEW_POINTS, fake
from tests.support.facts import assert_facts, missing_facts, refused
from tests.support.model_runs import JOBS, interrupted_but_replaced, killed_run, measured, run

from virtoll import __version__
from virtoll.errors import GuestError, StorageError, UsageError
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.topology import FUNCTIONAL_ONLY
from virtoll.lab import interrupts
from virtoll.pipeline.execution import resume
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.platforms.base import Probe
from virtoll.platforms.fake.driver import Fake
from virtoll.platforms.fake.site import model_site
from virtoll.report.answer import ranked
from virtoll.report.build import load
from virtoll.runfolder import jsonlines
from virtoll.runfolder.store import RunFolder
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.compare import Verdict
from virtoll.workloads.superpi import SuperPi

FORWARD = {**FEW_POINTS, "frame_size_bytes": [64, 1500]}


def statuses(folder: RunFolder, label: str) -> list[str]:
    return [trial.status for trial in folder.latest_trials() if trial.platform == label]


def test_a_guest_without_a_data_directory_skips_those_trials_alone(tmp_path: Path) -> None:
    """A model carries none; its other trials go on."""
    folder = run(tmp_path / "run", platforms=[fake("model")], workloads=[*JOBS, {"workload": "zfg"}])
    reasons = {(trial.workload, trial.status): trial.reason for trial in folder.latest_trials()}
    assert set(reasons) == {("superpi", "ok"), ("forkwait", "ok"), ("zfg", "skipped")}
    assert_facts(reasons["zfg", "skipped"] or "", "fake", "data directory")


def test_a_guest_without_vlans_skips_those_trials_alone(tmp_path: Path) -> None:
    """What a guest says it cannot do costs neither the guest nor its other trials."""
    folder = run(
        tmp_path / "run",
        platforms=[fake("model"), fake("plain", failure="no-vlan")],
        workloads=[
            {"workload": "forward", "frame_size_bytes": [68, 1500], "vlan": [0, 5]},
            {"workload": "forward", "frame_size_bytes": 88, "ip_version": 6, "vlan": 5},
            {"workload": "forward", "mix": "imix", "ip_version": 6},
        ],
        blocks=1,
    )
    skipped = [trial for trial in folder.trials() if trial.status != "ok"]
    assert {(trial.platform, trial.status) for trial in skipped} == {("plain", "skipped")}
    assert [trial.parameters["vlan"] for trial in skipped] == [5, 5, 5]
    (reason,) = {trial.reason for trial in skipped}
    assert_facts(reason or "", "VLANs", "'failure: none'", "vlan 0")
    assert sorted(boot.platform for boot in folder.boots()) == ["model", "plain"]
    labels = {task.size for task in analyse(load(folder.path)).tasks}
    assert any("IPv6" in label and "VLAN 5" in label for label in labels), labels


def test_a_second_guest_is_started_for_the_trials_that_need_one(tmp_path: Path) -> None:
    """It is a boot of its own with links of its own; a model has no network, and its trials are skipped with that."""
    folder = run(
        tmp_path / "run",
        platforms=[fake("model")],
        workloads=[
            {"workload": "tcp-stream", "between": "peer"},
            {"workload": "tcp-stream", "between": "guests", "path": ["peer", "bridge"]},
            {"workload": "tcp-request-response", "between": "guests"},
        ],
    )
    assert {trial.status for trial in folder.trials()} == {"skipped"}
    assert all(not missing_facts(trial.reason or "", "'serve'") for trial in folder.trials())
    assert {"fake peer" in str(trial.reason) for trial in folder.trials()} == {True, False}
    assert [boot.boot for boot in folder.boots()] == ["model/0", "model/0/2", "model/1", "model/1/2"]
    links = [boot.requested.interface_macs for boot in folder.boots() if boot.requested is not None]
    assert len({mac for macs in links[:2] for mac in macs}) == 8, "a link to the bridge is one of each one's four"
    sizes = {task.size for task in analyse(load(folder.path)).tasks if task.workload == "tcp-stream"}
    assert sizes == {"peer", "guests, by the peer", "guests, by the bridge"}


def test_both_guests_are_lost_together_and_started_anew(tmp_path: Path) -> None:
    workloads = [{"workload": "tcp-stream", "between": "guests"}]
    folder = run(tmp_path / "run", platforms=[fake("model")], workloads=workloads, blocks=1)
    experiment = experiments.parsed(baseline="model", platforms=[fake("model")], workloads=workloads, blocks=1)
    with model_runs.fleet(experiment, folder, model_site()) as fleet:
        first = fleet.guests("model", 2)
        assert len(first) == 2
        assert fleet.starts.boots["model", 0] == 2
        assert fleet.guests("model", 1) == first[:1]
        assert fleet.guests("model", 2) == first
        reason, evidence = fleet.lose("model", fleet.block[0].workload, GuestError("died"), "trial-9")
        assert reason == "died"
        assert evidence == ("evidence/trial-9/console.txt", "evidence/trial-9-beside-1/console.txt")
        anew = fleet.guests("model", 2)
        assert len(anew) == 2
        assert not {id(one.guest) for one in anew} & {id(one.guest) for one in first}
        assert fleet.starts.boots["model", 0] == 4


@pytest.fixture(scope="module")
def self_test(tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """The experiment ``models``, measured and analysed."""
    into = tmp_path_factory.mktemp("models") / "run"
    return analyse(load(measured(load_experiment(find_experiment("models"), catalogue()), into).path))


def test_the_self_test_is_whole(self_test: Analysis) -> None:
    assert self_test.data.state.state == "complete"
    assert {trial.status for trial in self_test.data.trials} == {"ok"}
    measured = (*self_test.data.trials, *self_test.data.warm_ups)
    assert len(measured) == len(self_test.data.manifest.plan.trials)
    assert self_test.gaps == ()


def test_the_injected_cost_is_found(self_test: Analysis) -> None:
    for task in self_test.tasks:
        found = self_test.comparison("model-cost-25", task)
        assert found is not None
        assert found.verdict == Verdict.SLOWER, task.label
        assert found.share == pytest.approx(1 / 1.25, rel=0.02)
        assert found.at_least is not None
        assert 1.1 < found.at_least <= 1.25  # of all tasks together, at 95 %


def test_where_nothing_was_injected_nothing_is_found(self_test: Analysis) -> None:
    assert self_test.alarms == ()
    for platform in ("model-again", "model-clock-2"):
        for task in self_test.tasks:
            found = self_test.comparison(platform, task)
            assert found is not None
            assert found.verdict == Verdict.ALIKE, (platform, task.label)


def test_the_manifest_stores_margin_and_primary_metrics(tmp_path: Path) -> None:
    jobs = [JOBS[0], {"workload": "context-switch"}]
    plain, asked = (
        run(tmp_path / "plain", platforms=[fake("model")]),
        run(tmp_path / "asked", platforms=[fake("model")], workloads=jobs, margin=0.05),
    )
    assert (plain.manifest.experiment["margin"], asked.manifest.experiment["margin"]) == (0.1, 0.05)
    named = [(one.workload, one.name, one.primary) for one in asked.manifest.metrics]
    assert named == [
        ("superpi", "duration", True),
        ("context-switch", "duration", True),
        ("context-switch", "switch_time", False),
    ]


def test_the_injected_clock_error_is_found(self_test: Analysis) -> None:
    errors = {error.platform: error for error in self_test.clocks}
    assert errors["model-clock-2"].median == pytest.approx(0.02, abs=0.002)
    assert errors["model-clock-2"].within == 0
    for label in ("model", "model-again", "model-cost-25"):
        assert errors[label].within == len(errors[label].readings)


def test_the_injected_loss_is_found(self_test: Analysis) -> None:
    for curve in self_test.curves:
        lowest = curve.points[0]
        expected = 0.01 if curve.platform == "model-loss-1" else 0.0
        assert lowest.loss.median == pytest.approx(expected, abs=0.002), curve.platform


def test_the_same_seeds_give_the_same_results(tmp_path: Path) -> None:
    def results(into: Path) -> list[tuple[int, object]]:
        found = run(into, platforms=[fake("model"), fake("other", cost=2.0)], workloads=[*JOBS, FORWARD])
        return [(t.trial, t.points and t.points[-1].sink.per_source[0].forwarded_frames) for t in found.latest_trials()]

    assert results(tmp_path / "one") == results(tmp_path / "other")


def test_an_unavailable_platform_keeps_its_row(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", platforms=[fake("model"), fake("absent", failure="unavailable")])
    entry = next(entry for entry in folder.manifest.platforms if entry.label == "absent")
    assert not entry.available
    assert_facts(entry.reason or "", "'failure: none'")
    skipped = [trial for trial in folder.latest_trials() if trial.platform == "absent"]
    assert [trial.status for trial in skipped] == ["skipped"] * 4
    assert {trial.reason for trial in skipped} == {entry.reason}
    assert {trial.boot for trial in skipped} == {None}
    assert {boot.platform for boot in folder.boots()} == {"model"}
    assert statuses(folder, "model") == ["ok"] * 4
    assert folder.state().state == "complete"


def test_a_guest_that_is_never_ready_costs_its_own_trials_only(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", platforms=[fake("model"), fake("dumb", failure="never-ready")])
    assert statuses(folder, "model") == ["ok"] * 4
    skipped = [trial for trial in folder.latest_trials() if trial.platform == "dumb"]
    assert {trial.status for trial in skipped} == {"skipped"}
    boots = [boot for boot in folder.boots() if boot.platform == "dumb"]
    assert all(any(str(boot.reason) in str(trial.reason) for boot in boots) for trial in skipped)
    assert {boot.status for boot in boots} == {"failed"}
    assert len({boot.boot for boot in boots}) == len(boots) == 6, "three starts a block, each with a name of its own"
    for boot in boots:
        assert_facts(boot.reason or "", boot.boot)
        assert [(folder.path / path).read_text() for path in boot.evidence] == ["fake: never ready\n"]


def test_a_guest_that_dies_is_started_anew_and_the_others_go_on(tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run",
        platforms=[fake("model"), fake("frail", failure="dies", dies_at_job=2)],
        workloads=[{"workload": "superpi", "digits": [100, 200, 300, 400]}],
        blocks=1,
    )
    assert statuses(folder, "model") == ["ok"] * 4
    frail = [trial for trial in folder.trials() if trial.platform == "frail"]
    assert [trial.status for trial in frail] == ["ok", "failed", "ok", "failed"]
    assert [trial.boot for trial in frail] == ["frail/0", "frail/0", "frail/0/2", "frail/0/2"]
    for trial in frail[1::2]:
        assert_facts(trial.reason or "", "died", "fake guest: FakeParameters(")
        assert trial.clock is None
        assert len(trial.evidence) == 1
        assert "fake guest: " in (folder.path / trial.evidence[0]).read_text()


def test_a_guest_that_always_dies_is_started_three_times_a_block(tmp_path: Path) -> None:
    folder = run(
        tmp_path / "run",
        platforms=[fake("model"), fake("frail", failure="dies", dies_at_job=1)],
        workloads=[{"workload": "superpi", "digits": [100, 200, 300, 400, 500]}],
        blocks=1,
    )
    frail = [trial for trial in folder.trials() if trial.platform == "frail"]
    assert [trial.status for trial in frail] == ["failed", "failed", "failed", "skipped", "skipped"]
    assert frail[2].reason is not None
    assert frail[2].reason.partition(";")[0] in str(frail[-1].reason), "how its guest was lost"


def test_a_job_that_a_guest_refuses_costs_no_other_workload(tmp_path: Path) -> None:
    """Its guest is started anew each time, more often than one that dies; in the next block it is tried again."""
    folder = run(
        tmp_path / "run",
        platforms=[fake("model"), fake("picky", failure="refuses-job", refused_job="masr")],
        workloads=[{"workload": "masr", "size_bytes": [2**20, 2**21]}, {"workload": "superpi", "digits": [100, 200]}],
        blocks=2,
        rounds=5,
    )
    trials = [trial for trial in folder.trials() if trial.platform == "picky" and not trial.warm_up]
    assert {trial.status for trial in trials if trial.workload == "superpi"} == {"ok"}
    masr = [trial for trial in folder.trials() if trial.platform == "picky" and trial.workload == "masr"]
    for block in (0, 1):
        for size in (2**20, 2**21):
            own = [trial for trial in masr if trial.block == block and trial.parameters == {"size_bytes": size}]
            assert [trial.status for trial in own] == ["failed"] * 2 + ["skipped"] * 4
            assert_facts(own[0].reason or "", "masr")
            assert_facts(own[-1].reason or "", "2 times")
        boots = [boot.attempt for boot in folder.boots() if boot.platform == "picky" and boot.block == block]
        assert boots[:4] == [1, 2, 3, 4], "four guests refused, and none was the last"


@pytest.mark.parametrize(
    ("failure", "workloads", "facts"),
    [
        ("wrong-check", JOBS, ["check value", "'wrong'"]),
        ("loses-marks", JOBS, ["mark", "timekeeper"]),
        ("unbalanced-books", [FORWARD], ["source 0", "forwarded", "lost", "offered"]),
        ("too-small", JOBS, ["memory", "256 MiB", "1 MiB"]),
    ],
)
def test_what_cannot_be_believed_is_kept_and_not_summarised(
    tmp_path: Path, failure: str, workloads: list[dict[str, Any]], facts: list[str]
) -> None:
    folder = run(tmp_path / "run", platforms=[fake("model"), fake("liar", failure=failure)], workloads=workloads)
    liar = [trial for trial in folder.latest_trials() if trial.platform == "liar"]
    assert {trial.status for trial in liar} == {"invalid"}
    assert all(not missing_facts(trial.reason or "", *facts) for trial in liar)
    assert all(trial.clock is not None or trial.points is not None for trial in liar), "the raw values are kept"
    analysis = analyse(load(folder.path))
    assert {platform for platform, _ in analysis.cells} == {"model"}
    for task in analysis.tasks:
        comparison = analysis.comparison("liar", task)
        assert comparison is not None
        assert comparison.verdict == Verdict.NOT_MEASURED
        assert_facts(comparison.reason, *facts)


def test_guests_without_a_link_of_their_own_are_timed_over_the_channel(tmp_path: Path) -> None:
    platforms = [fake("model"), fake("liar", failure="loses-marks")]
    folder = run(tmp_path / "run", platforms=platforms, guest={"marks": "channel"})
    assert statuses(folder, "model") == ["ok"] * 4
    assert statuses(folder, "liar") == ["invalid"] * 4
    assert {trial.clock.method for trial in folder.trials() if trial.clock} == {"channel"}


class BreaksEvidence(SilentProgress):
    """Puts a file where the folder of evidence stands, before the first guest starts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, done: int, total: int, estimated_seconds: float) -> None:  # noqa: ARG002 - the seam's signature
        (self.folder / "evidence").rmdir()
        (self.folder / "evidence").write_text("")


def test_evidence_that_cannot_be_stored_ends_the_run(tmp_path: Path) -> None:
    with refused(tmp_path / "run/evidence/dumb-0/console.txt", error=StorageError):
        run(
            tmp_path / "run",
            BreaksEvidence(tmp_path / "run"),
            platforms=[fake("model"), fake("dumb", failure="never-ready")],
        )


THREE: dict[str, Any] = {
    "platforms": [fake("model"), fake("other"), fake("absent", failure="unavailable")],
    "blocks": 3,
}


@pytest.mark.parametrize("stored", [1, 2, 5, 6, 7, 11])
def test_an_interrupted_run_is_resumed_with_each_trial_exactly_once(tmp_path: Path, stored: int) -> None:
    before = killed_run(tmp_path / "run", stored, **THREE)
    kept = before.trials()
    resume(tmp_path / "run", SilentProgress())
    folder = RunFolder.open(tmp_path / "run")
    assert folder.manifest == before.manifest
    assert folder.state().state == "complete"
    trials = folder.trials()
    assert trials[: len(kept)] == kept
    assert sorted(trial.trial for trial in trials) == list(range(18))
    assert {trial.attempt for trial in trials} == {1}
    planned = {(p.trial, p.block, p.platform, p.workload, str(p.parameters)) for p in folder.manifest.plan.trials}
    assert {(t.trial, t.block, t.platform, t.workload, str(t.parameters)) for t in trials} == planned
    boots = [boot.boot for boot in folder.boots()]
    assert len(set(boots)) == len(boots)


def test_a_complete_run_has_nothing_to_resume(tmp_path: Path) -> None:
    before = run(tmp_path / "run", **THREE).trials()
    resume(tmp_path / "run", SilentProgress())
    assert RunFolder.open(tmp_path / "run").trials() == before


def test_a_torn_last_line_is_measured_again(tmp_path: Path) -> None:
    killed_run(tmp_path / "run", 5, **THREE)
    file = tmp_path / "run" / "trials.jsonl"
    whole = RunFolder.open(tmp_path / "run").trials()
    file.write_bytes(file.read_bytes()[:-20])
    assert RunFolder.open(tmp_path / "run").trials() == whole[:-1]
    resume(tmp_path / "run", SilentProgress())
    numbers = [trial.trial for trial in RunFolder.open(tmp_path / "run").trials()]
    assert sorted(numbers) == list(range(18))
    assert all(json.loads(line) for _, line in jsonlines.read(file))


def change_manifest(folder: Path, **changed: Any) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    for key, value in changed.items():
        document[key] = {**document[key], **value} if isinstance(document[key], dict) else value
    (folder / "manifest.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("changed", "facts"),
    [
        ({"host": {"fingerprint": "0" * 64}}, ["host", "kernel", "example"]),
        ({"agent": {"sha256": "0" * 64}}, ["agent", "example"]),
        (
            {"experiment": {"text": experiments.text(platforms=[fake("model")], baseline="model")}},
            ["trials", __version__],
        ),
    ],
    ids=["host", "agent", "plan"],
)
def test_what_is_not_comparable_is_not_resumed(tmp_path: Path, changed: dict[str, Any], facts: list[str]) -> None:
    killed_run(tmp_path / "run", 3, **THREE)
    change_manifest(tmp_path / "run", **changed)
    assert_not_resumed(tmp_path / "run", *facts)


def assert_not_resumed(run: Path, *facts: str) -> None:
    """It is refused with these facts, and nothing is measured."""
    before = (run / "trials.jsonl").read_bytes()
    with refused("run", *facts, error=UsageError):
        resume(run, SilentProgress())
    assert (run / "trials.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "facts"),
    [
        ({"digits": 500}, ["'digits': 500", "'digits': 1000"]),
        ({"digits": 1000, "workers": 4}, ["'workers': 4", "without 'workers'"]),
        ({}, ["without 'digits'", "'digits': 1000"]),
    ],
    ids=["another value", "one more", "one less"],
)
def test_a_run_that_began_with_other_parameters_is_not_resumed(
    tmp_path: Path, parameters: dict[str, int], facts: list[str]
) -> None:
    """As if the Virtoll that began it had another default, or lacked the parameter."""
    killed_run(tmp_path / "run", 3, **THREE, workloads=[{"workload": "superpi", "digits": 1000}])
    trials = json.loads((tmp_path / "run" / "manifest.json").read_text())["plan"]["trials"]
    trials[4]["parameters"] = parameters
    change_manifest(tmp_path / "run", plan={"trials": trials})
    assert_not_resumed(tmp_path / "run", "trial 4", "superpi", __version__, *facts)


def test_a_model_on_a_nested_host_is_branded_in_records_and_headline(tmp_path: Path) -> None:
    platforms = [fake("model"), fake("slow", cost=3.0, host="nested:kvm"), fake("slow-here", cost=3.0)]
    folder = run(tmp_path / "run", platforms=platforms, workloads=JOBS[:1], blocks=4, study="schlosser2011")
    elsewhere: tuple[str, str | None] = ("nested kvm", FUNCTIONAL_ONLY)
    here: tuple[str, str | None] = ("this machine", None)
    assert folder.manifest.experiment["study"] == "schlosser2011"
    for one in folder.manifest.platforms:
        assert (one.host, one.caveat) == (elsewhere if one.label == "slow" else here)
    assert len(folder.boots()) == len(folder.trials()) == 12
    for boot in folder.boots():
        assert (boot.host, boot.caveat) == (elsewhere if boot.platform == "slow" else here)
    for trial in folder.trials():
        assert (trial.host, trial.caveat) == (elsewhere if trial.platform == "slow" else here)
    (row,) = ranked(analyse(load(tmp_path / "run")))
    assert row.others == ("slow: functional only",)
    assert {one.platform: one.kind for one in row.platforms} == {"model": "baseline", "slow-here": "slower"}


def interrupted_in_a_finalizer() -> None:
    """Python prints what is raised there, and goes on."""

    class Finalized:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    Finalized()
    raise GuestError("something else")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("lost", [interrupted_but_replaced, interrupted_in_a_finalizer])
@pytest.mark.parametrize("where", ["in a trial", "at a start", "in a probe"])
def test_an_interrupt_that_is_lost_ends_the_run_and_fails_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, lost: Callable[[], None]
) -> None:
    def probe_lost(*_: object) -> Probe:
        with contextlib.suppress(GuestError):
            lost()
        return Probe(False, None, "its guest did not start")

    owner: Any = SuperPi if where == "in a trial" else Fake
    name, replaced = {
        "in a trial": ("measure", lambda *_: lost()),
        "at a start": ("start", lambda *_: lost()),
        "in a probe": ("probe", probe_lost),
    }[where]
    monkeypatch.setattr(owner, name, replaced)
    with interrupts.interruptible(), pytest.raises(KeyboardInterrupt):
        run(tmp_path / "run", platforms=[fake("model")])
    if where == "in a probe":
        assert not (tmp_path / "run").exists()
    else:
        folder = RunFolder.open(tmp_path / "run")
        assert {trial.status for trial in folder.trials()} <= {"ok"}
        assert {boot.status for boot in folder.boots()} == ({"ok"} if where == "in a trial" else set())
