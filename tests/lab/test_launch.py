"""The way into a lab and out of it: exit codes are PID 1's own word, and the janitor waits for the last process."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from virtoll.lab import residue
from virtoll.lab.launch import run_in_lab

pytestmark = pytest.mark.lab


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VIRTOLL_STATE", str(tmp_path / "state"))
    return tmp_path / "state"


@pytest.mark.parametrize(("arguments", "code"), [(["--version"], 0), (["plan", "nonsense"], 2), (["list"], 2)])
def test_the_commands_exit_code_comes_out(state: Path, arguments: list[str], code: int) -> None:
    assert run_in_lab(arguments) == code
    assert not state.exists()


@contextmanager
def janitor() -> Iterator[tuple[subprocess.Popen[bytes], residue.LabRecord, socket.socket, int]]:
    """A janitor at work: the process, the record it is to sweep, the lab's end of its socket, the launcher's pipe."""
    record, lock = residue.create_record()
    told, teller = socket.socketpair()
    pipe_read, pipe_write = os.pipe()
    numbers = (str(pipe_read), str(told.fileno()))
    with subprocess.Popen(
        [sys.executable, "-m", "virtoll.lab.launch", record.lab_id, str(record.folder), *numbers],
        pass_fds=(pipe_read, told.fileno(), lock),
    ) as process:
        os.close(pipe_read)
        os.close(lock)
        told.close()
        yield process, record, teller, pipe_write
        process.kill()


def test_the_janitor_waits_for_the_labs_last_process() -> None:
    """Not for its environment, its files or its launcher: a dying process loses those before its children are dead."""
    with janitor() as (process, record, teller, pipe), subprocess.Popen(["cat"], stdin=subprocess.PIPE) as first:
        socket.send_fds(teller, [b"1"], [os.pidfd_open(first.pid)])
        teller.close()
        os.close(pipe)
        ended, _, _ = select.select([os.pidfd_open(process.pid)], [], [], 1.0)
        assert not ended
        assert record.folder.is_dir()
        first.kill()
        assert process.wait(60) == 0
        assert not record.folder.exists()


def test_the_janitor_does_not_wait_for_a_lab_that_never_came_to_life() -> None:
    with janitor() as (process, record, teller, pipe):
        os.close(pipe)
        teller.close()
        assert process.wait(60) == 0
        assert not record.folder.exists()


def test_the_janitor_does_nothing_as_long_as_the_launcher_lives() -> None:
    with janitor() as (process, record, teller, pipe):
        teller.close()
        ended, _, _ = select.select([os.pidfd_open(process.pid)], [], [], 1.0)
        assert not ended
        assert record.folder.is_dir()
        os.close(pipe)
        assert process.wait(60) == 0
