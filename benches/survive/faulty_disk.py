"""A disk with a fault, as a file system in user space: it counts its calls, fails, is full, slow or recorded.

`mounted` mounts one over a folder for a block, in the mount namespace of its caller, which must be one of its own
(`own_mounts`). The server is a process of its own, which ends with its parent. `Fault` says what goes wrong, and `Seen`
what was asked for. With `recorded` every change is kept (`Change`), in order, by numbers of files and folders, as the
power loss replays it (`power_loss.py`).

Nothing is cached on the way: each read, write and look-up of a program is a call here. A lock (flock) is the kernel's
own. A rename with flags (RENAME_EXCHANGE) is what the folder below does of it, or is refused as NFS does.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import pickle
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

_libc = ctypes.CDLL(None, use_errno=True)
_NEWNS, _NEWUSER = 0x00020000, 0x10000000
_PRIVATE = 1 << 18 | 1 << 14  # MS_PRIVATE | MS_REC
_DETACH = 2
_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_EXCHANGE = 2

CHANGING: Final = frozenset(
    {"create", "write", "truncate", "rename", "unlink", "mkdir", "rmdir", "symlink", "link", "chmod"}
)
"""Calls that change the disk, of which some need room."""
GROWING: Final = frozenset({"create", "mkdir", "symlink", "link", "rename"})
SYNCING: Final = frozenset({"fsync", "fsyncdir"})
LOOKING: Final = frozenset({"getattr", "readdir", "open", "read", "readlink"})
MARK: Final = "/.told-"
"""A look-up of a name that begins so is kept among the changes: what a program had told by then."""
EVERY: Final = CHANGING | SYNCING | LOOKING


@dataclass(frozen=True)
class Fault:
    """What goes wrong.

    ``kinds``: which calls count, of `EVERY`. ``first``: the number of the first that fails, from 1; None: none does.
    ``times``: how many fail from there on; None: all. ``number``: the error. ``room_bytes``: what may be written
    besides what is there, the last write in part; None: no limit. ``fsync_seconds``: how long each fsync takes.
    ``exchanges``: whether two folders can be exchanged. ``shared_locks``: locks
    of files are those of the folder below, and of folders the mount's own, as NFS has them. ``recorded``: keep every
    change.
    """

    kinds: frozenset[str] = EVERY
    first: int | None = None
    times: int | None = 1
    number: int = errno.EIO
    room_bytes: int | None = None
    fsync_seconds: float = 0.0
    exchanges: bool = True
    shared_locks: bool = False
    recorded: bool = False


@dataclass(frozen=True)
class Change:
    """One call that changed the disk or made it durable.

    ``node``: the number of its file or folder. ``folder``, ``name``: the place; ``to_folder``, ``to_name``: that of a
    rename or link. ``offset``, ``data``: of a write; ``offset`` is also the length of a truncation,
    and of an exchange the other's number.
    """

    kind: str
    node: int = 0
    folder: int = 0
    name: str = ""
    to_folder: int = 0
    to_name: str = ""
    offset: int = 0
    data: bytes = b""


@dataclass
class Seen:
    """What was asked for: ``calls`` by kind, how many ``failed``, and the changes where they were recorded."""

    calls: Counter[str] = field(default_factory=Counter)
    failed: int = 0
    changes: list[Change] = field(default_factory=list)


def own_mounts() -> None:
    """Give this process a mount namespace of its own, of which nothing reaches the machine's; OSError."""
    uid, gid = os.geteuid(), os.getegid()
    if _libc.unshare(_NEWNS if uid == 0 else _NEWNS | _NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    if uid != 0:
        Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1", encoding="ascii")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1", encoding="ascii")
    mount("none", Path("/"), "", flags=_PRIVATE)


def mount(source: str, target: Path, kind: str, data: str = "", flags: int = 0) -> None:
    """mount(2); OSError that names the target."""
    words = (source.encode(), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), data.encode() or None)
    if _libc.mount(*words) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


def unmount(target: Path) -> None:
    """umount2(2), also of one that is in use."""
    if _libc.umount2(os.fsencode(target), _DETACH) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(target))


@contextlib.contextmanager
def tmpfs(target: Path, size_bytes: int) -> Iterator[Path]:
    """A small disk in memory."""
    target.mkdir(exist_ok=True)
    mount("none", target, "tmpfs", f"size={size_bytes},mode=755")
    try:
        yield target
    finally:
        unmount(target)


@contextlib.contextmanager
def mounted(below: Path, at: Path, fault: Fault) -> Iterator[Seen]:
    """The folder ``below`` seen through a disk with this fault; what was asked of it is there when the block ends."""
    at.mkdir(exist_ok=True)
    seen = Seen()
    with tempfile.TemporaryFile() as told:
        ready, begun = os.pipe()
        server = os.fork()
        if server == 0:
            os.close(ready)
            _serve(below, at, fault, told.fileno(), begun)
        os.close(begun)
        try:
            if not os.read(ready, 1):
                raise OSError(errno.ENODEV, "the file system in user space did not begin")
            yield seen
        finally:
            os.close(ready)
            with contextlib.suppress(OSError):
                unmount(at)
            os.waitpid(server, 0)
            told.seek(0)
            with contextlib.suppress(EOFError):
                found: Seen = pickle.load(told)  # noqa: S301 - of our own child
                seen.calls, seen.failed, seen.changes = found.calls, found.failed, found.changes


def _serve(below: Path, at: Path, fault: Fault, told: int, begun: int) -> None:
    """In the child: never returns."""
    code = 1
    try:
        _libc.prctl(_PARENT_DIES, signal.SIGKILL)
        mfusepy: Any = __import__("mfusepy")

        class Server(mfusepy.FUSE):  # type: ignore[misc]
            """Hands a rename's flags on."""

            def rename_fuse_3(self, old: bytes, new: bytes, flags: int) -> int:
                """As the kernel asks."""
                self.operations.exchange_or_rename(os.fsdecode(old), os.fsdecode(new), flags)
                return 0

        disk = _Disk(below, fault, begun)
        uncached = {"attr_timeout": 0.0, "entry_timeout": 0.0, "negative_timeout": 0.0, "direct_io": True}
        Server(disk, str(at), foreground=True, nothreads=True, **uncached)
        with os.fdopen(os.dup(told), "wb") as file:
            pickle.dump(disk.seen, file)
        code = 0
    finally:
        os._exit(code)


class _Disk:
    """The calls, by their names in libfuse, on the folder below."""

    use_ns = True

    def __init__(self, below: Path, fault: Fault, begun: int) -> None:
        self._below = str(below)
        self._fault = fault
        self._begun = begun
        self._counted = 0
        self._written = 0
        self._numbers: dict[int, int] = {}  # of the folder below: a file system may use one again
        self.seen = Seen()
        if fault.shared_locks:
            self.flock = self._flock  # libfuse looks for the name: without one a lock is the mount's own

    def init(self, _path: str) -> None:
        """It is mounted."""
        os.write(self._begun, b".")

    def destroy(self, _path: str) -> None:
        """Nothing is held."""

    def getattr(self, path: str, handle: int | None = None) -> dict[str, int]:
        """Facts of a file."""
        if path.startswith(MARK):
            self._keep("told", name=path.removeprefix(MARK))
        self._asked("getattr")
        status = os.fstat(handle) if handle is not None else os.lstat(self._at(path))
        names = ("mode", "nlink", "uid", "gid", "size", "atime_ns", "mtime_ns", "ctime_ns", "ino")
        facts = {f"st_{name}": int(getattr(status, f"st_{name}")) for name in names}
        return {name.removesuffix("_ns"): value for name, value in facts.items()}

    def readdir(self, path: str, _handle: int) -> list[str]:
        """Names."""
        self._asked("readdir")
        return [".", "..", *os.listdir(self._at(path))]  # noqa: PTH208

    def readlink(self, path: str) -> str:
        """What it points to."""
        self._asked("readlink")
        return os.readlink(self._at(path))  # noqa: PTH115

    def open(self, path: str, flags: int) -> int:
        """A handle."""
        self._asked("open")
        handle = os.open(self._at(path), flags & ~(os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_DIRECT))
        if flags & os.O_TRUNC:
            self._keep("truncate", node=self._node(path))
        return handle

    def create(self, path: str, mode: int, flags: int = 0) -> int:
        """A new file."""
        self._asked("create")
        handle = os.open(self._at(path), (flags | os.O_CREAT | os.O_RDWR) & ~(os.O_APPEND | os.O_WRONLY), mode)
        self._keep("create", node=self._node(path, new=True), **self._place(path))
        return handle

    def read(self, _path: str, size: int, offset: int, handle: int) -> bytes:
        """Bytes."""
        self._asked("read")
        return os.pread(handle, size, offset)

    def write(self, path: str, data: bytes, offset: int, handle: int) -> int:
        """As many as there is room for."""
        self._asked("write")
        room = self._fault.room_bytes
        if room is not None:
            data = data[: max(0, room - self._written)]
            if not data:
                self.seen.failed += 1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._written += len(data)
        self._keep("write", node=self._node(path, handle), offset=offset, data=data)
        return os.pwrite(handle, data, offset)

    def truncate(self, path: str, length: int, handle: int | None = None) -> None:
        """Cut or lengthen."""
        self._asked("truncate")
        self._keep("truncate", node=self._node(path, handle), offset=length)
        os.truncate(self._at(path) if handle is None else handle, length)

    def flush(self, _path: str, _handle: int) -> None:
        """A descriptor is closed: nothing is made durable by that."""

    def release(self, _path: str, handle: int) -> None:
        """The last one is."""
        os.close(handle)

    def fsync(self, path: str, _data: int, handle: int) -> None:
        """Durable from here on."""
        self._asked("fsync")
        time.sleep(self._fault.fsync_seconds)
        self._keep("fsync", node=self._node(path, handle))

    def fsyncdir(self, path: str, _data: int, _handle: int) -> None:
        """The names in a folder are."""
        self._asked("fsyncdir")
        time.sleep(self._fault.fsync_seconds)
        self._keep("fsync", node=self._node(path))

    def mkdir(self, path: str, mode: int) -> None:
        """A new folder."""
        self._asked("mkdir")
        os.mkdir(self._at(path), mode)  # noqa: PTH102
        self._keep("mkdir", node=self._node(path, new=True), **self._place(path))

    def unlink(self, path: str) -> None:
        """Take a name away."""
        self._asked("unlink")
        self._keep("unlink", **self._place(path))
        os.unlink(self._at(path))  # noqa: PTH108

    def rmdir(self, path: str) -> None:
        """Take a folder away."""
        self._asked("rmdir")
        os.rmdir(self._at(path))  # noqa: PTH106
        self._keep("unlink", **self._place(path))

    def symlink(self, path: str, target: str) -> None:
        """A link by name."""
        self._asked("symlink")
        os.symlink(target, self._at(path))  # noqa: PTH211
        self._keep("symlink", node=self._node(path, new=True), data=os.fsencode(target), **self._place(path))

    def link(self, path: str, target: str) -> None:
        """A second name."""
        self._asked("link")
        os.link(self._at(target), self._at(path))
        self._keep("link", node=self._node(path), **self._place(path))

    def exchange_or_rename(self, old: str, new: str, flags: int) -> None:
        """renameat2(2)."""
        self._asked("rename")
        if flags and not self._fault.exchanges:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        if _libc.renameat2(-100, os.fsencode(self._at(old)), -100, os.fsencode(self._at(new)), flags) != 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        folder, name = self._numbered(os.path.dirname(new)), os.path.basename(new)  # noqa: PTH119, PTH120
        if flags & _EXCHANGE:
            places = {"to_folder": folder, "to_name": name, **self._place(old)}
            self._keep("exchange", node=self._node(new), offset=self._node(old), **places)
        else:
            self._keep("rename", node=self._node(new), to_folder=folder, to_name=name, **self._place(old))

    def rename(self, old: str, new: str) -> None:
        """Without flags."""
        self.exchange_or_rename(old, new, 0)

    def chmod(self, path: str, mode: int) -> None:
        """Who may do what."""
        self._asked("chmod")
        os.chmod(self._at(path), mode)  # noqa: PTH101

    def chown(self, path: str, uid: int, gid: int) -> None:
        """Whose it is."""
        os.chown(self._at(path), uid, gid, follow_symlinks=False)

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> None:
        """When it was used."""
        if times is None:
            os.utime(self._at(path), follow_symlinks=False)
        else:
            os.utime(self._at(path), ns=times, follow_symlinks=False)

    def statfs(self, path: str) -> dict[str, int]:
        """The room that is left."""
        found = os.statvfs(self._at(path))
        facts = {
            name: int(getattr(found, name)) for name in ("f_bsize", "f_blocks", "f_bfree", "f_bavail", "f_namemax")
        }
        if self._fault.room_bytes is not None:
            left = max(0, self._fault.room_bytes - self._written)
            facts |= {"f_frsize": 1, "f_bsize": 1, "f_bfree": left, "f_bavail": left}
        return facts

    def _flock(self, _path: str, handle: int, operation: int) -> None:
        """A lock of a file, which is not waited for."""
        fcntl.flock(handle, operation | fcntl.LOCK_NB)

    def _at(self, path: str) -> str:
        return self._below + path

    def _asked(self, kind: str) -> None:
        """Count a call; OSError where it is one that fails."""
        self.seen.calls[kind] += 1
        fault = self._fault
        if fault.room_bytes is not None and kind in GROWING and self._written >= fault.room_bytes:
            self.seen.failed += 1
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if kind not in fault.kinds:
            return
        self._counted += 1
        last = None if fault.first is None or fault.times is None else fault.first + fault.times
        if fault.first is not None and fault.first <= self._counted and (last is None or self._counted < last):
            self.seen.failed += 1
            raise OSError(fault.number, os.strerror(fault.number))

    def _keep(self, kind: str, **facts: Any) -> None:
        if self._fault.recorded:
            self.seen.changes.append(Change(kind, **facts))

    def _node(self, path: str, handle: int | None = None, *, new: bool = False) -> int:
        """The number of a file or folder; the folder that all is in has 0."""
        if not self._fault.recorded:
            return 0
        if path == "/" and handle is None:
            return 0
        inode = (os.lstat(self._at(path)) if handle is None else os.fstat(handle)).st_ino
        if new or inode not in self._numbers:
            self._numbers[inode] = max(self._numbers.values(), default=0) + 1
        return self._numbers[inode]

    def _numbered(self, folder: str) -> int:
        return self._node(folder or "/")

    def _place(self, path: str) -> dict[str, Any]:
        folder, name = os.path.split(path)
        return {"folder": self._numbered(folder), "name": name} if self._fault.recorded else {}
