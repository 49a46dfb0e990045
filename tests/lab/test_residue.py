"""What can outlive a lab: recorded before it is made, never swept while somebody holds it, swept afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import GuestError
from virtoll.lab import cleanups, residue
from virtoll.lab.cleanups import Cleanup
from virtoll.lab.launch import inside_lab, sweep_dead_labs
from virtoll.lab.state import state_directory

pytestmark = pytest.mark.usefixtures("state")


@pytest.mark.root
def test_the_state_folder_is_the_users_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("VIRTOLL_STATE")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert state_directory() == Path("/run/virtoll")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert state_directory().name == "virtoll-1000", "another user's is not used"
    os.chown(runtime, 1000, 1000)
    assert state_directory() == runtime / "virtoll"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert state_directory().name == "virtoll-1000"


def test_records_are_listed_while_the_last_lab_takes_their_folder_away(state: Path) -> None:
    """Another run ends at any moment; nothing is there then, and that is no error."""
    over = threading.Event()

    def come_and_go() -> None:
        while not over.is_set():
            (state / "labs").mkdir(mode=0o700, parents=True, exist_ok=True)
            (state / "labs").rmdir()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        assert all(residue.record_folders() == [] for _ in range(2000))
    finally:
        over.set()
        other.join()


def test_a_lab_that_lives_is_not_swept(state: Path) -> None:
    record, lock = residue.create_record()
    assert residue.LAB_ID.match(record.lab_id)
    assert list(residue.dead_labs()) == []
    assert sweep_dead_labs() == []
    assert record.folder.is_dir()
    os.close(lock)
    assert sweep_dead_labs() == [str(record.folder)]
    assert not state.exists()
    assert sweep_dead_labs() == []


def test_a_lab_lives_as_long_as_anybody_holds_its_lock() -> None:
    record, lock = residue.create_record()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(lock,)) as holder:
        os.close(lock)
        assert list(residue.dead_labs()) == []
        holder.communicate()
    assert [dead.lab_id for dead in residue.dead_labs()] == [record.lab_id]


def test_a_record_is_taken_by_one_sweeper_at_a_time() -> None:
    _, lock = residue.create_record()
    os.close(lock)
    for _ in residue.dead_labs():
        assert list(residue.dead_labs()) == []


@pytest.mark.parametrize("name", ["", "..", "virtoll-", "virtoll-0123", "virtoll-0123456789ab/..", "system.slice"])
def test_only_a_labs_own_folder_is_ever_named(tmp_path: Path, name: str) -> None:
    (tmp_path / "memory").mkdir()
    assert residue.cgroup_folders(name, tmp_path) == []


def test_a_labs_folders_are_found_in_each_hierarchy(tmp_path: Path) -> None:
    lab = "virtoll-0123456789ab"
    for hierarchy in ("memory", "cpu", "other"):
        (tmp_path / hierarchy).mkdir()
    (tmp_path / "memory" / lab).mkdir()
    (tmp_path / "cpu" / lab).mkdir()
    (tmp_path / "cpu" / "virtoll-ba9876543210").mkdir()
    assert sorted(residue.cgroup_folders(lab, tmp_path)) == [tmp_path / "cpu" / lab, tmp_path / "memory" / lab]
    assert residue.cgroup_folders(lab, tmp_path / "not there") == []


@pytest.mark.root
@pytest.mark.lab
def test_cgroup_folders_of_a_dead_lab_are_removed_with_those_below_them() -> None:
    hierarchy = next((path for path in (residue.CGROUP_ROOT / "pids", residue.CGROUP_ROOT) if path.is_dir()), None)
    if hierarchy is None or inside_lab() is not None:
        pytest.skip("no cgroup hierarchy here")
    record, lock = residue.create_record()
    folder = hierarchy / record.lab_id
    (folder / "guest" / "below").mkdir(parents=True)
    os.close(lock)
    assert sweep_dead_labs() == [str(folder), str(record.folder)]
    assert not folder.exists()


def test_what_a_lab_promised_is_done_newest_first_and_not_what_it_withdrew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, lock = residue.create_record()
    folder = os.open(record.folder, os.O_RDONLY | os.O_DIRECTORY)
    monkeypatch.setenv(residue.RECORD_VARIABLE, str(folder))
    said = tmp_path / "said"
    (tmp_path / "note").write_text(f'#!/bin/sh\necho "$1" >> {said}\n', encoding="utf-8")
    (tmp_path / "note").chmod(0o755)
    known = (Cleanup("note {guest}"), Cleanup("/no/such/program {guest}"))
    monkeypatch.setattr(cleanups, "CLEANUPS", known)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    guest = f"{record.lab_id}-guest"
    for word in ("first", "withdrawn", "last"):
        number = residue.note_command(["note", f"{guest}-{word}"])
        if word == "withdrawn":
            residue.drop_command(number)
    residue.note_command(["/no/such/program", guest])
    os.close(folder)
    os.close(lock)
    sweep_dead_labs()
    assert said.read_text().split() == [f"{guest}-last", f"{guest}-first"]
    assert not record.folder.exists()


def test_without_a_record_nothing_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(residue.RECORD_VARIABLE, raising=False)
    with refused("xl", "record", error=GuestError):
        residue.note_command(["xl", "destroy", "virtoll-0123456789ab-x"])
