"""Runs that end otherwise than by being killed: in order, by Ctrl-C, by a full disk. Nothing is left on the host."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support import experiments, machine
from tests.support.commands import DEADLINE_SECONDS, VIRTOLL, environment
from tests.support.facts import Command, assert_facts, assert_refused
from tests.support.playground import Playground, Running
from tests.support.repository import ROOT

from virtoll.lab.inside import wait_until
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]

NOBODY = machine.Family((), frozenset(), frozenset())


def small(blocks: int = 1) -> str:
    """Guests that start at once."""
    return experiments.text(
        platforms=["native", "netns"], blocks=blocks, workloads=[{"workload": "forkwait", "processes": [100, 200]}]
    )


def test_a_run_leaves_the_host_as_it_was_and_listens_nowhere(place: Playground) -> None:
    """Network, mounts, cgroups, temporary files before and after; and no socket of the host's network in between."""
    with place.start("run", place.write(experiments.every_kind())) as running:
        running.wait_for("1/8 ")
        with machine.frozen(running.process.pid) as seen:
            sockets = machine.sockets_outside(seen)
            there = place.new_on_host(seen)
        visible = [name for name in there if not name.startswith(("cgroup ", "on disk "))]
        assert running.end() == 0, running.said
        place.check_clean(seen, running.token)
    assert len(seen.processes) >= 10
    assert len(seen.interfaces) >= 10
    assert len(seen.labs) == 1
    assert sockets == []
    assert [name for name in there if name.startswith("on disk ")], "data directories"
    assert visible == [], "the lab's interfaces and mounts are not the host's, while it lives"
    folder = place.only_run()
    assert [trial.status for trial in folder.trials()] == ["ok"] * 8
    assert {boot.attachment for boot in folder.boots()} == {"veth", "bridge"}
    assert "report: " in running.said


def interrupt(running: Running, number: signal.Signals, send: Callable[[], object]) -> machine.Family:
    """Interrupt a run that stands still, which measures on once the signal has reached it; gives what stood there."""
    with machine.frozen(running.process.pid) as seen:
        (controller,) = (p for p in seen.processes if "in-lab-run" in p.argv and "virtoll.lab.init" not in p.argv)
        send()
        machine.thaw([process for process in seen.processes if process != controller])
        wait_until(lambda: machine.is_pending(controller, number), machine.END_SECONDS, f"{number.name} there")
    return seen


def check_interrupted(place: Playground, running: Running) -> RunFolder:
    """After an interrupt: the command that continues the run, and whole records on disk."""
    assert running.process.returncode == 130, running.said
    assert "Traceback" not in running.said
    folder = place.only_run()
    assert_facts(running.said, Command(f"virtoll resume {folder.path}"))
    assert folder.state().state == "interrupted"
    assert folder.trials()
    assert len(folder.trials()) < len(folder.manifest.plan.trials)
    return folder


def check_resumed(place: Playground, folder: RunFolder) -> None:
    """What was interrupted can be gone on with, to its end."""
    stored = folder.trials()
    again = place.run("resume", folder.path.name)
    assert again.process.returncode == 0, again.said
    after = RunFolder.open(folder.path)
    assert after.trials()[: len(stored)] == stored
    assert sorted(trial.trial for trial in after.trials()) == list(range(len(folder.manifest.plan.trials)))
    assert after.state().state == "complete"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_an_interrupt_ends_the_run_in_order(root_place: Playground, number: signal.Signals) -> None:
    text = experiments.every_kind() if number == signal.SIGINT else small(blocks=2)
    with root_place.start("run", root_place.write(text)) as running:
        running.wait_for("2/8 ")
        seen = interrupt(running, number, lambda: running.process.send_signal(number))
        running.end()
        root_place.check_clean(seen, running.token)
    folder = check_interrupted(root_place, running)
    if number == signal.SIGTERM:  # ``test_kill`` resumes a run of every kind of guest
        check_resumed(root_place, folder)


def test_the_key_ctrl_c_ends_the_run_in_order(place: Playground) -> None:
    """What it leaves can be resumed as after the signal, which it is."""
    with place.start("run", place.write(small(blocks=6)), terminal=True) as running:
        running.wait_until(lambda: stored_lines(place) >= 2, "a second trial")
        seen = interrupt(running, signal.SIGINT, lambda: os.write(running.output, b"\x03"))
        running.end()
        place.check_clean(seen, running.token)
    running.said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", running.said)
    check_interrupted(place, running)


def stored_lines(place: Playground) -> int:
    """How many trials are on the disk: a live display may show one of them never."""
    return sum(file.read_bytes().count(b"\n") for file in place.runs.glob("*/trials.jsonl"))


def test_an_interrupt_before_the_first_trial_stores_nothing(root_place: Playground) -> None:
    with root_place.start("run", root_place.write(experiments.every_kind())) as running:
        running.wait_for("trying native")
        seen = interrupt(running, signal.SIGINT, lambda: running.process.send_signal(signal.SIGINT))
        assert running.end() == 130
        root_place.check_clean(seen, running.token)
    assert "Traceback" not in running.said
    assert ("virtoll resume" in running.said) == any(root_place.runs.iterdir())


@contextlib.contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[tuple[Path, list[str]]]:
    """A memory file system on ``folder`` in a mount namespace of its own: how it is seen from here, and the way in."""
    script = f'mount -t tmpfs -o size={kibibytes}k tmpfs "$1" && echo mounted && exec cat'
    holder = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mounted\n"
        yield Path(f"/proc/{holder.pid}/root{folder}"), ["nsenter", "--target", str(holder.pid), "--mount", "--"]
    finally:
        holder.communicate()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: it mounts a small file system")
@pytest.mark.parametrize("kibibytes", [4, pytest.param(48, marks=pytest.mark.extended), 128])
def test_a_full_disk_is_named_in_one_line_and_loses_nothing(tmp_path: Path, kibibytes: int) -> None:
    """4 KiB hold not even the manifest; the others fill up among boots and trials."""
    file = experiments.write(
        tmp_path,
        platforms=["native", "netns"],
        blocks=4,
        workloads=[{"workload": "forkwait", "processes": [100, 200, 300]}],
    )
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, kibibytes) as (seen, enter):

        def virtoll(*arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [*enter, *VIRTOLL, *arguments],
                capture_output=True,
                text=True,
                check=False,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                env=environment(VIRTOLL_RUNS=str(disk)),
                timeout=DEADLINE_SECONDS,
            )

        full = virtoll("run", str(file), "--into", str(disk / "run"))
        assert_refused(full, "No space left", code=1)
        assert f"{disk}/run/" in full.stderr
        assert full.stderr.count("\n") == 1
        if kibibytes == 4:
            return
        stopped = RunFolder.open(seen / "run")
        stored = stopped.trials()
        assert stopped.state().state in ("interrupted", "running"), "as far as the disk still took it"
        assert stored or kibibytes < 128
        assert len(stored) < 24
        assert {trial.status for trial in stored} <= {"ok"}
        subprocess.run([*enter, "mount", "-o", "remount,size=20m", str(disk)], check=True)
        resumed = virtoll("resume", str(disk / "run"))
        assert resumed.returncode == 0, resumed.stderr
        folder = RunFolder.open(seen / "run")
        assert folder.trials()[: len(stored)] == stored
        assert sorted(trial.trial for trial in folder.trials()) == list(range(24))
        assert folder.state().state == "complete"
