"""numpy and scipy are loaded with one thread, and nothing of that is left for programs that are started later."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.commands import DEADLINE_SECONDS, environment

PROGRAM = """
import os
import virtoll.stats.verdicts
import virtoll.stats.clocks
virtoll.stats.clocks.theil_sen([1.0, 2.0, 4.0], [1.0, 2.0, 3.0])
print(len(os.listdir("/proc/self/task")), os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize(("given", "left"), [({}, "None"), ({"OPENBLAS_NUM_THREADS": "1"}, "1")])
def test_a_statistic_starts_no_thread_and_leaves_the_environment(given: dict[str, str], left: str) -> None:
    found = environment(**given)
    if not given:
        found.pop("OPENBLAS_NUM_THREADS", None)
    argv = [sys.executable, "-c", PROGRAM]
    finished = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=DEADLINE_SECONDS, env=found)
    assert finished.stdout.split() == ["1", left]
