"""Emulated machines that keep their disk: a kernel of Debian's archive, a root file system, Virtoll installed in it.

QEMU is that of nested hosts, under TCG. The machine has no network card: commands go to it over a virtio port, and its
console is a file. All of cgroup v2 is mounted, and every controller is handed on, as systemd does it. Main types:
``KernelFiles`` (made once from signed packages), ``Machine`` (booted, takes commands). ``make_disk`` makes its disk.
Must not: touch this host's network, mounts or modules.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.image import initramfs
from virtoll.image.cache import default_cache
from virtoll.image.debian import fetch_closure
from virtoll.image.modules import ModuleTree
from virtoll.nested.emulator import prepare_emulator

FILES = Path("/var/tmp/virtoll-machines")  # noqa: S108 - gigabytes, which /tmp may not hold
"""Kernels and root file systems stay there between runs of the campaign."""
KERNELS = {
    "5.10": ("bullseye",),
    "6.1": ("bookworm",),
    "6.12": ("trixie",),
    "backports": ("trixie", "trixie-backports"),
    "sid": ("sid",),
}
"""Name of a kernel -> the suites of Debian that it comes from, the preferred one last."""
_BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "virtio_rng", "crc32c_generic", "ext4")
_NOT_COPIED = (
    "sound",
    "media",
    "gpu",
    "wireless",
    "infiniband",
    "staging",
    "iio",
    "hwmon",
    "scsi",
    "usb",
    "mtd",
    "input",
)
_MEMORY_MIB = 2560
_DISK_BYTES = 6 * 2**30
_BOOT_SECONDS = 900.0
_END = b"\n@end "
_INITIAL = r"""#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sysfs /sys; mount -t devtmpfs dev /dev
while read module; do insmod /modules/$module || echo "insmod $module failed"; done </modules/order
mount -t ext4 /dev/vda /new || { echo 'the disk cannot be mounted'; reboot -f; }
mount -t ext4 -o ro /dev/vdb /new/lib/modules || echo 'the modules cannot be mounted'
umount /proc /sys; mount --move /dev /new/dev
exec switch_root /new /usr/lib/virtoll-machine
"""
# As systemd leaves a host: v2 alone, every controller in use at the root, nobody but the kernel in the root group.
_FIRST = r"""#!/bin/bash
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 COLUMNS=200
mount -t proc proc /proc; mount -t sysfs sysfs /sys
mkdir -p /dev/pts /dev/shm
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts; mount -t tmpfs shm /dev/shm
ln -sf /proc/self/fd /dev/fd; ln -sf /proc/self/fd/0 /dev/stdin; ln -sf /proc/self/fd/1 /dev/stdout
ln -sf /proc/self/fd/2 /dev/stderr; chmod 666 /dev/net/tun 2>/dev/null
mount -t tmpfs -o mode=755 run /run; mount -t tmpfs -o mode=1777 tmp /tmp; mkdir -p /run/lock
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t cgroup2 -o nsdelegate,memory_recursiveprot cgroup2 /sys/fs/cgroup || mount -t cgroup2 cgroup2 /sys/fs/cgroup
mkdir /sys/fs/cgroup/init.scope; echo 1 >/sys/fs/cgroup/init.scope/cgroup.procs
for one in $(cat /sys/fs/cgroup/cgroup.controllers); do echo +$one >/sys/fs/cgroup/cgroup.subtree_control; done
hostname machine; ip link set lo up
exec 3<>/dev/vport0p1
while read -r line <&3; do
  printf %s "$line" | base64 -d >/run/virtoll-command
  bash /run/virtoll-command </dev/null >&3 2>&1 3>&-
  printf '\n@end %s\n' $? >&3
done
echo 'nobody listens any more'; sync; echo b >/proc/sysrq-trigger
"""

SCRIPTS = {"initial": _INITIAL, "first": _FIRST}


@dataclass(frozen=True)
class KernelFiles:
    """A kernel that machines boot. ``modules``: a disk with all that it can load; ``package``: as Debian names it."""

    name: str
    package: str
    version: str
    release: str
    image: Path
    initial: Path
    modules: Path


@dataclass(frozen=True)
class Answer:
    """What a command in a machine gave: its exit code and all that it wrote."""

    code: int
    text: str


class MachineEnded(Exception):
    """The machine ended, or did not answer in time; with the end of its console."""


def prepare_kernel(name: str) -> KernelFiles:
    """One of ``KERNELS``, made on first use."""
    folder = FILES / "kernels" / name
    if not (folder / "kernel.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as making:
            _fill_kernel(Path(making), name)
            Path(making).rename(folder)
            Path(making).mkdir()
    facts = json.loads((folder / "kernel.json").read_text(encoding="utf-8"))
    return KernelFiles(
        name, **facts, image=folder / "vmlinuz", initial=folder / "initial", modules=folder / "modules.ext4"
    )


def _fill_kernel(folder: Path, name: str) -> None:
    with tempfile.TemporaryDirectory(dir=FILES) as making:
        debs, tree, disk = (Path(making) / one for one in ("debs", "tree", "disk"))
        debs.mkdir()
        versions = fetch_closure(debs, ["linux-image-amd64", "busybox-static"], _say, suites=KERNELS[name])
        (package,) = (one for one in versions if one.startswith("linux-image-") and one != "linux-image-amd64")
        release = package.removeprefix("linux-image-")
        # From 7.2 on Debian has kernel and modules in packages of their own, and the kernel beside its modules.
        for deb in [*debs.glob(f"linux-*-{release}_*.deb"), *debs.glob("busybox-static_*.deb")]:
            subprocess.run(["dpkg-deb", "--extract", deb, tree], check=True)
        (image,) = [*tree.glob("boot/vmlinuz-*"), *tree.glob("usr/lib/modules/*/vmlinuz")]
        shutil.copy(image, folder / "vmlinuz")
        loaded = ModuleTree(tree, release).in_order(_BOOT_MODULES)
        busybox = next(one for one in tree.rglob("busybox") if one.is_file() and one.parent.name == "bin")
        (folder / "initial").write_bytes(
            initial_archive(busybox.read_bytes(), loaded, _INITIAL, ("proc", "sys", "new"))
        )
        kept = next(tree.glob(f"**/lib/modules/{release}"))
        shutil.copytree(kept, disk / release, ignore=shutil.ignore_patterns(*_NOT_COPIED), symlinks=True)
        subprocess.run(["depmod", "--basedir", _as_root(disk), release], check=True)
        _make_ext4(disk, folder / "modules.ext4", 2**30)
    facts = {"package": package, "version": versions[package], "release": release}
    (folder / "kernel.json").write_text(json.dumps(facts), encoding="utf-8")


def _as_root(disk: Path) -> Path:
    """A folder in which ``disk`` is /lib/modules, as depmod wants it."""
    root = disk.parent / "base"
    (root / "lib").mkdir(parents=True)
    (root / "lib" / "modules").symlink_to(disk)
    return root


def initial_archive(busybox: bytes, modules: Mapping[str, bytes], init: str, places: Sequence[str]) -> bytes:
    """A first file system: busybox, modules in the order in which ``init`` loads them, folders that it mounts on."""
    return initramfs.write_archive(
        [
            *(initramfs.folder(name) for name in ("bin", "dev", "modules", *places)),
            initramfs.character_device("dev/console", 5, 1),
            initramfs.program("bin/busybox", busybox),
            initramfs.program("init", init.encode()),
            *(initramfs.plain_file(f"modules/{name}", content) for name, content in modules.items()),
            initramfs.plain_file("modules/order", "".join(f"{name}\n" for name in modules).encode()),
        ]
    )


def make_disk(root: Path, disk: Path, more: Sequence[tuple[str, bytes]] = ()) -> None:
    """A machine's disk with a root file system's content; ``more``: programs in it, by their paths without a slash.

    The folder ``root`` itself gets the machine's first program, and the folders that it mounts on.
    """
    for name in ("proc", "sys", "dev", "run", "tmp", "lib/modules", "mnt", "root"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name, content in [("usr/lib/virtoll-machine", _FIRST.encode()), *more]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content)
        (root / name).chmod(0o755)
    _make_ext4(root, disk, _DISK_BYTES)


def _make_ext4(folder: Path, disk: Path, size: int) -> None:
    with disk.open("wb") as file:
        file.truncate(size)
    # Without what only newer kernels know: 5.10 mounts it too.
    features = "^orphan_file,^metadata_csum_seed"
    command = ["mke2fs", "-q", "-t", "ext4", "-O", features, "-E", "lazy_itable_init=1", "-d", str(folder), str(disk)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode != 0:  # e2fsprogs before 1.47 does not know their names
        command[command.index(features)] = "^64bit"
        subprocess.run(command, check=True)


class Machine:
    """A booted machine that takes commands."""

    def __init__(self, process: subprocess.Popen[bytes], channel: socket.socket, console: Path) -> None:
        self._process, self._channel, self.console = process, channel, console

    def run(self, script: str, seconds: float = 600.0) -> Answer:
        """Run a script of bash in it as root; ``MachineEnded`` where it does not answer in time."""
        self.send(script)
        said = self._until_end(time.monotonic() + seconds)
        text, _, code = said.rstrip().rpartition(_END)
        return Answer(int(code), text.decode(errors="replace"))

    def send(self, script: str) -> None:
        """Start a script and do not wait for it."""
        self._channel.sendall(base64.b64encode(script.encode()) + b"\n")

    def put(self, path: str, content: bytes) -> None:
        """Write a small file."""
        self.run(f"base64 -d >{path} <<'END'\n{base64.encodebytes(content).decode()}END\n")

    def until_it_ends(self, seconds: float) -> bytes:
        """What it writes until it has ended by itself; ``MachineEnded`` where that takes longer."""
        said, deadline = b"", time.monotonic() + seconds
        while select.select([self._channel], [], [], max(0.0, deadline - time.monotonic()))[0]:
            chunk = self._channel.recv(1 << 16)
            if not chunk:
                return said
            said += chunk
        raise MachineEnded(f"it did not end in time, after {said[-2000:].decode(errors='replace')!r}")

    def said(self) -> str:
        """Its console."""
        return self.console.read_bytes().decode(errors="replace").replace("\r", "")

    def _until_end(self, deadline: float) -> bytes:
        said = b""
        while not (_END in said and said.endswith(b"\n")):
            ready = select.select([self._channel], [], [], max(0.0, deadline - time.monotonic()))[0]
            chunk = self._channel.recv(1 << 16) if ready else b""
            if not chunk:
                why = "it ended" if ready else "no answer in time"
                last = "\n".join(self.said().splitlines()[-15:])
                raise MachineEnded(f"{why}, after {said[-2000:].decode(errors='replace')!r}; console:\n{last}")
            said += chunk
        return said


@contextlib.contextmanager
def booted(kernel: KernelFiles, disk: Path, *, cpus: int = 2, more: Sequence[Path] = ()) -> Iterator[Machine]:
    """A machine of this kernel with this disk, which is written to; it is ended with the context.

    ``more``: further disks, /dev/vdc and so on.
    """
    emulator = prepare_emulator(default_cache(), offline=False, progress=_say)
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory(dir=FILES) as folder, ours:
        console = Path(folder) / "console"
        with theirs:
            command = _command(emulator.argv, kernel, cpus, theirs.fileno(), console) + _disks(kernel, [disk, *more])
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),)
            )
        try:
            machine = Machine(process, ours, console)
            machine.run("true", _BOOT_SECONDS)
            yield machine
        finally:
            process.kill()
            process.wait()


def _command(emulator: Sequence[str], kernel: KernelFiles, cpus: int, channel: int, console: Path) -> list[str]:
    # Without SHA instructions, and with a thread for each CPU: docs/decisions/emulator-of-nested-hosts.md.
    command = [*emulator, "-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max,-sha-ni", "-smp", str(cpus)]
    command += ["-m", f"{_MEMORY_MIB}M", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-chardev", f"file,id=console,path={console}", "-serial", "chardev:console", "-nic", "none"]
    command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=commands,fd={channel}"]
    command += ["-device", "virtserialport,chardev=commands", "-device", "virtio-rng-pci"]
    command += ["-kernel", str(kernel.image), "-initrd", str(kernel.initial)]
    return [*command, "-append", "console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0 cryptomgr.notests"]


def _disks(kernel: KernelFiles, written: Sequence[Path]) -> list[str]:
    """The root's disk, that of the modules, and the others, in the order in which the machine names them."""
    disks = [(file, "cache=writeback") for file in written]
    disks.insert(1, (kernel.modules, "readonly=on"))
    command = []
    for number, (file, options) in enumerate(disks):
        command += ["-drive", f"if=none,id=disk{number},format=raw,file={file},{options}"]
        command += ["-device", f"virtio-blk-pci,drive=disk{number}"]
    return command


def install_product(root: Path, wheel: Path, requirements: Path) -> None:
    """The product's wheel, and what it needs by the lock, for the Python of a root file system; compiled by that."""
    place = root / "opt" / "virtoll"
    python = next((root / "usr" / "bin").glob("python3.[0-9]*")).name.removeprefix("python")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
    pip += ["--root-user-action", "ignore", "--target", str(place)]
    tags = [f"manylinux{one}_x86_64" for one in ("2014", "_2_17", "_2_24", "_2_27", "_2_28", "_2_31", "_2_34")]
    platforms = [word for tag in tags for word in ("--platform", tag)]
    only = ["--only-binary", ":all:", "--python-version", python, "--implementation", "cp", *platforms]
    subprocess.run([*pip, *only, "--no-deps", "--requirement", requirements], check=True)
    subprocess.run([*pip, "--no-deps", "--upgrade", wheel], check=True)
    compiling = ["chroot", str(root), f"python{python}", "-m", "compileall", "-q", "/opt/virtoll", "/usr/lib/python3"]
    subprocess.run(compiling, check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"})
    program = root / "usr/local/bin/virtoll"
    program.write_text(f'#!/bin/sh\nPYTHONPATH=/opt/virtoll exec python{python} -m virtoll "$@"\n', encoding="utf-8")
    program.chmod(0o755)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def needs_root() -> None:
    """Ends the campaign with one sentence where it may not make root file systems."""
    if os.geteuid() != 0:
        raise SystemExit("machines have root file systems with their owners: run this as root")
