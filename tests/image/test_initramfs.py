"""The archive writer, checked against the cpio program's own reader, and against itself."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtoll.image import initramfs

ENTRIES = [
    initramfs.folder("dev"),
    initramfs.character_device("dev/console", 5, 1),
    initramfs.folder("bin"),
    initramfs.program("bin/tool", b"\x7fELF"),
    initramfs.link("bin/sh", "tool"),
    initramfs.plain_file("order", b"one\ntwo\n"),
]


def read_archive(archive: bytes) -> list[initramfs.Entry]:
    """A reader from the format's description, independent of the writer."""
    entries: list[initramfs.Entry] = []
    at = 0
    while True:
        assert archive[at : at + 6] == b"070701"
        fields = [int(archive[at + 6 + 8 * index : at + 14 + 8 * index], 16) for index in range(13)]
        _, mode, owner, group, _, changed, length, _, _, major, minor, name_length, check = fields
        assert (owner, group, changed, check) == (0, 0, 0, 0)
        name = archive[at + 110 : at + 110 + name_length]
        assert name.endswith(b"\0")
        start = at + (110 + name_length + 3) // 4 * 4
        at = start + (length + 3) // 4 * 4
        if name == b"TRAILER!!!\0":
            assert at == len(archive)
            return entries
        entries.append(initramfs.Entry(name[:-1].decode(), mode, archive[start : start + length], (major, minor)))


def test_the_archive_holds_what_was_given_in_order() -> None:
    assert read_archive(initramfs.write_archive(ENTRIES)) == ENTRIES


@given(st.lists(st.binary(max_size=70), max_size=6))
def test_any_content_comes_back(contents: list[bytes]) -> None:
    entries = [initramfs.plain_file("f" * (index + 1), content) for index, content in enumerate(contents)]
    assert read_archive(initramfs.write_archive(entries)) == entries


def test_the_same_entries_give_the_same_bytes() -> None:
    assert initramfs.write_archive(ENTRIES) == initramfs.write_archive(ENTRIES)


def test_a_file_before_its_folder_is_refused() -> None:
    with pytest.raises(ValueError, match="its folder bin must come before it"):
        initramfs.write_archive([initramfs.program("bin/tool", b"")])


def test_the_cpio_program_reads_it() -> None:
    listing = subprocess.run(
        ["cpio", "-tv", "--numeric-uid-gid"], input=initramfs.write_archive(ENTRIES), capture_output=True, check=True
    ).stdout.decode()
    lines = [line.split() for line in listing.splitlines()]
    assert [line[0] for line in lines] == [
        "drwxr-xr-x",
        "crw-------",
        "drwxr-xr-x",
        "-rwxr-xr-x",
        "lrwxrwxrwx",
        "-rw-r--r--",
    ]
    assert lines[1][4:6] == ["5,", "1"]
    assert lines[4][-3:] == ["bin/sh", "->", "tool"]


def test_entries_can_be_written_to_a_folder(tmp_path: Path) -> None:
    for entry in ENTRIES:
        if not stat.S_ISCHR(entry.mode):
            entry.write_below(tmp_path)
    assert (tmp_path / "bin/sh").read_bytes() == b"\x7fELF"
    assert stat.S_IMODE((tmp_path / "bin/tool").stat().st_mode) == 0o755
    with pytest.raises(ValueError, match="dev/console"):
        ENTRIES[1].write_below(tmp_path)
