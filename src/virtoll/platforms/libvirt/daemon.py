"""A libvirtd of the lab's own, for the drivers that cannot do without one; the host's is never asked.

Main function: ``lab_daemon``. The daemon has a mount namespace, where its configuration, state, logs and the root of
each cgroup hierarchy are folders of the lab's. What it makes for a domain is below the lab's cgroup. It is started with
the first guest that needs it and ended with the last.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path

from virtoll.errors import GuestError
from virtoll.host.packages import how_to_install
from virtoll.hosts.base import LocalHost
from virtoll.lab.cgroups import Group, Limits
from virtoll.lab.commands import ProcessOptions
from virtoll.lab.enter import Bind, Enter, Mount, Unmount
from virtoll.lab.inside import end_process, is_listened, wait_until
from virtoll.platforms.host import SharedResources, Site
from virtoll.platforms.libvirt.connection import DEBIAN, drivers_user, own_mounts, private_driver
from virtoll.platforms.process_guest import root_disk

_READY_SECONDS = 120.0
_GROUP = "daemon"  # of a process's cgroup libvirt takes what is before "/libvirt"
_IMAGE = "image"
_CONTAINERS_OWN = frozenset({".oldroot", "dev", "proc", "run", "sys", "tmp"})
_STATE = Path("/run/libvirt")  # built into it; the lab's /run is a file system of its own
_SETTINGS = """\
unix_sock_dir = "{folder}"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
auth_unix_ro = "none"
"""
_LXC_CONF = 'security_driver = "none"\n'


@dataclass
class Daemon:
    """The lab's daemon; ``root`` a copy of the image's, since the LXC driver makes folders in a root that it is given.

    ``kernel``, ``initramfs`` and ``disk`` are where the daemon finds the image's. ``running``: the guests that need it.
    """

    lab: LocalHost
    process: subprocess.Popen[bytes]
    folder: Path
    group: Group | None
    shared: SharedResources
    running: set[str] = field(default_factory=set)

    def uri(self, plain: str) -> str:
        """A URI such as ``qemu:///system``, at this daemon."""
        return f"{plain}?socket={self.folder}/libvirt-sock"

    @property
    def root(self) -> Path:
        """The containers' root."""
        return self.folder / "root"

    @property
    def root_folders(self) -> dict[str, Path]:
        """What is to be shown in it of the image, by its place there."""
        names = sorted(entry.name for entry in self.root.iterdir() if entry.is_dir() and not entry.is_symlink())
        return {f"/{name}": self.folder / _IMAGE / name for name in names if name not in _CONTAINERS_OWN}

    @property
    def kernel(self) -> Path:
        """The image's kernel."""
        return self.folder / "kernel"

    @property
    def initramfs(self) -> Path:
        """The image's initramfs."""
        return self.folder / "initramfs"

    @property
    def disk(self) -> Path:
        """The image's disk form, where it needs one."""
        return self.folder / "disk"

    def domain_log(self, driver: str, name: str) -> Path:
        """What libvirt keeps of a domain's start and end."""
        return self.folder / f"var/log/libvirt/{driver}/{name}.log"

    def domain_pid(self, driver: str, name: str) -> int:
        """The number of the domain's first process here."""
        file = _STATE / driver / f"{name}.pid"
        try:
            return int(file.read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise GuestError(f"{name}: libvirtd has written no process's number to {file}") from error

    def processes(self) -> tuple[tuple[str, int], ...]:
        """The daemon, by name."""
        with contextlib.suppress(OSError, ValueError):
            return (("libvirtd", int((self.folder / "pid").read_text(encoding="ascii"))),)
        return ()

    def release(self, name: str) -> None:
        """A guest does not need it any more; without any it ends, and its cgroup goes."""
        self.running.discard(name)
        if not self.running:
            self.end()

    def end(self) -> None:
        """End it, and remove its cgroup."""
        self.shared.drop(Daemon)
        end_process(self.process)
        if self.group is not None:
            self.group.remove()


def lab_daemon(site: Site, name: str) -> Daemon:
    """The lab's daemon, started at the first call, held for the guest ``name`` until that releases it."""
    known = site.shared.find(Daemon)
    if known is not None and known.process.poll() is None:
        known.running.add(name)
        return known
    daemon = _start(site)
    daemon.running.add(name)
    site.shared.keep(daemon, daemon.end)
    return daemon


def _start(site: Site) -> Daemon:
    if shutil.which("libvirtd") is None:
        raise GuestError(f"libvirtd: not found on this host; {how_to_install(*DEBIAN)}")
    host, folder = site.this_machine, site.this_machine.scratch / "libvirtd"
    folder.mkdir(exist_ok=True)
    for stale in ("libvirt-sock", "pid"):
        (folder / stale).unlink(missing_ok=True)
    with contextlib.ExitStack() as undo:
        group = host.group(_GROUP, Limits())
        if group is not None:
            undo.callback(group.remove)
        mounts = [*_image(site, folder), *drivers_user(folder), *_folders(folder), *_cgroups(host, group)]
        command = ["libvirtd", "--config", f"{folder}/libvirtd.conf", "--pid-file", f"{folder}/pid"]
        (folder / "libvirtd.conf").write_text(_SETTINGS.format(folder=folder), encoding="ascii")
        with (folder / "libvirtd.txt").open("wb") as log:
            process = host.spawn(
                command,
                "libvirtd",
                ProcessOptions(
                    enter=_within(group, own_mounts(mounts)),
                    group=group if _is_joined(group) else None,
                    stdout=log.fileno(),
                    stderr=subprocess.STDOUT,
                ),
            )
        undo.callback(end_process, process)
        socket = folder / "libvirt-sock"
        wait_until(lambda: is_listened(socket) or process.poll() is not None, _READY_SECONDS, "the start of libvirtd")
        if process.poll() is not None:
            lines = (folder / "libvirtd.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
            raise GuestError(f"the lab's own libvirtd ended; it said: {(lines or ['nothing'])[-1].strip()}")
        undo.pop_all()
    return Daemon(host, process, folder, group, site.shared)


def _image(site: Site, folder: Path) -> list[Bind]:
    """Kernel, initramfs and disk, which may be below a folder that the daemon sees another at; the containers' root.

    That is a folder of its own, because the driver makes one in it: the image's links and files, and empty folders in
    which the image's are shown.
    """
    image = site.image
    files = []
    if image.machine is not None:
        files += [("kernel", image.kernel.vmlinux or image.kernel.vmlinuz), ("initramfs", image.machine_initramfs)]
    if image.needs_disk:
        files.append(("disk", root_disk(image)))
    for name, _ in files:
        (folder / name).touch()
    root, shown = folder / "root", folder / _IMAGE
    if not root.is_dir():
        root.mkdir()
        shown.mkdir()
        for entry in image.root.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                (root / entry.name).mkdir()
            else:
                shutil.copy2(entry, root / entry.name, follow_symlinks=False)
    return [Bind(image.root, shown), *(Bind(path, folder / name) for name, path in files)]


def _folders(folder: Path) -> list[Bind]:
    """Configuration, state and logs: whole folders above libvirt's, because libvirt's own need not be there."""
    for name in ("etc", "var/lib", "var/log", "var/cache"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "etc/qemu.conf").write_text(private_driver(cgroups=True), encoding="ascii")
    (folder / "etc/lxc.conf").write_text(_LXC_CONF, encoding="ascii")
    variable = [name for name in ("var/lib", "var/log", "var/cache") if Path("/", name).is_dir()]
    return [Bind(folder / "etc", Path("/etc/libvirt")), *(Bind(folder / name, Path("/", name)) for name in variable)]


def _within(group: Group | None, enter: Enter) -> Enter:
    """As the root of a cgroup namespace, so that a container finds its own limits in its /proc."""
    return replace(enter, namespaces=("cgroup", *enter.namespaces)) if _is_joined(group) else enter


def _is_joined(group: Group | None) -> bool:
    """Not beside v2's controllers: a group of v2 that has processes of its own hands none on."""
    return group is not None and group.layout.version != "v2"


def _cgroups(host: LocalHost, group: Group | None) -> list[Mount]:
    """The group in the place of each hierarchy's root; and what the LXC driver cannot have seen twice, taken away.

    Beside v1 that is v2: the driver cannot make a container's view of both.
    """
    if group is None:
        return []
    layout = group.layout
    places: dict[Path, Path] = {}
    for name, root in {**layout.others, **layout.controllers}.items():
        if name in group.folders and not (layout.version == "hybrid" and root == layout.unified):
            places.setdefault(root.resolve(), group.folders[name].resolve())
    shown = [Bind(below, root) for root, below in places.items()]
    hidden = [host.scratch / "cgroup"]  # where the lab carries the host's hierarchies through
    if layout.version == "hybrid" and layout.unified is not None:
        hidden.append(layout.unified)
    return [*shown, *(Unmount(hierarchy) for hierarchy in hidden if hierarchy.is_mount())]
