"""The guest image as a CD-ROM that starts it: for products that take no kernel and initramfs, but boot from a disk.

ISOLINUX, as Debian's package has it, loads kernel and initramfs by the machine's BIOS. A line of the kernel's own is
part of the disk, so there is one disk for each such line. An image with tools is no initramfs: its disk holds what
finds the root on another drive. Made when it is first asked for, into the cache; the same inputs give the same bytes.

Main function: `boot_disk`. Must not: know a platform, or start a guest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image.cache import Cache, Progress, default_cache, file_digest
from virtoll.image.debian import architecture, find_program, run
from virtoll.image.guest import GuestImage

_RECIPE = 2  # raise it when what is made from the same inputs changes
_FILE = "boot.iso"
_SECONDS = 1
_EPOCH = {"SOURCE_DATE_EPOCH": str(_SECONDS), "TZ": "UTC"}
_LOADER = (Path("/usr/lib/ISOLINUX/isolinux.bin"), Path("/usr/lib/syslinux/modules/bios/ldlinux.c32"))
_CONFIGURATION = """\
default virtoll
prompt 0
timeout 0
label virtoll
 kernel /vmlinuz
 append initrd=/initramfs {line}
"""
_LINE_CHARACTERS = 1500  # of the 2048 that x86 kernels take, the loader adds its own


def boot_disk(
    image: GuestImage,
    kernel_line: str,
    *,
    drives: bool = False,
    cache: Cache | None = None,
    progress: Progress | None = None,
) -> Path:
    """The ISO 9660 file that boots this image with this line for its kernel, from the cache or made now.

    ``drives``: the guest has drives of its own, and needs their modules.

    Raises ImageError where xorriso or ISOLINUX is not installed, or fails, and where the image is for no PC.
    """
    if architecture() != "amd64":
        raise ImageError(
            f"A disk that boots the guest image starts an x86-64 machine, and the image here is for {architecture()}: "
            "run Virtoll on an x86-64 machine."
        )
    if "\n" in kernel_line or len(kernel_line) > _LINE_CHARACTERS:
        raise ImageError(f"a kernel's line has no line breaks and at most {_LINE_CHARACTERS} characters")
    cache = cache or default_cache()
    initramfs = image.disk_initramfs if drives else image.machine_initramfs
    recipe = json.dumps([_RECIPE, image.digest, image.kernel.sha256, initramfs.name, kernel_line])
    reference = f"bootdisk-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference)
    if object_folder is None:
        loader = _loader()
        say = progress or (lambda _: None)
        say(f"making a disk that boots the image {image.name}")
        object_folder = cache.build(reference, lambda folder: _fill(folder, image, initramfs, kernel_line, loader), say)
    return object_folder / _FILE


def _loader() -> tuple[Path, ...]:
    missing = [str(path) for path in _LOADER if not path.is_file()]
    try:
        find_program("xorriso")
    except ImageError:
        missing.append("xorriso")
    if missing:
        raise ImageError(
            f"A disk that boots the guest image needs {missing[0]}: 'virtoll setup --platforms' installs or names "
            "xorriso, isolinux and syslinux-common."
        )
    return _LOADER


def _fill(folder: Path, image: GuestImage, initramfs: Path, kernel_line: str, loader: tuple[Path, ...]) -> None:
    """Fills an object with boot.iso and boot.json."""
    tree = folder.parent / "tree"  # beside the object: goes away with the builder's temporary folder
    (tree / "isolinux").mkdir(parents=True)
    for path in loader:
        shutil.copyfile(path, tree / "isolinux" / path.name)
    (tree / "isolinux" / "isolinux.cfg").write_text(_CONFIGURATION.format(line=kernel_line), encoding="ascii")
    shutil.copyfile(image.kernel.vmlinuz, tree / "vmlinuz")
    shutil.copyfile(initramfs, tree / "initramfs")
    for path in (tree, *tree.rglob("*")):
        os.utime(path, (_SECONDS, _SECONDS))
    make = ["xorriso", "-as", "mkisofs", "-quiet", "-V", "VIRTOLL", "--modification-date=1970010100000100"]
    boot = ["-b", "isolinux/isolinux.bin", "-c", "isolinux/boot.cat", "-no-emul-boot"]
    run([*make, "-o", folder / _FILE, *boot, "-boot-load-size", "4", "-boot-info-table", tree], environment=_EPOCH)
    facts = {
        "image": image.digest,
        "initramfs": initramfs.name,
        "kernel_line": kernel_line,
        "digest": f"sha256:{file_digest(folder / _FILE)}",
    }
    (folder / "boot.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
