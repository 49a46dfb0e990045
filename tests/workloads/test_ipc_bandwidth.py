"""Bytes between two processes: whole chunks, their sum, and the rate by the outside clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.facts import Fact
from tests.support.timed_jobs import assert_entry_refused, timed_job
from tests.support.workload_trials import ProgramGuest, measure, trial_bench

from virtoll.agent.operations.jobs import RunRequest
from virtoll.workloads.ipc_bandwidth import PATTERN


@pytest.mark.parametrize(
    ("wanted", "facts"),
    [
        ({"channel": "letter"}, ("channel", "'tcp-loopback'", "'shared-memory'")),
        ({"chunk_bytes": 0}, ("chunk_bytes", 8, "1GiB")),
        ({"chunk_bytes": 12}, ("chunk_bytes", 12, 8)),
        ({"size_bytes": 0}, ("size_bytes", 8, "16TiB")),
        ({"size_bytes": "32KiB"}, ("size_bytes 32768", "65536 bytes", "chunk_bytes")),
    ],
)
def test_what_does_not_fit_is_refused(wanted: dict[str, Any], facts: tuple[Fact, ...]) -> None:
    assert_entry_refused({"workload": "ipc-bandwidth", **wanted}, *facts)


@given(st.sampled_from([8, 16, 4096, 65_536]), st.integers(1, 300))
def test_a_sum_has_every_chunk_once(chunk_bytes: int, chunks: int) -> None:
    job = timed_job("ipc-bandwidth", size_bytes=chunk_bytes * chunks, chunk_bytes=chunk_bytes)
    sums = [number + PATTERN * (chunk_bytes // 8 - 1) for number in range(chunks)]
    assert job.expected_check() == str(sum(sums) % 2**64)
    twice = [sums[0], *sums[:-1]]
    assert chunks == 1 or job.expected_check() != str(sum(twice) % 2**64)


@pytest.mark.parametrize("workers", [1, 3])
def test_bandwidth_is_of_all_pairs_and_repeats_by_the_outside_clock(workers: int) -> None:
    wanted = {"channel": "tcp-loopback", "size_bytes": 2**20, "workers": workers}
    check = timed_job("ipc-bandwidth", **wanted).expected_check()
    one = timed_job("ipc-bandwidth", **{**wanted, "workers": 1}).expected_check()
    assert check == str(workers * int(str(one)) % 2**64)
    guest = ProgramGuest(run={"result": {"received_bytes": 2**20}, "check": check})
    measured = measure("ipc-bandwidth", trial_bench(guest, repeats=4), **wanted)
    assert measured.problem is None
    assert measured.result == {"received_bytes": 2**20, "figures": {"bandwidth": 4 * workers * 2**20 / 0.5}}
    (asked,) = guest.requests(RunRequest)
    assert (asked.job, asked.repeats) == ("ipc-bandwidth", 4)
    assert asked.parameters == {**wanted, "chunk_bytes": 65_536}
    assert max(guest.deadlines) == pytest.approx(60 + 4 * workers * 2**20 / 1.5e6), "1000 times a bare host's"


def test_a_duration_that_is_not_known_has_no_bandwidth() -> None:
    guest = ProgramGuest(run={"result": {"received_bytes": 2**20}, "check": "7"})
    guest.marks = ()
    measured = measure("ipc-bandwidth", guest)
    assert measured.result == {"received_bytes": 2**20, "figures": {"bandwidth": None}}
