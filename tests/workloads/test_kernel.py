"""Kernel operations, context switches, IPC bandwidth, STREAM: what is asked of the agent, read and refused.

The answers are those of a real agent (Debian 12, two cores), shortened to one histogram bucket.
"""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import experiments

from virtoll.agent.timekeeper import TimedJob
from virtoll.errors import UsageError
from virtoll.experiment.model import Parameters
from virtoll.workloads import WORKLOADS
from virtoll.workloads.base import TimedJobWorkload
from virtoll.workloads.ipc_bandwidth import PATTERN
from virtoll.workloads.kernel import KINDS

NO_BENCH: Any = None


def workload(workload_name: str, /, **given: Any) -> TimedJobWorkload[Parameters]:
    found = WORKLOADS[workload_name].with_parameters(given)
    assert isinstance(found, TimedJobWorkload)
    return found


def series(median: int) -> dict[str, Any]:
    names = ("minimum_ns", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "maximum_ns")
    return {"count": 1, "sum_ns": median, **dict.fromkeys(names, median), "histogram_ns": [[median, 1]]}


CLOCK = {"batch_readings": 50, "batches": series(1350)}


@pytest.mark.parametrize("operation", KINDS)
def test_every_operation_has_numbers_that_fit(operation: str) -> None:
    own = workload("kernel-operations", operation=operation)
    asked = own.job_parameters(NO_BENCH)
    assert asked["operation"] == operation
    operations, batch = (asked[key] for key in ("operations", "batch_operations"))
    assert isinstance(operations, int)
    assert isinstance(batch, int)
    assert operations % batch == 0
    assert own.expected_check() == str(asked["operations"])
    assert 0.001 < own.native_seconds() < 1


def test_numbers_that_are_given_are_asked_for() -> None:
    own = workload("kernel-operations", operation="pipe", operations=46, batch_operations=23)
    assert own.job_parameters(NO_BENCH) == {
        "operation": "pipe",
        "operations": 46,
        "batch_operations": 23,
        "workers": 1,
    }


def test_every_worker_does_all_operations() -> None:
    own = workload("kernel-operations", operation="stat", operations=200, workers=3)
    assert own.job_parameters(NO_BENCH)["workers"] == 3
    assert own.expected_check() == "600"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"workload": "kernel-operations", "operation": "dance"}, "'null-call', 'read', 'write'"),
        ({"workload": "kernel-operations", "operations": 150}, "150 operations are not whole batches of 100"),
        ({"workload": "kernel-operations", "operations": 10**9, "batch_operations": 100}, "more than 4194304 batches"),
        ({"workload": "kernel-operations", "operations": 10**8, "batch_operations": 100, "workers": 5}, "all workers"),
        ({"workload": "kernel-operations", "workers": 0}, "from 1 to 256"),
        ({"workload": "context-switch", "processes": 1}, "from 2 to 256"),
        ({"workload": "context-switch", "working_set_bytes": 7}, "multiple of 8"),
        ({"workload": "context-switch", "processes": 256, "workers": 17}, "must be at most 4096; give fewer workers"),
        ({"workload": "context-switch", "switches": 8_000_000, "workers": 2}, "of 2 rings are more than 4194304"),
        (
            {"workload": "ipc-bandwidth", "channel": "letter"},
            "'tcp-loopback' or 'shared-memory'",
        ),
        ({"workload": "ipc-bandwidth", "chunk_bytes": 0}, "from 8 to 1GiB"),
        ({"workload": "ipc-bandwidth", "chunk_bytes": 12}, "multiple of 8"),
        ({"workload": "ipc-bandwidth", "size_bytes": 0}, "from 8 to 16TiB"),
        (
            {"workload": "ipc-bandwidth", "size_bytes": "32KiB"},
            "size_bytes 32768 is not whole chunks of 65536 bytes; give size_bytes as a multiple of chunk_bytes",
        ),
        ({"workload": "stream", "rounds": 1}, "from 2 to 200"),
        ({"workload": "stream", "threads": 0}, "from 1 to 1024"),
    ],
)
def test_what_does_not_fit_is_refused_with_file_and_key(entry: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match="workloads") as refused:
        experiments.parsed(workloads=[entry])
    assert said in str(refused.value)
    assert str(experiments.FILE) in str(refused.value)


def test_an_operations_time_is_the_median_batchs_share() -> None:
    result = {"operations": 200, "batch_operations": 100, "batches": series(5370), "sending": None, "clock": CLOCK}
    assert workload("kernel-operations").figures(result) == {"operation_time": 53.7, "clock_reading_ns": 27.0}


def test_handling_a_signal_is_without_sending_it() -> None:
    sending = {"sent": 200, "batches": series(12_000)}
    result = {"operations": 200, "batch_operations": 100, "batches": series(82_000), "sending": sending, "clock": CLOCK}
    assert workload("kernel-operations").figures(result) == {"operation_time": 700.0, "clock_reading_ns": 27.0}


def test_a_switch_is_a_hop_without_its_pipe() -> None:
    result = {"processes": 4, "pinned_cpu": 0, "laps": series(8000), "pipes": series(2400), "clock": CLOCK}
    assert workload("context-switch").figures(result) == {
        "switch_time": 1400.0,
        "hop_ns": 2000.0,
        "pipe_ns": 600.0,
        "clock_reading_ns": 27.0,
    }


@given(st.integers(2, 96), st.integers(1, 100_000))
def test_switches_are_whole_laps(processes: int, switches: int) -> None:
    own = workload("context-switch", processes=processes, switches=switches)
    laps = own.job_parameters(NO_BENCH)["laps"]
    assert isinstance(laps, int)
    assert switches <= laps * processes < switches + processes
    assert own.expected_check() == str(laps * processes)


def test_every_ring_does_all_switches() -> None:
    own = workload("context-switch", processes=3, switches=100, workers=8)
    assert own.job_parameters(NO_BENCH) == {"processes": 3, "working_set_bytes": 0, "laps": 34, "workers": 8}
    assert own.expected_check() == str(8 * 3 * 34)
    of_one = workload("context-switch", processes=3, switches=100).needs().memory_bytes
    assert own.needs().memory_bytes > of_one


@given(st.sampled_from([8, 16, 4096, 65_536]), st.integers(1, 300))
def test_a_sum_has_every_chunk_once(chunk_bytes: int, chunks: int) -> None:
    own = workload("ipc-bandwidth", size_bytes=chunk_bytes * chunks, chunk_bytes=chunk_bytes)
    words = [[number, *[PATTERN] * (chunk_bytes // 8 - 1)] for number in range(chunks)]
    assert own.expected_check() == str(sum(map(sum, words)) % 2**64)
    twice = [words[0], *words[:-1]]
    assert chunks == 1 or own.expected_check() != str(sum(map(sum, twice)) % 2**64)


@pytest.mark.parametrize("workers", [1, 3])
def test_bandwidth_is_of_all_pairs_and_repeats_by_the_outside_clock(workers: int) -> None:
    own = workload("ipc-bandwidth", channel="tcp-loopback", size_bytes=2**20, workers=workers)
    one = workload("ipc-bandwidth", channel="tcp-loopback", size_bytes=2**20).expected_check()
    assert own.expected_check() == str(workers * int(str(one)) % 2**64)
    for marks, bandwidth in (({"start_ns": 5, "end_ns": 2_000_005}, 4 * workers * 2**20 / 0.002), (None, None)):
        clock = {
            "method": "icmp",
            "marks": marks,
            "channel_marks": None,
            "realtime_step_ns": 0,
            "path_delay_before_ns": [1],
            "path_delay_after_ns": [1],
            "error_estimate_ns": 1,
            "guest": None,
        }
        timed = TimedJob(clock, {"received_bytes": 2**20}, str(own.expected_check()), None)
        asked: list[tuple[object, ...]] = []

        def time_job(*arguments: object, timed: TimedJob = timed, asked: list[tuple[object, ...]] = asked) -> TimedJob:
            asked.append(arguments)
            return timed

        bench: Any = SimpleNamespace(timekeeper=SimpleNamespace(time_job=time_job), repeats=4)
        measured = own.measure(bench)
        assert measured.result == {"received_bytes": 2**20, "figures": {"bandwidth": bandwidth}}
        wanted = {"channel": "tcp-loopback", "size_bytes": 2**20, "chunk_bytes": 65_536, "workers": workers}
        assert [(job, parameters, repeats) for job, parameters, _, repeats in asked] == [("ipc-bandwidth", wanted, 4)]


def test_streams_rates_are_of_the_best_round_but_the_first() -> None:
    kernels = {
        name: {"bytes": 1_600_000, "round_ns": [1, 400_000, 200_000, 300_000]} for name in ("copy", "scale", "triad")
    }
    result = {"kernels": {**kernels, "add": {"bytes": 2_400_000, "round_ns": [9, 600_000]}}}
    figures = workload("stream").figures(result)
    assert figures is not None
    assert figures["copy_rate"] == 8e9
    assert figures["copy_mean_rate"] == pytest.approx(1_600_000 * 3e9 / 900_000)
    assert figures["add_rate"] == 4e9
    assert {metric.name for metric in workload("stream").metrics} - {"duration"} <= set(figures)


@pytest.mark.parametrize("rounds", [2, 10, 200])
def test_streams_arrays_grow_fifteenfold_a_round(rounds: int) -> None:
    expected = workload("stream", rounds=rounds).expected_check()
    assert expected is not None
    a, b, c = (struct.unpack(">d", bytes.fromhex(word))[0] for word in expected.split())
    assert a == pytest.approx(2 * 15.0**rounds, rel=1e-13)
    assert b == pytest.approx(6 * 15.0 ** (rounds - 1), rel=1e-13)
    assert c == pytest.approx(8 * 15.0 ** (rounds - 1), rel=1e-13)


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
    needs = workload(name, **given).needs()
    assert least < needs.memory_bytes < 2 * least + 512 * 2**20
    assert needs.vcpus == given.get("threads", 1)


def test_the_papers_number_of_processes_is_allowed() -> None:
    own = workload("forkwait", processes=40_000)
    assert own.job_parameters(NO_BENCH) == {"processes": 40_000, "workers": 1}
    assert own.expected_check() == "40000"
