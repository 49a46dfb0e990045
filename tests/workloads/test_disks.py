"""Workloads in the data directory: parsers on what the real tools printed, known traps, wrong runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError
from tests.support.benches import channel_bench
from tests.support.repository import RECORDED
from tests.workloads.test_programs import Guest, said

from virtoll.agent.client import ChannelMark
from virtoll.agent.messages import Message, Request
from virtoll.agent.operations.jobs import RunRequest
from virtoll.errors import GuestCannot
from virtoll.workloads import WORKLOADS, bonnie, dbench, dd, fio
from virtoll.workloads.base import Bench, DataDirectory, Measurement

MIB = 2**20
# bonnie++ 2.00a, dbench 4.00 and GNU dd 9.1 of Debian 12, from the image full.
BONNIE_QUICK = (
    "1.98,2.00a,guest,1,1,64M,,8192,5,,,+++++,+++,+++++,+++,,,+++++,+++,+++++,+++,1,1024,,,4,+++++,+++,+++++,+++,+++++,"
    "+++,+++++,+++,+++++,+++,+++++,+++,,147us,94us,,2597us,2882us,416us,66us,241us,241us,24us,200us\n"
)
# By gVisor, where its steps took long enough.
BONNIE = (
    "1.98,2.00a,guest,1,1,64M,,8192,5,,,56915,56,22612,79,,,63164,79,4888,375,1,,,,,443,12,+++++,+++,++++"
    "+,+++,322,16,+++++,+++,+++++,+++,,14654us,17420us,,13247us,40194us,28648us,2578us,146ms,86895us,1627"
    "9us,8123us\n"
)
# On this machine, 16 MiB with per-character tests, while others used it.
BONNIE_CHARACTERS = (
    "1.98,2.00a,guest,1,1,16M,,8192,5,117,8,+++++,+++,+++++,+++,229,10,+++++,+++,+++++,+++,,,,,,,,,,,,,,,,,,298ms,"
    "24111us,10592us,212ms,5604us,87277us,,,,,,\n"
)
# Two processes on this machine, by 256 bytes: `-y s -s 64:256:4096:5 -n 8:0:0`, `-m` their number.
BONNIE_SEVERAL = (
    "1.98,2.00a,1,1,1,64M,,4096,5,,,38467,8,17466,6,,,111649,15,+++++,+++,8,,,,,2303,10,+++++,+++,8354,4,2142,18,"
    "+++++,+++,+++++,+++,,238ms,705ms,,44191us,22693us,202ms,33117us,52551us,117ms,20076us,68058us\n"
    "1.98,2.00a,0,1,1,64M,,4096,5,,,45945,10,22990,8,,,113326,15,+++++,+++,8,,,,,2305,7,+++++,+++,10880,5,1208,12,"
    "+++++,+++,+++++,+++,,221ms,679ms,,72401us,17596us,176ms,44240us,52433us,204ms,12875us,38070us\n"
)
SEVERAL = {"processes": 2, "file_bytes": "128MiB", "small_files": 16384}
CHARACTERS = {"per_character": True, "file_bytes": "16MiB", "small_files": 0}
DBENCH = """dbench version 4.00 - Copyright Andrew Tridgell 1999-2004

Running for 3 seconds with load '/usr/share/dbench/client.txt' and minimum warmup 0 secs
failed to create barrier semaphore 
0 of 1 processes prepared for launch   0 sec
1 of 1 processes prepared for launch   0 sec
releasing clients
   1    160195   881.46 MB/sec  execute   1 sec  latency 2.584 ms
   1    325273   884.36 MB/sec  execute   2 sec  latency 6.233 ms
   1  cleanup   3 sec
   0  cleanup   3 sec

 Operation      Count    AvgLat    MaxLat
 ----------------------------------------
 NTCreateX      83313     0.003     0.427
 Close          61261     0.000     1.176
 WriteX         41884     0.005     0.155
 ReadX         130364     0.001     0.182
 Flush           5843     0.219    23.483

Throughput 884.36 MB/sec  1 clients  1 procs  max_latency=6.233 ms
"""  # noqa: W291 - as it was printed
DD_COPY = """16384+0 records in
16384+0 records out
8388608 bytes (8.4 MB, 8.0 MiB) copied, 0.0963888 s, 87.0 MB/s
"""
DD_SMALL = "1+0 records in\n1+0 records out\n512 bytes copied, 3.6994e-05 s, 13.8 MB/s\n"


def test_bonnies_line_of_a_run_that_was_over_too_soon_has_no_rates() -> None:
    found = bonnie.parse("what it says before\n" + BONNIE_QUICK)
    assert (found["file_bytes"], found["chunk_bytes"], found["small_files"]) == (64 * MIB, None, 1024)
    assert {value for name, value in found.items() if name.endswith("per_second")} == {None}
    assert found["write_latency_ns"] == 147_000
    assert found["read_latency_ns"] == 2_597_000
    assert found["random_delete_latency_ns"] == 200_000


def test_bonnies_line_of_a_run_that_took_long_enough() -> None:
    found = bonnie.parse(BONNIE)
    assert found["write_bytes_per_second"] == 56915 * 1024
    assert found["seeks_per_second"] == pytest.approx(4888)
    assert found["random_deletes_per_second"] is None


def test_bonnies_line_with_per_character_tests() -> None:
    found = bonnie.parse(BONNIE_CHARACTERS, per_character=True)
    assert (found["putc_bytes_per_second"], found["getc_bytes_per_second"]) == (117 * 1024, 229 * 1024)
    assert (found["putc_latency_ns"], found["getc_latency_ns"]) == (298_000_000, 212_000_000)
    assert (found["write_latency_ns"], found["read_latency_ns"]) == (24_111_000, 5_604_000)
    measured = measure(Guest({"stdout": BONNIE_CHARACTERS}, {}), "bonnie", State(), **CHARACTERS)
    assert measured.problem is None
    assert measured.result is not None
    assert "-f" not in measured.result["argv"]


@pytest.mark.parametrize("report", [BONNIE_QUICK, "half"])
def test_a_report_without_the_per_character_tests_that_were_asked_for_is_refused(report: str) -> None:
    if report == "half":
        fields = BONNIE_CHARACTERS.split(",")
        fields[15] = ""
        report = ",".join(fields)
    with pytest.raises(ValueError, match="per-character tests were left out"):
        bonnie.parse(report, per_character=True)


def test_a_report_with_per_character_tests_is_refused() -> None:
    fields = BONNIE_QUICK.split(",")
    fields[9:11] = ["123", "99"]
    with pytest.raises(ValueError, match="per-character tests were not left out"):
        bonnie.parse(",".join(fields))


def test_bonnies_processes_did_what_the_slowest_of_them_took_the_time_for() -> None:
    each = bonnie.parse_all(BONNIE_SEVERAL, 2)
    assert [one["write_bytes_per_second"] for one in each] == [45945 * 1024, 38467 * 1024]
    found = bonnie.together(each)
    assert (found["file_bytes"], found["small_files"]) == (128 * MIB, 16384)
    assert found["write_bytes_per_second"] == 2 * 38467 * 1024
    assert found["random_creates_per_second"] == 2 * 1208
    assert found["seeks_per_second"] is None, "over too soon in both"
    assert (found["write_latency_ns"], found["read_latency_ns"]) == (238_000_000, 72_401_000)
    assert found["processes"] == each


def test_a_process_that_was_done_too_soon_to_have_a_rate_is_not_the_slowest() -> None:
    quick = BONNIE_SEVERAL.replace(",45945,10,", ",+++++,+++,")
    found = bonnie.together(bonnie.parse_all(quick, 2))
    assert found["write_bytes_per_second"] == 2 * 38467 * 1024
    assert found["processes"][0]["write_bytes_per_second"] is None


@pytest.mark.parametrize(
    "text",
    [
        BONNIE_SEVERAL.splitlines(keepends=True)[0],
        BONNIE_SEVERAL.replace("2.00a,1,", "2.00a,0,"),
        BONNIE_SEVERAL + BONNIE_SEVERAL.splitlines(keepends=True)[1],
        BONNIE_SEVERAL.replace("2.00a,1,", "2.00a,2,"),
    ],
    ids=["one-lacks", "one-for-the-other", "one-twice", "a-strange-one"],
)
def test_each_of_bonnies_processes_must_have_reported_once(text: str) -> None:
    with pytest.raises(ValueError, match="no line of each of 2 processes"):
        bonnie.parse_all(text, 2)


@pytest.mark.parametrize("text", ["", "1.97" + BONNIE_QUICK[4:], BONNIE_QUICK.replace(",147us", "")])
def test_another_line_than_bonnies_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no line of 50 values in format 1\.98"):
        bonnie.parse(text)


def test_per_character_tests_are_not_asked_for_by_themselves() -> None:
    for parameters in ({}, {"small_files": 0}, {"file_bytes": "5GiB", "chunk_bytes": "32KiB"}):
        argv = bonnie.Bonnie.with_parameters(parameters).command(bench(Guest({}, {})))
        assert "-f" in argv
        size, ram = argv[argv.index("-s") + 1].split(":")[0], argv[argv.index("-r") + 1]
        assert int(size) == 2 * int(ram), "it refuses a file below twice the memory"


def test_dbenchs_report() -> None:
    found = dbench.parse(DBENCH)
    assert found["bytes_per_second"] == pytest.approx(884.36e6)
    assert found["operations"] == {"NTCreateX": 83313, "Close": 61261, "WriteX": 41884, "ReadX": 130364, "Flush": 5843}
    assert (found["clients"], found["latency_longest_ns"]) == (1, 6_233_000)
    with pytest.raises(ValueError, match="no line with its throughput"):
        dbench.parse(DBENCH[: DBENCH.index("Throughput")])


def test_dds_report() -> None:
    found = dd.parse(DD_COPY)
    assert (found["blocks_in"], found["blocks_out"], found["bytes"]) == (16384, 16384, 8 * MIB)
    assert found["bytes_per_second"] == pytest.approx(8 * MIB / 0.0963888)
    assert dd.parse(DD_SMALL)["seconds"] == pytest.approx(3.6994e-05)
    for text in ("", DD_COPY.replace("records out", "records"), DD_COPY.replace(" copied", "")):
        with pytest.raises(ValueError, match="no records in and out, or no bytes copied"):
            dd.parse(text)


def test_fios_report_with_a_note_before_it() -> None:
    text = (RECORDED / "fio-randread.txt").read_text()
    assert text.startswith("note: both iodepth >= 1 and synchronous I/O engine are selected")
    found = fio.parse(text)
    assert (found["read_bytes"], found["written_bytes"], found["requests"], found["error"]) == (MIB, 0, 256, 0)
    assert found["bytes_per_second"] == pytest.approx(found["operations_per_second"] * 4096, rel=0.01)
    assert 0 < found["latency_mean_ns"] < found["latency_p99_ns"]


def test_fios_report_of_reading_and_writing_together() -> None:
    found = fio.parse((RECORDED / "fio-randrw.txt").read_text())
    assert found["read_bytes"] + found["written_bytes"] == MIB
    assert min(found["read_bytes"], found["written_bytes"]) > 0
    assert found["requests"] == 256


@pytest.mark.parametrize("text", ["", "fio: unrecognised option", "{}", '{\n"jobs": []}', '{\n"jobs": [{}]}', "{\n[1"])
def test_what_is_no_report_of_fios_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no report of fio 3"):
        fio.parse(text)


class State:
    """The data directory's state as the harness tells it; what it was asked is kept."""

    def __init__(self, files: int = 0, in_guest: int | None = None, on_host: int = 0) -> None:
        self.reported = {"files": files, "resident_in_guest_bytes": in_guest, "resident_on_host_bytes": on_host}
        self.asked: list[bool] = []

    def __call__(self, evict: bool) -> dict[str, Any]:
        """What it is."""
        self.asked.append(evict)
        return self.reported


def bench(guest: Guest, state: State | None = None) -> Bench:
    """A bench with a data directory."""
    directory = DataDirectory("/data", "ext4", "the host's disk (ext4)")
    return channel_bench(guest, data=directory, data_state=state or State())


def measure(guest: Guest, name: str, state: State, **given: Any) -> Measurement:
    """One trial."""
    return WORKLOADS[name].with_parameters(given).measure(bench(guest, state))


@pytest.mark.parametrize(("left", "right"), [(0, True), (3, False)])
def test_bonnie_must_have_removed_its_files(left: int, right: bool) -> None:
    state = State(files=left)
    measured = measure(Guest({"stdout": BONNIE_QUICK}, {}), "bonnie", state)
    assert (measured.problem is None) == right
    assert measured.check is not None
    assert measured.check["value"] == f"67108864 bytes, 1024 files, {left} left"
    assert measured.result is not None
    assert measured.result["state"] == state.reported
    assert state.asked == [True, False], "cold before, and looked at afterwards"


def test_bonnie_must_have_done_what_was_asked_for() -> None:
    measured = measure(Guest({"stdout": BONNIE_QUICK}, {}), "bonnie", State(), file_bytes="128MiB")
    assert measured.problem is not None
    assert "check value is wrong" in measured.problem


def several(made: dict[str, Any] | None = None, **timed: Any) -> Guest:
    """A guest in which two of bonnie++ run; ``made``: what comes of making their semaphores."""
    return Guest({"stdout": BONNIE_SEVERAL} | timed, {"mkdir": [{}], "tee": [{}], "bonnie++": [made or {}, {}]})


def test_bonnies_processes_have_each_a_folder_and_a_part() -> None:
    guest, state = several(), State()
    measured = measure(guest, "bonnie", state, **SEVERAL)
    assert measured.problem is None
    assert measured.check is not None
    assert measured.check["value"] == "134217728 bytes, 16384 files, 0 left"
    made, given, semaphores, timed, removed = guest.ran
    assert made == ["mkdir", "/data/0", "/data/1"]
    assert given[0] == "tee"
    assert semaphores == ["bonnie++", "-p", "2", "-u", "root"]
    assert timed[:5] == ["xargs", f"--arg-file={given[1]}", "--max-procs=2", "--replace=@", "bonnie++"]
    assert timed[timed.index("-d") + 1] == "/data/@"
    assert timed[timed.index("-s") + 1] == "64:8192:4096:5"
    assert timed[timed.index("-n") + 1] == "8:0:0"
    assert timed[timed.index("-m") + 1] == "@"
    assert removed == ["bonnie++", "-p", "-1", "-u", "root"]
    assert measured.result is not None
    assert measured.result["output"] == BONNIE_SEVERAL
    assert len(measured.result["figures"]["processes"]) == 2


def test_bonnies_semaphores_are_removed_after_a_failure_too() -> None:
    guest = several(status=123, stderr="xargs: bonnie++: No space left\n")
    measured = measure(guest, "bonnie", State(), **SEVERAL)
    assert measured.problem == "xargs failed with exit code 123: xargs: bonnie++: No space left"
    assert guest.ran[-1] == ["bonnie++", "-p", "-1", "-u", "root"]


def test_a_guest_without_semaphores_has_several_processes_skipped() -> None:
    guest = several({"status": 1, "stderr": "Can't get semaphore: Function not implemented\n"})
    with pytest.raises(GuestCannot, match=r"no semaphores .*Function not implemented; leave 'processes' out"):
        measure(guest, "bonnie", State(), **SEVERAL)
    assert not [argv for argv in guest.ran if argv[-1] == "TIMED"]


def test_one_of_bonnie_waits_for_nobody() -> None:
    argv = bonnie.Bonnie.with_parameters({}).command(bench(Guest({}, {})))
    assert argv[0] == "bonnie++"
    assert "-y" not in argv
    one, many = (bonnie.Bonnie.with_parameters({"processes": count, "small_files": 0}) for count in (1, 8))
    assert one.data_bytes() == many.data_bytes(), "the work is the same in all"
    assert many.deadline_seconds() < one.deadline_seconds()


@pytest.mark.parametrize(("reported", "right"), [("", True), ("32K", True), ("8192", False)])
def test_bonnies_chunk_is_held_against_what_it_tells(reported: str, right: bool) -> None:
    """2.00a tells none, whatever it was asked for, and obeys."""
    fields = BONNIE_QUICK.split(",")
    assert fields[6] == ""
    fields[6] = reported
    measured = measure(Guest({"stdout": ",".join(fields)}, {}), "bonnie", State(), chunk_bytes="32KiB")
    assert measured.result is not None
    assert "64:32768" in measured.result["argv"]
    assert (measured.problem is None) == right


def test_dbench_must_have_run_all_clients_at_work() -> None:
    assert measure(Guest({"stdout": DBENCH}, {}), "dbench", State()).problem is None
    for text, clients in ((DBENCH, 2), (DBENCH.replace(" WriteX         41884", " WriteX             0"), 1)):
        assert measure(Guest({"stdout": text}, {}), "dbench", State(), clients=clients).problem is not None


def test_how_far_a_slow_guest_came_in_dbenchs_load_is_told() -> None:
    slow = "".join(line for line in DBENCH.splitlines(keepends=True) if not line.startswith((" Flush", " ReadX")))
    measured = measure(Guest({"stdout": slow}, {}), "dbench", State())
    assert measured.problem is None
    assert measured.result is not None
    assert measured.result["figures"]["kinds_not_reached"] == ["ReadX", "Unlink", "Find", "Flush"]


LOST = """releasing clients
failed to use the barrier semaphore in child 10
Child failed with status 1
"""


class Starts(Guest):
    """A guest in which dbench fails at its start a few times before it works."""

    def __init__(self, lost: int) -> None:
        super().__init__({}, {})
        self.lost, self.begun = lost, 0

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """The program is run; all else as ever."""
        if isinstance(request, RunRequest):
            self.begun += 1
            failed = self.begun <= self.lost
            self.timed = said(int(failed), LOST if failed else DBENCH)
        return super().tell(request)


def test_dbench_that_did_not_get_away_from_its_start_is_begun_again() -> None:
    guest, state = Starts(2), State()
    measured = measure(guest, "dbench", state)
    assert measured.problem is None
    assert measured.result is not None
    assert guest.begun == measured.result["starts"] == 3
    assert state.asked == [True] * 3, "cold each time"


def test_dbench_that_never_gets_away_from_its_start_is_skipped() -> None:
    guest = Starts(100)
    with pytest.raises(GuestCannot, match="removes the semaphore that its processes wait at"):
        measure(guest, "dbench", State())
    assert guest.begun == 5


def copying(copy: str = "abc") -> Guest:
    """A guest in which dd works; ``copy``: the hash of what it made."""
    sums = [{"stdout": "abc  /data/virtoll-image\n"}, {"stdout": f"{copy}  /data/virtoll-copy\n"}]
    others: dict[str, Sequence[dict[str, Any]]] = {
        "stat": [{"stdout": "137961112\n"}],
        "dd": [{}] * 4,
        "sha256sum": sums,
    }
    return Guest({"stderr": DD_COPY}, others)


@pytest.mark.parametrize(("copy", "right"), [("abc", True), ("def", False)])
def test_a_copy_must_be_its_source(copy: str, right: bool) -> None:
    guest = copying(copy)
    measured = measure(guest, "dd", State(), size_bytes="8MiB")
    assert (measured.problem is None) == right
    assert guest.ran[-2] == ["dd", "if=/data/virtoll-image", "of=/data/virtoll-copy", "bs=512", "TIMED"]


def test_an_image_larger_than_what_it_is_made_of_is_made_in_portions() -> None:
    guest = copying()
    measure(guest, "dd", State(), size_bytes="433MiB")
    counts = [int(word[6:]) for argv in guest.ran for word in argv if word.startswith("count=")]
    assert sum(counts) * 65536 == 433 * MIB
    assert len(counts) == 4


def test_a_disc_of_the_papers_size_is_packed_from_disk_to_disk() -> None:
    workload = WORKLOADS["bzip2"]
    needs = workload.with_parameters({"size_bytes": "433MiB", "files": "disk"}).needs()
    assert needs.data_bytes > 2 * 433 * MIB
    assert needs.memory_bytes < 433 * MIB
    assert workload.with_parameters({"size_bytes": "433MiB"}).needs().memory_bytes > 4 * 433 * MIB
    others: dict[str, Sequence[dict[str, Any]]] = {
        "rm": [{}] * 3,
        "stat": [{"stdout": "137961112\n"}],
        "dd": [{}] * 4,
        "bzip2": [{}],
        "sha256sum": [{"stdout": "abc  /data/virtoll-bzip2\n"}] * 2,
    }
    guest, state = Guest({"stderr": "  /data/x:  1:1,  8 bits/byte, 0% saved, 9 in, 9 out.\n"}, others), State()
    measured = measure(guest, "bzip2", state, size_bytes="433MiB", files="disk")
    assert measured.problem is None
    assert ["bzip2", "-9", "--keep", "--verbose", "/data/virtoll-bzip2", "TIMED"] in guest.ran
    assert state.asked == [True], "it is read from the disk"


def test_zeros_need_no_disk_and_are_counted() -> None:
    workload = WORKLOADS["dd"]
    paper = {"source": "zeros", "size_bytes": 117187560 * 512}
    assert workload.with_parameters(paper).needs().data_bytes == 0
    assert workload.with_parameters({}).needs().data_bytes == 64 * MIB
    guest = Guest({"stderr": DD_COPY}, {})
    measured = measure(guest, "dd", State(), source="zeros", size_bytes="8MiB")
    assert measured.check == {"value": "8388608 bytes", "expected": "8388608 bytes", "ok": True}
    assert guest.ran == [["dd", "if=/dev/zero", "of=/dev/null", "bs=512", "count=16384", "TIMED"]]


def running(engine: Sequence[dict[str, Any]] = (), direct: dict[str, Any] | None = None) -> Guest:
    """A guest in which fio works, after what ``engine`` says of its engine and ``direct`` of O_DIRECT."""
    report = (RECORDED / "fio-randrw.txt").read_text()
    return Guest({"stdout": report}, {"fio": [*engine, {}], "rm": [{}] * 2, "dd": [direct or {}]})


def test_fio_must_have_moved_all_bytes() -> None:
    guest, state = running(), State()
    assert measure(guest, "fio", state, pattern="randrw", size_bytes="1MiB").problem is None
    assert state.asked == [True], "cold once the file is laid out"
    assert [argv[-1] for argv in guest.ran] == ["--create_only=1", "TIMED"]
    assert measure(running(), "fio", State(), pattern="randrw", size_bytes="2MiB").problem is not None


def test_fios_jobs_have_each_a_part_of_the_one_file() -> None:
    guest = running()
    assert measure(guest, "fio", State(), pattern="randrw", size_bytes="1MiB", jobs=4).problem is None
    laid_out, timed = guest.ran
    assert "--size=1048576" in laid_out
    assert not any(word.startswith("--numjobs") for word in laid_out), "one file, for all"
    assert {"--size=262144", "--numjobs=4", "--offset_increment=262144", "--group_reporting"} <= set(timed)


@pytest.mark.parametrize(
    "said",
    [
        "fio: pid=12, err=38/file:engines/io_uring.c:1351, func=io_queue_init, error=Function not implemented",
        "fio: io_queue_init: Operation not permitted",
    ],
)
def test_a_guest_without_io_uring_has_the_trial_skipped_with_its_words(said: str) -> None:
    guest = running([{"status": 1, "stdout": f"{said}\n"}])
    with pytest.raises(GuestCannot, match=r"this guest has no io_uring: .*; choose engine: psync") as raised:
        measure(guest, "fio", State(), engine="io_uring", size_bytes="1MiB")
    assert raised.value.kind == "unsupported"
    assert not [argv for argv in guest.ran if argv[-1] == "TIMED"]


def test_an_engine_that_works_is_used() -> None:
    guest = running([{}])
    measure(guest, "fio", State(), engine="libaio", depth=4, size_bytes="1MiB")
    assert {"--ioengine=libaio", "--iodepth=4"} <= set(guest.ran[-1])


@pytest.mark.parametrize(
    ("state", "ignored"),
    [
        (State(in_guest=None, on_host=MIB), True),  # gVisor: its files are the host's
        (State(in_guest=None, on_host=0), False),
        (State(in_guest=MIB, on_host=MIB), True),
        (State(in_guest=0, on_host=MIB), False),  # QEMU with cache=writeback: past the guest's cache, into the host's
    ],
)
def test_o_direct_that_is_ignored_is_found_out_by_the_page_cache(state: State, ignored: bool) -> None:
    guest = running()
    if not ignored:
        assert measure(guest, "fio", state, direct=True, pattern="randrw", size_bytes="1MiB").problem is None
        assert "--direct=1" in guest.ran[-1]
        return
    with pytest.raises(GuestCannot, match=r"takes O_DIRECT and ignores it: of 1048576 bytes .* 1048576 are in the"):
        measure(guest, "fio", state, direct=True, size_bytes="1MiB")


def test_o_direct_that_is_refused_is_told() -> None:
    guest = running(direct={"status": 1, "stderr": "dd: failed to open '/data/x': Invalid argument\n"})
    with pytest.raises(GuestCannot, match="opens no file with O_DIRECT on ext4: dd: failed to open"):
        measure(guest, "fio", State(), direct=True, size_bytes="1MiB")


def test_what_fio_needs_is_declared() -> None:
    needs = WORKLOADS["fio"].with_parameters({"engine": "io_uring", "direct": True}).needs()
    assert needs.features == {"io-uring", "direct-io"}
    assert fio.Fio(fio.FioParameters()).needs().features == frozenset()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("fio", {"depth": 4}),
        ("fio", {"size_bytes": 10_000}),
        ("fio", {"size_bytes": "1MiB", "jobs": 3}),
        ("dd", {"size_bytes": 1000}),
        ("dd", {"size_bytes": 66048}),
        ("bonnie", {"small_files": 100}),
        ("bonnie", {"file_bytes": "3MiB"}),
        ("bonnie", {"file_bytes": "6MiB", "small_files": 0, "processes": 2}),
        ("bonnie", {"small_files": 1024, "processes": 2}),
        ("zfg", {"rounds": 0}),
    ],
)
def test_sizes_that_the_tools_cannot_do_are_refused(name: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WORKLOADS[name].with_parameters(given)


class Agent(Guest):
    """Answers the agent's own job."""

    def tell(self, request: Request[Message]) -> Mapping[str, Any]:
        """The job, and what it was given."""
        if not isinstance(request, RunRequest):
            return {}
        self.given = request
        self.channel_marks += (ChannelMark("start", 1000, 1000), ChannelMark("end", 50_001_000, 50_001_000))
        result = {"size_bytes": 1000, "write_ns": [100, 200], "sync_ns": [300, 400]}
        return {"result": result, "check": "2 rounds, 1000 zeros"}


@pytest.mark.parametrize(("rounds", "right"), [(2, True), (3, False)])
def test_zfgs_rate_is_over_its_rounds(rounds: int, right: bool) -> None:
    guest, state = Agent({}, {}), State()
    measured = measure(guest, "zfg", state, size_bytes=1000, rounds=rounds, dump_bytes=10)
    assert guest.given.job == "zfg"
    assert guest.given.parameters == {
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
