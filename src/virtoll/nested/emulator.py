"""The QEMU that emulates nested hosts, with the libraries of its own Debian release, once, in the cache.

Debian 12's own is too old for it: docs/decisions/emulator-of-nested-hosts.md says what it gets wrong.
Main type: ``Emulator``. The packages' versions are in the object's ``emulator.json``. Must not: boot anything.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.cache import Cache, Progress
from virtoll.nested.tree import LINKER, merge, resolved, with_libraries

_RECIPE = 1  # raise it when what is made from the same packages changes
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


@dataclass(frozen=True)
class Emulator:
    """``folder`` holds the program, its libraries and its firmware; ``versions``: those of all its packages."""

    folder: Path
    versions: dict[str, str]

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
    found = cache.find_whole(reference)
    if found is None:
        if offline:
            raise ImageError("the emulator of nested hosts is not in the cache: run 'virtoll nested build kvm' first")
        found = cache.build(reference, lambda folder: _fill(folder, progress), progress)
    return Emulator(found, json.loads((found / "emulator.json").read_text(encoding="utf-8")))


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
        shutil.copy2(resolved(tree, tree / name), firmware)
    (folder / "emulator.json").write_text(json.dumps(versions, indent=1, sort_keys=True), encoding="utf-8")
