"""Who is stopped while it is measured is found, by its own process's state."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import machine

from virtoll.campaign import standstill
from virtoll.lab.inside import wait_until

REAL = Path("/proc")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that waits."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waiting:
        yield waiting
        os.kill(waiting.pid, signal.SIGCONT)
        waiting.communicate()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop it; it stands still when this returns."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: standstill.is_stopped(process.pid), machine.END_SECONDS, "its stop")


def test_a_process_that_was_stopped_is_found(process: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        with standstill.watched([process.pid, other.pid, 2**22 + 1]) as found:
            assert found == set()
            stop(process)
            wait_until(lambda: bool(found), machine.END_SECONDS, "that it is found")
            os.kill(process.pid, signal.SIGCONT)
        assert found == {process.pid}, "also when it goes on"
        other.communicate()


def test_a_stop_before_and_after_is_none_meanwhile(process: subprocess.Popen[bytes]) -> None:
    stop(process)
    os.kill(process.pid, signal.SIGCONT)
    with standstill.watched([process.pid]) as found:
        pass
    stop(process)
    assert found == set()


def test_who_is_traced_stands_still_as_it_works(tmp_path: Path) -> None:
    """User-Mode Linux and gVisor do so with their guests' processes."""
    for state, tracer, stopped in (
        ("T (stopped)", 0, True),
        ("T (stopped)", 7, False),
        ("t (tracing stop)", 7, False),
        ("S (sleeping)", 0, False),
    ):
        folder = tmp_path / f"{len(list(tmp_path.iterdir())) + 1}"
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\nUid:\t0\n")
        assert standstill.is_stopped(int(folder.name), tmp_path) is stopped
    assert not standstill.is_stopped(99, tmp_path)
    assert not standstill.is_stopped(os.getpid(), REAL)
