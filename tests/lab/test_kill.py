"""kill -9 at random moments, as root and as an ordinary user: nothing is left, and what was finished is whole."""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.commands import in_process
from tests.support.drawings import Blank, drawn_by
from tests.support.facts import Command, assert_facts, refused
from tests.support.guests import right_or_disturbed
from tests.support.playground import Playground, Running, kill_all

from virtoll.errors import RunFolderError
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1800)]


def is_extended(item: pytest.Function) -> bool:
    """Of a run that is taken up again, root's: an ordinary user's goes the longer way. And the other victims."""
    if item.originalname == "test_nothing_is_left_after_kill_9":
        return (item.callspec.params["phase"], item.callspec.params["victim"]) in OTHER_KILLS
    return item.originalname == "test_a_killed_run_is_resumed_with_each_trial_exactly_once" and "root" in item.name


# What is awaited before the moment, and how long after it the moment may come, in seconds.
PHASES = {
    "setting up": ("", 0.9),
    "probing": ("trying native", 0.8),
    "guests starting": ("starting native/0", 3.0),
    "measuring": ("1/{trials} ", 1.0),
}
KILLS = [
    ("setting up", "launcher"),
    ("probing", "process group"),
    ("guests starting", "PID 1 of the lab"),
    ("guests starting", "all but the janitor"),
    ("measuring", "controller in the lab"),
]
OTHER_KILLS = [
    ("setting up", "process group"),
    ("probing", "PID 1 of the lab"),
    ("guests starting", "launcher"),
    ("guests starting", "controller in the lab"),
    ("measuring", "all but the janitor"),
]
BLOCKS = 10  # so much work that no machine has done it before the kill


def small(blocks: int = 1) -> str:
    """Guests that start at once: six trials a block."""
    return experiments.light_guests(blocks, {"workload": "forkwait", "processes": [100, 200]})


def controller_in(seen: machine.Family) -> machine.Process | None:
    """The process that measures."""
    return next((p for p in seen.processes if "in-lab-run" in p.argv and "virtoll.lab.init" not in p.argv), None)


def kill(victim: str, running: Running, seen: machine.Family) -> str:
    """kill -9 of the victim, or of the launcher where there is no such victim yet; gives who was killed."""
    chosen = None
    if victim == "PID 1 of the lab":
        chosen = seen.find("virtoll.lab.init", inner_pid=1)
    elif victim == "controller in the lab":
        chosen = controller_in(seen)
    if chosen is not None:
        kill_all([chosen])
    elif victim == "process group":
        os.killpg(running.process.pid, signal.SIGKILL)
    elif victim == "all but the janitor":
        kill_all([p for p in seen.processes if "virtoll.lab.launch" not in p.argv])
    else:
        victim = "launcher"
        running.process.kill()
    return victim


def whole_trials(runs: Path) -> int:
    """The number of finished trials in the newest run; each is read strictly."""
    folders = sorted(path.parent for path in runs.glob("*/manifest.json"))
    if not folders:
        return 0
    folder = RunFolder.open(folders[-1])
    trials = folder.trials()
    assert [trial.reason for trial in trials if not right_or_disturbed(trial)] == []
    assert len({trial.trial for trial in trials}) == len(trials)
    folder.boots()
    folder.commands()
    return len(trials)


def check_size(place: Playground, seen: machine.Family) -> None:
    """While it measures, a lab has much that could be left."""
    assert len(seen.processes) >= 10
    assert len(seen.namespaces) >= 10
    assert len(seen.interfaces) >= 10
    (lab,) = seen.labs
    cgroups = [name for name in machine.snapshot().cgroups if machine.lab_in(name) == lab]
    assert cgroups or not place.root


@pytest.mark.parametrize(("phase", "victim"), KILLS + OTHER_KILLS, ids=lambda word: word)
def test_nothing_is_left_after_kill_9(place: Playground, phase: str, victim: str) -> None:
    seed = int(os.environ.get("VIRTOLL_TEST_SEED", "0")) or random.randrange(1, 10**6)
    awaited, length = PHASES[phase]
    trials, text = 18 * BLOCKS, small(3 * BLOCKS)
    if place.root and phase == "measuring":  # beside a machine, whose five seconds until it is ready are spent once
        trials, text = 8 * BLOCKS, experiments.every_kind(BLOCKS)
    file = place.write(text)
    if phase == "probing":
        place.home = place.base / "home"  # nothing is remembered in it
    delay = random.Random(f"{seed} {place.root} {phase} {victim}").uniform(0.0, length)
    with place.start("run", file) as running:
        running.wait_for(awaited.format(trials=trials))
        if phase == "measuring":
            with machine.frozen(running.process.pid) as seen:
                check_size(place, seen)
        running.listen(delay)
        seen = machine.family(running.process.pid)
        killed = kill(victim, running, seen)
        code = running.end()
        left, seconds = place.settle(seen, running.token)
    print(f"VIRTOLL_TEST_SEED={seed}: {killed} killed {delay:.2f} s later, {len(seen.processes)} processes there")
    print(f"exit {code}; left {len(left)} after {seconds:.3f} s; {whole_trials(place.runs)} trials whole")
    print(running.said)
    assert left == []
    assert code != 0


def test_a_killed_run_is_resumed_with_each_trial_exactly_once(place: Playground) -> None:
    with place.start("run", place.write(small(blocks=2))) as running:
        running.wait_for("2/12 ")
        with machine.frozen(running.process.pid) as seen:
            running.process.kill()
        running.end()
        place.check_clean(seen, running.token)
    before = place.only_run()
    assert state_now(before.path) == "killed"
    finished = before.trials()
    assert 2 <= len(finished) < 12
    again = place.run("resume", before.path.name)
    assert again.process.returncode == 0, again.said
    after = place.only_run()
    assert after.manifest == before.manifest
    assert after.trials()[: len(finished)] == finished
    assert sorted((trial.trial, trial.status) for trial in after.trials()) == [(number, "ok") for number in range(12)]
    assert {boot.attachment for boot in after.boots()} == {"veth", "bridge"}
    assert "report: " in again.said
    assert after.state().state == "complete"
    place.check_clean(machine.Family((), frozenset(), frozenset()), again.token)


def test_a_study_killed_in_its_second_experiment_goes_on_there(root_place: Playground) -> None:
    """``virtoll reproduce`` of real guests after models: what was finished stays, and the page is of both."""
    into, study, jobs = root_place.runs / "all", "schlosser2011", [{"workload": "superpi", "digits": 1000}]
    models: dict[str, Any] = {"platforms": [experiments.fake("a"), experiments.fake("b")], "baseline": "a", "blocks": 1}
    given: tuple[dict[str, Any], ...] = ({"name": "first", **models}, {"name": "second", "blocks": 3})
    command: list[str | Path] = ["reproduce", study, "--into", into]
    for changed in given:
        command += ["--experiment", experiments.write(root_place.base, study=study, workloads=jobs, **changed)]
    with drawn_by(Blank):
        finished_before = in_process(*command[:6])
    assert finished_before.returncode == 0, finished_before.stderr
    with root_place.start(*command) as running:
        running.wait_for("1/6 ")
        with machine.frozen(running.process.pid) as seen:
            running.process.kill()
        running.end()
        root_place.check_clean(seen, running.token)
    first, second = into / "first", into / "second"
    measured = (first / "trials.jsonl").read_bytes()
    cut = RunFolder.open(second)
    finished = cut.trials()
    assert 1 <= len(finished) < 6
    assert cut.state().state == "running"
    again = root_place.run(*command)
    assert again.process.returncode == 0, again.said
    assert_facts(again.said, first)
    assert (first / "trials.jsonl").read_bytes() == measured
    after = RunFolder.open(second)
    assert after.manifest == cut.manifest
    assert after.trials()[: len(finished)] == finished
    assert sorted((trial.trial, trial.status) for trial in after.trials()) == [(n, "ok") for n in range(6)]
    assert {one.state().state for one in (RunFolder.open(first), after)} == {"complete"}
    page = (into / "report" / "index.html").read_text(encoding="utf-8")
    assert all(f'href="../{name}/report/index.html"' in page for name in ("first", "second"))
    root_place.check_clean(machine.Family((), frozenset(), frozenset()), again.token)


def test_a_launcher_that_survives_says_what_happened(root_place: Playground) -> None:
    with root_place.start("run", root_place.write(small(BLOCKS))) as running:
        running.wait_for("1/60 ")
        with machine.frozen(running.process.pid) as seen:
            kill("PID 1 of the lab", running, seen)
        assert running.end() == 1
        root_place.check_clean(seen, running.token)
    assert_facts(running.said.strip().splitlines()[-1], "lab", "virtoll resume")
    run = root_place.only_run()
    with refused(run.path, Command(f"virtoll resume {run.path}"), error=RunFolderError):
        RunFolder.create(run.path, run.manifest)
