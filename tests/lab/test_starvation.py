"""Programs that take the generator's CPU during real traffic: the trial is no result, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.support import guests
from tests.support.facts import assert_facts
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.system import locks
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.retakes import MOST_RETAKES
from virtoll.workloads.starvation import LEAST_CPU_SHARE, cpu_share, why_no_result

INSIDE_LAB = True
pytestmark = [pytest.mark.lab, pytest.mark.root]

PROGRAMS = 4
BUSY = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
os.nice(-20)
if os.path.exists("/proc/self/autogroup"):  # niceness counts within a session only
    open("/proc/self/autogroup", "w").write("-20")
print(flush=True)
while True:
    pass
"""


@pytest.fixture(scope="module")
def live(run_session: RunSession) -> Iterator[Connected]:
    with guests.running("netns", run_session) as started:
        yield started


@pytest.fixture
def turn_held(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No other generator of this host sends meanwhile: the programs would take its CPU too."""
    with locks.turn(60.0) as is_next:
        assert is_next
        monkeypatch.setattr(locks, "OF_ALL_USERS", str(tmp_path))
        yield


@pytest.mark.usefixtures("turn_held")
def test_a_point_whose_generator_has_no_cpu_is_no_result(live: Connected) -> None:
    """It takes some seconds: others wait for so long."""
    cpu = live.bench.generator_cpu
    assert cpu is not None
    assert cpu in os.sched_getaffinity(0)
    workload = Forward(ForwardParameters(point_milliseconds=100))
    with ExitStack() as ended:
        for _ in range(PROGRAMS):
            program = subprocess.Popen(
                [sys.executable, "-I", "-c", BUSY, str(cpu)], stdout=subprocess.PIPE, start_new_session=True
            )
            ended.enter_context(program)
            ended.callback(program.kill)
            assert program.stdout is not None
            assert program.stdout.readline(), "it has its CPU and its priority"
        point = workload.point(live.bench, None)
    assert (cpu_share(point) or 1) < LEAST_CPU_SHARE
    assert len(point.discarded) == MOST_RETAKES
    assert_facts(why_no_result([point]) or "", "CPU", "95%")
