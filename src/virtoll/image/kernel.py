"""The guest kernel: Debian's package, unpacked into the cache and never installed; the modules a guest needs, in order.

Main types: `GuestKernel`. Must not: build an image, or load anything on this host.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from virtoll.errors import ImageError
from virtoll.image import deb, debian
from virtoll.image.cache import Cache, Progress, file_digest
from virtoll.image.kernel_source import kernel_package
from virtoll.image.modules import ModuleTree
from virtoll.image.unpacking import extract_vmlinux

# What a guest can be given: the bus, the agent's channel, the network cards, the disk, entropy, VLANs, IPv6. The order
# of loading follows from their dependencies; one that is built in or that this architecture does not have is left out.
MODULES = (
    "virtio_pci",
    "virtio_mmio",
    "virtio_console",
    "virtio_net",
    "e1000",
    "e1000e",
    "8139cp",
    "8139too",
    "vmxnet3",
    "virtio_blk",
    "virtio_rng",
    "8021q",
    "ipv6",
)

HANDED_IN_NICS = "handed_in_nics"
"""The name by which a machine asks for the drivers of a host's own NICs that are handed into it."""

# What only some machines need, by the name that they ask for (`virtoll.modules=` on the kernel's command line), so that
# no other loads it. crc32c is asked for by name inside the kernel, which no dependency tells.
ON_REQUEST: Mapping[str, tuple[str, ...]] = {
    "ahci": ("ahci", "sd_mod"),
    "ata_piix": ("ata_piix", "sd_mod"),
    "sr_mod": ("sr_mod",),
    "nvme": ("nvme",),
    "ext4": ("crc32c_generic", "ext4"),
    "erofs": ("crc32c_generic", "erofs"),
    "xen_netfront": ("xen_netfront",),
    "xen_blkfront": ("xen_blkfront",),
    "xen_pcifront": ("xen_pcifront",),
    HANDED_IN_NICS: ("igb", "igbvf", "ixgbevf", "iavf"),
}

_WANTED: Final = re.compile(r"boot/vmlinuz-.+|(usr/)?lib/modules/[^/]+/(modules\.builtin|kernel/.+\.ko(\.\w+)?)")
_RECIPE = 4  # raise it when what is made from the same package changes


@dataclass(frozen=True)
class GuestKernel:
    """One kernel in the cache. `vmlinux` is the plain ELF form with a PVH entry, where there is one: boots faster."""

    package: str
    version: str
    package_sha256: str  # of the .deb file
    source: str  # of the package: the address that it is from, "apt", or "file NAME" of the user's own
    sha256: str  # of vmlinuz
    release: str
    vmlinuz: Path
    vmlinux: Path | None
    modules: tuple[Path, ...]  # plain .ko files in the order of loading
    on_request: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # the same, by the name that is asked for


def prepare_kernel(cache: Cache, *, offline: bool, progress: Progress, file: Path | None = None) -> GuestKernel:
    """The guest kernel for this machine's architecture; downloads and unpacks it on first use.

    `file`: its package, a file of the user's own.

    Raises what `kernel_package` does, and ImageError where its package is damaged or holds no kernel.
    """
    package = kernel_package(cache, offline=offline, progress=progress, file=file)
    recipe = json.dumps([_RECIPE, package.sha256, MODULES, ON_REQUEST])
    reference = f"kernel-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference) or cache.build(
        reference, lambda folder: _fill(folder, package, progress), progress
    )
    facts = json.loads((object_folder / "kernel.json").read_text(encoding="utf-8"))
    vmlinux, modules = object_folder / "vmlinux", object_folder / "modules"
    return GuestKernel(
        package=package.name,
        version=package.version,
        package_sha256=package.sha256,
        source=package.source,
        sha256=facts["sha256"],
        release=facts["release"],
        vmlinuz=object_folder / "vmlinuz",
        vmlinux=vmlinux if vmlinux.exists() else None,
        modules=tuple(modules / name for name in facts["modules"]),
        on_request={name: tuple(modules / file for file in files) for name, files in facts["on_request"].items()},
    )


def _fill(folder: Path, package: debian.Package, progress: Progress) -> None:
    """Fills an object with vmlinuz, vmlinux, modules/ and kernel.json."""
    progress(f"unpacking {package.name} {package.version}")
    unpacked = folder.parent / "unpacked"
    unpack_kernel(package, unpacked)
    kernels = sorted(unpacked.glob("boot/vmlinuz-*"))
    if len(kernels) != 1:
        # From 7.2 on Debian's has kernel and modules in packages of their own, of which none is enough.
        raise ImageError(
            f"The package {package.name} of {package.source} holds no kernel: name a linux-image-NUMBER with kernel "
            "and modules in it, as Debian 12 and 13 have."
        )
    (kernel,) = kernels
    release = kernel.name.removeprefix("vmlinuz-")
    image = kernel.read_bytes()
    (folder / "vmlinuz").write_bytes(image)
    plain = extract_vmlinux(image)
    if plain is not None:
        (folder / "vmlinux").write_bytes(plain)
    facts = {
        "release": release,
        "sha256": file_digest(folder / "vmlinuz"),
        **_copy_modules(ModuleTree(unpacked, release), folder / "modules"),
    }
    (folder / "kernel.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def unpack_kernel(package: debian.Package, unpacked: Path) -> None:
    """Unpacks what of a kernel's package a guest can be given: the kernel, its modules, the list of built-in ones.

    `ImageError` where the file is not the one that was checked when it came.
    """
    if file_digest(package.file) != package.sha256:
        raise ImageError(
            f"{package.file} no longer has SHA-256 {package.sha256}, as it had when it came: 'virtoll clean --cache'."
        )
    deb.unpack(package.file, unpacked, lambda path: _WANTED.fullmatch(path) is not None)


def _copy_modules(tree: ModuleTree, target: Path) -> dict[str, object]:
    """Writes the needed modules uncompressed; their names in the order of loading, for kernel.json."""
    target.mkdir()

    def copied(names: Sequence[str]) -> list[str]:
        files = tree.in_order(names)
        for name, content in files.items():
            (target / name).write_bytes(content)
        return list(files)

    return {
        "modules": copied(MODULES),
        "on_request": {name: copied(names) for name, names in ON_REQUEST.items()},
    }
