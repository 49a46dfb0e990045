"""A folder of unpacked Debian packages: its programs, and the libraries that they load there and not from this host.

Must not: download, or run anything of the folder but its dynamic linker.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.image import debian

MERGED = ("bin", "sbin", "lib", "lib64")
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib", "usr/lib/xen-4.17/lib", "usr/lib/virtualbox")
LINKER = "usr/lib64/ld-linux-x86-64.so.2"


def merge(tree: Path) -> None:
    """/bin, /sbin, /lib and /lib64 into /usr, as Debian has it; the packages of one release are not all agreed yet."""
    for name in MERGED:
        old, new = tree / name, tree / "usr" / name
        if old.is_dir() and not old.is_symlink():
            shutil.copytree(old, new, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(old)
        elif old.is_symlink():
            old.unlink()
        new.mkdir(parents=True, exist_ok=True)
        old.symlink_to(f"usr/{name}")


def resolved(tree: Path, file: Path) -> Path:
    """What a link in the folder leads to there: Debian's alternatives are links out of what was taken."""
    while file.is_symlink():
        to = file.readlink()
        file = tree / str(to).lstrip("/") if to.is_absolute() else file.parent / to
    return file


def with_libraries(tree: Path, programs: Sequence[str]) -> list[Path]:
    """The programs and every library that the tree's own dynamic linker would load for them."""
    linker = resolved(tree, tree / LINKER)
    places = ":".join(str(tree / place) for place in LIBRARIES)
    files = {tree / LINKER: None, tree / "usr/lib/x86_64-linux-gnu/libgcc_s.so.1": None}
    for name in programs:
        program = tree / name
        if not program.exists() and not program.is_symlink():
            raise ImageError(f"the nested host's program {name} is not in Debian's packages")
        files[program] = None
        real = program.resolve() if program.resolve().is_relative_to(tree) else program
        if not real.read_bytes().startswith(b"\x7fELF"):
            continue
        for line in debian.run([linker, "--library-path", places, "--list", real]).splitlines():
            if "=> not found" in line:
                raise ImageError(f"the nested host's program {name} needs {line.split()[0]}, which no package has")
            if "=> /" in line:
                files[Path(line.split("=> ")[1].split(" (")[0])] = None
    return list(files)
