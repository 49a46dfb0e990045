"""Room for workloads' files on the host's disk: found or refused, forgotten by the page cache, and gone afterwards."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.facts import refused

from virtoll.errors import GuestError
from virtoll.lab import cleanups, data, residue
from virtoll.lab.cleanups import Cleanup
from virtoll.lab.data import SPARED_BYTES, file_system_of, make_disk, make_folder, resident_bytes

LAB = "virtoll-0123456789ab"
MIB = 2**20


def run(argv: Sequence[str], _role: str) -> str:
    """As the lab runs a program."""
    finished = subprocess.run(list(argv), capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        raise GuestError(finished.stderr.strip())
    return finished.stdout


def test_a_folder_is_below_the_labs_own_and_goes_with_it(tmp_path: Path) -> None:
    one, two = (make_folder(LAB, MIB, 0, tmp_path) for _ in range(2))
    assert one.folder is not None
    assert two.folder is not None
    assert one.folder != two.folder
    assert one.folder.parent == tmp_path / LAB
    assert (tmp_path / LAB).stat().st_mode & 0o777 == 0o700, "nobody else is to look into it"
    (one.folder / "deep").mkdir()
    (one.folder / "deep" / "file").write_bytes(b"x")
    one.remove()
    assert [entry.name for entry in (tmp_path / LAB).iterdir()] == [two.folder.name]
    two.remove()
    two.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_was_written_is_on_the_disk_and_out_of_memory(tmp_path: Path) -> None:
    room = make_folder(LAB, MIB, 0, tmp_path)
    assert room.folder is not None
    (room.folder / "link").symlink_to("/etc/passwd")
    (room.folder / "written").write_bytes(os.urandom(MIB + 5))
    assert room.resident() == MIB + 5
    if not room.on_disk:
        pytest.skip(f"{tmp_path} is in memory ({room.file_system})")
    assert room.evict() == 0
    (room.folder / "written").read_bytes()
    assert room.resident() == MIB + 5


def test_a_look_takes_nothing_into_memory(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    with file.open("wb") as made:
        made.truncate(64 * MIB)
        made.write(b"x" * 4096)
    with file.open("rb", buffering=0) as opened:
        assert resident_bytes(opened.fileno()) == 4096
        assert resident_bytes(opened.fileno()) == 4096


def test_a_disk_has_an_empty_file_system_and_no_name(tmp_path: Path) -> None:
    room = make_disk(LAB, 8 * MIB, run, 0, tmp_path)
    try:
        assert room.descriptor is not None
        assert list(tmp_path.iterdir()) == []
        status = os.fstat(room.descriptor)
        assert (status.st_nlink, status.st_size > 8 * MIB) == (0, True)
        assert status.st_blocks * 512 < status.st_size // 2, "its file is sparse"
        superblock = os.pread(room.descriptor, 1024, 1024)
        assert superblock[56:58] == b"\x53\xef", "ext4's magic number"
        listed = subprocess.run(
            ["debugfs", "-R", "ls -p /", f"/proc/self/fd/{room.descriptor}"],
            capture_output=True,
            text=True,
            check=True,
            pass_fds=(room.descriptor,),
        )
        assert [line.split("/")[5] for line in listed.stdout.split() if line] == [".", "..", "lost+found"]
    finally:
        room.remove()
    assert room.descriptor is None


@pytest.mark.parametrize("promised", [0, 2**60])
def test_a_folder_with_too_little_room_is_named_with_what_is_needed(tmp_path: Path, promised: int) -> None:
    wanted = MIB if promised else 2**60
    with refused(tmp_path, f"{(wanted + promised) >> 20} MiB", f"{SPARED_BYTES >> 20} MiB", error=GuestError):
        make_folder(LAB, wanted, promised, tmp_path)
    with refused(tmp_path, f"{SPARED_BYTES >> 20} MiB", error=GuestError):
        make_disk(LAB, wanted, run, promised, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_and_a_program_that_fails_are_named(tmp_path: Path) -> None:
    with refused(tmp_path / "none", "No such file", "writable", error=GuestError):
        make_folder(LAB, MIB, 0, tmp_path / "none")

    def failing(_argv: Sequence[str], _role: str) -> str:
        raise GuestError("mke2fs: not found on this host; install it")

    with refused("data disk", "mke2fs", "not found", error=GuestError):
        make_disk(LAB, MIB, failing, 0, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_mount_that_holds_a_path_is_the_longest_and_last(tmp_path: Path) -> None:
    lines = (
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:9 / /var rw - xfs /dev/sdb rw\n"
        "3 2 0:10 / /var/tmp rw shared:1 - tmpfs tmpfs rw\n4 2 0:11 / /var/tm rw - btrfs /dev/sdc rw\n"
    )
    (tmp_path / "mountinfo").write_text(lines)
    found = [file_system_of(Path(path), tmp_path / "mountinfo") for path in ("/home", "/var/lib", "/var/tmp/x")]
    assert found == ["ext4", "xfs", "tmpfs"]
    assert not data.LocalVolume(1, "tmpfs").on_disk


@pytest.mark.usefixtures("state")
def test_files_of_a_dead_lab_are_swept_and_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, lock = residue.create_record()
    monkeypatch.setattr(residue.disk_folder, "__defaults__", (tmp_path,))
    room = make_folder(record.lab_id, MIB, 0, tmp_path)
    assert room.folder is not None
    (room.folder / "left").write_bytes(b"x")
    other = make_folder("virtoll-ba9876543210", MIB, 0, tmp_path)
    os.close(lock)
    removed = [name for dead in residue.dead_labs() for name in residue.sweep(dead)]
    assert str(tmp_path / record.lab_id) in removed
    assert not (tmp_path / record.lab_id).exists()
    assert other.folder is not None
    assert other.folder.is_dir()


@pytest.mark.usefixtures("state")
def test_what_a_guest_writes_until_its_product_ends_it_is_swept_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, lock = residue.create_record()
    monkeypatch.setattr(residue.disk_folder, "__defaults__", (tmp_path,))
    folder = os.open(record.folder, os.O_RDONLY | os.O_DIRECTORY)
    monkeypatch.setenv(residue.RECORD_VARIABLE, str(folder))
    monkeypatch.setattr(cleanups, "CLEANUPS", (Cleanup("mkdir --parents {folder}"),))
    residue.note_command(["mkdir", "--parents", str(make_folder(record.lab_id, MIB, 0, tmp_path).folder) + "/late"])
    os.close(folder)
    os.close(lock)
    for dead in residue.dead_labs():
        residue.sweep(dead)
    assert not (tmp_path / record.lab_id).exists()


@pytest.mark.usefixtures("state")
def test_a_link_in_the_labs_place_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record, lock = residue.create_record()
    monkeypatch.setattr(residue.disk_folder, "__defaults__", (tmp_path,))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_bytes(b"x")
    (tmp_path / record.lab_id).symlink_to(tmp_path / "mine")
    with refused(tmp_path / record.lab_id, error=GuestError):
        make_folder(record.lab_id, MIB, 0, tmp_path)
    os.close(lock)
    for dead in residue.dead_labs():
        residue.sweep(dead)
    assert (tmp_path / "mine" / "file").exists()


@pytest.mark.parametrize("name", ["", "..", "virtoll-", "virtoll-0123456789ab/..", "tmp"])
def test_only_a_labs_own_files_are_ever_named(name: str, tmp_path: Path) -> None:
    with refused(repr(name), error=ValueError):
        residue.disk_folder(name, tmp_path)
