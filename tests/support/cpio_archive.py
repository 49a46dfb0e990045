"""A reader of cpio archives, from the format's description and independent of the writer."""

from __future__ import annotations

from virtoll.image import initramfs


def read_archive(archive: bytes) -> list[initramfs.Entry]:
    """The entries of an archive of root's files without times, in order."""
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
