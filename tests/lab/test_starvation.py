"""Programs that take the generator's CPU during real traffic: the trial is no result, and says why."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.support import guests
from tests.support.facts import assert_facts
from tests.support.guests import Connected

from virtoll.pipeline.session import RunSession
from virtoll.workloads.forward import Forward, ForwardParameters
from virtoll.workloads.retakes import MOST_RETAKES
from virtoll.workloads.starvation import LEAST_CPU_SHARE, cpu_share

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


def test_a_trial_whose_generator_has_no_cpu_is_no_result(live: Connected) -> None:
    cpu = live.bench.generator_cpu
    assert cpu is not None
    assert cpu in os.sched_getaffinity(0)
    workload = Forward(ForwardParameters(sweep="from-flat-out", point_milliseconds=100, cpu_milliseconds=0))
    with ExitStack() as ended:
        for _ in range(PROGRAMS):
            program = subprocess.Popen(
                [sys.executable, "-I", "-c", BUSY, str(cpu)], stdout=subprocess.PIPE, start_new_session=True
            )
            ended.enter_context(program)
            ended.callback(program.kill)
            assert program.stdout is not None
            assert program.stdout.readline(), "it has its CPU and its priority"
        measured = workload.measure(live.bench)
    flat_out = (measured.points or [])[0]
    assert (cpu_share(flat_out) or 1) < LEAST_CPU_SHARE
    assert len(flat_out.discarded) == MOST_RETAKES
    assert_facts(measured.problem or "", "CPU", "95%")
