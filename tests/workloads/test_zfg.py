"""zfg: rounds of writing a file, their mean time, and the rate over all of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.support.workload_trials import DataState, ProgramGuest, measure, trial_bench

from virtoll.agent.operations.jobs import RunRequest
from virtoll.workloads import WORKLOADS


@pytest.mark.parametrize(("rounds", "right"), [(2, True), (3, False)])
def test_its_metric_is_the_mean_time_of_a_round(rounds: int, right: bool) -> None:
    """By the guest's clock the rounds are half of a second between the marks, of which the clock outside saw half."""
    result = {"size_bytes": 1000, "write_ns": [100_000_000, 150_000_000], "sync_ns": [50_000_000, 200_000_000]}
    clock = {"start_monotonic_ns": 0, "end_monotonic_ns": 1_000_000_000, "pause_ns": 0}
    answer = {"guest": clock, "result": result, "check": "2 rounds, 1000 zeros"}
    guest, state = ProgramGuest(run=answer), DataState()
    measured = measure("zfg", trial_bench(guest, state=state), size_bytes=1000, rounds=rounds, dump_bytes=10)
    (asked,) = guest.requests(RunRequest)
    assert asked.job == "zfg"
    assert asked.parameters == {
        "path": "/data",
        "size_bytes": 1000,
        "rounds": rounds,
        "dump_bytes": 10,
        "synced": True,
    }
    assert measured.result is not None
    assert measured.result["figures"] == {"round_time": 125_000_000, "bytes_per_second": pytest.approx(8000)}
    assert WORKLOADS["zfg"].metrics[0].name == "round_time", "the paper's"
    assert measured.result["state"] == state.reported
    assert (measured.problem is None) == right
    assert state.asked == [True]


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValidationError):
        WORKLOADS["zfg"].with_parameters({"rounds": 0})
