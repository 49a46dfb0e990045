"""The way into a lab and out of it: exit codes are PID 1's own word, and the janitor waits for the last process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import machine
from tests.support.commands import environment
from tests.support.repository import ROOT

from virtoll.lab import residue
from virtoll.lab.inside import wait_until
from virtoll.lab.launch import hand_over, janitor_command, run_in_lab
from virtoll.system.private import NotPrivate

pytestmark = [pytest.mark.lab, pytest.mark.usefixtures("state")]


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["plan", "nonsense"], 2)])
def test_the_commands_exit_code_comes_out(state: Path, arguments: list[str], code: int) -> None:
    assert run_in_lab(arguments) == code
    assert not state.exists()


@dataclass
class Janitor:
    """One at work: the launcher's end of its socket, PID 1's, and the record that is handed to it."""

    process: subprocess.Popen[bytes]
    launcher: socket.socket
    reporter: socket.socket
    record: residue.LabRecord
    lock: int

    def hand_over(self) -> None:
        """As the launcher does; the lock is the janitor's alone from now on."""
        hand_over(self.launcher, self.record, self.lock)
        os.close(self.lock)

    def assert_waits(self, has: str) -> None:
        """It has been given this, and sleeps: whatever it does next, somebody has to wake it for."""

        def waits() -> bool:
            return any(has in name for name in machine.held(self.process.pid)) and machine.sleeps(self.process.pid)

        wait_until(lambda: self.process.poll() is not None or waits(), machine.END_SECONDS, "a janitor that waits")
        assert self.process.poll() is None
        assert self.record.folder.is_dir()

    def assert_sweeps(self) -> None:
        """It ends, and its record is gone."""
        assert self.process.wait(machine.END_SECONDS) == 0
        assert not self.record.folder.exists()


@contextmanager
def janitor() -> Iterator[Janitor]:
    launcher, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    reported, reporter = socket.socketpair()
    ends = (theirs.fileno(), reported.fileno())
    with subprocess.Popen(janitor_command(*ends), pass_fds=ends) as process:
        theirs.close()
        reported.close()
        try:
            yield Janitor(process, launcher, reporter, *residue.create_record())
        finally:
            process.kill()
            launcher.close()
            reporter.close()


def test_the_janitor_waits_for_the_labs_last_process() -> None:
    """Not for its environment, its files or its launcher: a dying process loses those before its children are dead."""
    with janitor() as one, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as first:
        one.hand_over()
        socket.send_fds(one.reporter, [b"1"], [os.pidfd_open(first.pid)])
        one.reporter.close()
        one.launcher.close()
        one.assert_waits("[pidfd]")
        first.kill()
        one.assert_sweeps()


def test_the_janitor_does_not_wait_for_a_lab_that_never_came_to_life() -> None:
    with janitor() as one:
        one.hand_over()
        one.launcher.close()
        one.reporter.close()
        one.assert_sweeps()


def test_the_janitor_does_nothing_as_long_as_the_launcher_lives() -> None:
    with janitor() as one:
        one.hand_over()
        one.reporter.close()
        one.assert_waits(f"{one.record.lab_id}/lock")
        one.launcher.close()
        one.assert_sweeps()


def test_a_launcher_that_dies_before_it_hands_its_record_over_leaves_none() -> None:
    with janitor() as one:
        one.assert_waits("socket:")
        os.close(one.lock)
        one.launcher.close()
        one.reporter.close()
        one.assert_sweeps()


KILLED = """
import os, signal, sys
from pathlib import Path
from virtoll.lab import launch, residue

state, made, at = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
place = residue if at == "create_record" else launch
original = getattr(place, at)

def die(*given):
    original(*given)
    made.write_text("\\n".join(path.name for path in (state / "labs").iterdir()))
    os.kill(os.getpid(), signal.SIGKILL)

setattr(place, at, die)
launch.run_in_lab(["--version"])
"""


@pytest.mark.parametrize("at", ["create_record", "hand_over"])
def test_a_launcher_that_is_killed_as_it_makes_its_record_leaves_none(state: Path, tmp_path: Path, at: str) -> None:
    """Right after the record is there, and right after it was handed over: the two ends of the dangerous time."""
    made = tmp_path / "made"
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(state), str(made), at],
        cwd=ROOT,
        check=False,
        env=environment(VIRTOLL_STATE=str(state)),
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(made.read_text().splitlines()) == 1
    wait_until(lambda: not state.exists(), machine.END_SECONDS, "that nothing is left")


def test_where_no_record_can_be_made_nothing_is_left_waiting(state: Path) -> None:
    state.write_text("a file in the folder's place")
    with pytest.raises(NotPrivate) as raised:
        run_in_lab(["--version"])
    assert raised.value.path == str(state)
