"""Copies of a disk without a name: whole, with their holes, and gone with the last descriptor."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.facts import refused

from virtoll.errors import GuestError
from virtoll.lab.disks import nameless_copy, node_of_disk, number_of_disk

HOLE_BYTES = 2**24


def test_a_copy_holds_the_data_and_the_holes_and_has_no_name(tmp_path: Path) -> None:
    source = tmp_path / "disk"
    with source.open("wb") as file:
        file.write(b"first" + bytes(4091))
        file.seek(HOLE_BYTES)
        file.write(b"last")
        file.truncate(2 * HOLE_BYTES)
    before = source.read_bytes()
    (tmp_path / "disks").mkdir()
    copy = nameless_copy(source, tmp_path / "disks")
    try:
        assert os.pread(copy, 3 * HOLE_BYTES, 0) == before
        assert os.fstat(copy).st_blocks <= source.stat().st_blocks
        assert list((tmp_path / "disks").iterdir()) == []
        os.pwrite(copy, b"written", 0)
        with Path(f"/proc/self/fd/{copy}").open("r+b") as again:  # as QEMU opens it
            assert again.read(7) == b"written"
        assert source.read_bytes() == before
    finally:
        os.close(copy)


def test_a_copy_that_cannot_be_made_is_named_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"x")
    with refused("disk", tmp_path / "none", "No such file", error=GuestError):
        nameless_copy(tmp_path / "disk", tmp_path / "none")


def test_a_folders_disk_is_the_whole_one_and_has_a_node(tmp_path: Path) -> None:
    on = tmp_path.stat().st_dev
    number = f"{os.major(on)}:{os.minor(on)}"
    devices, disk = tmp_path / "devices", tmp_path / "disk"
    devices.mkdir()
    with refused(tmp_path, number, error=GuestError):
        number_of_disk(tmp_path, devices)
    (disk / "part").mkdir(parents=True)
    whole = "8:16" if number != "8:16" else "8:32"
    (disk / "dev").write_text(f"{whole}\n")
    (disk / "uevent").write_text("MAJOR=8\nMINOR=16\nDEVNAME=sdb\nDEVTYPE=disk\n")
    (disk / "part" / "dev").write_text(f"{number}\n")
    (devices / number).symlink_to(disk / "part")
    (devices / whole).symlink_to(disk)
    assert number_of_disk(tmp_path, devices) == number
    (disk / "part" / "partition").write_text("1\n")
    assert number_of_disk(tmp_path, devices) == whole
    assert node_of_disk(whole, devices) == Path("/dev/sdb")
