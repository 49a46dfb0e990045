"""Start a program in another root: mounts /proc, /sys, a small /dev, /run and /tmp there, changes root, executes it.

Used as ``python -m virtoll.lab.confine [--mount=FOLDER=PLACE] ROOT PROGRAM ARGUMENTS...`` behind ``unshare --mount``,
so that all of it is private to the program; a folder of the host is then found at that place below the root. The root
folder itself is never written to: the image is shared by all guests.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

_SHARED = "--mount="
_CGROUPS = Path("/sys/fs/cgroup")
_LIMITING = ("memory", "cpu", "unified")
_LOCKED = {"nosuid": os.ST_NOSUID, "nodev": os.ST_NODEV, "noexec": os.ST_NOEXEC, "noatime": os.ST_NOATIME}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")


def main(arguments: list[str]) -> None:
    """Never returns; a step that fails ends the process with its message on standard error."""
    shared = [argument.removeprefix(_SHARED) for argument in arguments[:1] if argument.startswith(_SHARED)]
    root, *program = arguments[len(shared) :]
    mount_system(Path(root))
    for words in shared:
        folder, _, place = words.rpartition("=")
        _mount("--bind", folder, f"{root}/{place.lstrip('/')}")
    os.chroot(root)
    os.chdir("/")
    os.execv(program[0], program)  # noqa: S606 - an argument list


def mount_system(root: Path) -> None:
    """The kernel's file systems below ``root`` (a folder with the mount points proc, sys, dev, run and tmp).

    The root itself is mounted on itself for reading only: a program in it may be root and want to write.
    """
    _mount("--bind", str(root), str(root))
    # An ordinary user's namespace may not take away what the file system below was mounted with.
    flags = os.statvfs(root).f_flag
    kept = [name for name, flag in _LOCKED.items() if flags & flag]
    _mount("-o", ",".join(["remount", "bind", "ro", *kept]), str(root))
    _mount("-t", "proc", "proc", str(root / "proc"))
    if not _try_mount("-t", "sysfs", "sysfs", str(root / "sys")):
        _mount("--rbind", "/sys", str(root / "sys"))
    _show_cgroups(root / "sys/fs/cgroup")
    for name in ("dev", "run", "tmp"):
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", str(root / name))
    for device in _DEVICES:
        (root / "dev" / device).touch()
        _mount("--bind", f"/dev/{device}", str(root / "dev" / device))
    (root / "dev" / "pts").mkdir()
    if _try_mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=0620", "devpts", str(root / "dev" / "pts")):
        with contextlib.suppress(OSError):
            (root / "dev" / "ptmx").symlink_to("pts/ptmx")


def _show_cgroups(target: Path) -> None:
    """The hierarchies that hold limits, read-only: a guest is to see what it is held to. A fresh /sys hides them."""
    if not target.is_dir() or any(target.iterdir()):
        return
    if (_CGROUPS / "cgroup.controllers").is_file():
        _try_mount("--bind", str(_CGROUPS), str(target))
        _try_mount("-o", "remount,bind,ro", str(target))
        return
    present = [name for name in _LIMITING if (_CGROUPS / name).is_dir()]
    if present and _try_mount("-t", "tmpfs", "-o", "mode=0755,size=64k", "tmpfs", str(target)):
        for name in present:
            (target / name).mkdir()
            _try_mount("--bind", str(_CGROUPS / name), str(target / name))
            _try_mount("-o", "remount,bind,ro", str(target / name))


def _try_mount(*arguments: str) -> bool:
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


def _mount(*arguments: str) -> None:
    finished = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
    if finished.returncode != 0:
        print(f"virtoll: mount {' '.join(arguments)}: {finished.stderr.strip()}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
