"""Jobs of the agent without one: the workload that asks for them, and parts of what a real agent answered.

Answers are those of Debian 12 with two cores, shortened to one histogram bucket.
"""

from __future__ import annotations

from typing import Any

from tests.support import experiments
from tests.support.facts import Fact, refused

from virtoll.errors import UsageError
from virtoll.experiment.model import Parameters
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import TimedJobWorkload

NO_BENCH: Any = None


def timed_job(workload_name: str, /, **parameters: Any) -> TimedJobWorkload[Parameters]:
    """The workload with these parameters."""
    workload = WORKLOADS[workload_name].with_parameters(parameters)
    assert isinstance(workload, TimedJobWorkload)
    return workload


def series(median: int) -> dict[str, Any]:
    """One reading of so many ns, as an agent answers it."""
    names = ("minimum_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "maximum_ns")
    return {"count": 1, "sum_ns": median, **dict.fromkeys(names, median), "histogram_ns": [[median, 1]]}


CLOCK = {"batch_readings": 50, "batches": series(1350)}


def assert_entry_refused(entry: dict[str, Any], *facts: Fact) -> None:
    """An experiment with this workload is refused; the message names the file, the key and these facts."""
    with refused(experiments.FILE, "workloads[0]", *facts, error=UsageError):
        experiments.parsed(workloads=[entry])
