"""The guest kernel: Debian's package, unpacked into the cache and never installed; the modules a guest needs, in order.

Main types: `GuestKernel`. Must not: build an image, or load anything on this host.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image import debian
from virtoll.image.cache import Cache, Progress, file_digest
from virtoll.image.unpacking import decompress, extract_vmlinux

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

_METAPACKAGES = {"amd64": "linux-image-amd64", "arm64": "linux-image-arm64"}
_CONCRETE = r"linux-image-\d[\w.+-]*"
_RECIPE = 3  # raise it when what is made from the same package changes


@dataclass(frozen=True)
class GuestKernel:
    """One kernel in the cache. `vmlinux` is the plain ELF form with a PVH entry, where there is one: boots faster."""

    package: str
    version: str
    sha256: str  # of vmlinuz
    release: str
    vmlinuz: Path
    vmlinux: Path | None
    modules: tuple[Path, ...]  # plain .ko files in the order of loading
    on_request: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)  # the same, by the name that is asked for


def prepare_kernel(cache: Cache, *, offline: bool, progress: Progress) -> GuestKernel:
    """The guest kernel for this machine's architecture; downloads and unpacks it on first use.

    Raises ImageError where it is not cached and cannot be downloaded, or Debian has no kernel for this architecture.
    """
    architecture = debian.architecture()
    metapackage = _METAPACKAGES.get(architecture)
    if metapackage is None:
        raise ImageError(f"There is no guest kernel for {architecture}: use one of {', '.join(_METAPACKAGES)}.")
    package = debian.fetch_package(cache, metapackage, pattern=_CONCRETE, offline=offline, progress=progress)
    recipe = json.dumps([_RECIPE, package.sha256, MODULES, ON_REQUEST])
    reference = f"kernel-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    found = cache.find_whole(reference) or cache.build(
        reference, lambda folder: _fill(folder, package, progress), progress
    )
    facts = json.loads((found / "kernel.json").read_text(encoding="utf-8"))
    vmlinux, modules = found / "vmlinux", found / "modules"
    return GuestKernel(
        package=package.name,
        version=package.version,
        sha256=facts["sha256"],
        release=facts["release"],
        vmlinuz=found / "vmlinuz",
        vmlinux=vmlinux if vmlinux.exists() else None,
        modules=tuple(modules / name for name in facts["modules"]),
        on_request={name: tuple(modules / file for file in files) for name, files in facts["on_request"].items()},
    )


def parse_dependencies(text: str) -> dict[str, tuple[str, ...]]:
    """modules.dep as depmod writes it: file -> the files that it needs, to be loaded from the last to the first."""
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {file: tuple(needed.split()) for file, _, needed in lines}


def module_name(file: str) -> str:
    """The name that the kernel knows a module file by: kernel/drivers/net/8139too.ko.xz -> 8139too."""
    return Path(file).name.partition(".")[0].replace("-", "_")


def load_order(wanted: Sequence[str], dependencies: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Files of the wanted modules, each after everything that it needs; a name without a file is left out."""
    files = {module_name(file): file for file in dependencies}
    order: dict[str, None] = {}
    for name in wanted:
        if name in files:
            order.update(dict.fromkeys((*reversed(dependencies[files[name]]), files[name])))
    return tuple(order)


def _fill(folder: Path, package: debian.Package, progress: Progress) -> None:
    """Fills an object with vmlinuz, vmlinux, modules/ and kernel.json."""
    progress(f"unpacking {package.name} {package.version}")
    unpacked = folder.parent / "unpacked"
    debian.unpack(package, unpacked)
    (kernel,) = (unpacked / "boot").glob("vmlinuz-*")
    release = kernel.name.removeprefix("vmlinuz-")
    image = kernel.read_bytes()
    (folder / "vmlinuz").write_bytes(image)
    plain = extract_vmlinux(image)
    if plain is not None:
        (folder / "vmlinux").write_bytes(plain)
    facts = {
        "release": release,
        "sha256": file_digest(folder / "vmlinuz"),
        **_copy_modules(unpacked, release, folder / "modules"),
    }
    (folder / "kernel.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")


def unpacked_modules(unpacked: Path, release: str, wanted: Sequence[str]) -> dict[str, bytes]:
    """Modules of an unpacked kernel package with those that they need, uncompressed: file name -> content, in order."""
    base = unpacked / "lib" / "modules" / release
    if not base.is_dir():
        base = unpacked / "usr" / "lib" / "modules" / release
        if not (unpacked / "lib").exists():
            (unpacked / "lib").symlink_to("usr/lib")  # depmod looks below /lib
    if not (base / "modules.dep").is_file():
        debian.run(["depmod", "--basedir", unpacked, release])
    dependencies = parse_dependencies((base / "modules.dep").read_text(encoding="utf-8"))
    files = {f"{module_name(file)}.ko": file for file in load_order(wanted, dependencies)}
    return {name: decompress((base / file).read_bytes()) for name, file in files.items()}


def _copy_modules(unpacked: Path, release: str, target: Path) -> dict[str, object]:
    """Writes the needed modules uncompressed; their names in the order of loading, for kernel.json."""
    target.mkdir()

    def copied(wanted: Sequence[str]) -> list[str]:
        found = unpacked_modules(unpacked, release, wanted)
        for name, content in found.items():
            (target / name).write_bytes(content)
        return list(found)

    return {
        "modules": copied(MODULES),
        "on_request": {name: copied(wanted) for name, wanted in ON_REQUEST.items()},
    }
