"""The root of an emulated arm64 machine: Debian packages that are unpacked, the wheel for arm64, and the Rust tests.

Nothing of arm64 is run here: packages are unpacked and not configured, as nested hosts are made. dpkg's list is written
by hand, so that programs which ask it are answered. Main type: ``Disk``. Must not: boot anything.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benches.survive.emulated import initial_archive

from virtoll.image import deb, debian
from virtoll.image.download import download_first
from virtoll.image.kernel_source import locked_kernels
from virtoll.image.modules import ModuleTree
from virtoll.nested.tree import merge

ROOT = Path(__file__).resolve().parents[2]
INSIDE = Path(__file__).with_name("arm64_inside.py")
SUITE = "bookworm"
PYTHON = "3.11"  # of that suite
PACKAGES = [
    "base-files",
    "base-passwd",
    "bash",
    "busybox-static",
    "coreutils",
    "crun",
    "dash",
    "dpkg",
    "e2fsprogs",
    "ethtool",
    "findutils",
    "grep",
    "gzip",
    "iproute2",
    "kmod",
    "libc-bin",
    "mount",
    "passwd",
    "procps",
    "python3",
    "python3-minimal",
    "runc",
    "sed",
    "tar",
    "tshark",
    "udev",
    "util-linux",
]
MODULES = ("virtio_pci", "virtio_mmio", "virtio_blk", "crc32c_generic", "ext4")  # ext4 does not name its checksum
READ_BY_TESTS = ("crates", "tests/recorded", "fuzz/seeds")
"""Folders of the repository that Rust's test programs read files of."""
_ENOUGH_BYTES = 400 << 20  # free on the disk, for the run and its report
_MIRROR = "http://deb.debian.org/debian"
_FIRST = """\
#!/bin/busybox sh
for module in $(busybox cat /modules/order); do busybox insmod /modules/$module; done
busybox mkdir -p /dev /root
busybox mount -t devtmpfs dev /dev
busybox mount -t ext4 /dev/vda /root || exec busybox poweroff -f
exec busybox switch_root /root /virtoll/init
"""
_INIT = """\
#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
ln -s /proc/self/fd /dev/fd; for n in 0:stdin 1:stdout 2:stderr; do ln -s /proc/self/fd/${n%:*} /dev/${n#*:}; done
mkdir -p /dev/pts /dev/shm; mount -t devpts devpts /dev/pts; mount -t tmpfs shm /dev/shm
mount -t cgroup2 cgroup2 /sys/fs/cgroup; mount -t tmpfs run /run
# What tests start may be below /tmp, where Cargo may have been told to build.
mkdir /under; mount --bind / /under; mount -t tmpfs tmp /tmp; cp -a /under/tmp/. /tmp; umount /under
ip link set lo up; busybox hostname arm64
python3 /virtoll/inside.py
busybox poweroff -f
"""


@dataclass(frozen=True)
class Step:
    """One program that is started in the machine, its limit, and whether it must end with 0."""

    name: str
    argv: tuple[str, ...]
    seconds: int
    folder: str = "/root"
    must_work: bool = True


@dataclass(frozen=True)
class Kernel:
    """A kernel that the machine can boot, with the first root that finds the disk; ``release`` as it says itself."""

    release: str
    image: Path
    initrd: Path


@dataclass(frozen=True)
class Disk:
    """The root disk with all kernels' modules, and those kernels."""

    file: Path
    kernels: tuple[Kernel, ...]


@dataclass(frozen=True)
class Content:
    """What is ours on the disk. ``programs``: of the Rust tests, which start ``agent``."""

    wheel: Path
    programs: tuple[Path, ...]
    agent: Path
    experiment: str
    steps: tuple[Step, ...]


def make_disk(work: Path, content: Content, kernels: Sequence[str]) -> Disk:
    """Everything below ``work``; ``kernels``: ``locked``, and metapackages of Debian 13."""
    tree = work / "root"
    shutil.rmtree(tree, ignore_errors=True)
    _unpack(tree, work)
    _install(tree, content.wheel, work)
    _place_tests(tree, content.programs, content.agent)
    made = tuple(_kernel(work / "kernels" / name, tree, name) for name in kernels)
    init = tree / "virtoll/init"
    init.write_text(_INIT, encoding="utf-8")
    init.chmod(0o755)
    shutil.copy2(INSIDE, tree / "virtoll/inside.py")
    (tree / "virtoll/arm64.yaml").write_text(content.experiment, encoding="utf-8")
    steps = [
        {"name": one.name, "argv": one.argv, "seconds": one.seconds, "folder": one.folder} for one in content.steps
    ]
    (tree / "virtoll/steps.json").write_text(json.dumps(steps), encoding="utf-8")
    return Disk(_as_disk(tree, work / "disk.img"), made)


def _unpack(tree: Path, work: Path) -> None:
    """Debian's packages for arm64 with all that they depend on, and dpkg's list of them."""
    debs = work / "debs"
    if not debs.is_dir():
        fetch(debs, SUITE, PACKAGES)
    tree.mkdir()
    stanzas = []
    for file in sorted(debs.glob("*.deb")):
        debian.run(["dpkg-deb", "--extract", file, tree])
        head, _, rest = debian.run(["dpkg-deb", "--field", file]).partition("\n")
        stanzas.append(f"{head}\nStatus: install ok installed\n{rest.strip()}\n")
    merge(tree)
    (tree / "var/lib/dpkg/status").write_text("\n".join(stanzas), encoding="utf-8")
    for name in ("passwd", "group"):
        shutil.copy2(tree / f"usr/share/base-passwd/{name}.master", tree / f"etc/{name}")
    (tree / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files\n", encoding="utf-8")
    (tree / "etc/hosts").write_text("127.0.0.1 localhost arm64\n", encoding="utf-8")
    (tree / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n", encoding="utf-8")


def fetch(folder: Path, suite: str, names: Sequence[str]) -> None:
    """arm64 packages of a suite of Debian with all that they need, by mmdebstrap, which checks the signed lists."""
    tree = folder.with_name(f"{folder.name}.unpacked")
    shutil.rmtree(tree, ignore_errors=True)
    command: list[str | Path] = [
        "mmdebstrap",
        "--mode=root",
        "--variant=extract",
        "--architectures=arm64",
        "--format=directory",
        "--skip=cleanup/apt",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Check-Valid-Until "false"',
        f"--include={','.join(names)}",
        suite,
        tree,
        _MIRROR,
    ]
    debian.run(command)
    shutil.copytree(tree / "var/cache/apt/archives", folder, ignore=shutil.ignore_patterns("partial", "lock"))
    shutil.rmtree(tree)


def _install(tree: Path, wheel: Path, work: Path) -> None:
    """The wheel and what the lock pins, in their forms for arm64, as pip picks them."""
    wheels, target = work / "wheels", tree / "opt/virtoll"
    kinds = [f"--platform=manylinux_2_{number}_aarch64" for number in (17, 27, 28)]
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    chosen = ["--only-binary=:all:", "--implementation=cp", f"--python-version={PYTHON}", *kinds]
    if not wheels.is_dir():
        lock = ROOT / "requirements.lock"
        _run([*pip, "download", "--require-hashes", *chosen, f"--dest={wheels}", f"--requirement={lock}"])
    files = [*sorted(wheels.glob("*.whl")), wheel]
    _run([*pip, "install", "--no-index", "--no-deps", "--no-compile", *chosen, f"--target={target}", *files])
    if sys.version_info[:2] == tuple(map(int, PYTHON.split("."))):
        # An emulator would take minutes to compile it.
        places = [target, tree / f"usr/lib/python{PYTHON}"]
        _run(
            [sys.executable, "-m", "compileall", "-q", "-j2", "--invalidation-mode=unchecked-hash", *places],
            check=False,
        )


def _place_tests(tree: Path, programs: Sequence[Path], agent: Path) -> None:
    """Test programs in /virtoll/tests; what they look for at paths of this machine, at the same ones."""
    target = tree / "virtoll/tests"
    target.mkdir(parents=True)
    for program in programs:
        _run(["aarch64-linux-gnu-strip", "--strip-debug", "-o", target / program.name, program])
    below = tree / agent.parent.relative_to("/")
    below.mkdir(parents=True, exist_ok=True)
    _run(["aarch64-linux-gnu-strip", "--strip-debug", "-o", below / agent.name, agent])
    clone = tree / ROOT.relative_to("/")
    for folder in READ_BY_TESTS:
        shutil.copytree(ROOT / folder, clone / folder)


def _kernel(place: Path, tree: Path, name: str) -> Kernel:
    """The locked kernel by its digest, or what a metapackage of Debian 13 stands for; its modules go into the tree."""
    unpacked = place / "unpacked"
    if not unpacked.is_dir():
        place.mkdir(parents=True, exist_ok=True)
        if name == "locked":
            locked = locked_kernels()["arm64"]
            download_first(locked.urls, place / "kernel.deb", locked.sha256)
        else:
            fetch(place / "debs", "trixie", [name])
            (found,) = (place / "debs").glob("linux-image-[0-9]*.deb")
            shutil.copy2(found, place / "kernel.deb")
        deb.unpack(place / "kernel.deb", unpacked, lambda _path: True)
    (image,) = unpacked.glob("boot/vmlinuz-*")
    release = image.name.removeprefix("vmlinuz-")
    modules = next(path for path in (unpacked / "lib/modules", unpacked / "usr/lib/modules") if path.is_dir())
    shutil.copytree(modules / release, tree / "usr/lib/modules" / release)
    debian.run(["depmod", "--basedir", tree, release])
    return Kernel(release, image, _initrd(place / "initrd", tree, ModuleTree(unpacked, release)))


def _initrd(file: Path, tree: Path, modules: ModuleTree) -> Path:
    busybox = (tree / "bin/busybox").read_bytes()
    file.write_bytes(initial_archive(busybox, modules.in_order(MODULES), _FIRST, ("root",)))
    return file


def _as_disk(tree: Path, disk: Path) -> Path:
    used = int(debian.run(["du", "--summarize", "--bytes", tree]).split()[0])
    disk.unlink(missing_ok=True)
    debian.run(
        ["mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", tree, disk, f"{(used + used // 4 + _ENOUGH_BYTES) >> 10}k"]
    )
    return disk


def _run(command: Sequence[str | Path], *, check: bool = True) -> None:
    subprocess.run(command, check=check, stdin=subprocess.DEVNULL)
