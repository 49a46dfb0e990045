"""fio: its report, its engines, and O_DIRECT that a guest ignores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion
from tests.support.facts import refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import MIB, DataState, ProgramGuest, measure, result_of, trial_bench

from virtoll.errors import GuestCannot
from virtoll.workloads import WORKLOADS, fio

REPORT = (RECORDED / "fio-randrw.txt").read_text()


def test_a_report_with_a_note_before_it() -> None:
    text = (RECORDED / "fio-randread.txt").read_text()
    assert text.startswith("note: ")
    figures = fio.parse(text)
    assert [figures[name] for name in ("read_bytes", "written_bytes", "requests", "error")] == [MIB, 0, 256, 0]
    assert figures["bytes_per_second"] == pytest.approx(figures["operations_per_second"] * 4096, rel=0.01)
    assert 0 < figures["latency_mean_ns"] < figures["latency_p99_ns"]


def test_a_report_of_reading_and_writing(snapshot: SnapshotAssertion) -> None:
    figures = fio.parse(REPORT)
    assert figures == snapshot
    assert figures["read_bytes"] + figures["written_bytes"] == MIB
    assert min(figures["read_bytes"], figures["written_bytes"]) > 0
    assert figures["requests"] == 256


@pytest.mark.parametrize("text", ["", "fio: unrecognised option", "{}", '{\n"jobs": []}', '{\n"jobs": [{}]}', "{\n[1"])
def test_another_report_is_refused(text: str) -> None:
    with refused("fio", error=ValueError):
        fio.parse(text)


def working(*engine: dict[str, Any], direct: Sequence[dict[str, Any]] = ()) -> ProgramGuest:
    """A guest in which fio works, after what ``engine`` says of its engine and ``direct`` of O_DIRECT."""
    return ProgramGuest({"fio": engine, "dd": direct}, timed={"stdout": REPORT})


def test_all_bytes_must_have_moved() -> None:
    guest, state = working(), DataState()
    result_of(measure("fio", trial_bench(guest, state=state), pattern="randrw", size_bytes="1MiB"))
    assert state.asked == [True], "cold once the file is laid out"
    laid_out, timed = guest.ran
    assert laid_out[-1] == "--create_only=1"
    assert guest.timed_commands == [timed]
    assert measure("fio", working(), pattern="randrw", size_bytes="2MiB").problem is not None


def test_each_job_has_a_part_of_the_one_file() -> None:
    guest = working()
    result_of(measure("fio", guest, pattern="randrw", size_bytes="1MiB", jobs=4))
    laid_out, timed = guest.ran
    assert "--size=1048576" in laid_out
    assert not any(word.startswith("--numjobs") for word in laid_out), "one file, for all"
    assert {"--size=262144", "--numjobs=4", "--offset_increment=262144", "--group_reporting"} <= set(timed)


@pytest.mark.parametrize(
    ("printed", "fact"),
    [
        (
            "fio: pid=12, err=38/file:engines/io_uring.c:1351, func=io_queue_init, error=Function not implemented",
            "error=Function not implemented",
        ),
        ("fio: io_queue_init: Operation not permitted", "Operation not permitted"),
    ],
)
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_guest_without_io_uring_skips_the_trial(printed: str, fact: str, stream: str) -> None:
    guest = working({"status": 1, stream: f"{printed}\n"})
    with refused("io_uring", fact, "engine: psync", error=GuestCannot) as raised:
        measure("fio", guest, engine="io_uring", size_bytes="1MiB")
    assert getattr(raised.value, "kind", None) == "unsupported"
    assert guest.timed_commands == []


def test_an_engine_that_works_is_used() -> None:
    guest = working({})
    measure("fio", guest, engine="libaio", depth=4, size_bytes="1MiB")
    assert {"--ioengine=libaio", "--iodepth=4"} <= set(guest.ran[-1])


@pytest.mark.parametrize(
    ("state", "ignored"),
    [
        (DataState(in_guest=None, on_host=MIB), True),  # gVisor: its files are the host's
        (DataState(in_guest=None, on_host=0), False),
        (DataState(in_guest=MIB, on_host=MIB), True),
        (DataState(in_guest=0, on_host=MIB), False),  # QEMU with cache=writeback: into the host's cache alone
    ],
)
def test_the_page_cache_shows_that_o_direct_is_ignored(state: DataState, ignored: bool) -> None:
    guest = working()
    bench = trial_bench(guest, state=state)
    if ignored:
        with refused("O_DIRECT", "1048576", "'direct'", error=GuestCannot):
            measure("fio", bench, direct=True, size_bytes="1MiB")
    else:
        result_of(measure("fio", bench, direct=True, pattern="randrw", size_bytes="1MiB"))
        assert "--direct=1" in guest.ran[-1]


def test_o_direct_that_is_refused_skips_the_trial() -> None:
    guest = working(direct=[{"status": 1, "stderr": "dd: failed to open '/data/x': Invalid argument\n"}])
    with refused("O_DIRECT", "ext4", "dd: failed to open", error=GuestCannot):
        measure("fio", guest, direct=True, size_bytes="1MiB")


def test_what_it_needs_is_declared() -> None:
    needs = WORKLOADS["fio"].with_parameters({"engine": "io_uring", "direct": True}).needs()
    assert needs.features == {"io-uring", "direct-io"}
    assert WORKLOADS["fio"].with_parameters({}).needs().features == frozenset()


@pytest.mark.parametrize("given", [{"depth": 4}, {"size_bytes": 10_000}, {"size_bytes": "1MiB", "jobs": 3}])
def test_sizes_that_it_cannot_do_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WORKLOADS["fio"].with_parameters(given)
