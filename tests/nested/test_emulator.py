"""The QEMU that emulates nested hosts: what it is made of, and the one jump in it that is mended."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.facts import Command, refused
from tests.support.nested_packages import Archive

from virtoll.errors import ImageError
from virtoll.image.cache import Cache
from virtoll.nested.emulator import mend, prepare_emulator

# As disassembled of QEMU 11.1.3 (Debian 13's backports), at 0x96b271.
PLACE = bytes.fromhex("410fb6442418 84c0 0f84dafbffff 01d0 4188442418")
MENDED = bytes.fromhex("410fb6442418 84c0 909090909090 01d0 4188442418")
BEFORE, AFTER = b"\x7fELF" + bytes(range(256)), b"\x0f\x84\xda\xfb\xff\xff\x01\xd0" + bytes(64)


def test_one_jump_is_left_out_and_nothing_else_is_changed() -> None:
    assert mend(BEFORE + PLACE + AFTER) == BEFORE + MENDED + AFTER
    elsewhere = PLACE.replace(b"\x0f\x84\xda\xfb", b"\x0f\x84\x0a\x0a")
    assert mend(BEFORE + elsewhere + AFTER) == BEFORE + MENDED + AFTER, "where it jumps to is the linker's"


def test_a_program_without_that_place_or_with_two_is_left_as_it_is() -> None:
    assert mend(BEFORE + AFTER) is None
    assert mend(BEFORE + PLACE + PLACE + AFTER) is None
    assert mend(BEFORE + MENDED + AFTER) is None


FIRMWARE = {
    "usr/share/seabios/bios-256k.bin": b"bios",
    "usr/share/qemu/kvmvapic.bin": b"vapic",
    "usr/share/qemu/linuxboot_dma.bin": b"linuxboot",
    "usr/share/qemu/multiboot_dma.bin": b"multiboot",
}


@pytest.mark.parametrize("place", [PLACE, b""], ids=["to be mended", "another QEMU"])
def test_it_is_made_once_of_debian_13_and_starts_by_its_own_linker(
    archive: Archive, cache: Cache, place: bytes
) -> None:
    archive.packages["qemu-system-x86"] = FIRMWARE | {
        "usr/bin/qemu-system-x86_64": BEFORE + place + AFTER,
        "usr/share/qemu/pvh.bin@": b"/etc/alternatives/pvh",
        "etc/alternatives/pvh": b"pvh",
    }
    said: list[str] = []
    made = prepare_emulator(cache, offline=False, progress=said.append)
    assert archive.asked == [("fetch", "qemu-system-x86", "seabios", ("trixie", "trixie-backports"))]
    assert (made.version, made.versions, made.mended) == ("1:1", archive.versions, bool(place))
    assert any("emulator" in line for line in said)
    assert any("HVM" in line and "PVH" in line for line in said) != made.mended
    linker, *rest = made.argv
    program, libraries = made.folder / "qemu-system-x86_64", made.folder / "lib"
    assert rest == ["--argv0", program.name, "--library-path", str(libraries), str(program), "-L", rest[-1]]
    assert program.read_bytes() == BEFORE + (MENDED if place else b"") + AFTER
    assert program.stat().st_mode & 0o111
    assert Path(linker).parent == libraries
    loaded = {"ld-linux-x86-64.so.2": b"the dynamic linker", "libgcc_s.so.1": b"libgcc", "libc.so.6": b"libc"}
    assert {file.name: file.read_bytes() for file in libraries.iterdir()} == loaded
    firmware = {file.name: file.read_bytes() for file in Path(rest[-1]).iterdir()}
    assert firmware == {"pvh.bin": b"pvh"} | {Path(name).name: content for name, content in FIRMWARE.items()}
    for offline in (False, True):
        assert prepare_emulator(cache, offline=offline, progress=said.append) == made
    assert len(archive.asked) == 1


def test_without_a_network_it_must_be_in_the_cache(archive: Archive, cache: Cache) -> None:
    with refused(Command("virtoll nested build kvm"), error=ImageError):
        prepare_emulator(cache, offline=True, progress=lambda _: None)
    assert archive.asked == []
