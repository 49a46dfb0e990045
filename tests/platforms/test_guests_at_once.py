"""Real guests that do the same at once: begun together, each with its own books, and gone when the run is."""

from __future__ import annotations

import itertools
import re
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import accounting, experiments, machine
from tests.support.guests import HELD_UP, right_or_disturbed
from tests.support.playground import Running, kill_all, playground
from tests.support.present import present
from tests.support.real_run import measure_experiment, measuring

from virtoll.pipeline.preview import plan_of
from virtoll.runfolder.records import GuestRun, TrialRecord, begin_ns
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]

GUESTS = 3
# The one lasts until somebody has looked at the guests, the other until the run is ended.
LONG = {"workload": "forkwait", "processes": 30_000}
ENDLESS = {"workload": "forkwait", "processes": 2_000_000}
SHORT = {"workload": "forkwait", "processes": 500}
BEGUN_NS = 100_000_000


def asked(**changed: Any) -> dict[str, Any]:
    """The keys of an experiment with three guests at once, of one block and round."""
    return {
        "scenario": "scale",
        "scale": {"guests": [GUESTS]},
        "platforms": ["netns"],
        "baseline": "netns",
        "blocks": 1,
        "guest": {"memory": "128MiB"},
        **changed,
    }


def test_real_guests_do_the_same_at_the_same_time(tmp_path: Path) -> None:
    """Processes, containers and machines; on their CPUs, in memory, and each on a disk of its own.

    CPU use is read around the job of one guest; the other one works while one's processes would be read.
    """
    jobs = [{"workload": "superpi", "digits": 65_536}, {"workload": "zfg", "size_bytes": 1_048_576, "rounds": 2}]
    labels = ("native", "runc", "uml")
    wanted = asked(scale={"guests": [1, 2]}, platforms=list(labels), baseline="native", workloads=jobs)
    folder = measure_experiment(tmp_path, **wanted)
    trials = folder.latest_trials()
    assert len(trials) == 12
    for trial in trials:
        assert right_or_disturbed(trial), trial.reason
        guests = present(trial.scale).guests
        assert len(trial.members) == len({one.boot for one in trial.members}) == guests
        for one in trial.members:
            assert one.problem is None or HELD_UP in one.problem
            assert present(one.check).ok
            assert present(one.host_cpu).after is not None
            if trial.workload == "superpi":
                assert len(present(one.host_cpu).measured) == (guests == 1)
        if trial.status == "ok":
            assert_at_the_same_time(trial)
    boots = {one.boot: one for one in folder.boots()}
    assert Counter(one.platform for one in boots.values()) == dict.fromkeys(labels, 1 + 2)
    for group in folder.groups():
        assert (group.status, group.reason, len(group.boots)) == ("ok", None, group.scale.guests)
        for place, name in enumerate(group.boots):
            boot = boots[name]
            assert (boot.scale, boot.instance, boot.status) == (group.scale, place, "ok")
            assert present(boot.requested).cpus == (), "they share all CPUs of the host"
    held = {one.boot for one in folder.footprints() if one.when == "idle"}
    assert held == set(boots)


def assert_at_the_same_time(trial: TrialRecord) -> None:
    """There is a moment at which all of them worked."""

    def span(one: GuestRun) -> tuple[int, int]:
        assert one.clock is not None
        begun = present(begin_ns(one.clock))
        return begun, present(one.clock.marks).end_ns

    spans = [span(one) for one in trial.members]
    assert max(begun for begun, _ in spans) < min(ended for _, ended in spans)


@pytest.mark.extended  # half a minute of CPU time; the stub guests of test_kernel_compile take turns as these do
def test_each_guest_compiles_a_tree_of_its_own(tmp_path: Path) -> None:
    """The tree comes from beside the peer, which serves one guest after another; what they build is the same."""
    compiled = {"workload": "kernel-compile", "size": "quick"}
    wanted = asked(scale={"guests": [2]}, guest={"memory": "256MiB"}, workloads=[compiled])
    (trial,) = measure_experiment(tmp_path, **wanted).latest_trials()
    assert right_or_disturbed(trial), trial.reason
    assert [one.check is not None and one.check.ok for one in trial.members] == [True] * 2


def test_one_server_of_the_host_serves_all(tmp_path: Path) -> None:
    """Each of its clients begins with the others, and has a database of its own, or all have one."""
    databases = {"shared": [1, 2, 3], "shared-database": [1, 1, 1]}
    workload = {"workload": "mariadb-oltp", "transactions": 20, "rows": 100, "server": list(databases)}
    folder = measure_experiment(tmp_path, **asked(platforms=["native"], baseline="native", workloads=[workload]))
    trials = {str(one.parameters["server"]): one for one in folder.latest_trials()}
    assert trials.keys() == databases.keys()
    for server, trial in trials.items():
        assert right_or_disturbed(trial), trial.reason
        assert [one.check is not None and one.check.ok for one in trial.members] == [True] * GUESTS
        argvs = [set(one.result["argv"]) for one in trial.members if one.result is not None]
        assert all("--mysql-socket=@virtoll-mariadb" in argv for argv in argvs)
        for number, argv in zip(databases[server], argvs, strict=True):
            assert f"--mysql-db=sbtest{number}" in argv


def working(running: Running) -> Callable[[], bool]:
    """Whether all guests are there and their jobs have begun: one has used more CPU time than any start takes."""
    at_first: dict[int, int] = {}

    def found() -> bool:
        guests = guests_among(machine.family(running.process.pid).processes)
        used = {one.pid: accounting.cpu_time_ns([one.pid]) for one in guests}
        at_first.update({pid: used[pid] for pid in used.keys() - at_first.keys()})
        return len(guests) == GUESTS and any(now - at_first[pid] > BEGUN_NS for pid, now in used.items())

    return found


def guests_among(processes: Sequence[machine.Process]) -> list[machine.Process]:
    """The agents of the guests."""
    agents = [one for one in processes if one.argv[:1] == ("/init",)]
    pids = {one.pid for one in agents}
    return [one for one in agents if one.parent not in pids]  # a child of theirs has the same arguments


def in_this_order(*jobs: dict[str, Any]) -> str:
    """An experiment whose jobs come in their order here, by its seed."""
    wanted = [job["processes"] for job in jobs]
    seed = next(seed for seed in itertools.count() if planned_processes(seed, jobs) == wanted)
    return experiments.text(**asked(seed=seed, workloads=list(jobs)))


def planned_processes(seed: int, jobs: Sequence[dict[str, Any]]) -> list[int]:
    """How many processes each trial has, in the plan's order."""
    plan = plan_of(experiments.parsed(**asked(seed=seed, workloads=list(jobs))))
    return [trial.workload.parameters.model_dump()["processes"] for trial in plan.trials]


def test_a_killed_guest_costs_its_trial_and_ctrl_c_ends_them_all() -> None:
    """The killed one is named, the next trial has new guests, and none outlives the run that is interrupted then."""
    with playground(root=True) as place:
        file = place.write(in_this_order(LONG, SHORT, ENDLESS))
        arguments, measured = measuring(file)
        with place.start(*arguments) as running:
            running.wait_until(working(running), "three guests at work")
            kill_all(guests_among(machine.family(running.process.pid).processes)[1:2])
            running.wait_for("2/3 ")
            running.wait_until(working(running), "three new guests at work")
            seen = machine.family(running.process.pid)
            running.process.send_signal(signal.SIGINT)
            assert running.end() == 130, running.said
            place.check_clean(seen, running.token)
        failed, following = RunFolder.open(measured).latest_trials()
        assert failed.status == "failed"
        assert re.search(r"\bof-3-00[1-3]", failed.reason or "")
        assert failed.evidence
        assert right_or_disturbed(following), "it had no new guests"


def test_no_guest_outlives_a_run_that_is_killed() -> None:
    with playground(root=True) as place:
        arguments, _ = measuring(place.write(experiments.text(**asked(workloads=[ENDLESS]))))
        with place.start(*arguments) as running:
            running.wait_until(working(running), "three guests at work")
            seen = machine.family(running.process.pid)
            running.process.kill()
            assert running.end() == -signal.SIGKILL
            place.check_clean(seen, running.token)
