"""The modules of an unpacked kernel, and in which order a guest loads them.

What a module needs is in the module itself (`depends=` in its section .modinfo), so that no program is needed for it.

Main types: `ModuleTree`. Must not: load a module.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image.unpacking import decompress

# Below a release's folder, in the order of depmod: what was built beside the kernel goes before what came with it.
_PARTS = ("kernel", "extra", "updates")


class ModuleTree:
    """The modules of one kernel below a folder in which its package's files are; each is read once."""

    def __init__(self, unpacked: Path, release: str) -> None:
        """``ImageError`` where there are none of this release."""
        places = [unpacked / usr / "lib" / "modules" / release for usr in ("", "usr")]
        files = [file for place in places for part in _PARTS for file in sorted((place / part).glob("**/*.ko*"))]
        if not files:
            raise ImageError(f"The kernel {release} came without its modules (lib/modules/{release}): use Debian's.")
        self._files = {module_name(file.name): file for file in files}
        self._content: dict[str, bytes] = {}

    def in_order(self, names: Iterable[str]) -> dict[str, bytes]:
        """The wanted modules with those that they need, plain: file name -> content, in the order of loading."""
        return {f"{name}.ko": self._read(name) for name in load_order(names, self._needed_by)}

    def _needed_by(self, name: str) -> Sequence[str] | None:
        return needed_by(self._read(name)) if name in self._files else None

    def _read(self, name: str) -> bytes:
        if name not in self._content:
            self._content[name] = decompress(self._files[name].read_bytes())
        return self._content[name]


def module_name(file: str) -> str:
    """The name that the kernel knows a module file by: kernel/drivers/net/8139too.ko.xz -> 8139too."""
    return Path(file).name.partition(".")[0].replace("-", "_")


def load_order(names: Iterable[str], needs: Callable[[str], Sequence[str] | None]) -> tuple[str, ...]:
    """The wanted modules, each after everything that it needs.

    ``needs``: the modules that one needs itself; None for one that is built in or not there, which is left out.
    """
    order: dict[str, None] = {}
    entered: set[str] = set()

    def enter(name: str) -> None:
        needed = None if name in entered else needs(name)
        entered.add(name)
        if needed is not None:
            for other in needed:
                enter(other)
            order[name] = None

    for name in names:
        enter(name)
    return tuple(order)


def needed_by(module: bytes) -> tuple[str, ...]:
    """The names of the modules that a plain 64-bit module says that it needs."""
    for entry in _section(module, b".modinfo").split(b"\0"):
        key, _, value = entry.partition(b"=")
        if key == b"depends":
            return tuple(module_name(name) for name in value.decode("ascii").split(",") if name)
    return ()


def _section(program: bytes, section: bytes) -> bytes:
    """The content of an ELF file's section; empty where there is none of that name. Format: elf(5)."""
    if program[:6] != b"\x7fELF\x02\x01":
        raise ImageError("A module of the guest kernel is no 64-bit ELF file: use another kernel package.")
    (table,) = struct.unpack_from("<Q", program, 40)
    size, count, names_at = struct.unpack_from("<HHH", program, 58)

    def extent(index: int) -> tuple[int, int, int]:
        """Offset of the name among the names, offset and size of the content."""
        name, _, _, _, offset, length = struct.unpack_from("<IIQQQQ", program, table + size * index)
        return name, offset, length

    _, names, _ = extent(names_at)
    for index in range(count):
        name, offset, length = extent(index)
        at = names + name
        if program[at : at + len(section) + 1] == section + b"\0":
            return program[offset : offset + length]
    return b""
