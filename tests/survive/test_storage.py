"""What holds when the disk does not: full, read-only, failing, without power; two controllers; a clock that is set.

The long form is ``make survive``. Each call here is a process with a mount namespace of its own.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import struct
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from benches.survive import block_inside, block_log, block_replay, nfs_share
from benches.survive.faulty_disk import Change
from benches.survive.power_loss import Crash, crashes, not_durable, tree
from benches.survive.storage import ROWS
from benches.survive.storage_writers import FAKETIME
from tests.support.commands import DEADLINE_SECONDS, environment
from tests.support.facts import assert_facts, refused
from tests.support.repository import ROOT
from tests.support.synthetic_run import Truth, run_data, write

from virtoll.errors import StorageError, UsageError, disk_failure
from virtoll.runfolder import jsonlines, packing
from virtoll.runfolder.packing import pack
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences, write_sums
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.writer import is_written, writing
from virtoll.stats.analysis import analyse
from virtoll.stats.remaining import block_seconds

pytestmark = pytest.mark.slow
COSTS: dict[str, dict[str, float]] = {"native": {}, "native-again": {}, "netns": {}}
_LIBRARY = list(Path("/usr/lib").glob("*/libfuse3.so*"))
needs_fuse = pytest.mark.skipif(
    not (os.access("/dev/fuse", os.R_OK | os.W_OK) and _LIBRARY and os.geteuid() == 0),
    reason="needs root, /dev/fuse and libfuse3 for a failing disk",
)
needs_faketime = pytest.mark.skipif(not FAKETIME, reason="needs Debian's libfaketime for a clock that is set")


def survive(*arguments: str) -> str:
    """The table of some rows; all must have held."""
    ended = subprocess.run(
        [sys.executable, "benches/survive", "storage", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@needs_fuse
@pytest.mark.timeout(DEADLINE_SECONDS)
def test_a_fault_of_the_disk_costs_no_finished_trial() -> None:
    """It fails, is full, has two controllers, fails under a command, and has lost power."""
    rows = ("eio-", "read-only", "full", "two", "merge-", "power-merge")
    chosen = [word for row in rows for word in ("--only", row)]
    table = survive("--seed", "18", "--count", "1", *chosen)
    told = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(told) == 2 * sum(name.startswith(rows) for name in ROWS) + 2, "each row as it comes, and in the table"


@needs_fuse
@needs_faketime
def test_nothing_rests_on_a_clock_that_is_set() -> None:
    table = survive("--seed", "18", "--count", "2", "--only", "clock")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    by_clock = {row[0]: row[1:7] for row in rows if row[0].startswith("clock")}
    during, between = ["2", "2", "16", "0", "0", "0"], ["1", "1", "8", "0", "0", "0"]
    assert sorted(by_clock.values()) == sorted([during, between])


NEW_FILE = [
    Change("create", node=1, folder=0, name="a"),
    Change("write", node=1, offset=0, data=b"whole"),
    Change("fsync", node=1),
]


def test_a_name_is_durable_by_its_folders_sync_alone() -> None:
    assert not_durable(NEW_FILE) == [0]
    assert tree(NEW_FILE, Crash(3, frozenset({0}))) == {}
    assert not_durable([*NEW_FILE, Change("fsync", node=0)]) == []


def test_every_legal_loss_of_a_replacement_without_a_sync_is_met() -> None:
    """The classic fault: a file that was not synced takes another's place, which then is empty."""
    old = [*NEW_FILE, Change("fsync", node=0)]
    put = [
        Change("create", node=2, folder=0, name="a.new"),
        Change("write", node=2, offset=0, data=b"new"),
        Change("rename", node=2, folder=0, name="a.new", to_folder=0, to_name="a"),
    ]
    held = {tree([*old, *put], one).get("a") for one in crashes([*old, *put], random.Random(1), len(old))}
    assert held == {b"whole", b"new", b"", b"n", b"\0\0\0"}
    safe = [*put[:2], Change("fsync", node=2), put[2]]
    held = {tree([*old, *safe], one).get("a") for one in crashes([*old, *safe], random.Random(1), len(old))}
    assert held == {b"whole", b"new"}


FLUSH, FUA, MARK = 1, 2, 8


def written_log(file: Path, *entries: tuple[int, int, bytes]) -> Path:
    """A log as dm-log-writes leaves it: sector, flags, and data or the mark of each entry."""
    parts = [struct.pack("<QQQI", 0x6A736677736872, 1, len(entries), 512).ljust(512, b"\0")]
    for sector, flags, data in entries:
        inline = data if flags & MARK else b""
        sectors = 0 if inline else len(data) // 512
        parts.append((struct.pack("<QQQQ", sector, sectors, flags, len(inline)) + inline).ljust(512, b"\0"))
        parts.append(b"" if inline else data)
    file.write_bytes(b"".join(parts))
    return file


def test_every_legal_loss_of_blocks_is_met_and_no_other(tmp_path: Path) -> None:
    """Two writes, a flush that makes them durable, a mark, a write of two blocks, one through the cache."""
    new, wide = b"n" * 4096, b"w" * 8192
    log = written_log(
        tmp_path / "log",
        (0, 0, new),
        (8, 0, new),
        (0, FLUSH, b""),
        (0, MARK, b"told-0"),
        (16, 0, wide),
        (0, FUA, b"f" * 4096),
    )
    every = block_log.entries(log)
    assert [one.mark for one in every if one.mark] == ["told-0"]
    disk = block_log.Disk(bytes(4 * 4096), every)
    held: dict[tuple[str, ...], set[str]] = {}
    for state in block_log.states(every, random.Random(1), others=20):
        letters = "".join(chr(part[0] or 48) for part in zip(*[iter(disk.at(state))] * 4096, strict=True))
        held.setdefault(state.told, set()).add(letters)
    assert held[()] == {"0000", "n000", "0n00", "nn00"}, "until the flush either may be lost"
    assert held["told-0",] == {"nn00", "nnw0", "nnww", "fn00", "fnw0", "fnww"}, (
        "after it neither, nor what went through"
    )


def test_a_damaged_log_of_blocks_is_reported(tmp_path: Path) -> None:
    log = written_log(tmp_path / "log", (0, 0, b"n" * 4096))
    whole = log.read_bytes()
    for part, fact in ((whole[:-1], "last entry"), (b"x" + whole[1:], "dm-log-writes")):
        log.write_bytes(part)
        with refused(fact, error=ValueError):
            block_log.entries(log)


def test_states_are_drawn_of_each_thing_that_went_on() -> None:
    """A command that writes little has few states among many."""
    told = [(), *[("begun-report",)] * 90, *[("begun-report", "over-report", "begun-new")] * 3]
    found = [block_log.State(length, length, told=marks) for length, marks in enumerate(told)]
    drawn = block_inside.drawn(found, random.Random(1), 2)
    assert Counter(one.told[-1] if one.told else "" for one in drawn) == {"": 1, "begun-report": 2, "begun-new": 2}
    assert [one.length for one in drawn] == sorted(one.length for one in drawn), "a disk goes forward only"
    assert block_inside.drawn(found, random.Random(1), 0) == found


@pytest.mark.parametrize(
    ("name", "script"), [(name, text) for one in (block_replay, nfs_share) for name, text in one.SCRIPTS.items()]
)
def test_the_scripts_in_the_machine_are_ones_that_a_shell_reads(name: str, script: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(script, encoding="utf-8")
    finished = subprocess.run(["bash", "-n", tmp_path / name], capture_output=True, text=True, check=False)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_the_next_record_takes_the_place_of_a_torn_one(tmp_path: Path) -> None:
    file = tmp_path / "commands.jsonl"
    jsonlines.append(file, jsonlines.encode({"a": 1}))
    with file.open("ab") as opened:
        opened.write(b'{"a": 2')
    jsonlines.append(file, jsonlines.encode({"a": 3}))
    assert [line for _, line in jsonlines.read(file)] == [b'{"a":1}', b'{"a":3}']


def test_a_lock_in_the_folder_is_one_for_all_hosts(tmp_path: Path) -> None:
    """Who cannot see a lock of the folder itself, as over NFS, meets the file's; a killed writer's is taken over."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / WRITER).touch()
    assert not is_written(folder)
    with (folder / WRITER).open("r+") as elsewhere:
        fcntl.flock(elsewhere, fcntl.LOCK_EX)
        assert is_written(folder)
        with refused(folder, error=UsageError), writing(folder):
            pass
    with writing(folder):
        assert is_written(folder)
        (folder / "trials.jsonl").write_text("{}\n", encoding="utf-8")
        write_sums(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["SHA256SUMS", "trials.jsonl"]
    assert differences(folder) == ()


def test_a_writer_whose_run_another_host_took_over_changes_nothing_more(tmp_path: Path) -> None:
    """As over NFS after a cut: the lock is the other host's by now, and so is the word in its file."""
    folder = tmp_path / "run"
    with writing(folder):
        jsonlines.append(folder / "trials.jsonl", jsonlines.encode({"trial": 0}))
        jsonlines.replace(folder / "state.json", {"state": "running"})
        (folder / WRITER).write_bytes(b"the other's")
        changes: tuple[Callable[[], None], ...] = (
            lambda: jsonlines.append(folder / "trials.jsonl", jsonlines.encode({"trial": 1})),
            lambda: jsonlines.replace(folder / "state.json", {"state": "complete"}),
            lambda: jsonlines.remove(folder / "state.json"),
        )
        for change in changes:
            with refused(folder, error=StorageError):
                change()
    assert (folder / "trials.jsonl").read_bytes() == b'{"trial":0}\n'
    assert "running" in (folder / "state.json").read_text(encoding="utf-8")
    assert (folder / WRITER).read_bytes() == b"the other's", "its lock is not taken away"
    with writing(folder):
        jsonlines.append(folder / "trials.jsonl", jsonlines.encode({"trial": 1}))
    assert not (folder / WRITER).exists()


def test_where_a_finished_run_has_no_room_for_its_digests_it_goes_on(tmp_path: Path) -> None:
    write(tmp_path / "run", Truth(costs=COSTS, blocks=1))
    run = RunFolder.open(tmp_path / "run")
    run.set_state("running", None)
    (run.path / "SHA256SUMS.new").mkdir()  # nothing can be written there
    with refused("SHA256SUMS", error=StorageError):
        run.set_state("complete", None)
    assert run.state().state == "interrupted"
    (run.path / "SHA256SUMS.new").rmdir()
    run.set_state("complete", None)
    assert differences(run.path) == ()


def test_a_run_that_changes_while_it_is_packed_makes_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    write(run, Truth(costs=COSTS, blocks=1))
    listed = packing._listed  # the only moment between the list of files and their reading

    def then_it_grows(folder: Path, opened: RunFolder) -> packing.Pack:
        found = listed(folder, opened)
        with (folder / "trials.jsonl").open("ab") as file:
            file.write(b"{}\n")
        return found

    monkeypatch.setattr(packing, "_listed", then_it_grows)
    with refused(run / "trials.jsonl", error=UsageError):
        pack(run, tmp_path / "run.zst")
    assert not (tmp_path / "run.zst").exists()


def test_a_disk_that_fails_at_a_read_is_named_with_its_path() -> None:
    told = disk_failure(OSError(errno.EIO, os.strerror(errno.EIO), "/data/run"))
    assert_facts(str(told), "/data/run", "Input/output error")
    assert disk_failure(OSError(errno.EACCES, "no", "/data/run")) is None
    assert disk_failure(OSError(errno.EIO, "no")) is None


def test_trial_order_and_block_length_do_not_follow_a_clock_that_was_set() -> None:
    data = run_data(Truth(costs=COSTS, blocks=3))
    second = min(one.trial for one in data.trials if one.block == 1) + 1

    def back(moment: int | None, trial: int) -> int | None:
        return moment if moment is None or trial < second else moment - 3600 * 10**9

    trials = tuple(
        one.replace(
            started_realtime_ns=back(one.started_realtime_ns, one.trial),
            ended_realtime_ns=back(one.ended_realtime_ns, one.trial),
        )
        for one in data.trials
    )
    cells = analyse(replace(data, trials=trials)).cells.values()
    places = {one.position: one.trial for cell in cells for one in cell.observations}
    assert [places[place] for place in sorted(places)] == sorted(places.values())
    first = data.fitness[0]
    before = first.replace(after_trial=second - 1, realtime_ns=10**18, monotonic_ns=10**9)
    after = first.replace(after_trial=second, realtime_ns=10**18 - 3600 * 10**9, monotonic_ns=2 * 10**9)
    seconds = block_seconds(trials, (before, after))
    assert seconds is not None
    assert seconds == block_seconds([one for one in data.trials if one.block != 1])
