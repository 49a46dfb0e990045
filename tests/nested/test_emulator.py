"""What is mended in the QEMU that emulates nested hosts: one jump, where there is exactly one such place."""

from __future__ import annotations

from virtoll.nested.emulator import mend

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
