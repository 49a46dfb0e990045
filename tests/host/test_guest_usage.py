"""What guests cost their host, read from /proc: which processes are a guest's, what they hold, what they have used."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.present import present

from virtoll.host import guest_usage
from virtoll.host.guest_usage import GuestProcesses, cpu_around, read_cpu, read_footprint
from virtoll.runfolder.guest_records import HostCpu
from virtoll.stats.guests import cpus_used, used_ns

MIB = 2**20
Rows = Sequence[tuple[int, int, str]]


def made_proc(root: Path, rows: Rows) -> None:
    """A /proc of (process, parent, name); each holds its number in KiB, with 4 KiB of page tables."""
    for pid, parent, name in rows:
        folder = root / str(pid)
        folder.mkdir()
        words = ["S", str(parent), *["0"] * 9, "100", "50", "7", "3", "20", "0", "1", "0", "4242"]
        (folder / "stat").write_text(f"{pid} ({name}) {' '.join(words)}\n")
        (folder / "status").write_text(f"Name:\t{name}\nVmPTE:\t       4 kB\n")
        (folder / "smaps_rollup").write_text(f"00-ff ---p [rollup]\nRss: {2 * pid} kB\nPss: {pid} kB\n")


ENGINE: Rows = [
    (1, 0, "lab"),
    (10, 1, "dockerd"),
    (11, 10, "other) child"),
    (20, 1, "docker run"),
    (30, 1, "shim"),
    (31, 30, "init"),
    (32, 31, "job"),
    (40, 1, "neighbour's shim"),
    (41, 40, "init"),
]
DAEMON = (("dockerd", 10),)


@pytest.mark.parametrize(
    ("guest", "own", "shared"),
    [
        (GuestProcesses(20), {20}, set()),
        (GuestProcesses(30), {30, 31, 32}, set()),
        (GuestProcesses(20, 31), {20, 30, 31, 32}, set()),
        (GuestProcesses(20, 31, DAEMON), {20, 30, 31, 32}, {10, 11}),
        (GuestProcesses(20, 11, DAEMON), {20, 11}, {10}),
        (GuestProcesses(99), set(), set()),
    ],
    ids=["no child", "below what was started", "with a shim", "with a daemon", "below a daemon", "gone"],
)
def test_a_guests_processes_are_its_own_and_a_daemon_is_named_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guest: GuestProcesses, own: set[int], shared: set[int]
) -> None:
    made_proc(tmp_path, ENGINE)
    monkeypatch.setattr(guest_usage, "PROC", tmp_path)
    found = read_footprint(guest)
    assert {one.pid for one in found.processes} == own
    assert {one.pid for part in found.shared.values() for one in part} == shared
    assert found.held_bytes() == (sum(pid + 4 for pid in own) * 1024 if own else None)
    assert {one.pid for one in read_cpu(guest).processes} == own


def test_what_cannot_be_read_is_missing_and_never_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_proc(tmp_path, ENGINE)
    (tmp_path / "31" / "smaps_rollup").unlink()
    monkeypatch.setattr(guest_usage, "PROC", tmp_path)
    found = read_footprint(GuestProcesses(30))
    by_pid = {one.pid: one for one in found.processes}
    assert (by_pid[31].pss_bytes, by_pid[31].page_tables_bytes) == (None, 4096)
    assert (by_pid[30].pss_bytes, by_pid[30].swap_pss_bytes) == (30 * 1024, None)
    assert found.held_bytes() is None
    assert found.charged_bytes is None
    assert found.files_bytes is None


@contextmanager
def child(script: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that waits for a line, does the script, says so, and waits for the next."""
    lines = f"import os, time\nprint('up', flush=True)\ninput()\n{script}\nprint('done', flush=True)\ninput()\n"
    with subprocess.Popen(
        [sys.executable, "-c", lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert present(process.stdout).readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


def go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    assert present(process.stdout).readline() == "done\n"


def test_memory_that_is_taken_is_found_with_its_page_tables() -> None:
    with child(f"kept = bytearray(b'x' * {64 * MIB})") as process:
        guest = GuestProcesses(process.pid)
        before = read_footprint(guest)
        go(process)
        after = read_footprint(guest)
    (first,), (last,) = before.processes, after.processes
    assert first.pid == last.pid == process.pid
    # Its share of files (the interpreter's) is smaller for each other Python that has begun in between.
    assert present(last.pss_anonymous_bytes) - present(first.pss_anonymous_bytes) >= 64 * MIB
    assert present(last.pss_bytes) >= present(last.pss_anonymous_bytes)
    assert after.held_bytes() == present(last.pss_bytes) + present(last.page_tables_bytes)
    tables = present(last.page_tables_bytes) - present(first.page_tables_bytes)
    assert tables >= 64 * MIB // 4096 * 8 * 0.9, "an entry of eight bytes for each page"


# A tenth of a second of CPU time.
BURN = "[None for start in [time.process_time()] for _ in iter(lambda: time.process_time() - start < 0.1, False)]"


def test_cpu_time_is_found_also_of_children_that_were_reaped() -> None:
    lines = [BURN, "child = os.fork()", f"if child == 0: {BURN}; os._exit(0)", "os.waitpid(child, 0)"]
    with child("\n".join(lines)) as process, cpu_around(GuestProcesses(process.pid)) as record:
        go(process)
    assert record is not None
    (before,), (after,) = present(record.used.before).processes, present(record.used.after).processes
    assert before.started_ticks == after.started_ticks
    assert (after.cpu_ns or 0) - (before.cpu_ns or 0) >= 100_000_000
    reaped = after.children_user_ns - before.children_user_ns + after.children_system_ns - before.children_system_ns
    assert reaped >= 90_000_000, "the kernel's tick is ten milliseconds"


def test_what_is_measured_is_read_apart_from_the_rest_of_its_trial() -> None:
    lines = [BURN, "print('done', flush=True)", "input()", BURN]
    with child("\n".join(lines)) as process, cpu_around(GuestProcesses(process.pid)) as record:
        assert record is not None
        go(process)
        with record.measuring():
            go(process)
        with pytest.raises(RuntimeError), record.measuring():
            raise RuntimeError
    (span,) = record.used.measured
    used = present(used_ns(HostCpu(span.before, span.after)))
    assert 100_000_000 <= used <= present(used_ns(record.used)) - 100_000_000
    assert cpus_used(record.used) == used / (span.after.monotonic_ns - span.before.monotonic_ns)


def test_a_guest_that_is_lost_has_no_reading_after() -> None:
    reading = cpu_around(GuestProcesses(os.getpid()))
    kept = reading.__enter__()
    assert not reading.__exit__(RuntimeError, RuntimeError(), None)
    assert kept is not None
    assert present(kept.used.before).processes
    assert kept.used.after is None
    with cpu_around(None) as nothing:
        assert nothing is None


def test_files_count_as_they_are_stored(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "file").write_bytes(os.urandom(MIB))
    with (tmp_path / "hole").open("wb") as hole:
        hole.truncate(MIB)
    os.sync()
    found = present(read_footprint(GuestProcesses(os.getpid(), folder=tmp_path)).files_bytes)
    assert MIB <= found < 2 * MIB


def test_what_is_available_is_bounded_by_the_own_cgroup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "self").mkdir()
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")
    (tmp_path / "self" / "cgroup").write_text("0::/box\n")
    monkeypatch.setattr(guest_usage, "PROC", tmp_path)
    group = tmp_path / "groups" / "box"
    group.mkdir(parents=True)
    (group.parent / "cgroup.controllers").write_text("memory cpu\n")
    monkeypatch.setattr("virtoll.lab.residue.CGROUP_ROOT", group.parent)
    (group / "memory.max").write_text("max\n")
    (group / "memory.current").write_text("1024\n")
    assert guest_usage.available_bytes() == 2048 * 1024
    (group / "memory.max").write_text(f"{MIB}\n")
    assert guest_usage.available_bytes() == MIB - 1024
    (tmp_path / "meminfo").write_text("MemTotal: 4096 kB\n")
    (group / "memory.max").unlink()
    assert guest_usage.available_bytes() is None
