"""Real guests beside a measured one: their loads are proven, end with the trial, and cost no other when they die."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.facts import assert_facts
from tests.support.guests import right_or_disturbed
from tests.support.playground import kill_all, playground
from tests.support.present import present
from tests.support.real_run import measure_experiment, measuring

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.workloads.loads import gone_still, not_sent_through

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]

# It lasts until somebody has looked at what runs beside it, on a busy host too.
LONG = {"workload": "forkwait", "processes": 10_000}


def asked(**changed: Any) -> dict[str, Any]:
    """The keys of an experiment with guests beside, of one block and round."""
    return {
        "scenario": "neighbours",
        "platforms": ["netns"],
        "baseline": "netns",
        "blocks": 1,
        "guest": {"memory": "128MiB"},
        **changed,
    }


def under(folder: RunFolder, load: str) -> list[TrialRecord]:
    return [one for one in folder.latest_trials() if one.condition is not None and one.condition.load == load]


def disk_was_busy(trial: TrialRecord) -> bool:
    """The disk load waits for each write to be on the host's disk, which others keep busy for seconds."""
    load = trial.condition.load if trial.condition is not None else None
    return load == "disk" and "used no CPU time for" in (trial.reason or "")


def test_every_load_runs_through_its_trial_in_real_guests(tmp_path: Path) -> None:
    """Programs by their own CPU time, frames by exact books; ``lab/test_rootless`` has a machine with a load beside."""
    heavy = {"load": "heavy", "affinity": "unpinned"}
    forwarding = {"load": "forward", "rate_share": 0.5}
    programs = ["memory-bandwidth", "cache", "disk", "processes"]
    wanted = asked(
        neighbours=["idle", "light", heavy, *programs, forwarding],
        # So long that on a busy host, too, a program of a neighbour uses a tick of CPU time (10 ms) meanwhile.
        workloads=[{"workload": "forkwait", "processes": 1_000}],
    )
    folder = measure_experiment(tmp_path, **wanted)
    trials = folder.latest_trials()
    measured = [one for one in trials if not disk_was_busy(one)]
    assert [(one.condition, one.status, one.reason) for one in measured if not right_or_disturbed(one)] == []
    assert all(not one.neighbours for one in trials if one.condition is None)
    boots = {one.boot: one for one in folder.boots()}
    for trial in measured:
        for one in trial.neighbours:
            asked_for = present(boots[one.boot].requested)
            assert one.cpus == asked_for.cpus
            if one.traffic is not None:
                assert not_sent_through(one.traffic, one.window) is None
                (sent,), (arrived,) = one.traffic.sources, one.traffic.sink.per_source
                assert sent.offered_frames + sent.unsent_frames == sent.intended_frames
                assert arrived.forwarded_frames + arrived.lost_frames == sent.offered_frames
                assert arrived.forwarded_frames > 0
            elif one.argv:
                assert gone_still(one.progress, one.window) is None
                assert one.progress[-1].processes >= 1
    assert {one.platform for trial in trials for one in trial.neighbours} == {"netns"}
    found = Counter(one.argv[:2] for trial in trials for one in trial.neighbours)
    loads: dict[tuple[str, ...], int] = {("stress-ng", f"--{name}"): 1 for name in ("stream", "cache", "hdd", "fork")}
    # So busy a host does not say what a guest forwards at most, and then nothing is sent through it.
    starved = sum(one.status == "failed" for one in trials)
    loads |= {("stress", "--cpu"): 2, (): 2 - starved}
    assert found == loads
    assert [maximum.platform for maximum in folder.maxima()] == ["netns"] * (1 - starved)
    assert under(folder, "heavy")[0].neighbours[0].cpus == ()


def stress_of(family: machine.Family) -> machine.Process | None:
    """The load itself, not one of its workers."""
    own = [one for one in family.processes if one.argv[:1] == ("stress",)]
    pids = {one.pid for one in own}
    return next((one for one in own if one.parent not in pids), None)


def test_a_killed_neighbour_costs_its_trial_and_is_named() -> None:
    with playground(root=True) as place:
        file = place.base / "beside.yaml"
        file.write_text(experiments.text(**asked(neighbours=["light"], workloads=[LONG])))
        arguments, measured = measuring(file)
        with place.start(*arguments) as running:
            found: list[machine.Process] = []

            def loaded() -> bool:
                found[:] = [one for one in [stress_of(machine.family(running.process.pid))] if one is not None]
                return bool(found)

            running.wait_until(loaded, "a load")
            seen = machine.family(running.process.pid)
            guest = next(one for one in seen.processes if one.pid == found[0].parent)
            kill_all([guest])
            assert running.end() == 0, running.said
            place.check_clean(seen, running.token)
        trials = RunFolder.open(measured).latest_trials()
        (failed,) = [one for one in trials if not right_or_disturbed(one)]
        assert (failed.status, failed.condition and failed.condition.load) == ("failed", "light")
        assert_facts(failed.reason or "", "light load, same CPUs", "beside-netns/0/2")
        assert failed.evidence
        assert len(trials) == 5
        assert {one.boot for one in trials} == {"netns/0"}, "the measured guest was started anew"


def test_no_load_outlives_a_run_that_is_killed() -> None:
    with playground(root=True) as place:
        file = place.base / "beside.yaml"
        conditions = ["heavy", {"load": "forward", "rate_share": 0.5}]
        file.write_text(experiments.text(**asked(neighbours=conditions, workloads=[LONG])))
        arguments, measured = measuring(file)
        with place.start(*arguments) as running:
            running.wait_until(lambda: stress_of(machine.family(running.process.pid)) is not None, "a load")
            seen = machine.family(running.process.pid)
            assert sum(one.argv[:1] == ("stress",) for one in seen.processes) > 1
            running.process.kill()
            running.end()
            place.check_clean(seen, running.token)
        assert all(right_or_disturbed(one) for one in RunFolder.open(measured).trials())


def test_limits_of_its_own_hold_a_guest_that_is_measured_and_one_beside_it(tmp_path: Path) -> None:
    own = {"cpu_max": 0.5, "cpu_weight": 50, "memory_max": "96MiB"}
    wanted = asked(
        platforms=["runc", {"platform": "runc", "label": "held", **own}],
        baseline="runc",
        neighbours=[{"load": "idle", "platform": ["runc", "held"]}],
        workloads=[{"workload": "superpi", "digits": 2000}],
    )
    folder = measure_experiment(tmp_path, **wanted)
    trials = folder.latest_trials()
    assert [(one.condition, one.status, one.reason) for one in trials if not right_or_disturbed(one)] == []
    assert {(one.platform, *(beside.platform for beside in one.neighbours)) for one in trials} >= {
        ("runc", "held"),
        ("held", "runc"),
        ("held", "held"),
    }
    boots = folder.boots()
    assert {(one.platform, one.instance > 0) for one in boots} >= {("held", False), ("held", True), ("runc", True)}
    for boot in boots:
        asked_for, seen = boot.requested, boot.limits_seen
        assert asked_for is not None
        assert seen is not None
        assert boot.mismatches == ()
        is_held = boot.platform == "held"
        limits = (96 * 2**20, 0.5, 50) if is_held else (128 * 2**20, None, None)
        assert (asked_for.memory_bytes, asked_for.cpu_quota, asked_for.cpu_weight) == limits
        assert (seen.memory_bytes, seen.cpu_quota) == limits[:2]
        v1 = {("cpu.shares", "512"), ("memory.limit_in_bytes", str(96 * 2**20)), ("cpu.cfs_quota_us", "50000")}
        v2 = {("cpu.weight", "50"), ("memory.max", str(96 * 2**20)), ("cpu.max", "50000 100000")}
        assert (seen.own.items() >= v1 or seen.own.items() >= v2) if is_held else seen.own == {}
