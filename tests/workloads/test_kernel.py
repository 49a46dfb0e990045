"""Operations of the kernel: their numbers, what does not fit, and the time of one."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import Fact
from tests.support.timed_jobs import CLOCK, NO_BENCH, assert_entry_refused, series, timed_job

from virtoll.workloads.kernel import KINDS


@pytest.mark.parametrize("operation", KINDS)
def test_every_operation_has_numbers_that_fit(operation: str) -> None:
    job = timed_job("kernel-operations", operation=operation)
    asked = job.job_parameters(NO_BENCH)
    assert asked["operation"] == operation
    operations, batch = (asked[key] for key in ("operations", "batch_operations"))
    assert isinstance(operations, int)
    assert isinstance(batch, int)
    assert operations % batch == 0
    assert job.expected_check() == str(asked["operations"])
    assert 0.001 < job.native_seconds() < 1


def test_numbers_that_are_given_are_asked_for() -> None:
    job = timed_job("kernel-operations", operation="pipe", operations=46, batch_operations=23)
    assert job.job_parameters(NO_BENCH) == {
        "operation": "pipe",
        "operations": 46,
        "batch_operations": 23,
        "workers": 1,
    }


def test_every_worker_does_all_operations() -> None:
    job = timed_job("kernel-operations", operation="stat", operations=200, workers=3)
    assert job.job_parameters(NO_BENCH)["workers"] == 3
    assert job.expected_check() == "600"


@pytest.mark.parametrize(
    ("given", "facts"),
    [
        ({"operation": "dance"}, ("operation", "'null-call'", "'fork-sh'")),
        ({"operations": 150}, (150, 100, "operations")),
        ({"operations": 10**9, "batch_operations": 100}, (10**9, 4194304)),
        ({"operations": 10**8, "batch_operations": 100, "workers": 5}, (10**8, 4194304, "workers")),
        ({"workers": 0}, ("workers", 0, 1, 256)),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    assert_entry_refused({"workload": "kernel-operations", **given}, *facts)


def test_an_operations_time_is_the_median_batchs_share() -> None:
    result = {"operations": 200, "batch_operations": 100, "batches": series(5370), "sending": None, "clock": CLOCK}
    assert timed_job("kernel-operations").figures(result) == {"operation_time": 53.7, "clock_reading_ns": 27.0}


def test_handling_a_signal_is_without_sending_it() -> None:
    sending = {"sent": 200, "batches": series(12_000)}
    result = {"operations": 200, "batch_operations": 100, "batches": series(82_000), "sending": sending, "clock": CLOCK}
    assert timed_job("kernel-operations").figures(result) == {"operation_time": 700.0, "clock_reading_ns": 27.0}
