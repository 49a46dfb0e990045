"""A Debian package made here: an ar archive of two tar files, with what a small kernel would have in it."""

from __future__ import annotations

import io
import struct
import tarfile
from collections.abc import Mapping

from virtoll.image import debian

NAME = "linux-image-6.1.0-99-made"


def module(depends: str) -> bytes:
    """The smallest 64-bit module that says what it needs (names between commas)."""
    names = b"\0.shstrtab\0.modinfo\0"
    said = f"license=GPL\0depends={depends}\0name=x\0".encode()
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    content = names + said
    head += struct.pack("<HHIQQQIHHHHHH", 1, 62, 1, 0, 0, 64 + len(content), 0, 64, 0, 0, 64, 3, 1)
    sections = [(0, 0, 0), (1, 64, len(names)), (11, 64 + len(names), len(said))]
    table = b"".join(struct.pack("<IIQQQQIIQQ", name, 1, 0, 0, at, size, 0, 0, 1, 0) for name, at, size in sections)
    return head + content + table


def kernel_files(release: str = "6.1.0-99-made") -> dict[str, bytes]:
    """What a kernel package would have: a kernel, two modules of which one needs the other, and what nobody wants."""
    base = f"lib/modules/{release}"
    return {
        f"boot/vmlinuz-{release}": b"a kernel",
        f"boot/System.map-{release}": b"not wanted",
        f"{base}/modules.builtin": b"kernel/fs/ext4/ext4.ko\n",
        f"{base}/kernel/net/failover.ko": module(""),
        f"{base}/kernel/drivers/net/virtio_net.ko": module("failover"),
        "usr/share/doc/linux/copyright": b"not wanted",
    }


def made_deb(files: Mapping[str, bytes], *, version: str = "6.1.99-1", architecture: str | None = None) -> bytes:
    """A package of these files; a name that ends in @ is a symbolic link to its content."""
    control = f"Package: {NAME}\nVersion: {version}\nArchitecture: {architecture or debian.architecture()}\n"
    members = {
        "debian-binary": b"2.0\n",
        "control.tar.xz": _tar({"./control": f"{control}Description: made\n more\n".encode()}),
        "data.tar.xz": _tar({f"./{name}": content for name, content in files.items()}),
    }
    archive = b"!<arch>\n"
    for name, content in members.items():
        archive += f"{name:<16}{0:<12}{0:<6}{0:<6}{100644:<8}{len(content):<10}`\n".encode() + content
        archive += b"\n" * (len(content) % 2)
    return archive


def _tar(files: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name.removesuffix("@"))
            entry.size = len(content)
            if name.endswith("@"):
                entry.type, entry.linkname, entry.size = tarfile.SYMTYPE, content.decode(), 0
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
