"""Jobs whose check value is known beforehand, and the sizes of the papers with their memory."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.timed_jobs import NO_BENCH, assert_entry_refused, timed_job

from virtoll.agent.pi import pi_sha256
from virtoll.workloads.masr import PATTERN


@pytest.mark.parametrize(
    ("name", "given", "least"),
    [
        ("masr", {"size_bytes": "2GiB"}, 2 * 2**30),
        ("stream", {"elements": 10_000_000, "threads": 4}, 240_000_000),
        ("context-switch", {"processes": 96, "working_set_bytes": "64KiB"}, 96 * 65536),
        ("ipc-bandwidth", {"channel": "shared-memory", "chunk_bytes": "16MiB"}, 4 * 16 * 2**20),
        ("superpi", {"digits": 2**22}, 64 * 2**20),
    ],
)
def test_the_papers_sizes_are_allowed_and_their_memory_is_asked_for(
    name: str, given: dict[str, Any], least: int
) -> None:
    needs = timed_job(name, **given).needs()
    assert least < needs.memory_bytes < 2 * least + 512 * 2**20
    assert needs.vcpus == given.get("threads", 1)


def test_the_papers_number_of_processes_is_allowed() -> None:
    job = timed_job("forkwait", processes=40_000)
    assert job.job_parameters(NO_BENCH) == {"processes": 40_000, "workers": 1}
    assert job.expected_check() == "40000"


@pytest.mark.parametrize("words", [512, 1024])
def test_masrs_check_value_is_the_sum_of_what_it_set(words: int) -> None:
    assert timed_job("masr", size_bytes=8 * words).expected_check() == str(sum([PATTERN] * words) % 2**64)


@pytest.mark.parametrize("digits", [1000, 200_001, 300_000, 2**20])
def test_superpis_check_value_is_known_for_any_size(digits: int) -> None:
    assert timed_job("superpi", digits=digits).expected_check() == pi_sha256(digits)


@pytest.mark.parametrize("digits", [2**20, 2**22])
def test_superpis_check_values_of_the_papers_are_not_computed(digits: int) -> None:
    computed = pi_sha256.cache_info().misses
    assert len(str(timed_job("superpi", digits=digits).expected_check())) == 64
    assert pi_sha256.cache_info().misses == computed


@pytest.mark.parametrize(("workers", "fits"), [(7, True), (8, False)])
def test_each_worker_of_forkwait_has_a_process(workers: int, fits: bool) -> None:
    if fits:
        assert timed_job("forkwait", processes=7, workers=workers).expected_check() == "7"
    else:
        assert_entry_refused({"workload": "forkwait", "processes": 7, "workers": workers}, "workers", "processes")
