"""Root file systems of other systems than this machine's, made of Debian's signed packages.

Main type: ``Kind``. Main function: ``make_root``. A root holds Python, its venv and what the caller names; nothing of
Virtoll. Needs root, mmdebstrap and Debian's archive. ``as_bare`` needs neither archive nor mmdebstrap: it makes what
is in a folder look like a system that is no Debian. Must not: start what is in a root outside of ``command_in``'s
namespaces, or write outside of the root's folder.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

from tools import fresh

REPOSITORY: Final = Path(__file__).resolve().parents[2]
PYTHON: Final = ("python3", "python3-venv")
USER: Final = "someone"
USER_ID: Final = 1000
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROFILE: Final = Path("system/profile/bin")
"""Where a root of kind ``profile`` has all its programs. Guix and NixOS have them below /run, which is empty here."""
_BUSYBOX: Final = Path("usr/bin/busybox")
_PROGRAM_FOLDERS: Final = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin")
_OF_DEBIAN: Final = (
    *("usr/lib/apt", "usr/lib/dpkg", "usr/share/dpkg", "usr/share/debconf", "usr/share/perl5/Debconf"),
    *("var/lib/dpkg", "var/lib/apt", "var/cache/apt", "var/cache/debconf", "etc/apt", "etc/dpkg", "etc/debian_version"),
    *("usr/lib/systemd", "etc/systemd", "var/lib/systemd", "etc/os-release", "usr/lib/os-release"),
    *("usr/bin/apt*", "usr/bin/dpkg*", "usr/sbin/dpkg*", "usr/bin/deb*", "usr/bin/systemd*", "usr/bin/*ctl"),
)
_OTHER_SYSTEM: Final = 'ID=other\nNAME="Another Linux"\nPRETTY_NAME="Another Linux"\n'


class Kind(StrEnum):
    """A kind of root.

    ``merged``: the usual GNU programs, all in /usr/bin as Arch has them. ``profile``: they are in a folder of their
    own, as with Guix and NixOS, and /usr/bin has ``env`` alone. ``bare``: busybox in place of the usual programs, and
    no os-release, as a small Alpine or a system made by hand. These three have no apt, dpkg, systemd or package
    database.
    """

    DEBIAN_11 = "debian-11"
    DEBIAN_12 = "debian-12"
    DEBIAN_13 = "debian-13"
    DEBIAN_SID = "debian-sid"
    MERGED = "merged"
    PROFILE = "profile"
    BARE = "bare"

    @property
    def suite(self) -> str:
        """The suite of Debian whose packages it is made of."""
        return _SUITES.get(self, "trixie")

    @property
    def is_debian(self) -> bool:
        """Whether it has Debian's package manager."""
        return self in _SUITES

    @property
    def search_path(self) -> str:
        """What PATH is there."""
        return f"/{PROFILE}" if self is Kind.PROFILE else SYSTEM_PATH


_SUITES: Final[Mapping[Kind, str]] = {
    Kind.DEBIAN_11: "bullseye",
    Kind.DEBIAN_12: "bookworm",
    Kind.DEBIAN_13: "trixie",
    Kind.DEBIAN_SID: "sid",
}


def make_root(kind: Kind, folder: Path, packages: Sequence[str] = ()) -> None:
    """Make such a root in a new folder, with Python and these Debian packages, and an ordinary user (``USER``).

    In a bare root the programs of ``packages`` are themselves, and all others of Debian's base are busybox's. Raises
    FreshError where this machine lacks something, CalledProcessError where a program of it fails.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    busybox = () if kind.is_debian else ("busybox-static",)
    fresh.make_root(folder, kind.suite, tuple(dict.fromkeys((*PYTHON, *busybox, *packages))))
    fresh.trust_authorities(folder)
    add_user(folder)
    if not kind.is_debian:
        replaced = _base_programs(folder, packages) if kind is Kind.BARE else ()
        as_bare(folder, kind, replaced)


def made_of_this_machine(root: Path, busybox: Path, programs: Sequence[str] = ()) -> dict[str, str]:
    """A bare root without any download: busybox, this interpreter, and those programs of this machine's by name.

    Returns for folders of this machine the places where the root must find them: libraries, this clone, its Python.
    """
    for name in ("usr/bin", "etc", "root", "proc", "dev", "sys", "run", "tmp", "var/tmp", "mnt", "opt"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "usr/sbin"):
        (root / name).symlink_to("usr/bin" if "/" not in name else "bin")
    libraries = {}
    for folder in ("lib", "lib32", "lib64"):
        if (place := Path("/usr", folder)).is_dir():
            libraries[str(place)] = str(place)
            (root / folder).symlink_to(f"usr/{folder}")
    shutil.copy("/etc/ld.so.cache", root / "etc")
    shutil.copyfile(busybox, root / _BUSYBOX)
    (root / _BUSYBOX).chmod(0o755)
    interpreter = Path(sys.executable).resolve()
    (root / interpreter.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(interpreter, root / interpreter.relative_to("/"))
    if interpreter != Path("/usr/bin/python3"):
        (root / "usr/bin/python3").symlink_to(interpreter)
    for name in programs:
        shutil.copy(str(shutil.which(name, path=SYSTEM_PATH)), root / "usr/bin" / name)
    as_bare(root, Kind.BARE)
    for name, line in {"passwd": "root:x:0:0::/root:/bin/sh\n", "group": "root:x:0:\n"}.items():
        (root / "etc" / name).write_text(line, encoding="ascii")
    add_user(root)
    return {**libraries, **{folder: folder for folder in (sys.prefix, str(REPOSITORY))}}


def add_user(root: Path) -> None:
    """An ordinary user, with a home that others may look into and subordinate ids."""
    for name, line in {
        "passwd": f"{USER}:x:{USER_ID}:{USER_ID}::/home/{USER}:/bin/sh",
        "group": f"{USER}:x:{USER_ID}:",
        "subuid": f"{USER}:100000:65536",
        "subgid": f"{USER}:100000:65536",
    }.items():
        file = root / "etc" / name
        there = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(f"{there}{line}\n", encoding="utf-8")
    home = root / "home" / USER
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    os.chown(home, USER_ID, USER_ID)


def as_bare(root: Path, kind: Kind, replaced: Iterable[str] = ()) -> None:
    """Take Debian's package manager, systemd and os-release out of a root, and place its programs as the kind has them.

    ``replaced``: names of programs that go; what busybox has of them (and of all others not there) is a link to it.
    """
    for name in replaced:
        for folder in _PROGRAM_FOLDERS:
            (root / folder / name).unlink(missing_ok=True)
    if kind is Kind.BARE:
        for applet in _applets(root):
            if not any(os.path.lexists(root / folder / applet) for folder in _PROGRAM_FOLDERS):
                (root / "usr/bin" / applet).symlink_to("busybox")
    for pattern in _OF_DEBIAN:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    if kind is not Kind.BARE:
        (root / "usr/lib/os-release").write_text(_OTHER_SYSTEM, encoding="ascii")
        (root / "etc/os-release").symlink_to("../usr/lib/os-release")
    if kind is Kind.MERGED:
        _merge(root)
    if kind is Kind.PROFILE:
        _move_to_profile(root)


def _applets(root: Path) -> list[str]:
    listing = subprocess.run([root / _BUSYBOX, "--list"], capture_output=True, text=True, check=True)
    return listing.stdout.split()


def _base_programs(root: Path, kept: Sequence[str]) -> set[str]:
    """Names of the programs of Debian's required packages, other than those of the packages that are kept."""
    form = "${Package} ${Essential} ${Priority}\n"
    listing = _dpkg_query(root, "-W", "-f", form)
    rows = [line.split() for line in listing.splitlines()]
    base = [row[0] for row in rows if ("yes" in row[1:] or "required" in row[1:]) and row[0] not in kept]
    files = _dpkg_query(root, "-L", *base).splitlines()
    folders = {f"/{one.removeprefix(prefix)}" for one in _PROGRAM_FOLDERS for prefix in ("", "usr/")}
    found = {Path(file).name for file in files if str(Path(file).parent) in folders}
    # Made by maintainers' scripts: awk, which and others are links to links.
    alternatives = root / "etc/alternatives"
    return found | {one.name for one in alternatives.iterdir()}


def _dpkg_query(root: Path, *arguments: str) -> str:
    admin = f"--admindir={root / 'var/lib/dpkg'}"
    return subprocess.run(["dpkg-query", admin, *arguments], capture_output=True, text=True, check=True).stdout


def _merge(root: Path) -> None:
    """All programs in /usr/bin; /usr/sbin is a link to it."""
    for path in (root / "usr/sbin").iterdir():
        there = root / "usr/bin" / path.name
        if there.exists() and not there.is_symlink():
            path.unlink()
        else:  # a link there may lead to this very file
            path.replace(there)
    (root / "usr/sbin").rmdir()
    (root / "usr/sbin").symlink_to("bin")


def _move_to_profile(root: Path) -> None:
    """All programs in a folder of their own; /bin/sh and /usr/bin/env stay, as with Guix and NixOS."""
    store = root / PROFILE
    store.parent.mkdir(parents=True)
    _merge(root)
    (root / "usr/bin").rename(store)
    (root / "usr/bin").mkdir()
    for name in ("sh", "env"):
        (root / "usr/bin" / name).symlink_to(f"/{PROFILE}/{name}")


@dataclass(frozen=True)
class Start:
    """How a program of a root is started: in which folder of it, as whom, with or without this machine's network.

    ``read_only``: for folders of this machine the places in the root where they are found.
    """

    folder: str = "/root"
    user: bool = False
    network: bool = False
    read_only: Mapping[str, str] = field(default_factory=dict)


def command_in(kind: Kind, root: Path, argv: Sequence[str], start: Start = Start()) -> list[str]:
    """What runs a program of the root as its first process, to be started in ``environment``.

    In mount, PID, IPC and UTS namespaces, and without ``network`` in a network namespace with the loopback alone.
    """
    place = [f"/{PROFILE}/env", f"PATH={kind.search_path}"] if kind is Kind.PROFILE else []
    argv = _as_user(argv) if start.user else argv
    inside = fresh.command_in(root, [*place, *argv], Path(start.folder), start.read_only)
    end = ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--ipc", "--uts"]
    if start.network:
        return [*end, "--", *inside]
    # A sysfs of its own network, and not this machine's, of which a sandbox may hide parts; the cgroups stay.
    own = ["ip link set lo up", "mount --rbind /sys/fs/cgroup /mnt", "mount -t sysfs sysfs /sys"]
    own += ["mount --rbind /mnt /sys/fs/cgroup", f"exec {shlex.join(inside)}"]
    return [*end, "--mount", "--propagation", "private", "--net", "--", "sh", "-c", " && ".join(own)]


def _as_user(argv: Sequence[str]) -> list[str]:
    code = (
        "import os, sys\n"
        f"os.initgroups({USER!r}, {USER_ID}); os.setgid({USER_ID}); os.setuid({USER_ID})\n"
        f"os.environ.update(HOME='/home/{USER}', USER={USER!r}, LOGNAME={USER!r})\n"
        "os.execvp(sys.argv[1], sys.argv[1:])"
    )
    return ["python3", "-c", code, *argv]


def environment() -> dict[str, str]:
    """A newcomer's environment there: nothing of this machine's but how it reaches the package registries."""
    return {**fresh.environment(), "PATH": SYSTEM_PATH}


def main(arguments: Sequence[str]) -> int:
    """``python -m benches.survive.made_roots KIND FOLDER [PACKAGE...]`` makes one."""
    kind, folder, *packages = arguments
    make_root(Kind(kind), Path(folder), packages)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
