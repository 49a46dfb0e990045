"""Puts the guest image together: the same agent in every form that a platform takes, and for machines one kernel.

Main types: `GuestImage` (what all guests share), `MachineParts` (what machines are given besides). Must not: know a
platform, or start a guest.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from virtoll.errors import GuestError, ImageError, UsageError
from virtoll.image import debian, initramfs
from virtoll.image.cache import Cache, Progress, default_cache, file_digest, tree_digest
from virtoll.image.clone import usable_agent
from virtoll.image.kernel import GuestKernel, prepare_kernel
from virtoll.image.tools import DEBS, RECIPES, Recipe, ToolTree, prepare_tools

IMAGES: Mapping[str, str] = {
    "tiny": "the agent alone",
    "debug": "the agent and busybox, for an interactive shell",
    "full": "the agent and the tools that workloads need, of Debian packages",
    "full-non-free": "the same with netperf and lmbench, which Debian does not call free software",
}

# Mount points; and usr, because systemd-nspawn takes no folder without it for a root.
_MOUNT_POINTS = ("data", "dev", "proc", "run", "sys", "tmp", "usr")
_RECIPE = 4  # raise it when what is made from the same inputs changes
NO_KERNEL_VARIABLE = "VIRTOLL_NO_KERNEL"
"""In a lab, which has no way out: why the kernel could not be had before it was entered."""


@dataclass(frozen=True)
class MachineParts:
    """What a guest with a kernel of its own is given besides the image's folder.

    `initramfs` is the folder as a cpio archive, with /dev/console and the kernel's modules (/lib/modules/order)
    besides. `disk_initramfs` has the modules for disks too, which the other does not carry. `digests`: of both.
    """

    kernel: GuestKernel
    initramfs: Path
    disk_initramfs: Path
    digests: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class GuestImage:
    """One image in the cache; every path is read-only by convention.

    `root` is the folder form, which all guests share: /init is the agent, the mount points are empty. `digest` stands
    for it, whether a kernel goes with it or not, and `digests` has one for each form; those that few platforms take
    are made by `virtoll.image.forms`. `machine`: None where no platform of the run needs a kernel, or none can be had;
    `why_no_kernel` is then the reason.

    With `tools` (what `virtoll.image.tools` records of its packages) the root is a Debian file system, far too large
    for a machine's memory. The initramfs then holds the agent alone, and a machine's root is the disk form.
    """

    name: str
    digest: str  # "sha256:<hex>"
    root: Path
    agent: Path
    agent_sha256: str
    digests: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, Any] | None = None
    machine: MachineParts | None = None
    why_no_kernel: str = "the guest kernel was not asked for"

    @property
    def size_bytes(self) -> int:
        """What its files hold together; a tree of packages was counted when it was made."""
        if self.tools is not None:
            return int(self.tools["bytes"]) + self.agent.stat().st_size
        return sum(path.lstat().st_size for path in self.root.rglob("*") if not path.is_dir())

    @property
    def needs_disk(self) -> bool:
        """True where the initramfs is not the image but only starts it, so that a machine must have it as a disk."""
        return self.tools is not None

    @property
    def for_machines(self) -> MachineParts:
        """What machines are given besides; a `GuestError` says why there is none."""
        if self.machine is None:
            raise GuestError(self.why_no_kernel)
        return self.machine

    @property
    def kernel(self) -> GuestKernel:
        """The machines' kernel; raises what `for_machines` does."""
        return self.for_machines.kernel

    @property
    def initramfs(self) -> Path:
        """The initramfs of a machine without a disk; raises what `for_machines` does."""
        return self.for_machines.initramfs

    @property
    def disk_initramfs(self) -> Path:
        """The initramfs of a machine with a disk; raises what `for_machines` does."""
        return self.for_machines.disk_initramfs

    @property
    def machine_initramfs(self) -> Path:
        """What a machine is started with: its root itself, or what finds its root on the disk."""
        return self.disk_initramfs if self.needs_disk else self.initramfs


def prepare_image(
    name: str = "tiny",
    *,
    kernel: bool = False,
    offline: bool = False,
    progress: Progress | None = None,
    cache: Cache | None = None,
    agent: Path | None = None,
    recipe: Recipe | None = None,
) -> GuestImage:
    """The guest image of this name, from the cache or built now; without a subprocess when nothing changed.

    `kernel`: with what machines need; containers, namespaces and the bare host need none. `recipe`: what the tools
    are, where they are not those of the image's name.

    Raises UsageError for an unknown name, AgentUnusable where the agent is missing or cannot run here, ImageError where
    something is not cached and cannot be downloaded (`offline` says not to try).
    """
    if name not in IMAGES:
        raise UsageError(f"There is no image {name!r}: use one of {', '.join(IMAGES)}.")
    cache = cache or default_cache()
    say = progress or (lambda _: None)
    agent = agent or usable_agent()
    agent_sha256 = file_digest(agent)
    shell = _shell(cache, offline=offline, progress=say) if name == "debug" else None
    recipe = recipe or RECIPES.get(name)
    tools = prepare_tools(cache, recipe, name=name, offline=offline, progress=say) if recipe else None
    inputs = [_RECIPE, name, agent_sha256, shell and shell.sha256]
    key = json.dumps([*inputs, tools.digest] if tools else inputs)
    reference = f"image-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference)
    if object_folder is None:
        if recipe is not None:
            tools = prepare_tools(cache, recipe, name=name, offline=offline, progress=say, whole=True)

        def fill(folder: Path) -> None:
            _fill(folder, name, agent, shell=shell, tools=tools, progress=say)

        object_folder = cache.build(reference, fill, say)
    facts = json.loads((object_folder / "image.json").read_text(encoding="utf-8"))
    image = GuestImage(
        name=name,
        digest=f"sha256:{object_folder.name}",
        root=object_folder / "root",
        agent=object_folder / "virtoll-agent",
        agent_sha256=agent_sha256,
        digests=facts["digests"],
        tools=facts.get("tools"),
    )
    return with_kernel(image, cache=cache, offline=offline, progress=say) if kernel else image


def with_kernel(
    image: GuestImage,
    *,
    offline: bool = False,
    progress: Progress | None = None,
    cache: Cache | None = None,
    file: Path | None = None,
) -> GuestImage:
    """The image with what machines need, from the cache or made now; ImageError where the kernel cannot be had.

    `file`: the kernel's package, a file of the user's own; UsageError where it is none for this machine.
    """
    cache, say = cache or default_cache(), progress or (lambda _: None)
    kernel = prepare_kernel(cache, offline=offline, progress=say, file=file)
    key = json.dumps([_RECIPE, image.digest, kernel.vmlinuz.parent.name])
    reference = f"machine-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
    object_folder = cache.find_whole(reference)
    if object_folder is None:
        object_folder = cache.build(reference, lambda folder: _fill_for_machines(folder, image, kernel, say), say)
    digests = json.loads((object_folder / "machine.json").read_text(encoding="utf-8"))
    parts = MachineParts(kernel, object_folder / "initramfs.cpio", object_folder / "initramfs-disk.cpio", digests)
    return replace(image, machine=parts)


def with_kernel_if_there(image: GuestImage, *, offline: bool = False, progress: Progress | None = None) -> GuestImage:
    """The same; an image whose `why_no_kernel` is the reason where the kernel cannot be had."""
    try:
        return with_kernel(image, offline=offline, progress=progress)
    except ImageError as error:
        why = os.environ.get(NO_KERNEL_VARIABLE) if offline else None
        return replace(image, why_no_kernel=why or str(error))


def prepare_parts(names: Sequence[str], *, offline: bool = False, progress: Progress | None = None) -> None:
    """Have in the cache what images of these names hold besides the agent: kernel, shell, tools.

    Raises what `prepare_image` does, but for the agent.
    """
    cache, say = default_cache(), progress or (lambda _: None)
    for name in names:
        if name not in IMAGES:
            raise UsageError(f"There is no image {name!r}: use one of {', '.join(IMAGES)}.")
        prepare_kernel(cache, offline=offline, progress=say)
        if name == "debug":
            _shell(cache, offline=offline, progress=say)
        if name in RECIPES:
            prepare_tools(cache, RECIPES[name], name=name, offline=offline, progress=say)


def _shell(cache: Cache, *, offline: bool, progress: Progress) -> debian.Package:
    return debian.fetch_package(cache, "busybox-static", pattern=None, offline=offline, progress=progress)


def _fill(
    folder: Path,
    name: str,
    agent: Path,
    *,
    shell: debian.Package | None,
    tools: ToolTree | None,
    progress: Progress,
) -> None:
    """Fills an object with root/, virtoll-agent and image.json."""
    progress(f"building the image {name}")
    program = agent.read_bytes()
    if tools is None:
        entries = _common_entries(program)
        if shell is not None:
            entries += _shell_entries(shell, folder.parent / "busybox")
        _write_folder(folder / "root", entries)
    else:
        _add_agent(folder / "root", tools.root, program)
    (folder / "virtoll-agent").hardlink_to(folder / "root" / "init")
    facts = {
        "name": name,
        "agent_sha256": hashlib.sha256(program).hexdigest(),
        "busybox": shell and {"version": shell.version, "sha256": shell.sha256},
        "digests": {"folder": f"sha256:{tree_digest(folder / 'root')}"},
        **({"tools": {"digest": f"sha256:{tools.digest}", **tools.facts}} if tools else {}),
    }
    (folder / "image.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    if tools is not None:
        (folder / DEBS).write_text(tools.debs, encoding="utf-8")


def _fill_for_machines(folder: Path, image: GuestImage, kernel: GuestKernel, progress: Progress) -> None:
    """Fills an object with initramfs.cpio, initramfs-disk.cpio and machine.json, which has their digests."""
    progress(f"making the image {image.name} for machines")
    common = _common_entries(image.agent.read_bytes()) if image.needs_disk else _entries_of(image.root)
    # Uncompressed: a boot under emulation takes as long as with gzip, and the bytes depend on no zlib version.
    archives = {
        "initramfs": initramfs.write_archive([*common, *_machine_entries(kernel, {})]),
        "initramfs-disk": initramfs.write_archive([*common, *_machine_entries(kernel, kernel.on_request)]),
    }
    for form, archive in archives.items():
        (folder / f"{form}.cpio").write_bytes(archive)
    digests = {form: f"sha256:{hashlib.sha256(archive).hexdigest()}" for form, archive in archives.items()}
    (folder / "machine.json").write_text(json.dumps(digests, indent=1), encoding="utf-8")


def _common_entries(program: bytes) -> list[initramfs.Entry]:
    """The mount points, and the agent as /init."""
    return [*(initramfs.folder(path) for path in _MOUNT_POINTS), initramfs.program("init", program)]


def _entries_of(root: Path) -> list[initramfs.Entry]:
    """A small image's folder as entries, each folder before what is in it."""
    entries = []
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            entries.append(initramfs.link(name, str(path.readlink())))
        elif path.is_dir():
            entries.append(initramfs.folder(name))
        else:
            entries.append(initramfs.program(name, path.read_bytes()))
    return entries


def _machine_entries(kernel: GuestKernel, modules: Mapping[str, tuple[Path, ...]]) -> list[initramfs.Entry]:
    """What only a guest with a kernel of its own needs: its console before /dev is mounted, and modules.

    ``modules``: those that are loaded on request.
    """
    order = "".join(f"{module.name}\n" for module in kernel.modules)
    on_request = {name: " ".join(file.name for file in files) for name, files in modules.items()}
    files = dict.fromkeys(kernel.modules) | dict.fromkeys(file for files in modules.values() for file in files)
    return [
        initramfs.character_device("dev/console", 5, 1),
        initramfs.folder("lib"),
        initramfs.folder("lib/modules"),
        *(initramfs.plain_file(f"lib/modules/{module.name}", module.read_bytes()) for module in files),
        initramfs.plain_file("lib/modules/order", order.encode()),
        initramfs.plain_file("lib/modules/on-request", "".join(f"{n}: {f}\n" for n, f in on_request.items()).encode()),
    ]


def _shell_entries(shell: debian.Package, unpacked: Path) -> list[initramfs.Entry]:
    """Busybox and a link for each of its applets, all in /bin."""
    debian.unpack(shell, unpacked)
    busybox = next(path for path in (unpacked / "bin/busybox", unpacked / "usr/bin/busybox") if path.is_file())
    applets = sorted(set(debian.run([busybox, "--list"]).split()) - {"busybox", "init"})
    return [
        initramfs.folder("bin"),
        initramfs.program("bin/busybox", busybox.read_bytes()),
        *(initramfs.link(f"bin/{applet}", "busybox") for applet in applets),
    ]


def _write_folder(root: Path, entries: list[initramfs.Entry]) -> None:
    """The same entries as a folder; permissions are settled by the cache."""
    root.mkdir()
    for entry in entries:
        entry.write_below(root)


def _add_agent(root: Path, tools: Path, program: bytes) -> None:
    """The tools' tree with the agent as /init; its files are the same ones under a second name, where that can be.

    So a new build of the agent takes no gigabyte more. Another user's files cannot be linked, and are copied. A link
    changes the inode's time, so that other images with these files are hashed once more when they are used next.
    """
    shutil.copytree(tools, root, symlinks=True, copy_function=_link_or_copy)
    for name in _MOUNT_POINTS:
        (root / name).mkdir(exist_ok=True)
    (root / "init").write_bytes(program)
    (root / "init").chmod(0o755)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
