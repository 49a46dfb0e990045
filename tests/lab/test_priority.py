"""A guest comes first on its CPU while it boots: all its threads, those started meanwhile too, and never afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtoll.lab.priority import HIGHEST, preferred

# Starts a thread for each line that it reads, and says how many there are.
PROGRAM = """
import sys, threading
for line in sys.stdin:
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    print(threading.active_count(), flush=True)
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        yield started
        started.kill()


def another_thread(program: subprocess.Popen[str]) -> str:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write("\n")
    program.stdin.flush()
    return program.stdout.readline().strip()


def priorities(program: subprocess.Popen[str]) -> list[int]:
    threads = [int(entry.name) for entry in Path(f"/proc/{program.pid}/task").iterdir()]
    return [os.getpriority(os.PRIO_PROCESS, thread) for thread in threads]


@pytest.mark.root
def test_all_threads_come_first_and_are_set_back(program: subprocess.Popen[str]) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert another_thread(program) == "2"
    with preferred([program.pid]):
        assert priorities(program) == [HIGHEST] * 2
        assert another_thread(program) == "3"
        assert priorities(program) == [HIGHEST] * 3
    assert priorities(program) == [own] * 3


@pytest.mark.root
def test_they_are_set_back_when_the_guest_does_not_start(program: subprocess.Popen[str]) -> None:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert another_thread(program) == "2"
    with pytest.raises(KeyError), preferred([program.pid]):
        raise KeyError
    assert priorities(program) == [own] * 2


def test_a_process_that_is_gone_is_passed_over() -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    with preferred([ended.pid]):
        pass


@pytest.mark.root
def test_an_ordinary_user_goes_on_without() -> None:
    code = (
        "import os; os.setuid(12345)\n"
        "from virtoll.lab.priority import preferred\n"
        "with preferred([os.getpid()]): print(os.getpriority(os.PRIO_PROCESS, 0))\n"
    )
    own = os.getpriority(os.PRIO_PROCESS, 0)
    code = f"import virtoll.lab.priority\n{code}"  # before it may no longer look into this clone
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == str(own)
