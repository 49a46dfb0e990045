"""One command of the command line in a process of its own, with limits, and what it did besides printing.

Main types: ``Place`` (the only folders that a command may write to) and ``Outcome``. Main function: ``watched``. The
process is a fork of this one, so that nothing is imported again; Python's audit events (PEP 578) name each file that is
opened to be written, each name that is changed and each program that is started. What a library writes without Python
is found by comparing the folders before and after. ``preload`` imports what commands import late.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import re
import resource
import select
import shutil
import signal
import stat
import sys
import time
import traceback
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benches.survive.forked import keep_shared

MEMORY_BYTES: Final = 4 << 30  # that can be written to: what is only reserved, as by V8, does not count
CPU_SECONDS: Final = 600
WALL_SECONDS: Final = 900.0  # who waits for so long hangs, also beside many others
FILE_BYTES: Final = 256 << 20
_SHOWN: Final = 2000
_WRITING: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES: Final = {  # audit event -> which of its arguments are paths, and which is the folder's descriptor
    "os.mkdir": ((0,), 2),
    "os.rmdir": ((0,), 1),
    "os.remove": ((0,), 1),
    "os.truncate": ((0,), None),
    "os.chmod": ((0,), 2),
    "os.chown": ((0,), 3),
    "os.utime": ((0,), 3),
    "os.symlink": ((1,), 2),
    "os.link": ((1,), 3),
    "os.rename": ((0, 1), 2),
    "os.setxattr": ((0,), None),
}
_OWN: Final = "/report/drawer.py"  # the process that draws a report's figures
STOPPED: Final = 98
"""What a command of ``harmless`` ends with that would have started or changed something."""
_STARTS: Final = ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.fork", "os.forkpty")
_FORGIVEN: Final = ("/dev/null", "/dev/tty")
_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\)|╭─+ Traceback", re.MULTILINE)


@dataclass(frozen=True)
class Place:
    """Where a command runs: ``top`` has its folders; ``given`` is what it reads and must not change."""

    top: Path

    @property
    def given(self) -> Path:
        """What the command is given."""
        return self.top / "given"

    @property
    def allowed(self) -> Path:
        """The runs folder, the cache, reports: what it may write."""
        return self.top / "allowed"

    @property
    def here(self) -> Path:
        """The folder that it is started in, which stays empty."""
        return self.top / "here"

    @property
    def temporary(self) -> Path:
        """Its TMPDIR, empty again at its end."""
        return self.top / "tmp"

    def make(self) -> Place:
        """Make all of it, empty."""
        for folder in (self.given, self.allowed, self.here, self.temporary, self.allowed / "runs"):
            folder.mkdir(parents=True, exist_ok=True)
        return self

    @property
    def environment(self) -> dict[str, str]:
        """Of the command."""
        return {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": str(self.allowed),
            "TMPDIR": str(self.temporary),
            "VIRTOLL_RUNS": str(self.allowed / "runs"),
            "VIRTOLL_CACHE": str(self.allowed / "cache"),
            "VIRTOLL_STATE": str(self.allowed / "state"),
            "XDG_CONFIG_HOME": str(self.allowed / "config"),
            "XDG_CACHE_HOME": str(self.allowed / "caches"),
            "MPLCONFIGDIR": str(self.allowed / "plots"),
            "COLUMNS": "200",
            "NO_COLOR": "1",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }


@dataclass(frozen=True)
class Outcome:
    """How a command ended. ``code``: None where it was ended, for ``ended_by``. ``memory_bytes``: the most it held.

    ``changed``: what it changed outside of what it may. ``started``: the programs that it started.
    """

    argv: tuple[str, ...]
    code: int | None
    ended_by: str
    out: str
    err: str
    changed: tuple[str, ...]
    started: tuple[str, ...]
    memory_bytes: int
    cpu_seconds: float

    @property
    def has_traceback(self) -> bool:
        """Whether Python printed where it failed."""
        return _TRACEBACK.search(self.err) is not None

    @property
    def controls(self) -> str:
        """The characters in what it printed that would steer a terminal."""
        text = self.out + self.err
        return "".join(sorted({one for one in text if one not in "\n\t" and unicodedata.category(one) in ("Cc", "Cf")}))

    def told(self) -> str:
        """It in words."""
        said = (self.err or self.out)[-_SHOWN:]
        ended = f"exit {self.code}" if self.code is not None else f"ended: {self.ended_by}"
        parts = [f"$ virtoll {' '.join(map(repr, self.argv))}", ended, said.rstrip()]
        parts += [f"changed: {one}" for one in self.changed]
        parts += [f"started: {one}" for one in self.started]
        return "\n".join(parts)


def preload() -> None:
    """Import what the commands import late, so that a fork need not."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.dont_write_bytecode = True
    for name in (
        "virtoll.cli",
        "virtoll.pipeline.preview",
        "virtoll.pipeline.execution",
        "virtoll.pipeline.merge",
        "virtoll.pipeline.submission",
        "virtoll.pipeline.extension",
        "virtoll.api.needs",
        "virtoll.report.advice",
        "virtoll.cli.plan_words",
        "virtoll.report",
        "virtoll.report.exchange",
        "virtoll.report.reproduction",
        "virtoll.report.dataset.query",
        "virtoll.report.dataset.kept",
        "virtoll.runfolder.unpacking",
        "virtoll.runfolder.anonymous",
        "virtoll.stats.history",
        "virtoll.stats.between_runs",
        "jinja2",
        "rich.table",
        "duckdb",
        "pyarrow.parquet",
        "zstandard",
    ):
        importlib.import_module(name)
    from virtoll.platforms import EVERY_PLATFORM
    from virtoll.workloads import WORKLOADS

    for registry in (EVERY_PLATFORM, WORKLOADS):
        tuple(registry.values())
    keep_shared()


def snapshot(folder: Path) -> dict[str, str]:
    """Each name below a folder with its kind, mode and content; a large file by its size, time and inode."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        what = f"{stat.filemode(status.st_mode)} {status.st_size if not path.is_dir() else ''}"
        if stat.S_ISLNK(status.st_mode):
            what += f" -> {path.readlink()}"
        elif stat.S_ISREG(status.st_mode):
            what += f" {status.st_mtime_ns} {status.st_ino}"
            if status.st_size <= 1 << 20 and status.st_mode & 0o400:
                what += " " + hashlib.sha256(path.read_bytes()).hexdigest()
        found[str(path.relative_to(folder))] = what
    return found


def watched(
    argv: Sequence[str],
    place: Place,
    *,
    call: Callable[[], object] | None = None,
    changed: Mapping[str, str] | None = None,
    beyond: Sequence[Path] = (),
    terminal: bool = False,
    harmless: bool = False,
) -> Outcome:
    """Run ``virtoll ARGV`` in its place to its end, or until it has used what nobody needs.

    ``call`` runs in the place of the command line. ``changed``: environment variables. ``beyond``: folders outside
    of the place that must stay as they are, besides what Python's events show. ``terminal``: its output says that it
    is one. ``harmless``: before it starts a program, sends a signal or changes a file elsewhere, it ends by itself with
    ``STOPPED``.
    """
    folders = [place.given, place.here, place.temporary, *beyond]
    before = [snapshot(folder) for folder in folders]
    record, told = os.pipe()
    outputs = os.memfd_create("out"), os.memfd_create("err")
    child = os.fork()
    if child == 0:
        os.close(record)
        _be_the_command(
            argv, place, call, {**place.environment, **(changed or {})}, (told, *outputs), (terminal, harmless)
        )
    os.close(told)
    events, ended_by = _listened(record, child)
    _, status, used = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started has its group
    code = os.waitstatus_to_exitcode(status)
    texts = [_text(one) for one in outputs]
    found = [event for kind, event in events if kind == "changed"]
    for folder, old in zip(folders, before, strict=True):
        new = snapshot(folder)
        found += [f"{folder}/{name}" for name in old.keys() | new.keys() if old.get(name) != new.get(name)]
    _emptied(place.temporary)
    _emptied(place.here)
    return Outcome(
        tuple(argv),
        code if code >= 0 else None,
        ended_by or (signal.Signals(-code).name if code < 0 else ""),
        texts[0],
        texts[1],
        changed=tuple(dict.fromkeys(found)),
        started=tuple(event for kind, event in events if kind == "started"),
        memory_bytes=used.ru_maxrss << 10,
        cpu_seconds=used.ru_utime + used.ru_stime,
    )


def _emptied(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _listened(record: int, child: int) -> tuple[list[tuple[str, str]], str]:
    """The events of a child until it ends, and why it was ended."""
    data, deadline, ended_by = b"", time.monotonic() + WALL_SECONDS, ""
    descriptor = os.pidfd_open(child)
    try:
        while True:
            ready, _, _ = select.select([record, descriptor], [], [], max(deadline - time.monotonic(), 0))
            if record in ready:
                chunk = os.read(record, 1 << 16)
                data += chunk
                if chunk:
                    continue
            if not ready:
                ended_by = "it hangs"
                os.killpg(child, signal.SIGKILL)
            break
    finally:
        os.close(descriptor)
        os.close(record)
    return [(kind, text) for kind, text in map(json.loads, data.splitlines())], ended_by


def _text(descriptor: int) -> str:
    try:
        os.lseek(descriptor, 0, os.SEEK_SET)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(16 << 20).decode("utf-8", errors="backslashreplace")
    except OSError as error:
        return str(error)


def _be_the_command(
    argv: Sequence[str],
    place: Place,
    call: Callable[[], object] | None,
    variables: Mapping[str, str],
    descriptors: tuple[int, int, int],
    how: tuple[bool, bool],
) -> None:
    """In the child: it never returns."""
    told, out, err = descriptors
    terminal, harmless = how
    code = 99
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, descriptor in enumerate((nothing, out, err)):
            os.dup2(descriptor, number)
        sys.stdin, sys.stdout, sys.stderr = (
            os.fdopen(number, mode, encoding="utf-8", errors=errors)
            for number, mode, errors in ((0, "r", "strict"), (1, "w", "strict"), (2, "w", "backslashreplace"))
        )
        if terminal:
            sys.stdout.isatty = lambda: True  # type: ignore[method-assign]
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(place.here)
        for kind, most in (
            (resource.RLIMIT_DATA, MEMORY_BYTES),
            (resource.RLIMIT_CPU, CPU_SECONDS),
            (resource.RLIMIT_FSIZE, FILE_BYTES),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(kind, (most, most))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        sys.addaudithook(_Watch(told, place, harmless=harmless))
        code = _code_of(argv, call)
    except BaseException:  # noqa: BLE001 - whatever it is, it is told
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except Exception:  # noqa: BLE001, S110 - its output is gone, or no memory is left
            pass
        finally:
            os._exit(code)


def _code_of(argv: Sequence[str], call: Callable[[], object] | None) -> int:
    from virtoll import cli

    sys.argv = ["virtoll", *argv]
    try:
        (call or cli.main)()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            sys.stderr.write(ended.code)
            return 1
        return int(ended.code or 0)
    return 0


class _Watch:
    """Tells each change outside of what is allowed, and each program that starts, through a pipe."""

    def __init__(self, told: int, place: Place, *, harmless: bool) -> None:
        self._told, self._harmless = told, harmless
        self._allowed = tuple(f"{folder}/" for folder in (place.allowed, place.temporary))
        self._known: set[tuple[str, str]] = set()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit event; others than these are passed over."""
        if event == "open":
            path, mode, flags = arguments
            # os.open does not tell the folder that a name is below; the folders' comparison finds such a file.
            below = mode is None and "/" not in os.fsdecode(path if not isinstance(path, int) else "")
            if not (isinstance(path, int) or below) and ((flags or 0) & _WRITING or set(mode or "") & set("wax+")):
                self._judge(path, None, "open")
        elif event in _CHANGES:
            places, at = _CHANGES[event]
            for number in places:
                self._judge(arguments[number], None if at is None else arguments[at], event)
        elif event in _STARTS:
            what = " ".join(map(str, arguments[1])) if len(arguments) > 1 else event
            if _OWN not in what:
                self._tell("started", what)
        elif event == "socket.connect" or (event == "os.kill" and self._harmless):
            self._tell("started", f"{event} {arguments[1]}")

    def _tell(self, kind: str, text: str) -> None:
        if (kind, text) not in self._known:
            self._known.add((kind, text))
            os.write(self._told, json.dumps([kind, text[:_SHOWN]]).encode() + b"\n")
        if self._harmless:
            os._exit(STOPPED)

    def _judge(self, path: Any, folder: Any, event: str) -> None:
        """Tell a change of a path, below an open folder where one is given, unless it is allowed."""
        text = str(Path(f"/proc/self/fd/{path}").readlink()) if isinstance(path, int) else os.fsdecode(path)
        if isinstance(folder, int) and folder >= 0:
            text = f"{Path(f'/proc/self/fd/{folder}').readlink()}/{text}"
        parent, _, name = f"/{text}".rpartition("/") if text.startswith("/") else f"{Path.cwd()}/{text}".rpartition("/")
        whole = f"{os.path.realpath(parent)}/{name}"
        if whole not in _FORGIVEN and not f"{whole}/".startswith((*self._allowed, "/proc/self/fd/")):
            self._tell("changed", f"{event} {whole}")
