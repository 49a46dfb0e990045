"""Makes a nested host's files, once, into the cache: kernel, a root that lives in memory, the hypervisor.

Main type: ``NestedImage``. The root holds a few programs with the libraries that they load, out of Debian's packages;
the packages' versions are in the object's ``nested.json``. Must not: boot anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image import debian, initramfs
from virtoll.image.cache import Cache, Progress, default_cache
from virtoll.image.kernel import prepare_kernel, unpack_kernel
from virtoll.image.kernel_source import kernel_package
from virtoll.image.modules import ModuleTree, module_name
from virtoll.image.unpacking import decompress, extract_vmlinux
from virtoll.nested.emulator import Emulator, prepare_emulator
from virtoll.nested.kinds import NestedKind
from virtoll.nested.tree import MERGED, merge, resolved, with_libraries

_RECIPE = 2  # raise it when what is made from the same packages changes
_FOLDERS = ("dev", "proc", "run", "sys", "tmp", "root", "var", "usr", "etc")


@dataclass(frozen=True)
class NestedImage:
    """``kernel`` and ``root`` (an uncompressed cpio archive), ``hypervisor`` where the kernel is not booted itself.

    ``versions``: of the packages that are in it; ``emulator``: what it is booted by.
    """

    kind: NestedKind
    kernel: Path
    root: Path
    hypervisor: Path | None
    versions: dict[str, str]
    emulator: Emulator


def prepare_nested_host(
    kind: NestedKind, *, offline: bool = False, progress: Progress | None = None, cache: Cache | None = None
) -> NestedImage:
    """A nested host's files, from the cache or built now; ``ImageError`` where they are not cached and unavailable."""
    cache, say = cache or default_cache(), progress or (lambda _: None)
    if debian.architecture() != "amd64":
        raise ImageError(
            f"nested hosts are emulated AMD machines, for x86-64 hosts; this one is {debian.architecture()}"
        )
    kernel = prepare_kernel(cache, offline=offline, progress=say)
    emulator = prepare_emulator(cache, offline=offline, progress=say)
    recipe = json.dumps([_RECIPE, asdict(kind), kernel.sha256, _init(kind)])
    reference = f"nested-{kind.name}-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference)
    if object_folder is None:
        if offline:
            raise ImageError(
                f"the nested host {kind.name} is not in the cache: run 'virtoll nested build {kind.name}' first"
            )
        package = kernel_package(cache, offline=offline, progress=say)
        object_folder = cache.build(reference, lambda folder: _fill(folder, kind, package, kernel.release, say), say)
    hypervisor, own_kernel = object_folder / "hypervisor", object_folder / "kernel"
    plain = own_kernel if own_kernel.exists() else kernel.vmlinux or kernel.vmlinuz
    return NestedImage(
        kind,
        plain,
        object_folder / "root.cpio",
        hypervisor if hypervisor.exists() else None,
        json.loads((object_folder / "nested.json").read_text(encoding="utf-8")),
        emulator,
    )


def _fill(folder: Path, kind: NestedKind, kernel: debian.Package, release: str, progress: Progress) -> None:
    """Fills an object with root.cpio, nested.json, and hypervisor or kernel where it brings its own."""
    tree, modules = folder.parent / "tree", folder.parent / "kernel"
    if kind.suite is None:
        debs = folder.parent / "debs"
        debs.mkdir()
        versions = {kernel.name: kernel.version, **debian.fetch_closure(debs, kind.packages, progress)}
        progress(f"building the nested host {kind.name}")
        tree.mkdir()
        for deb in sorted(debs.glob("*.deb")):
            debian.run(["dpkg-deb", "--extract", deb, tree])
        unpack_kernel(kernel, modules)
    else:
        versions = debian.install(tree, kind.suite, kind.packages, progress)
        modules = tree
        (image,) = (tree / "boot").glob("vmlinuz-*")
        release = image.name.removeprefix("vmlinuz-")
        (folder / "kernel").write_bytes(extract_vmlinux(image.read_bytes()) or image.read_bytes())
    module_files = ModuleTree(modules, release).in_order(kind.modules)
    merge(tree)
    built_in = next(modules.glob(f"**/lib/modules/{release}/modules.builtin")).read_text(encoding="utf-8").split()
    there = {*module_files, *(f"{module_name(line)}.ko" for line in built_in)}
    missing = [name for name in kind.modules if f"{name}.ko" not in there]
    if missing:
        raise ImageError(f"Debian's kernel {release} has no module {', '.join(missing)}, which the nested host needs.")
    (folder / "root.cpio").write_bytes(initramfs.write_archive(_entries(tree, kind, module_files)))
    if kind.hypervisor is not None:
        (folder / "hypervisor").write_bytes(decompress((tree / kind.hypervisor).read_bytes()))
    (folder / "nested.json").write_text(json.dumps(versions, indent=1, sort_keys=True), encoding="utf-8")


def _entries(tree: Path, kind: NestedKind, modules: dict[str, bytes]) -> Iterator[initramfs.Entry]:
    """The archive's entries, each folder before what is in it."""
    content: dict[str, initramfs.Entry] = {}
    for name in _FOLDERS:
        content[name] = initramfs.folder(name)
    for name in MERGED:
        content[f"usr/{name}"] = initramfs.folder(f"usr/{name}")
        content[name] = initramfs.link(name, f"usr/{name}")
    busybox = next(tree / name for name in ("usr/bin/busybox",) if (tree / name).is_file())
    content["usr/bin/busybox"] = initramfs.program("usr/bin/busybox", busybox.read_bytes())
    for file in [*with_libraries(tree, kind.programs), *_data(tree, kind.data)]:
        name = str(file.relative_to(tree))
        name = f"usr/{name}" if name.partition("/")[0] in MERGED else name
        content[name] = _entry(name, file, tree)
    for name, module in modules.items():
        content[f"modules/{name}"] = initramfs.plain_file(f"modules/{name}", module)
    order = "".join(f"{name}\n" for name in modules)
    fixed = {
        "modules/order": order,
        "etc/passwd": "root:x:0:0:root:/root:/bin/bash\n",
        "etc/group": "root:x:0:\n",
        "etc/shells": "/bin/sh\n/bin/bash\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\n",
        "etc/shadow": "root:*:19000:0:99999:7:::\n",
    }
    for name, text in fixed.items():
        content[name] = initramfs.plain_file(name, text.encode())
    content["init"] = initramfs.program("init", _init(kind).encode())
    content["dev/console"] = initramfs.character_device("dev/console", 5, 1)
    yield from _with_folders(content)


def _with_folders(content: dict[str, initramfs.Entry]) -> Iterator[initramfs.Entry]:
    made: set[str] = set()
    for name in sorted(content):
        parents = [str(parent) for parent in reversed(Path(name).parents) if str(parent) != "."]
        for parent in parents:
            if parent not in made and parent not in content:
                made.add(parent)
                yield initramfs.folder(parent)
        if name not in made:
            made.add(name)
            yield content[name]


def _entry(name: str, file: Path, tree: Path) -> initramfs.Entry:
    """A file as it is, a link as what it leads to: Debian's alternatives are links out of what was taken."""
    target = resolved(tree, file)
    if not target.is_file():
        raise ImageError(f"the nested host's file {name} is not in Debian's packages")
    content = target.read_bytes()
    executable = bool(target.stat().st_mode & 0o100)
    return initramfs.program(name, content) if executable else initramfs.plain_file(name, content)


def _data(tree: Path, names: Sequence[str]) -> Iterator[Path]:
    for name in names:
        if name.endswith("/"):
            yield from sorted(file for file in (tree / name).rglob("*") if file.is_file() or file.is_symlink())
        elif (tree / name).exists() or (tree / name).is_symlink():
            yield tree / name


def _init(kind: NestedKind) -> str:
    """The first process: mounts, modules, the product, the management NIC, the SSH server; it then reaps for ever.

    The NIC, the address and the keys come with the boot's own archive (``machine``), which is unpacked over this one.
    """
    return "\n".join(
        [
            "#!/bin/busybox sh",
            "/bin/busybox mkdir -p /proc /sys /dev /run /tmp /var/log /usr/local/bin",
            "/bin/busybox --install -s /usr/bin 2>/dev/null",
            "export PATH=/usr/sbin:/usr/bin:/usr/lib/xen-4.17/bin HOME=/root",
            "mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev",
            # Xen's locks compare /dev/stdin with a file, and try for ever where there is none.
            "ln -s /proc/self/fd /dev/fd; for n in 0:stdin 1:stdout 2:stderr; do ln -s fd/${n%:*} /dev/${n#*:}; done",
            "mkdir -p /dev/pts /dev/shm /dev/net; mount -t devpts devpts /dev/pts; mount -t tmpfs run /run",
            # Data directories, which must not take all of its memory.
            "mkdir -p /var/tmp; mount -t tmpfs -o size=75%,mode=1777 tmp /var/tmp",
            "mkdir -p /run/lock; [ -e /var/run ] || ln -s /run /var/run; [ -e /var/lock ] || ln -s /run/lock /var/lock",
            f"exec </dev/{kind.console} >/dev/{kind.console} 2>&1",
            'while read module; do insmod /modules/$module || echo "insmod $module failed"; done </modules/order',
            "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6",
            "ip link set lo up",
            *kind.start,
            ". /virtoll/boot.sh",
            "for device in /sys/class/net/*; do",
            '  if [ "$(cat $device/address)" = "$MANAGEMENT_MAC" ]; then',
            "    ip address add $MANAGEMENT_ADDRESS dev ${device##*/}; ip link set ${device##*/} up",
            "  fi",
            "done",
            "chmod 0700 /root /root/.ssh; chmod 0600 /root/.ssh/authorized_keys",
            "mkdir -p /etc/dropbear; dropbear -R -s -j -k -P /run/dropbear.pid",
            "echo virtoll nested host ready after $(cut -d' ' -f1 /proc/uptime) s",
            "while true; do sleep 3600; done",
            "",
        ]
    )
