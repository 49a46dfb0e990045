"""The archive writer, checked against the cpio program's own reader, and against itself."""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.cpio_archive import read_archive
from tests.support.facts import refused

from virtoll.image import initramfs

ENTRIES = [
    initramfs.folder("dev"),
    initramfs.character_device("dev/console", 5, 1),
    initramfs.folder("bin"),
    initramfs.program("bin/tool", b"\x7fELF"),
    initramfs.link("bin/sh", "tool"),
    initramfs.plain_file("order", b"one\ntwo\n"),
]


def test_the_archive_holds_what_was_given_in_order() -> None:
    assert read_archive(initramfs.write_archive(ENTRIES)) == ENTRIES


@given(st.lists(st.binary(max_size=70), max_size=6))
def test_any_content_comes_back(contents: list[bytes]) -> None:
    entries = [initramfs.plain_file("f" * (index + 1), content) for index, content in enumerate(contents)]
    assert read_archive(initramfs.write_archive(entries)) == entries


def test_the_same_entries_give_the_same_bytes() -> None:
    assert initramfs.write_archive(ENTRIES) == initramfs.write_archive(ENTRIES)


def test_a_file_before_its_folder_is_refused() -> None:
    with refused("bin/tool", "bin", error=ValueError):
        initramfs.write_archive([initramfs.program("bin/tool", b"")])


def test_the_cpio_program_reads_it() -> None:
    listing = subprocess.run(
        ["cpio", "-tv", "--numeric-uid-gid"], input=initramfs.write_archive(ENTRIES), capture_output=True, check=True
    ).stdout.decode()
    lines = [line.split() for line in listing.splitlines()]
    modes = "drwxr-xr-x crw------- drwxr-xr-x -rwxr-xr-x lrwxrwxrwx -rw-r--r--"
    assert [line[0] for line in lines] == modes.split()
    assert lines[1][4:6] == ["5,", "1"]
    assert lines[4][-3:] == ["bin/sh", "->", "tool"]


def test_entries_can_be_written_to_a_folder(tmp_path: Path) -> None:
    for entry in ENTRIES:
        if not stat.S_ISCHR(entry.mode):
            entry.write_below(tmp_path)
    assert (tmp_path / "bin/sh").read_bytes() == b"\x7fELF"
    assert stat.S_IMODE((tmp_path / "bin/tool").stat().st_mode) == 0o755
    with refused("dev/console", error=ValueError):
        ENTRIES[1].write_below(tmp_path)
