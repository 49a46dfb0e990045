"""bzip2: its line, and a file that must come out as it went in."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.facts import Fact, refused
from tests.support.workload_trials import (
    MIB,
    DataState,
    ProgramGuest,
    assert_problem,
    measure,
    result_of,
    trial_bench,
)

from virtoll.errors import GuestError
from virtoll.runfolder.records import Check, Marks
from virtoll.workloads import WORKLOADS, bzip2

# bzip2 1.0.8 of Debian 12, from the image full.
PRINTED = "  /tmp/virtoll-bzip2:  0.995:1,  8.037 bits/byte, -0.46% saved, 1048576 in, 1053388 out.\n"


def test_its_line() -> None:
    assert bzip2.parse(PRINTED) == {"bytes_in": 1048576, "bytes_out": 1053388}


@pytest.mark.parametrize("text", ["", "bzip2: I/O or other error", PRINTED + PRINTED])
def test_another_report_is_refused(text: str) -> None:
    with refused("bytes in and out", error=ValueError):
        bzip2.parse(text)


def compressing(unpacked: str = "abc", **timed: Any) -> ProgramGuest:
    """A guest in which bzip2 works; ``unpacked``: the hash of what comes out again."""
    sums = [{"stdout": f"{sha256}  /tmp/virtoll-bzip2\n"} for sha256 in ("abc", unpacked)]
    programs = {"stat": [{"stdout": "137961112\n"}], "sha256sum": sums}
    return ProgramGuest(programs, timed={"stderr": PRINTED} | timed)


def test_what_comes_out_again_is_what_went_in() -> None:
    guest = compressing()
    measured = measure("bzip2", guest, size_bytes="1MiB")
    result = result_of(measured)
    assert measured.check == Check("abc", "abc", True)
    assert measured.clock is not None
    assert measured.clock.marks == Marks(1000, 500_001_000)
    assert result["figures"] == {"bytes_in": 1048576, "bytes_out": 1053388}
    assert result["complaints"] == PRINTED
    assert guest.names == ["rm", "stat", "dd", "sha256sum", "bzip2", "rm", "bzip2", "sha256sum", "rm"]
    assert guest.timed_commands == [["bzip2", "-9", "--keep", "--verbose", "/tmp/virtoll-bzip2"]]
    assert {"bs=65536", "count=16"} <= set(guest.ran[2])
    assert guest.patience == [60.0, 75.0, 206.072, 615.0]
    assert "state" not in result, "it touches no disk"


@pytest.mark.parametrize(
    ("guest", "facts"),
    [
        (compressing("def"), ("'def'", "'abc'")),
        (compressing(status=1, stderr="bzip2: No space left on device\n"), ("bzip2", 1, "bzip2: No space left")),
        (compressing(status=None, stderr=""), ("bzip2", "signal")),
        (compressing(status=None, timed_out=True), ("bzip2", "584.288 s")),
        (compressing(stderr="what?"), ("bzip2", "'what?'")),
    ],
)
def test_what_went_wrong_is_the_trials_problem(guest: ProgramGuest, facts: tuple[Fact, ...]) -> None:
    measured = measure("bzip2", guest)
    assert_problem(measured, *facts)
    assert measured.result is not None
    assert "complaints" in measured.result


def test_a_step_before_the_mark_that_fails_names_the_program() -> None:
    guest = compressing()
    guest.programs |= ProgramGuest({"dd": [{"status": 1, "stderr": "dd: no space\n"}]}).programs
    with refused("dd", "code 1", "dd: no space", error=GuestError):
        measure("bzip2", guest)
    assert guest.timed_commands == []


def test_a_disc_of_the_papers_size_is_packed_from_disk_to_disk() -> None:
    disk, memory = (
        WORKLOADS["bzip2"].with_parameters({"size_bytes": "433MiB", "files": files}).needs()
        for files in ("disk", "memory")
    )
    assert disk.data_bytes > 2 * 433 * MIB
    assert disk.memory_bytes < 433 * MIB
    assert memory.memory_bytes > 4 * 433 * MIB
    guest, state = compressing(stderr="  /data/x:  1:1,  8 bits/byte, 0% saved, 9 in, 9 out.\n"), DataState()
    result_of(measure("bzip2", trial_bench(guest, state=state), size_bytes="433MiB", files="disk"))
    assert guest.timed_commands == [["bzip2", "-9", "--keep", "--verbose", "/data/virtoll-bzip2"]]
    assert state.asked == [True], "it is read from the disk"
