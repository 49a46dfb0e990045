"""A lock among the processes of one user: bounded, named, and gone with its holder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtoll.system import locks
from virtoll.system.locks import LockBusy, held, turn
from virtoll.system.private import open_folder

HOLDER = """
import sys
from pathlib import Path
from virtoll.system.locks import held
from virtoll.system.private import open_folder
with held("lock", open_folder(Path(sys.argv[1])), 0.0):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def folder(place: Path) -> Iterator[int]:
    descriptor = open_folder(place)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def holder(place: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock until its input ends."""
    command = [sys.executable, "-c", HOLDER, str(place)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_the_wait_is_bounded_and_names_the_holder(folder: int, place: Path, holder: subprocess.Popen[str]) -> None:
    waited: list[int | None] = []
    with pytest.raises(LockBusy) as raised, held("lock", folder, 0.1, waited.append):
        pytest.fail("it is held")
    assert raised.value.pid == holder.pid
    assert waited == [holder.pid]
    assert f"process {holder.pid}" in str(raised.value)
    assert str(place / "lock") in str(raised.value)


def test_a_holder_that_is_killed_leaves_the_lock_free(folder: int, place: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with held("lock", folder, 0.0):
        assert (place / "lock").read_text() == f"{os.getpid()}\n"
        assert (place / "lock").stat().st_mode & 0o777 == 0o600
    assert list(place.iterdir()) == []


def test_whoever_waits_gets_it(folder: int, place: Path, holder: subprocess.Popen[str]) -> None:
    def let_go(_pid: int | None) -> None:
        assert holder.stdin is not None
        holder.stdin.close()

    with held("lock", folder, 600.0, let_go):
        assert holder.wait() == 0
    assert list(place.iterdir()) == []


def test_one_process_at_a_time_has_its_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "OF_ALL_USERS", str(tmp_path))
    with turn(0.0) as first:
        assert first
        with turn(0.05) as second:
            assert not second, "it waited in vain, and goes on"
    with turn(0.0) as third:
        assert third
    assert list(tmp_path.iterdir()) == []
