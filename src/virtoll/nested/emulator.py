"""The QEMU that emulates nested hosts, with the libraries of its own Debian release, once, in the cache.

Debian 12's own is too old for it: docs/decisions/emulator-of-nested-hosts.md says what it gets wrong, and which fault
of the newer one is mended here. The packages' versions are in the object's ``emulator.json``, with whether it was
mended. Main type: ``Emulator``. Must not: boot anything.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.cache import Cache, Progress
from virtoll.nested.tree import LINKER, merge, resolved, with_libraries

_RECIPE = 2  # raise it when what is made from the same packages changes
_SUITES = ("trixie", "trixie-backports")
"""Debian 13, whose libraries stay as they are, and QEMU as new as Debian has it for that."""
_PACKAGE = "qemu-system-x86"
_PROGRAM = "usr/bin/qemu-system-x86_64"
_FIRMWARE = (
    "usr/share/seabios/bios-256k.bin",
    "usr/share/qemu/kvmvapic.bin",
    "usr/share/qemu/linuxboot_dma.bin",
    "usr/share/qemu/multiboot_dma.bin",
    "usr/share/qemu/pvh.bin",
)
# ``decode_op`` in target/i386/tcg/decode-new.c.inc (QEMU 9.1 to 11.1), where an instruction reads a control register:
# movzbl 24(%r12),%eax; test %al,%al; je past; add %edx,%eax; mov %al,24(%r12). That is "if (decode->e.intercept)
# decode->e.intercept += op->n", and the number for CR0 is 0. So each read is taken for one of CR0.
_READS_CONTROL_REGISTER = re.compile(
    rb"(\x41\x0f\xb6\x44\x24\x18\x84\xc0)(\x0f\x84....)(\x01\xd0\x41\x88\x44\x24\x18)", re.DOTALL
)
_NO_OPERATION = b"\x90"


@dataclass(frozen=True)
class Emulator:
    """``folder`` holds the program, its libraries and its firmware; ``versions``: those of all its packages.

    ``mended``: whether it knows the reads of control registers apart, without which no HVM or PVH guest of Xen boots.
    """

    folder: Path
    versions: dict[str, str]
    mended: bool

    @property
    def version(self) -> str:
        """The version of QEMU's package."""
        return self.versions[_PACKAGE]

    @property
    def argv(self) -> tuple[str, ...]:
        """How it is started: by its own dynamic linker, because its libraries are newer than this host's."""
        name = Path(_PROGRAM).name
        program, libraries = self.folder / name, self.folder / "lib"
        linker = [str(libraries / Path(LINKER).name), "--argv0", name, "--library-path", str(libraries)]
        return (*linker, str(program), "-L", str(self.folder / "firmware"))


def prepare_emulator(cache: Cache, *, offline: bool, progress: Progress) -> Emulator:
    """From the cache, or built now; ``ImageError`` where it is not cached and unavailable."""
    recipe = json.dumps([_RECIPE, _SUITES, _PACKAGE, _PROGRAM, _FIRMWARE])
    reference = f"nested-qemu-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference)
    if object_folder is None:
        if offline:
            raise ImageError("the emulator of nested hosts is not in the cache: run 'virtoll nested build kvm' first")
        object_folder = cache.build(reference, lambda folder: _fill(folder, progress), progress)
    made = json.loads((object_folder / "emulator.json").read_text(encoding="utf-8"))
    return Emulator(object_folder, made["packages"], made["mended"])


def mend(program: bytes) -> bytes | None:
    """QEMU's program with the one jump left out that has it take every read of a control register for one of CR0.

    None where it has no such place, or more than one: another version, or another compiler's.
    """
    mended, places = _READS_CONTROL_REGISTER.subn(lambda match: match[1] + _NO_OPERATION * 6 + match[3], program)
    return mended if places == 1 else None


def _fill(folder: Path, progress: Progress) -> None:
    """Fills an object with the program, lib/, firmware/ and emulator.json."""
    debs, tree = folder.parent / "debs", folder.parent / "tree"
    debs.mkdir()
    versions = debian.fetch_closure(debs, [_PACKAGE, "seabios"], progress, suites=_SUITES)
    progress("building the emulator of nested hosts")
    tree.mkdir()
    for deb in sorted(debs.glob("*.deb")):
        debian.run(["dpkg-deb", "--extract", deb, tree])
    merge(tree)
    libraries, firmware = folder / "lib", folder / "firmware"
    libraries.mkdir()
    firmware.mkdir()
    for file in with_libraries(tree, [_PROGRAM]):
        target = folder if file == tree / _PROGRAM else libraries
        shutil.copy2(resolved(tree, file), target / file.name)
    for name in _FIRMWARE:
        shutil.copy2(resolved(tree, tree / name), firmware / Path(name).name)
    program = folder / Path(_PROGRAM).name
    mended = mend(program.read_bytes())
    if mended is None:
        progress("this QEMU has not the code that is mended in it: Xen's HVM and PVH guests may not boot by it")
    else:
        program.write_bytes(mended)
    made = {"packages": versions, "mended": mended is not None}
    (folder / "emulator.json").write_text(json.dumps(made, indent=1, sort_keys=True), encoding="utf-8")
