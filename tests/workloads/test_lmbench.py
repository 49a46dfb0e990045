"""lmbench: its line, what it complains of, and the operation that it measured."""

from __future__ import annotations

import pytest
from tests.support.facts import refused
from tests.support.workload_trials import ProgramGuest, assert_problem, measure, result_of

from virtoll.workloads import lmbench

# lmbench 3.0-a9 of Debian 12.


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("Simple syscall: 0.3387 microseconds\n", ("Simple syscall", 0.3387)),
        ("Simple open/close: 2.5773 microseconds\n", ("Simple open/close", 2.5773)),
        ("Process fork+exit: 1558.8571 microseconds\n", ("Process fork+exit", 1558.8571)),
    ],
)
def test_its_line(printed: str, expected: tuple[str, float]) -> None:
    assert lmbench.parse(printed) == expected
    assert expected[0] in {test.line for test in lmbench.TESTS.values()}


def test_a_figure_of_something_that_was_not_there_is_refused() -> None:
    """lmbench goes on where the program that it starts is missing, and prints how long failing took."""
    missing = "sh: 1: /var/tmp/lmbench/hello: not found\nProcess fork+/bin/sh -c: 19274.0000 microseconds\n"
    with refused("sh: 1: /var/tmp/lmbench/hello:", error=ValueError):
        lmbench.parse(missing)
    with refused("latency", error=ValueError):
        lmbench.parse("")


def test_an_operations_time_is_in_ns() -> None:
    guest = ProgramGuest(timed={"stderr": "Simple read: 0.3387 microseconds\n"})
    result = result_of(measure("lmbench", guest, operation="read", repetitions=5, repetition_microseconds=2000))
    assert result["figures"] == {"operation_time": pytest.approx(338.7), "measured": "Simple read"}
    warmed, timed = guest.ran
    assert warmed[0] == "cat"
    assert timed[:2] == ["env", "ENOUGH=2000"]
    assert timed[4:] == [warmed[1], "-P", "1", "-W", "0", "-N", "5", "read"]


def test_another_operation_than_asked_for_is_a_problem() -> None:
    guest = ProgramGuest(timed={"stderr": "Simple read: 0.3387 microseconds\n"})
    assert_problem(measure("lmbench", guest, operation="write"), "'Simple read'", "'Simple write'")
