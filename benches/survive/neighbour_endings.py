"""A command that the victim starts in a place, how it ended, and what it changed outside of its own folders.

Main types: ``Attack``, ``Command`` and ``Ending``. Main functions: ``carried_out`` (starts a command as the victim, and
waits for its end) and ``complaints`` (what is wrong with how it ended). Must not change anything itself: for root,
``/tmp`` is a mount of the command's own.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import signal
import stat
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benches.survive.neighbour_place import TOKEN, VIRTOLL, Place

DATA_BYTES: Final = 4 << 30
FILE_BYTES: Final = 256 << 20
_HASHED_BYTES: Final = 64 << 20  # of a larger file, the size and the first bytes are compared
_END_SECONDS: Final = 30.0
_TRACEBACK: Final = re.compile(r"^Traceback \(most recent call last\)|╭─+ Traceback|^Fatal Python error", re.MULTILINE)
_WARNING: Final = "virtoll: This run folder is not as it was when the run ended"
_OWN_TMP: Final = 'mount --bind "$1" /tmp && shift && exec "$@"'


@dataclass(frozen=True)
class Command:
    """What the victim starts: ``arguments`` of virtoll, or a whole ``program`` instead.

    ``changed``: variables of its environment, None to remove one. ``free``: what the command may change. ``kept``:
    links that must stay, and where each leads. ``own_start``: its first process executes the attacker's Python by a
    variable of the victim's before Virtoll's first line, so only what other processes execute counts. ``holder``: a
    process of the attacker's that holds locks; the command may wait for it if it says so by its number. ``harmless``:
    nothing hostile is there, so the command must end with 0.
    """

    arguments: tuple[str, ...] = ()
    program: tuple[str, ...] = ()
    changed: Mapping[str, str | None] = field(default_factory=dict)
    where: Path | None = None
    free: tuple[Path, ...] = ()
    kept: Mapping[Path, str] = field(default_factory=dict)
    own_start: bool = False
    holder: subprocess.Popen[bytes] | None = None
    harmless: bool = False


@dataclass(frozen=True)
class Ending:
    """How a command ended; ``code`` is None if it did not end in ``seconds``."""

    command: Command
    code: int | None
    out: str
    err: str
    seconds: float
    executed: tuple[str, ...]
    differences: tuple[str, ...]

    def words(self) -> str:
        """The ending in words."""
        argv = self.command.program or ("virtoll", *self.command.arguments)
        variables = " ".join(f"{name}={value!r}" for name, value in self.command.changed.items())
        return f"$ {variables} {' '.join(map(repr, argv))}\nexit {self.code}\n{(self.err or self.out)[-1500:].rstrip()}"


@dataclass(frozen=True)
class Attack:
    """One way to attack: ``make`` makes it in a place and returns what the victim then starts.

    ``row``: of the table. ``two``: it needs an attacker who is another user. ``root``: the victim must be root.
    ``short``: the short form has it too. ``slow``: its command takes longer than others.
    """

    row: str
    words: str
    make: Callable[[Place, random.Random], Command]
    two: bool = False
    root: bool = False
    short: bool = False
    slow: bool = False


def carried_out(place: Place, command: Command, seconds: float) -> Ending:
    """Start a command as the victim and wait; all that it left running is ended."""
    before = _entries(place)
    environment = {**place.environment, **command.changed}
    out, err = place.top / "stdout", place.top / "stderr"
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(
            [*_become(place), *(command.program or (str(VIRTOLL), *command.arguments))],
            env={name: value for name, value in environment.items() if value is not None},
            cwd=command.where or place.home / "here",
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code: int | None = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(seconds)
        left = _ended(place, process)
    if command.holder is not None:
        command.holder.kill()
        command.holder.communicate()
    names = [path.name for path in place.reached.iterdir()]
    executed = [name for name in names if not (command.own_start and name.startswith(f"{process.pid}-"))]
    differences = _differences(place, command, before)
    differences += [f"left a process: {line}" for line in left if code is not None]
    return Ending(
        command,
        code,
        out=_text(out),
        err=_text(err),
        seconds=seconds,
        executed=tuple(sorted(executed)),
        differences=tuple(differences),
    )


def _become(place: Place) -> list[str]:
    limits = ["prlimit", f"--data={DATA_BYTES}", f"--fsize={FILE_BYTES}", "--core=0", "--"]
    if os.geteuid() != 0:
        return limits
    mounts = ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", _OWN_TMP, "sh", str(place.temporary)]
    user = place.users.victim
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"] if user else []
    return [*mounts, *limits, *become]


def _ended(place: Place, process: subprocess.Popen[bytes]) -> list[str]:
    """End what is left of a case: the command lines of processes that did not end by themselves."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    deadline = time.monotonic() + _END_SECONDS
    while (left := processes(place.top)) and time.monotonic() < deadline:
        time.sleep(0.05)  # the janitor is no child of ours, and has no event for its end
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return list(left.values())


def processes(top: Path) -> dict[int, str]:
    """The processes that a case started and that are there, with their command lines."""
    mark = f"{TOKEN}={top}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def _text(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(1 << 20).decode(errors="replace")


@dataclass(frozen=True)
class Entry:
    """One name of a folder, as it was found: everything but its times of access and change."""

    kind: str
    owner: int
    value: str

    def __str__(self) -> str:
        """It in a line."""
        return f"{self.kind} {self.value}".rstrip()


def entry_of(path: Path) -> Entry:
    """What stands there; of a folder without its time, which what is in it shows."""
    found = path.lstat()
    kind, owner = f"{stat.filemode(found.st_mode)} {found.st_uid}:{found.st_gid}", found.st_uid
    if stat.S_ISLNK(found.st_mode):
        return Entry(kind, owner, str(path.readlink()))
    if not stat.S_ISREG(found.st_mode):
        return Entry(kind, owner, "")
    with path.open("rb") as file:
        digest = hashlib.sha256(file.read(_HASHED_BYTES)).hexdigest()[:12]
    return Entry(kind, owner, f"{found.st_size} bytes, {digest}, {found.st_mtime_ns} ns")


def _entries(place: Place) -> dict[Path, Entry]:
    return dict(_at_and_below(place.top, place.reached))


def _at_and_below(path: Path, without: Path) -> Iterator[tuple[Path, Entry]]:
    with contextlib.suppress(PermissionError):  # a harness without root gave a mode away itself
        entry = entry_of(path)
        yield path, entry
        if entry.kind.startswith("d"):
            for name in sorted(path.iterdir()):
                if name != without:
                    yield from _at_and_below(name, without)


def _differences(place: Place, command: Command, before: Mapping[Path, Entry]) -> list[str]:
    """What changed and is not the victim's to change in this case; one line each."""
    after = _entries(place)
    found = []
    for path in sorted({*before, *after}):
        old, new = before.get(path), after.get(path)
        if old != new and not _allowed(place, command, path, before):
            found.append(f"{_short(place, path)}: {old}, then {new}")
    for link, target in command.kept.items():
        if not link.is_symlink() or str(link.readlink()) != target:
            found.append(f"{_short(place, link)}: the link is gone, or leads elsewhere")
    return found


def _short(place: Place, path: Path) -> str:
    return repr(str(path).removeprefix(f"{place.top}/"))


def _allowed(place: Place, command: Command, path: Path, before: Mapping[Path, Entry]) -> bool:
    """Whether the victim may change it: it is his, or new in a folder that is not somebody else's."""
    if path in {place.top / "stdout", place.top / "stderr"} or any(map(path.is_relative_to, command.free)):
        return True
    if path not in before:
        path = next(parent for parent in path.parents if parent in before)
        if path == place.temporary:
            return True
    mine = before[path].owner == place.users.victim
    return mine and any(map(path.is_relative_to, (*place.writable, place.temporary)))


def complaints(ending: Ending) -> list[str]:
    """What is wrong with how a command ended; its first word is a column of the table."""
    found = [f"executed {name}" for name in ending.executed]
    found += [f"changed {line}" for line in ending.differences]
    told = ending.out + ending.err
    holder = ending.command.holder
    named = holder is not None and re.search(rf"\b{holder.pid}\b", told) is not None
    if ending.code is None:
        return found if named else [*found, f"endless: no end after {ending.seconds:g} s"]
    if _TRACEBACK.search(told):
        found.append(f"words: a traceback, {(ending.err.strip().splitlines() or ['?'])[-1][:150]}")
    elif ending.code not in (0, 1, 2):
        found.append(f"words: exit code {ending.code}")
    elif ending.code == 2 and len(sentences(ending.err)) != 1:
        found.append(f"words: {len(sentences(ending.err))} sentences with exit code 2")
    elif ending.code == 1 and not told.strip():
        found.append("words: exit code 1 without a word")
    if ending.command.harmless and ending.code != 0:
        found.append("words: nothing hostile was there, and it did not end with 0")
    if holder is not None and ending.code == 2 and not named:
        found.append("words: refused, and does not say which process holds the lock")
    return found


def sentences(err: str) -> Sequence[str]:
    """The refusals on the standard error; that a run's files are not as they were is a warning of many commands."""
    lines = [line for line in err.splitlines() if line.startswith(("virtoll: ", "Error: "))]
    return [line for line in lines if not line.startswith(_WARNING)]
