"""Whole campaigns with real guests: chosen parts of one, and guests that are killed in the middle of a trial."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.playground import kill_all, playground
from tests.support.present import present
from tests.support.real_run import measure_experiment, measuring, run_experiment

from virtoll.experiment.plan import Trial
from virtoll.pipeline.preview import plan_of
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]


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
    folder = measure_experiment(
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


# It has all the points that there may be, since no loss ends it: whoever looks for the guest meanwhile finds it.
LONG_SWEEP = {"workload": "forward", "point_milliseconds": 200, "rate_factor": 1.01, "stop_below_share": 0}
VICTIMS: dict[str, tuple[str, list[str], int | None]] = {
    "native": ("superpi", ["/init", "host"], None),
    "netns": ("forward", ["/init", "guest"], 1),
}
"""Guests by platform: the workload of its long trial, and how its process is found by words and process id in it.

Of other platforms `test_guests` kills one of each kind: whatever it is, its death is noticed.
"""


def long_trials_in_the_middle() -> tuple[str, list[Trial], int]:
    """An experiment, the long trials of the victims in their order, and the number of all trials.

    After each long trial come trials of its platform and of others.
    """
    changed: dict[str, Any] = {
        "platforms": [*VICTIMS],
        "blocks": 1,
        "guest": {"memory": "128MiB"},
        "workloads": [
            {"workload": "forkwait", "processes": [100, 200]},
            {"workload": "superpi", "digits": 2_000_000},
            LONG_SWEEP,
        ],
        "skip": ["native:forward", "netns:superpi"],
    }
    for seed in itertools.count():
        trials = plan_of(experiments.parsed(**changed, seed=seed)).trials
        long = [t for t in trials if t.workload.workload == VICTIMS.get(t.platform.label, ("", [], None))[0]]
        later = [{t.platform.label for t in trials[one.number + 1 :]} for one in long]
        if long[0].number > 0 and all({one.platform.label} < of for one, of in zip(long, later, strict=True)):
            return experiments.text(**changed, seed=seed), long, len(trials)
    raise AssertionError


def test_a_guest_that_dies_in_a_trial_costs_that_trial_only() -> None:
    """Also one that forwards: frames that a dead guest did not forward are no result."""
    text, long, count = long_trials_in_the_middle()
    with playground(root=True) as place:
        file = place.base / "dies.yaml"
        file.write_text(text)
        arguments, measured = measuring(file)
        with place.start(*arguments) as running:
            for trial in long:
                running.wait_for(f"{trial.number}/{count} ")
                seen = machine.family(running.process.pid)
                _, words, inner_pid = VICTIMS[trial.platform.label]
                kill_all([present(seen.find(*words, inner_pid=inner_pid))])
            assert running.end() == 0, running.said
            place.check_clean(seen, running.token)
        check_deaths(RunFolder.open(measured), long)


def check_deaths(folder: RunFolder, long: Sequence[Trial]) -> None:
    """A failed trial each with its evidence, a second boot for what came after it, and a complete run."""
    failed = [trial for trial in folder.trials() if trial.status != "ok"]
    assert [(one.trial, one.status) for one in failed] == [(one.number, "failed") for one in long], [
        one.reason for one in failed
    ]
    for one in failed:
        assert one.boot == f"{one.platform}/0"
        assert present(one.reason).startswith(f"{one.platform}/0")
        assert "console.txt" in {Path(name).name for name in one.evidence}
        assert all((folder.path / name).is_file() for name in one.evidence)
        later = [trial for trial in folder.trials() if trial.platform == one.platform and trial.trial > one.trial]
        assert {trial.boot for trial in later} == {f"{one.platform}/0/2"}
        boots = [boot.boot for boot in folder.boots() if boot.platform == one.platform]
        assert boots == [f"{one.platform}/0", f"{one.platform}/0/2"]
    assert folder.state().state == "complete"
