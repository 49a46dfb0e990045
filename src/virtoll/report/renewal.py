"""A folder that is made anew at once or not at all: whoever reads it finds the old one or the new one, and both whole.

The new one is made beside the old one and synced. It takes the place in one step of the kernel (Linux renameat2 with
RENAME_EXCHANGE). `SHA256SUMS` in it says what was made: the next one removes these files as they were made, and keeps
all others. What an earlier try left when it was killed is removed. Main function: `renewed`. Must not: write or remove
anything through a link.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from virtoll.errors import RunFolderError
from virtoll.runfolder.placing import put, sync_tree
from virtoll.runfolder.plain import FOLDER_MODE, place, reader
from virtoll.runfolder.sums import SUMS, UNDER_WAY, listed, sums_of
from virtoll.runfolder.under_way import sweep, under_way

_NEW: Final = "new"  # in the folder that is under way
_OLD: Final = "old"
_LAST: Final = "index.html"  # what a reader opens


@contextmanager
def renewed(target: Path, *, may_be_link: bool = False) -> Iterator[Path]:
    """An empty folder, which is `target` when the context ends; where it ends by an exception, nothing has changed.

    Where `target` holds what is kept (a file of somebody else), or nothing may be written beside it, each entry takes
    its predecessor's place by itself, and the page is the last. `may_be_link`: the user named `target`, and it may lead
    elsewhere. RunFolderError where it is a link otherwise, or one stands where a file goes; OSError where it cannot be
    written.
    """
    if target.is_symlink() and not may_be_link:
        raise RunFolderError(f"{target}: is a link, and a report is written to a folder of its own; remove it")
    target = target.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = _place_for(target)
    prefix = f".{target.name}{UNDER_WAY}"
    for left in sweep(beside, prefix):
        if not target.exists() and (left / _OLD).is_dir():  # it was set aside for one that never came
            (left / _OLD).rename(target)
    with under_way(beside, prefix) as room:
        new = room / _NEW
        new.mkdir(FOLDER_MODE)
        yield new
        (new / SUMS).write_text(sums_of(new), encoding="utf-8")
        sync_tree(new)
        _refuse_other_kinds(new, target)
        made = _made(target)
        names = {entry.relative_to(new).as_posix() for entry in new.rglob("*")}
        _place(new, target, made, room, whole=beside != target)
        _remove(target, made - names)


def _place_for(target: Path) -> Path:
    """The folder that the new one is made in: where `target` is, or itself."""
    if target.exists() and (target.is_mount() or not os.access(target.parent, os.W_OK)):
        return target
    return target.parent


def _refuse_other_kinds(new: Path, target: Path) -> None:
    """RunFolderError where a link, or a folder in place of a file, stands where something of the new one goes."""
    for entry in (new, *sorted(new.rglob("*"))):
        there = target / entry.relative_to(new)
        if there.is_symlink() or (there.exists() and there.is_dir() != entry.is_dir()):
            what = "no file" if there.is_dir() else "no folder"
            if there.is_symlink():
                what = "a link"
            raise RunFolderError(f"{there}: is {what}, and a report's file or folder goes there; remove it")


def _made(target: Path) -> set[str]:
    """The files of the old one that are as they were made, by their paths."""
    made = set()
    for name, digest in listed(target).items():
        with suppress(OSError, RunFolderError), reader(target / name, target) as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                made.add(name)
    return made


def _place(new: Path, target: Path, made: set[str], room: Path, above: str = "", *, whole: bool) -> None:
    """Put `new` in the place of `target`, whose entries have this beginning of their paths, at once or by parts.

    `whole`: it may be at once.
    """
    if not new.is_dir():
        new.replace(target)
    elif whole and not (target.exists() and _holds_more(target, new, made, above)):
        put(new, target, aside=room / (_OLD + above.replace("/", "-")))
    else:
        for entry in sorted(new.iterdir(), key=lambda path: (path.name == _LAST, path.name)):
            _place(entry, target / entry.name, made, room, f"{above}{entry.name}/", whole=True)


def _holds_more(target: Path, new: Path, made: set[str], above: str) -> bool:
    """Whether a folder holds what is to be kept: what was not made, and is not made now."""
    entries = list(target.iterdir())
    if not entries and not new.exists():
        return True  # an empty folder of somebody else
    for entry in entries:
        name = f"{above}{entry.name}"
        if entry.is_dir() and not entry.is_symlink():
            if _holds_more(entry, new / entry.name, made, f"{name}/"):
                return True
        elif name not in made and not (new / entry.name).is_file():
            return True
    return False


def _remove(target: Path, names: set[str]) -> None:
    """Remove files that are no longer made where they are still there, and folders that are empty without them."""
    for name in names:
        with suppress(OSError, RunFolderError), place(target / name, target) as at:
            os.unlink(at.name, dir_fd=at.folder)
    for folder in sorted({(target / name).parent for name in names} - {target}, reverse=True):
        with suppress(OSError):  # it holds what is kept, or is gone
            folder.rmdir()
