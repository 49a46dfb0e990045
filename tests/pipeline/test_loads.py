"""Loads of guests: the paper's fits a small guest, and one that stood still is reported."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import assert_facts

from virtoll.runfolder.conditions import Progress
from virtoll.workloads.loads import PROGRAM_LOADS, Place, gone_still

SECOND = 1_000_000_000
MIB = 2**20


@pytest.mark.parametrize(("memory", "each"), [(64 * MIB, 8 * MIB), (256 * MIB, 32 * MIB), (4096 * MIB, 256 * MIB)])
def test_the_papers_heavy_load_fits_a_small_guest(memory: int, each: int) -> None:
    argv = PROGRAM_LOADS["heavy"].argv(Place(memory, 1, "/tmp"))
    assert argv == ("stress", "--cpu", "8", "--vm", "4", "--vm-bytes", str(each))


def reading(second: float, cpu: float) -> Progress:
    return Progress(monotonic_ns=int(second * SECOND), cpu_ns=int(cpu * SECOND), processes=1)


@given(st.lists(st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 1)), min_size=8, max_size=40), st.floats(0, 0.9))
def test_a_load_whose_time_grows_ran_through(steps: list[tuple[float, float]], begin: float) -> None:
    second = cpu = 0.0
    samples = [reading(0, 0)]
    for passed, used in steps:
        second, cpu = second + passed, cpu + used
        samples.append(reading(second, cpu))
    window = int(begin * second * SECOND), int(second * SECOND)
    assert gone_still(samples, window) is None


@pytest.mark.parametrize(
    ("samples", "facts"),
    [
        ([], ["readings", "CPU time"]),
        ([reading(0, 0), reading(1, 1)], ["readings", "CPU time"]),
        ([reading(2, 1), reading(6, 2)], ["readings", "CPU time"]),
        ([reading(0, 1), reading(6, 1)], ["CPU time"]),
        ([reading(0, 0), reading(1.5, 1), reading(3.7, 1), reading(4, 1), reading(6, 2)], ["CPU time", "2.5 s"]),
        ([reading(0, 0), reading(1, 1), reading(2.5, 1), reading(3, 2), reading(4.5, 2), reading(6, 3)], None),
    ],
)
def test_a_load_that_stood_still_is_reported(samples: list[Progress], facts: list[str] | None) -> None:
    reason = gone_still(samples, (SECOND, 5 * SECOND))
    assert (reason is None) == (facts is None)
    assert_facts(reason or "", *(facts or ()))
