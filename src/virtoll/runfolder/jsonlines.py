"""Append-only JSON lines and atomically replaced JSON files: what the run folder is made of.

One line is one record. `append` writes a whole line, flushes and fsyncs it, so that a record is either there or not.
A torn last line (the writer was killed) is dropped by `read` and cut off by `repair`.
What is written is durable: a file's content by its fsync, its name by that of its folder, a folder's by its parent's.
Each is opened by its name below the run folder `root` (default: the folder that it stands in), and no link is followed
(`plain`). It must not know what a record means: that is `store`.
"""

import contextlib
import dataclasses
import errno
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from virtoll.errors import RunFolderError, StorageError
from virtoll.runfolder.opened import open_file
from virtoll.runfolder.plain import (
    FILE_MODE,
    FOLDER_MODE,
    Place,
    make_folders,
    open_appended,
    open_changed,
    open_new,
    place,
)
from virtoll.runfolder.taken_over import is_claimed, is_shared, refuse_taken_over
from virtoll.system.locks import locked_within

_OTHERS_SECONDS: Final = 60.0  # each holds a file's lock for one line
MOST_LINE_BYTES: Final = 64 << 20
"""Of one record; an agent's longest answer has 8 MiB."""


def loads(data: bytes | str) -> Any:
    """JSON as Python has it; ValueError for what is none, also where it is nested deeper than Python goes."""
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def encode(record: Mapping[str, object]) -> bytes:
    """One record as one line of UTF-8, ended by a newline; NaN and infinity are refused (they are not JSON)."""
    try:
        return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() + b"\n"
    except (TypeError, ValueError) as error:
        raise RunFolderError(
            f"a record cannot be stored as JSON: {error}. Store plain numbers, text, lists and dicts."
        ) from error


def append(path: Path, line: bytes, root: Path | None = None) -> None:
    """Append one line and make it durable; when that fails, cut the partial line off again.

    A disk may fail so that this cannot be either. Then the next record takes the partial line's place.
    Raises StorageError naming the file and the cause (for example: no space left on device).
    """
    try:
        with place(path, root) as at:
            descriptor = open_appended(at)
            try:
                _append(descriptor, at, line)
            finally:
                os.close(descriptor)
    except OSError as error:
        raise _write_failure(path, error) from error


def _append(descriptor: int, at: Place, line: bytes) -> None:
    before: int | None = None
    try:
        if is_claimed(at.root):
            # A lock that a host lost has its later writes refused; without it they would stand amid another's. On a
            # disk of this host alone there is no such loss, and who may read the file could hold the lock.
            if is_shared(at.root) and not locked_within(descriptor, _OTHERS_SECONDS):
                raise OSError(errno.EAGAIN, f"another process has it locked for more than {_OTHERS_SECONDS:g} s")
            refuse_taken_over(at.root, at.path.parent)
        before = os.fstat(descriptor).st_size
        if before and os.pread(descriptor, 1, before - 1) != b"\n":
            before = _cut(descriptor)
        _write_all(descriptor, line)
        os.fsync(descriptor)
        if not before:  # its name may be new
            os.fsync(at.folder)
    except BaseException:
        with contextlib.suppress(OSError):  # what remains is a torn last line, which readers drop
            if before is not None:
                os.ftruncate(descriptor, before)
        raise


def _cut(descriptor: int) -> int:
    """Cut a torn last line off; the length of what is whole."""
    whole = _whole_length(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
    os.ftruncate(descriptor, whole)
    return whole


def _write_all(descriptor: int, data: bytes) -> None:
    """Write all of `data`: a full disk may take a part of it before it complains."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _write_failure(path: Path, error: OSError) -> StorageError:
    return StorageError(
        f"cannot write {path}: {error.strerror or error}. Earlier results are intact. Free space or fix "
        "the permissions, then run `virtoll resume`."
    )


def read(path: Path) -> Iterator[tuple[int, bytes]]:
    """The whole lines of a file, as (line number from 1, bytes); a torn last line is left out, no file is no lines.

    One line is in memory at a time. RunFolderError where the file cannot be read, or a line is longer than
    `MOST_LINE_BYTES`.
    """
    number, held = 0, None  # the last line is told from others when no further one comes
    try:
        with open_file(path) as file:
            while line := file.readline(MOST_LINE_BYTES + 1):
                if len(line) > MOST_LINE_BYTES:
                    raise RunFolderError(
                        f"{path}, line {number + 1}: is longer than {MOST_LINE_BYTES >> 20} MiB. Restore the file."
                    )
                if not line.endswith(b"\n"):
                    break
                if held is not None:
                    yield number, held
                number, held = number + 1, line[:-1]
    except FileNotFoundError:
        return
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror or error}.") from error
    if held is not None and _whole_length(held + b"\n"):
        yield number, held


def repair(path: Path, root: Path | None = None) -> int:
    """Cut a torn last line off; gives the number of bytes that were cut (0: the file was whole or is not there).

    Only the end is read. RunFolderError where no line ends in the last `MOST_LINE_BYTES`.
    """
    try:
        with place(path, root) as at, os.fdopen(open_changed(at), "r+b", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            start = max(size - 2 * MOST_LINE_BYTES, 0)
            data = os.pread(file.fileno(), size - start, start)
            if start and b"\n" not in data[-MOST_LINE_BYTES:]:
                raise RunFolderError(
                    f"{path}: its last line is longer than {MOST_LINE_BYTES >> 20} MiB. Restore the file."
                )
            torn = len(data) - _whole_length(data)
            if torn:
                file.truncate(size - torn)
                os.fsync(file.fileno())
            return torn
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise _write_failure(path, error) from error


def _whole_length(data: bytes) -> int:
    """Length of the part that consists of whole lines.

    The last line is torn when it has no newline, or when it has one but is not JSON (a file system may bring a
    file back with its length and not its last bytes).
    """
    end = data.rfind(b"\n") + 1
    start = data.rfind(b"\n", 0, max(end - 1, 0)) + 1
    if end:
        try:
            loads(data[start:end])
        except ValueError:
            return start
    return end


def replace(path: Path, content: Mapping[str, object], root: Path | None = None) -> None:
    """Write a JSON file as `replace_text` does; StorageError where that fails."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, indent=1) + "\n"
    try:
        with place(path, root) as at:
            refuse_taken_over(at.root, path.parent)
        replace_text(path, text, root)
    except OSError as error:
        raise _write_failure(path, error) from error


def remove(path: Path, root: Path | None = None) -> None:
    """Remove a file for good where it is there; StorageError where that cannot be."""
    try:
        with place(path, root) as at:
            refuse_taken_over(at.root, path.parent)
            os.unlink(at.name, dir_fd=at.folder)
            os.fsync(at.folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _write_failure(path, error) from error


Errors = Literal["strict", "surrogateescape"]


def replace_text(
    path: Path, text: str, root: Path | None = None, *, errors: Errors = "strict", mode: int = FILE_MODE
) -> None:
    """Write a file so that a reader sees the old content or the new, never a part: fsync, then rename; OSError.

    ``errors``: `surrogateescape` where the text has names of files, which may be any bytes. ``mode``: the file's, less
    what the umask takes away.
    """
    with place(path, root) as at:
        _replace(at, f"{path.name}.new", text.encode("utf-8", errors=errors), mode)


def _replace(at: Place, draft: str, content: bytes, mode: int = FILE_MODE) -> None:
    """``draft``: the name of the new file until it is whole."""
    try:
        _write_new(dataclasses.replace(at, name=draft), content, mode)
        os.rename(draft, at.name, src_dir_fd=at.folder, dst_dir_fd=at.folder)
        os.fsync(at.folder)
    except OSError:
        with contextlib.suppress(OSError):  # the first error is the one to tell; the next writer takes its place
            os.unlink(draft, dir_fd=at.folder)
        raise


def write_whole(path: Path, text: str) -> None:
    """As `replace_text`, of a place that a user gave; OSError.

    What is no file (a pipe, a device), or stands where none may be made beside it, is written to as it is.
    """
    path = path.resolve()
    if path.exists() and (not path.is_file() or not os.access(path.parent, os.W_OK)):
        path.write_text(text, encoding="utf-8")
        return
    with place(path) as at:
        _replace(at, f".{path.name}.new-{secrets.token_hex(4)}", text.encode())  # a name that no file of the user's has


def write_bytes(path: Path, content: bytes, root: Path | None = None) -> None:
    """Write a file of a folder that is durable itself, and its name; OSError."""
    with place(path, root) as at:
        _write_new(at, content)
        os.fsync(at.folder)


def _write_new(at: Place, content: bytes, mode: int = FILE_MODE) -> None:
    with os.fdopen(open_new(at, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def make_folder(path: Path, root: Path | None = None) -> None:
    """Make a folder with its parents where they are missing, and make their names durable; OSError.

    With ``root`` the run folder that it is below is there.
    """
    if root is not None:
        make_folders(path, root)
        return
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    for folder in reversed(missing):
        with contextlib.suppress(PermissionError):  # a parent that may be written to, and not be read
            sync_directory(folder.parent)


def sync_directory(path: Path) -> None:
    """Make durable which files a folder has."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
