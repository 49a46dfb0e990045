"""The suite itself: labs that run side by side, and what is left of them however the session ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support import inside, machine
from tests.support.commands import environment
from tests.support.repository import ROOT

HANG_SECONDS = 300.0
MODULES = ("tests/lab/test_outside.py", "tests/lab/test_inside.py")
"""The least: two labs."""


@contextlib.contextmanager
def session(*arguments: str, **changed: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A pytest of its own over modules that run inside labs, and the token by which what it leaves is known."""
    token = uuid.uuid4().hex
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "inside", *arguments]
    with subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        cwd=ROOT,
        env=environment(**{machine.TOKEN: token}, **changed),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as started:
        yield started, token
        started.kill()


def labs_below(process: subprocess.Popen[bytes]) -> machine.Family:
    """The session's processes once at least two of its labs are there."""
    found = machine.family(process.pid)

    def seen() -> list[str]:
        nonlocal found
        found = machine.family(process.pid)
        runners = [one for one in found.processes if "tests.support.inside" in one.argv and one.inner_pid == 1]
        return ["fewer than two labs"] if len(runners) < 2 and process.poll() is None else []

    left, _ = machine.poll_until_empty(seen, HANG_SECONDS)
    assert left == []
    assert process.poll() is None, process.stdout.read().decode() if process.stdout else ""
    return found


def check_ending(number: signal.Signals, folder: Path) -> None:
    """A session that is ended by a signal while its labs are there leaves nothing, in its temporary folder neither."""
    with session(*MODULES, TMPDIR=str(folder)) as (process, token):
        gone = labs_below(process)
        os.kill(process.pid, number)
        process.communicate()
        left, _ = machine.poll_until_empty(lambda: machine.left_of(gone, token), HANG_SECONDS)
        assert left == []
    assert list(folder.iterdir()) == []


@pytest.mark.root
@pytest.mark.lab
def test_after_ctrl_c_no_lab_outlives_its_session(tmp_path: Path) -> None:
    check_ending(signal.SIGINT, tmp_path)


@pytest.mark.root
@pytest.mark.lab
def test_a_session_passes_beside_one_that_is_killed(tmp_path: Path) -> None:
    """Two at once, as in two clones: neither sees the other, nor its end."""
    with session(MODULES[0]) as (other, _):
        check_ending(signal.SIGKILL, tmp_path)
        said = other.communicate()[0].decode()
        assert other.returncode == 0, said
        assert " passed" in said.splitlines()[-1]


@pytest.mark.parametrize(
    ("stages", "ended"),
    [((), False), (("setup",), False), (("setup", "call"), False), (("setup", "call", "teardown"), True)],
)
def test_a_test_without_its_end_has_not_passed(stages: tuple[str, ...], ended: bool) -> None:
    assert inside.has_ended([{"when": stage, "outcome": "passed"} for stage in stages]) is ended
