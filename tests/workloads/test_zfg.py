"""zfg: rounds of writing a file, and the rate over all of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from tests.support.workload_trials import DataState, ProgramGuest, measure, trial_bench

from virtoll.agent.operations.jobs import RunRequest
from virtoll.workloads import WORKLOADS


@pytest.mark.parametrize(("rounds", "right"), [(2, True), (3, False)])
def test_its_rate_is_over_its_rounds(rounds: int, right: bool) -> None:
    result = {"size_bytes": 1000, "write_ns": [100, 200], "sync_ns": [300, 400]}
    guest, state = ProgramGuest(run={"result": result, "check": "2 rounds, 1000 zeros"}), DataState()
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
    assert measured.result["figures"] == {"bytes_per_second": pytest.approx(2e9), "round_mean_ns": 500.0}
    assert measured.result["state"] == state.reported
    assert (measured.problem is None) == right
    assert state.asked == [True]


def test_no_rounds_are_refused() -> None:
    with pytest.raises(ValidationError):
        WORKLOADS["zfg"].with_parameters({"rounds": 0})
