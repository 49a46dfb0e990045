"""A token round rings of processes: laps, what does not fit, and the time of a switch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import Fact
from tests.support.timed_jobs import CLOCK, NO_BENCH, assert_entry_refused, series, timed_job


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        ({"processes": 1}, ("processes", 1, 2, 256)),
        ({"working_set_bytes": 7}, ("working_set_bytes", 7, 8)),
        ({"processes": 256, "workers": 17}, ("workers", "processes", 4096)),
        ({"switches": 8_000_000, "workers": 2}, ("2 rings", 4194304, "switches")),
    ],
)
def test_what_does_not_fit_is_refused(wanted: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    assert_entry_refused({"workload": "context-switch", **wanted}, *facts)


def test_a_switch_is_a_hop_without_its_pipe() -> None:
    result = {"processes": 4, "pinned_cpu": 0, "laps": series(8000), "pipes": series(2400), "clock": CLOCK}
    assert timed_job("context-switch").figures(result) == {
        "switch_time": 1400.0,
        "hop_ns": 2000.0,
        "pipe_ns": 600.0,
        "clock_reading_ns": 27.0,
    }


@given(st.integers(2, 96), st.integers(1, 100_000))
def test_switches_are_whole_laps(processes: int, switches: int) -> None:
    job = timed_job("context-switch", processes=processes, switches=switches)
    laps = job.job_parameters(NO_BENCH)["laps"]
    assert isinstance(laps, int)
    assert switches <= laps * processes < switches + processes
    assert job.expected_check() == str(laps * processes)


def test_every_ring_does_all_switches() -> None:
    job = timed_job("context-switch", processes=3, switches=100, workers=8)
    assert job.job_parameters(NO_BENCH) == {"processes": 3, "working_set_bytes": 0, "laps": 34, "workers": 8}
    assert job.expected_check() == str(8 * 3 * 34)
    of_one = timed_job("context-switch", processes=3, switches=100).needs().memory_bytes
    assert job.needs().memory_bytes > of_one


def test_without_the_pipes_alone_there_is_no_switch_time() -> None:
    result = {"processes": 4, "pinned_cpu": 0, "laps": series(8000), "pipes": None, "clock": CLOCK}
    assert timed_job("context-switch").figures(result) == {"switch_time": None, "clock_reading_ns": 27.0}
