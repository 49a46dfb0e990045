"""The sizes of the papers are allowed, and their memory is asked for."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.timed_jobs import NO_BENCH, timed_job


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
