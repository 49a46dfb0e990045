"""The content-addressed cache: what was built or downloaded once, under the hash of what it holds.

    <cache>/objects/<sha256>/   folders that are whole and never change
    <cache>/refs/<name>         symbolic link to the object that a recipe gave
    <cache>/building/           what is under way; whatever a killed builder left there is swept by the next one
    <cache>/verified/<sha256>   the state (sizes, times, inodes) that an object's files were in when they had that hash
    <cache>/build.lock          held while something is built

An object is made in `building` and renamed to its place, so that it is either whole or not there, however the builder
ends. An ordinary user reads root's cache too, and never writes to it.

Main types: `Cache`. Must not: know what an object is for, or touch the network.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import ImageError
from virtoll.system.locks import LockBusy, held
from virtoll.system.private import NotPrivate, make_shown_folder, writers_refusal

SYSTEM_CACHE = Path("/var/cache/virtoll")

_BUILD_SECONDS = 3600.0
"""How long another process may build before this one gives up."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Cache:
    """A cache that is written to (`home`) and others that are only read, in the order of looking."""

    home: Path
    others: tuple[Path, ...] = ()

    def find(self, reference: str) -> Path | None:
        """The object that a reference names, or None where it was never built. No locks, no subprocess."""
        for place in (self.home, *self.others):
            folder = (place / "refs" / reference).resolve()
            if folder.parent == (place / "objects").resolve() and folder.is_dir() and _is_safe(place):
                return folder
        return None

    def find_whole(self, reference: str) -> Path | None:
        """As `find`, and its content has the hash that it is named by; None for a damaged one, which `build` replaces.

        Files that have not changed since they were last hashed are not hashed again. An object of another's cache of
        which this user may not read all is none.
        """
        folder = self.find(reference)
        if folder is None:
            return None
        try:
            state = _state_of(folder)
            with contextlib.suppress(OSError):
                note = self.home / "verified" / folder.name
                if writers_refusal(note.parent) is None and note.read_text(encoding="ascii") == state:
                    return folder
            if tree_digest(folder) != folder.name:
                return None
        except PermissionError:
            return None
        self._note(folder.name, state)
        return folder

    def build(self, reference: str, fill: Callable[[Path], None], progress: Progress) -> Path:
        """The referenced object; where there is none, `fill` puts it into an empty folder.

        Waits while another process builds, and takes its result. Raises ImageError where the cache cannot be
        written, LockBusy where the other process does not end; what `fill` raises passes through and leaves nothing.
        """
        try:
            self._make()
            with self._lock(progress, _BUILD_SECONDS):
                self._sweep()
                return self.find_whole(reference) or self._build(reference, fill)
        except OSError as error:
            advice = "set VIRTOLL_CACHE to a folder that has space and that you may write to"
            raise ImageError(f"The image cache {self.home} cannot be used ({error}): {advice}.") from error

    def sweep(self) -> tuple[Path, ...]:
        """Removes what killed builders left, and names it; nothing while one is at work, or without a cache."""
        if not os.access(self.home / "building", os.W_OK) or not any((self.home / "building").iterdir()):
            return ()
        try:
            with self._lock(_silent, 0.0):
                return self._sweep()
        except LockBusy:
            return ()

    def clear(self) -> None:
        """Removes everything that is cached in `home`; the next call builds and downloads anew."""
        for name in ("refs", "objects", "building", "verified"):
            shutil.rmtree(self.home / name, ignore_errors=True)

    def _build(self, reference: str, fill: Callable[[Path], None]) -> Path:
        fresh = Path(tempfile.mkdtemp(dir=self.home / "building"))
        fresh.chmod(0o755)  # root's apt downloads as a user of its own
        try:
            content = fresh / "content"
            content.mkdir()
            fill(content)
            settle(content)
            target = self.home / "objects" / tree_digest(content)
            if target.exists() and tree_digest(target) != target.name:
                target.rename(fresh / "damaged")
            if not target.exists():
                content.rename(target)
                self._note(target.name, _state_of(target))
            pointer = fresh / "pointer"
            pointer.symlink_to(Path("..") / "objects" / target.name)
            pointer.replace(self.home / "refs" / reference)
            return target
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def _note(self, name: str, state: str) -> None:
        """Remembers in which state an object's files had the hash that it is named by."""
        note = self.home / "verified" / name
        with contextlib.suppress(OSError, NotPrivate):  # a cache that cannot be written is hashed each time
            make_shown_folder(note.parent)
            draft = note.with_suffix(f".{os.getpid()}")
            draft.unlink(missing_ok=True)
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644), "w") as file:
                file.write(state)
            draft.replace(note)

    def _sweep(self) -> tuple[Path, ...]:
        """What is gone now. Only with the lock held: whoever made these folders is dead."""
        leftovers = tuple((self.home / "building").iterdir())
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
        return tuple(leftover for leftover in leftovers if not os.path.lexists(leftover))

    def _make(self) -> None:
        """The folders; ImageError where one is another user's, or others may write to it."""
        for folder in (self.home, *(self.home / name for name in ("objects", "refs", "building"))):
            if not folder.is_dir():
                make_shown_folder(folder)
            if (refusal := writers_refusal(folder)) is not None:
                raise ImageError(
                    f"The image cache {folder} {refusal}, and what is in it runs as a guest: remove it, or set "
                    "VIRTOLL_CACHE to a folder of your own."
                )

    @contextlib.contextmanager
    def _lock(self, progress: Progress, seconds: float) -> Iterator[None]:
        """The cache's lock; the kernel releases it when its holder dies. LockBusy after so many seconds."""

        def wait_for(pid: int | None) -> None:
            progress(f"waiting for process {pid}, which builds an image")

        folder = os.open(self.home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with held("build.lock", folder, seconds, wait_for):
                yield
        finally:
            os.close(folder)


def _silent(_line: str) -> None:
    """Nobody waits."""


def _is_safe(place: Path) -> bool:
    """Whether this user and root alone write to a cache, in which guests' programs are."""
    try:
        return all(writers_refusal(folder) is None for folder in (place, place / "refs", place / "objects"))
    except OSError:
        return False


def default_cache() -> Cache:
    """$VIRTOLL_CACHE; else root's /var/cache/virtoll; else the user's cache folder, and root's for reading."""
    named = os.environ.get("VIRTOLL_CACHE")
    if named:
        return Cache(Path(named).absolute())
    if os.geteuid() == 0 and os.access(_nearest_existing(SYSTEM_CACHE), os.W_OK):
        return Cache(SYSTEM_CACHE)
    home = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Cache(Path(home) / "virtoll", (SYSTEM_CACHE,))


def settle(folder: Path) -> None:
    """Makes everything below readable by all users and has it written to the disk.

    A rename may reach the disk before the data does; without this a power cut could leave an empty object.
    """
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def tree_digest(folder: Path) -> str:
    """SHA-256 (hex) over names, kinds, permission to execute and contents; not over times or owners."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda path: os.fsencode(path.relative_to(folder))):
        if path.is_symlink():
            kind, content = "link", hashlib.sha256(os.fsencode(path.readlink())).hexdigest()
        elif path.is_dir():
            kind, content = "folder", ""
        else:
            kind = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
            content = file_digest(path)
        digest.update(os.fsencode(path.relative_to(folder)) + f"\0{kind}\0{content}\0".encode())
    return digest.hexdigest()


def _state_of(folder: Path) -> str:
    """A hash over what changes when a file below the folder is written to: names, sizes, times, inodes.

    By `scandir`, because each start from the cache takes it: an image may have tens of thousands of files.
    """
    facts: list[tuple[bytes, tuple[int, ...]]] = []
    folders = [os.fsencode(folder)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                status = entry.stat(follow_symlinks=False)
                times = (status.st_mtime_ns, status.st_ctime_ns)
                facts.append((entry.path, (status.st_mode, status.st_size, *times, status.st_ino)))
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
    start = len(os.fsencode(folder)) + 1
    digest = hashlib.sha256()
    for path, numbers in sorted(facts):
        digest.update(path[start:] + f"\0{numbers}\0".encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _nearest_existing(path: Path) -> Path:
    return path if path.exists() else _nearest_existing(path.parent)
