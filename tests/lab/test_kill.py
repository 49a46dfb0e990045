"""kill -9 at random moments, as root and as an ordinary user: nothing is left, and what was finished is whole."""

from __future__ import annotations

import json
import os
import random
import signal
from pathlib import Path

import pytest
from tests.support import machine
from tests.support.playground import Playground, Running, kill_all

from virtoll.errors import VirtollError
from virtoll.samples import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]


def is_extended(item: pytest.Function) -> bool:
    """Of a run that is taken up again, root's: an ordinary user's goes the longer way."""
    return item.originalname == "test_a_killed_run_is_resumed_with_each_trial_exactly_once" and "root" in item.name


# What is awaited before the moment, and how long after it the moment may come, in seconds.
PHASES = {
    "setting up": ("", 0.9),
    "probing": ("trying native", 0.8),
    "guests starting": ("starting native/0", 3.0),
    "measuring": ("1/8 ", 1.0),
}
MOMENTS = ["setting up", "guests starting", "measuring", "probing", "guests starting"] * 2
VICTIMS = ["launcher", "PID 1 of the lab", "controller in the lab", "process group", "all but the janitor"]


def kill(victim: str, running: Running, seen: machine.Family) -> str:
    """kill -9 of the victim, or of the launcher where there is no such victim yet; gives who was killed."""
    chosen = None
    if victim == "PID 1 of the lab":
        chosen = seen.find("virtoll.lab.init", inner_pid=1)
    elif victim == "controller in the lab":
        chosen = next((p for p in seen.processes if "in-lab-run" in p.argv and "virtoll.lab.init" not in p.argv), None)
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
    assert {trial.status for trial in trials} <= {"ok"}
    assert len({trial.trial for trial in trials}) == len(trials)
    folder.boots()
    folder.commands()
    return len(trials)


def test_nothing_is_left_after_kill_9(place: Playground, every_kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("VIRTOLL_TEST_SEED", "0")) or random.randrange(1, 10**6)
    chance = random.Random(seed)
    file = place.base / "example.yaml"
    file.write_text(every_kind)
    lines = [f"as {'root' if place.root else 'an ordinary user'}, VIRTOLL_TEST_SEED={seed}"]
    most = dict.fromkeys(("processes", "namespaces", "cgroups", "interfaces"), 0)
    for number, phase in enumerate(MOMENTS):
        awaited, length = PHASES[phase]
        delay = chance.uniform(0.0, length)
        with place.start("run", file) as running:
            running.wait_for(awaited)
            running.listen(delay)
            seen = machine.family(running.process.pid)
            cgroups = [name for name in machine.snapshot().new_since(place.before) if name.startswith("cgroup ")]
            victim = kill(VICTIMS[number % len(VICTIMS)], running, seen)
            code = running.end()
            left, seconds = place.settle(seen, running.token)
            last = (running.said.strip().splitlines() or ["nothing"])[-1]
        counts = [len(seen.processes), len(seen.namespaces), len(cgroups), len(seen.interfaces)]
        most = {key: max(most[key], count) for key, count in zip(most, counts, strict=True)}
        lines.append(
            f"kill {number + 1}: {phase} + {delay:.2f} s, {victim}: {counts[0]} processes, {counts[1]} namespaces, "
            f"{counts[2]} cgroup folders, {counts[3]} interfaces there; exit {code}; left {len(left)} "
            f"after {seconds * 1000:.0f} ms; {whole_trials(place.runs)} trials whole; last said: {last[:60]}"
        )
        assert left == [], "\n".join([*lines, *left])
        assert code != 0
    with capsys.disabled():
        print("\n" + "\n".join(lines))
    assert most["processes"] >= 10
    assert most["namespaces"] >= 10
    assert most["interfaces"] >= 10
    assert most["cgroups"] > 0 or not place.root


def test_a_killed_run_is_resumed_with_each_trial_exactly_once(place: Playground, every_kind: str) -> None:
    file = place.base / "example.yaml"
    file.write_text(every_kind)
    with place.start("run", file) as running:
        running.wait_for("3/8 ")
        seen = machine.family(running.process.pid)
        running.process.kill()
        running.end()
        place.check_clean(seen, running.token)
    (path,) = place.runs.iterdir()
    before = RunFolder.open(path)
    finished = before.trials()
    assert 3 <= len(finished) < 8
    again = place.run("resume", path.name)
    assert again.process.returncode == 0, again.said
    after = RunFolder.open(path)
    assert after.manifest == before.manifest
    assert after.trials()[: len(finished)] == finished
    assert sorted(trial.trial for trial in after.trials()) == list(range(8))
    assert {trial.status for trial in after.trials()} == {"ok"}
    assert after.state().state == "complete"
    place.check_clean(machine.Family((), frozenset(), frozenset()), again.token)


def test_a_launcher_that_survives_says_what_happened(root_place: Playground, every_kind: str) -> None:
    file = root_place.base / "example.yaml"
    file.write_text(every_kind)
    with root_place.start("run", file) as running:
        running.wait_for("1/8 ")
        seen = machine.family(running.process.pid)
        kill("PID 1 of the lab", running, seen)
        assert running.end() == 1
        root_place.check_clean(seen, running.token)
    last = running.said.strip().splitlines()[-1]
    assert last == "virtoll: the lab was killed; what was finished is stored: continue it with 'virtoll resume'"
    (path,) = root_place.runs.iterdir()
    with pytest.raises(VirtollError, match="already holds a run"):
        RunFolder.create(path, json.loads((path / "manifest.json").read_text()))
