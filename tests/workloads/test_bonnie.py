"""bonnie++: its line of values, its processes, and what a trial with it must have done."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from syrupy.assertion import SnapshotAssertion
from tests.support.facts import refused
from tests.support.repository import RECORDED
from tests.support.workload_trials import (
    MIB,
    DataState,
    ProgramGuest,
    assert_problem,
    measure,
    result_of,
    trial_bench,
)

from virtoll.agent.client import ChannelMark
from virtoll.errors import GuestCannot
from virtoll.workloads import bonnie
from virtoll.workloads.base import Measurement

# bonnie++ 2.00a of Debian 12, from the image full.
QUICK = (RECORDED / "bonnie-quick.txt").read_text()
# By gVisor, where its steps took long enough.
SLOW = (RECORDED / "bonnie-gvisor.txt").read_text()
# On this machine, 16 MiB with per-character tests, while others used it.
BY_CHARACTER = (RECORDED / "bonnie-characters.txt").read_text()
# Two processes on this machine, by 256 bytes: `-y s -s 64:256:4096:5 -n 8:0:0`, `-m` their number.
TWO = (RECORDED / "bonnie-two-processes.txt").read_text()
TWO_PROCESSES = {"processes": 2, "file_bytes": "128MiB", "small_files": 16384}


def with_fields(report: str, **fields: str) -> str:
    """The report with other values at some places, as ``at_6="32K"``."""
    values = report.split(",")
    for place, value in fields.items():
        values[int(place.removeprefix("at_"))] = value
    return ",".join(values)


def quick_trial(report: str = QUICK, state: DataState | None = None, **parameters: Any) -> Any:
    return measure("bonnie", trial_bench(ProgramGuest(timed={"stdout": report}), state=state), **parameters)


def test_steps_that_were_over_too_soon_have_no_rate() -> None:
    figures = bonnie.parse("what it says before\n" + QUICK)
    assert (figures["file_bytes"], figures["chunk_bytes"], figures["small_files"]) == (64 * MIB, None, 1024)
    assert {value for name, value in figures.items() if name.endswith("per_second")} == {None}
    latencies = {name: figures[f"{name}_latency_ns"] for name in ("write", "read", "random_delete")}
    assert latencies == {"write": 147_000, "read": 2_597_000, "random_delete": 200_000}


def test_steps_that_took_long_enough_have_rates() -> None:
    figures = bonnie.parse(SLOW)
    assert figures["write_bytes_per_second"] == 56915 * 1024
    assert figures["seeks_per_second"] == pytest.approx(4888)
    assert figures["random_deletes_per_second"] is None
    assert figures["sequential_delete_latency_ns"] == 146_000_000, "ms"


def test_every_figure_has_its_place_in_the_line(snapshot: SnapshotAssertion) -> None:
    assert [bonnie.parse(SLOW), bonnie.parse(BY_CHARACTER, per_character=True), *bonnie.parse_all(TWO, 2)] == snapshot


def test_per_character_tests_are_read() -> None:
    figures = bonnie.parse(BY_CHARACTER, per_character=True)
    assert (figures["putc_bytes_per_second"], figures["getc_bytes_per_second"]) == (117 * 1024, 229 * 1024)
    assert (figures["putc_latency_ns"], figures["getc_latency_ns"]) == (298_000_000, 212_000_000)
    assert (figures["write_latency_ns"], figures["read_latency_ns"]) == (24_111_000, 5_604_000)
    result = result_of(quick_trial(BY_CHARACTER, per_character=True, file_bytes="16MiB", small_files=0))
    assert "-f" not in result["argv"]


@pytest.mark.parametrize(
    ("report", "wanted"),
    [
        (QUICK, True),
        (with_fields(BY_CHARACTER, at_15=""), True),
        (with_fields(QUICK, at_9="123", at_10="99"), False),
        (with_fields(QUICK, at_15="123"), False),
    ],
    ids=["none", "half of them", "unasked", "half of them unasked"],
)
def test_other_tests_than_wanted_are_refused(report: str, wanted: bool) -> None:
    with refused("per-character", error=ValueError):
        bonnie.parse(report, per_character=wanted)


def test_processes_together_are_as_slow_as_the_slowest() -> None:
    each = bonnie.parse_all(TWO, 2)
    assert [process["write_bytes_per_second"] for process in each] == [45945 * 1024, 38467 * 1024]
    figures = bonnie.together(each)
    assert (figures["file_bytes"], figures["small_files"]) == (128 * MIB, 16384)
    assert (figures["version"], figures["chunk_bytes"]) == ("2.00a", None)
    assert figures["write_bytes_per_second"] == 2 * 38467 * 1024
    assert figures["random_creates_per_second"] == 2 * 1208
    assert figures["seeks_per_second"] is None, "over too soon in both"
    assert (figures["write_latency_ns"], figures["read_latency_ns"]) == (238_000_000, 72_401_000)
    assert figures["processes"] == each


def test_a_process_without_a_rate_is_not_the_slowest() -> None:
    figures = bonnie.together(bonnie.parse_all(TWO.replace(",45945,10,", ",+++++,+++,"), 2))
    assert figures["write_bytes_per_second"] == 2 * 38467 * 1024
    assert figures["processes"][0]["write_bytes_per_second"] is None


@pytest.mark.parametrize(
    "text",
    [
        TWO.splitlines(keepends=True)[0],
        TWO.replace("2.00a,1,", "2.00a,0,"),
        TWO + TWO.splitlines(keepends=True)[1],
        TWO.replace("2.00a,1,", "2.00a,2,"),
    ],
    ids=["one-lacks", "one-for-the-other", "one-twice", "a-strange-one"],
)
def test_each_process_reports_once(text: str) -> None:
    with refused("2 processes", error=ValueError):
        bonnie.parse_all(text, 2)


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("", ("50", "1.98")),
        ("1.97" + QUICK[4:], ("50", "1.98")),
        (QUICK.replace(",147us", ""), ("50", "1.98")),
        (QUICK.replace(",147us", ",147ps"), ("'147ps'",)),
        (QUICK.replace(",64M,", ",64X,"), ("'64X'",)),
    ],
)
def test_another_line_is_refused(text: str, facts: tuple[str, ...]) -> None:
    with refused(*facts, error=ValueError):
        bonnie.parse(text)


def test_the_file_is_twice_the_memory_that_it_is_told() -> None:
    for parameters in ({}, {"small_files": 0}, {"file_bytes": "5GiB", "chunk_bytes": "32KiB"}):
        argv = bonnie.Bonnie.with_parameters(parameters).command(trial_bench(ProgramGuest()))
        assert argv[0] == "bonnie++"
        assert "-f" in argv, "per-character tests are left out"
        assert "-y" not in argv, "one process waits for nobody"
        size, memory = argv[argv.index("-s") + 1].split(":")[0], argv[argv.index("-r") + 1]
        assert int(size) == 2 * int(memory)


@pytest.mark.parametrize("left", [0, 3])
def test_files_that_are_left_are_a_problem(left: int) -> None:
    state = DataState(files=left)
    measured = quick_trial(state=state)
    assert (measured.problem is None) == (left == 0)
    assert measured.check is not None
    assert measured.check.value.split(", ") == ["67108864 bytes", "8192 seeks", "1024 files", f"{left} left"]
    assert measured.result["state"] == state.reported
    assert state.asked == [True, False], "cold before, and looked at afterwards"


def test_another_size_than_wanted_is_a_problem() -> None:
    assert_problem(quick_trial(file_bytes="128MiB"), "134217728 bytes", "67108864 bytes")
    assert_problem(quick_trial(seeks=4096), "4096 seeks", "8192 seeks")


def timed_trial(seconds: float, *, guest_seconds: float | None = None, report: str = QUICK) -> Measurement:
    """A trial that takes so long by the outside clock, and by the guest's."""
    guest = ProgramGuest(timed={"stdout": report})
    guest.marks = (ChannelMark("start", 0, 0), ChannelMark("end", round(seconds * 1e9), round(seconds * 1e9)))
    took = seconds if guest_seconds is None else guest_seconds
    guest.clock = {"start_monotonic_ns": 5, "end_monotonic_ns": 5 + round(took * 1e9)}
    return measure("bonnie", trial_bench(guest))


def test_what_the_program_sleeps_is_no_work() -> None:
    figures = result_of(timed_trial(3.7))["figures"]
    assert figures["working_time"] == 700_000_000
    assert [metric.name for metric in bonnie.Bonnie.metrics] == ["working_time"]


def test_it_sleeps_by_the_clock_of_its_guest() -> None:
    """One that runs at half the speed sleeps six seconds outside."""
    assert result_of(timed_trial(8.0, guest_seconds=4.0))["figures"]["working_time"] == 2_000_000_000


def test_a_version_whose_sleep_is_not_known_has_no_working_time() -> None:
    measured = timed_trial(3.7, report=QUICK.replace("2.00a", "3.00"))
    assert result_of(measured)["figures"]["working_time"] is None


def two(made: dict[str, Any] | None = None, **timed: Any) -> ProgramGuest:
    """A guest in which two processes run; ``made``: how making their semaphores ends."""
    return ProgramGuest({"bonnie++": [made or {}]}, timed={"stdout": TWO} | timed)


def test_each_process_has_a_folder_and_a_part() -> None:
    guest = two()
    result = result_of(measure("bonnie", guest, **TWO_PROCESSES))
    made, given, semaphores, timed, removed = guest.ran
    assert made == ["mkdir", "/data/0", "/data/1"]
    assert given[0] == "tee"
    assert semaphores == ["bonnie++", "-p", "2", "-u", "root"]
    assert timed[:5] == ["xargs", f"--arg-file={given[1]}", "--max-procs=2", "--replace=@", "bonnie++"]
    options = {name: timed[timed.index(name) + 1] for name in ("-d", "-s", "-n", "-m")}
    assert options == {"-d": "/data/@", "-s": "64:8192:4096:5", "-n": "8:0:0", "-m": "@"}
    assert removed == ["bonnie++", "-p", "-1", "-u", "root"]
    assert result["output"] == TWO
    assert len(result["figures"]["processes"]) == 2


def test_semaphores_are_removed_after_a_failure() -> None:
    guest = two(status=123, stderr="xargs: bonnie++: No space left\n")
    assert_problem(measure("bonnie", guest, **TWO_PROCESSES), "xargs", 123, "xargs: bonnie++: No space")
    assert guest.ran[-1] == ["bonnie++", "-p", "-1", "-u", "root"]


def test_a_guest_without_semaphores_skips_the_trial() -> None:
    guest = two({"status": 1, "stderr": "Can't get semaphore: Function not implemented\n"})
    with refused("Function not implemented", "'processes'", error=GuestCannot):
        measure("bonnie", guest, **TWO_PROCESSES)
    assert guest.timed_commands == []


def test_processes_share_the_work_and_fail_sooner() -> None:
    one, many = (bonnie.Bonnie.with_parameters({"processes": count, "small_files": 0}) for count in (1, 8))
    assert one.data_bytes() == many.data_bytes()
    assert many.deadline_seconds() < one.deadline_seconds()


@pytest.mark.parametrize(("reported", "right"), [("", True), ("32K", True), ("8192", False)])
def test_a_chunk_is_compared_where_it_is_reported(reported: str, right: bool) -> None:
    """2.00a reports none, and uses it."""
    measured = quick_trial(with_fields(QUICK, at_6=reported), chunk_bytes="32KiB")
    assert "64:32768:8192:5" in measured.result["argv"]
    assert (measured.problem is None) == right


@pytest.mark.parametrize(
    "given",
    [
        {"small_files": 100},
        {"file_bytes": "3MiB"},
        {"file_bytes": "6MiB", "small_files": 0, "processes": 2},
        {"small_files": 1024, "processes": 2},
        {"small_files": 3072, "file_bytes": "6MiB", "processes": 3},
    ],
)
def test_parts_that_are_not_whole_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        bonnie.Bonnie.with_parameters(given)
