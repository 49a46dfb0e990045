"""Whole campaigns with real guests: two blocks without a flaw, and guests that are killed in the middle of a trial."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.playground import kill_all, playground
from tests.support.present import present
from tests.support.real_run import run_experiment

from virtoll.campaign.preview import plan_of
from virtoll.experiment.plan import Trial
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]


def test_two_blocks_with_every_kind_of_guest_are_ok(tmp_path: Path) -> None:
    """Interfaces of the second block have the names and addresses of the first one's."""
    sweep = {"sweep": "from-flat-out", "first_rate_frames_per_second": 2000, "rate_factor": 8}
    folder = run_experiment(
        tmp_path,
        platforms=["native", "native-again", "netns", "runc", "qemu-tcg"],
        blocks=2,
        guest={"memory": "128MiB"},
        workloads=[
            {"workload": "forward", "frame_size_bytes": 64, "point_milliseconds": 50, **sweep},
            {"workload": "forkwait", "processes": 200},
        ],
    )
    assert [(trial.platform, trial.workload, trial.reason) for trial in folder.trials() if trial.status != "ok"] == []
    assert len(folder.trials()) == 20
    for trial in folder.trials():
        asked = [point.intended_rate_frames_per_second for point in trial.points or ()]
        assert not asked or (asked[0] is None and set(asked[1:]) <= {2000.0 * 8**step for step in range(24)})
        assert len(asked) == len(set(asked)) != 1, "flat out, and at least one rate of the grid"
    boots = folder.boots()
    assert {boot.status for boot in boots} == {"ok"}
    assert len(boots) == len({boot.boot for boot in boots}) == 10
    assert len({boot.facts["agent_sha256"] for boot in boots if boot.facts}) == 1
    assert folder.state().state == "complete"
    roles = {command.role for command in folder.commands()}
    assert {"network peer", "probe", "guest runc/1", "guest qemu-tcg/0"} <= roles


def test_the_papers_order_in_one_guest_and_what_does_not_fit_is_skipped(tmp_path: Path) -> None:
    """Chosen on the command line, and what a guest has no memory for harms no guest."""
    folder = run_experiment(
        tmp_path,
        *("--size", "paper", "--skip", "runc:*"),
        platforms=["native", "netns", "runc"],
        guest={"memory": "128MiB"},
        workloads=[{"workload": "forkwait", "processes": 200}, {"workload": "masr", "size_bytes": "1GiB"}],
        sizes={"quick": {}, "paper": {"order": "paper", "blocks": 2, "summary": "mean-sd"}},
    )
    ok = [(trial.platform, trial.block) for trial in folder.trials() if trial.status == "ok"]
    assert ok == [("native", 0), ("native", 1), ("netns", 0), ("netns", 1)]
    skipped = {(trial.workload, trial.status, trial.boot) for trial in folder.trials() if trial.status != "ok"}
    assert skipped == {("masr", "skipped", None)}
    assert [boot.boot for boot in folder.boots()] == ["native/0", "netns/0"]
    assert folder.manifest.experiment["order"] == "paper"


def test_who_copies_an_image_keeps_the_trials_that_need_none_with_tools(tmp_path: Path) -> None:
    """What runs a program of the larger image is skipped there, and which image it would have is stored."""
    folder = run_experiment(
        tmp_path,
        platforms=["native", {"platform": "openvz", "tool": "prlctl", "ostemplate": "empty", "label": "containers"}],
        blocks=1,
        workloads=[{"workload": "forkwait", "processes": 200}, {"workload": "bzip2", "size_bytes": 2**20}],
    )
    found = {(trial.platform, trial.workload): str(trial.reason) for trial in folder.trials() if trial.status != "ok"}
    assert set(found) == {("containers", "forkwait"), ("containers", "bzip2")}
    image = folder.manifest.image or {}
    assert (image["name"], image["smallest"]["name"]) == ("full", "tiny")
    assert image["smallest"]["platforms"] == ["containers"]
    assert image["smallest"]["digest"] != image["digest"]


def long_trial_in_the_middle(label: str, workload: dict[str, Any]) -> tuple[str, Trial]:
    """An experiment and the long trial of a platform, with trials of that platform and of the other one after it."""
    for seed in itertools.count():
        changed: dict[str, Any] = {
            "platforms": ["native", label],
            "blocks": 1,
            "seed": seed,
            "guest": {"memory": "128MiB"},
            "workloads": [{"workload": "forkwait", "processes": [100, 200]}, workload],
        }
        trials = plan_of(experiments.parsed(**changed)).trials
        long = next(t for t in trials if t.platform.label == label and t.workload.workload == workload["workload"])
        if long.number > 0 and {t.platform.label for t in trials[long.number + 1 :]} == {"native", label}:
            return experiments.text(**changed), long
    raise AssertionError


# It has all the points that there may be, since no loss ends it: whoever looks for the guest meanwhile finds it.
LONG_SWEEP = {"workload": "forward", "point_milliseconds": 200, "rate_factor": 1.01, "stop_below_share": 0}


@pytest.mark.parametrize(
    ("label", "words", "workload"),
    [("qemu-tcg", ["-kernel"], {"workload": "superpi", "digits": 200_000}), ("netns", ["/init", "guest"], LONG_SWEEP)],
)
def test_a_guest_that_dies_in_a_trial_costs_that_trial_only(
    label: str, words: list[str], workload: dict[str, Any]
) -> None:
    """Also one that forwards: frames that a dead guest did not forward are no result."""
    text, long = long_trial_in_the_middle(label, workload)
    with playground(root=True) as place:
        file = place.base / "dies.yaml"
        file.write_text(text)
        with place.start("run", file) as running:
            running.wait_for(f"{long.number}/6 ")
            seen = machine.family(running.process.pid)
            victim = present(seen.find(*words, inner_pid=None if label == "qemu-tcg" else 1))
            kill_all([victim])
            assert running.end() == 0, running.said
            place.check_clean(seen, running.token)
        (path,) = place.runs.iterdir()
        check_death(RunFolder.open(path), label, long)


def check_death(folder: RunFolder, label: str, long: Trial) -> None:
    """One failed trial with its evidence, a second boot for what came after it, and a complete run."""
    failed = [trial for trial in folder.trials() if trial.status != "ok"]
    assert [(trial.trial, trial.status) for trial in failed] == [(long.number, "failed")], [t.reason for t in failed]
    assert failed[0].boot == f"{label}/0"
    assert present(failed[0].reason).startswith(f"{label}/0")
    assert "console.txt" in {Path(name).name for name in failed[0].evidence}
    assert all((folder.path / name).is_file() for name in failed[0].evidence)
    later = [trial for trial in folder.trials() if trial.platform == label and trial.trial > long.number]
    assert {trial.boot for trial in later} == {f"{label}/0/2"}
    assert [boot.boot for boot in folder.boots() if boot.platform == label] == [f"{label}/0", f"{label}/0/2"]
    assert folder.state().state == "complete"
