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
from tests.support.guests import right_or_disturbed
from tests.support.playground import Playground, Running
from tests.support.real_run import measuring
from tests.support.repository import ROOT

from virtoll.lab.inside import wait_until
from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]


def is_extended(item: pytest.Function) -> bool:
    """Of the key Ctrl-C root's: its launcher gets the signal by ``kill``, and an ordinary user's by the terminal."""
    return item.originalname == "test_the_key_ctrl_c_ends_the_run_in_order" and "root" in item.name


def small(blocks: int = 1) -> str:
    """Guests that start at once, of which one has a data directory."""
    return experiments.light_guests(
        blocks,
        {"workload": "forkwait", "processes": 100},
        {"workload": "zfg", "size_bytes": 2**16, "rounds": 2},
    )


def check_hidden(place: Playground, seen: machine.Family) -> None:
    """While a lab lives and stands still, none of its sockets, interfaces and mounts are the host's."""
    assert len(seen.processes) >= 10
    assert len(seen.interfaces) >= 10
    assert len(seen.labs) == 1
    assert machine.sockets_outside(seen) == []
    there = [name for name in place.new_on_host(seen) if not name.startswith("cgroup ")]
    assert there, "data directories"
    assert all(name.startswith("on disk ") for name in there), there


def check_supervisors_ignore_signals(seen: machine.Family) -> None:
    """Whoever signals every process of a run ends it in order: what sweeps after it lives on."""
    janitor = seen.find("virtoll.lab.launch")
    first = seen.find("virtoll.lab.init", inner_pid=1)
    for process in (janitor, first):
        assert process is not None
        assert [number for number in machine.ENDING_SIGNALS if not machine.ignores(process, number)] == [], process


def test_a_run_leaves_the_host_as_it_was_and_listens_nowhere(root_place: Playground) -> None:
    """Network, mounts, cgroups, temporary files before and after; and no socket of the host's network in between.

    An ordinary user's lab is looked at where Ctrl-C ends it, and goes to its end in ``test_kill``, report and all.
    """
    command, part = measuring(root_place.write(experiments.every_kind()))
    with root_place.start(*command) as running:
        running.wait_for("1/8 ")
        with machine.frozen(running.process.pid) as seen:
            check_hidden(root_place, seen)
            check_supervisors_ignore_signals(seen)
        assert running.end() == 0, running.said
        root_place.check_clean(seen, running.token)
    folder = RunFolder.open(part)
    assert [trial.status for trial in folder.trials()] == ["ok"] * 8
    assert {boot.attachment for boot in folder.boots()} == {"veth", "bridge"}


def interrupt(
    running: Running,
    number: signal.Signals,
    send: Callable[[], object],
    look: Callable[[machine.Family], None] = lambda _: None,
) -> machine.Family:
    """Interrupt a run that stands still, which measures on once the signal has reached it; gives what stood there."""
    with machine.frozen(running.process.pid) as seen:
        look(seen)
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


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: signal.Signals(number).name)
def test_an_interrupt_ends_the_run_in_order(root_place: Playground, number: signal.Signals) -> None:
    """What it leaves is resumed as what a full disk leaves below; ``test_kill`` has each kind of guest resumed."""
    with root_place.start("run", root_place.write(small(blocks=6))) as running:
        running.wait_for("2/36 ")
        seen = interrupt(running, number, lambda: running.process.send_signal(number))
        running.end()
        root_place.check_clean(seen, running.token)
    check_interrupted(root_place, running)


def test_the_key_ctrl_c_ends_the_run_in_order(place: Playground) -> None:
    with place.start("run", place.write(small(blocks=6)), terminal=True) as running:
        running.wait_until(lambda: stored_lines(place) >= 2, "a second trial")
        seen = interrupt(
            running,
            signal.SIGINT,
            send=lambda: os.write(running.output, b"\x03"),
            look=lambda there: check_hidden(place, there),
        )
        running.end()
        place.check_clean(seen, running.token)
    running.said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", running.said)
    check_interrupted(place, running)


def stored_lines(place: Playground) -> int:
    """How many trials are on the disk: a live display may show one of them never."""
    return sum(file.read_bytes().count(b"\n") for file in place.runs.glob("*/trials.jsonl"))


def test_an_interrupt_before_the_first_trial_stores_nothing(root_place: Playground) -> None:
    with root_place.start("run", root_place.write(small())) as running:
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
@pytest.mark.parametrize("kibibytes", [12, pytest.param(48, marks=pytest.mark.extended), 128])
def test_a_full_disk_is_named_in_one_line_and_loses_nothing(tmp_path: Path, kibibytes: int) -> None:
    """12 KiB hold the campaign and not the manifest; the others fill up among boots and trials."""
    file = experiments.write(
        tmp_path,
        platforms=["native", "netns"],
        blocks=4,
        workloads=[{"workload": "forkwait", "processes": [10, 20, 30]}],
    )
    disk = tmp_path / "disk"
    words, run = measuring(file, 4, disk)
    command, part = list(map(str, words)), run.name
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

        full = virtoll(*command)
        assert_refused(full, "No space left", code=1)
        assert f"{disk}/{part}/" in full.stderr
        assert full.stderr.count("\n") == 1
        if kibibytes == 12:
            assert f"{disk}/{part}/manifest.json" in full.stderr
            return
        stopped = RunFolder.open(seen / part)
        stored = stopped.trials()
        assert stopped.state().state in ("interrupted", "running"), "as far as the disk still took it"
        assert stored or kibibytes < 128
        assert len(stored) < 24
        assert [trial.reason for trial in stored if not right_or_disturbed(trial)] == []
        subprocess.run([*enter, "mount", "-o", "remount,size=20m", str(disk)], check=True)
        continued = virtoll(*command)
        assert continued.returncode == 0, continued.stderr
        folder = RunFolder.open(seen / part)
        assert folder.trials()[: len(stored)] == stored
        assert sorted(trial.trial for trial in folder.trials()) == list(range(24))
        assert folder.state().state == "complete"
