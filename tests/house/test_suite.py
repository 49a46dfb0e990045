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


@pytest.mark.root
@pytest.mark.lab
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda one: one.name)
def test_however_a_session_ends_no_lab_outlives_it(number: signal.Signals, tmp_path: Path) -> None:
    with session(*MODULES, TMPDIR=str(tmp_path)) as (process, token):
        gone = labs_below(process)
        os.kill(process.pid, number)
        process.communicate()
        left, _ = machine.poll_until_empty(lambda: machine.left_of(gone, token), HANG_SECONDS)
        assert left == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
@pytest.mark.lab
def test_the_next_session_passes_beside_another() -> None:
    """Two at once, as in two clones: neither sees the other."""
    with session(MODULES[0]) as (first, _), session(MODULES[0]) as (second, _):
        said = [one.communicate()[0].decode() for one in (first, second)]
        assert [first.returncode, second.returncode] == [0, 0], "\n".join(said)
        assert all(" passed" in words.splitlines()[-1] for words in said)


@pytest.mark.parametrize(
    ("stages", "ended"),
    [((), False), (("setup",), False), (("setup", "call"), False), (("setup", "call", "teardown"), True)],
)
def test_a_test_without_its_end_has_not_passed(stages: tuple[str, ...], ended: bool) -> None:
    assert inside.has_ended([{"when": stage, "outcome": "passed"} for stage in stages]) is ended
