"""Quieten this host for measurements, and put back exactly what was there: ``virtoll doctor --tune`` and ``--reset``.

Main types: ``TuningRecord``, ``Outcome``. Every value that is going to be changed is on disk before the first is
written. A crash at any moment thus leaves a record from which ``reset`` works. The record ends with the boot: then the
kernel has its own values again.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from virtoll.errors import UsageError
from virtoll.host.readings import read_text
from virtoll.host.settings import SETTINGS, Setting, TunedHost, Wish
from virtoll.runfolder.jsonlines import replace_text, sync_directory
from virtoll.runfolder.moments import as_moment
from virtoll.system.locks import held
from virtoll.system.private import NotPrivate, place_refusal, writers_refusal

TUNED_VARIABLE = "VIRTOLL_TUNED"  # in a lab, whose /run is its own: the record's text; empty where there is none
_NAME = "tuning.json"
_COMMAND = "virtoll doctor --reset"
_LOCK, _LOCK_SECONDS = "tuning.lock", 60.0
_BOOT_ID = "proc/sys/kernel/random/boot_id"

Write = Callable[[Path, str], None]


@dataclass(frozen=True)
class Remembered:
    """One file's value before the tuning."""

    setting: str
    path: str
    before: str


@dataclass(frozen=True)
class TuningRecord:
    """What a tuning changed, in the order of writing; ``boot_id`` is the kernel's, ``since_realtime_ns`` its start."""

    boot_id: str
    since_realtime_ns: int
    entries: tuple[Remembered, ...] = ()

    @property
    def settings(self) -> list[str]:
        """Names of the settings that are in force."""
        return list(dict.fromkeys(entry.setting for entry in self.entries))

    def before(self, setting: str) -> dict[str, str | None]:
        """The value of each file of a setting before the tuning, by path."""
        return {entry.path: entry.before for entry in self.entries if entry.setting == setting}

    def as_text(self) -> str:
        """As it is on disk."""
        return json.dumps(asdict(self), indent=1) + "\n"


@dataclass(frozen=True)
class Row:
    """One setting of the table that is shown; values of several files are counted."""

    setting: str
    was: str
    now: str
    note: str


@dataclass(frozen=True)
class Outcome:
    """What was done, or would be; ``kept`` counts the files that could not be put back."""

    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    kept: int = 0


def tuning_folder() -> Path:
    """Where the record is: $VIRTOLL_STATE, else /run/virtoll-tuning, also for an ordinary user, who may read it."""
    return Path(os.environ.get("VIRTOLL_STATE") or "/run/virtoll-tuning")


def in_force(folder: Path | None = None, root: Path = Path("/")) -> TuningRecord | None:
    """The tuning that this boot is under; None: none. Inside a lab it is the one at the lab's start."""
    handed = os.environ.get(TUNED_VARIABLE)
    if handed is not None:
        return _parse(handed, TUNED_VARIABLE) if handed else None
    record = _load(folder or tuning_folder())
    return record if record is not None and record.boot_id == read_text(root / _BOOT_ID) else None


def for_the_lab() -> dict[str, str]:
    """The variable from which ``in_force`` knows it inside a lab."""
    record = in_force()
    return {TUNED_VARIABLE: record.as_text() if record is not None else ""}


def write_value(file: Path, value: str) -> None:
    """Write a setting's file; ``OSError`` with the kernel's reason. A file that is not there is not made."""
    descriptor = os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{value}\n".encode())
    finally:
        os.close(descriptor)


def tune(
    host: TunedHost,
    folder: Path,
    names: Collection[str] = SETTINGS,
    *,
    dry_run: bool = False,
    write: Write = write_value,
) -> Outcome:
    """Write down what is there, then write each wished value and read it back; ``folder``: the record's.

    What an earlier tuning of this boot remembered is kept as it is.
    """
    with _locked(folder, dry_run):
        record, remarks = _usable(folder, host)
        wishes = {name: SETTINGS[name].wish(host) for name in filter(names.__contains__, SETTINGS)}
        known = {entry.path: entry.before for entry in record.entries}
        present = {path: host.read(path) for wish in wishes.values() for path in wish.values}
        anew = _anew(wishes, known, present)
        if (anew or remarks) and not dry_run:
            record = replace(record, entries=(*record.entries, *anew))
            _save(folder, record)
        rows = []
        for name, wish in wishes.items():
            # An interrupt that is away already has no wish: what was there before is what this record says.
            was = record.before(name) | {path: known.get(path, present[path]) for path in wish.values}
            rows.append(_tuned(host, name, wish, was, present, None if dry_run else write))
        if not dry_run and record.entries:
            changed = [entry for entry in record.entries if host.read(entry.path) != entry.before]
            _save(folder, replace(record, entries=tuple(changed)))
        return Outcome(tuple(rows), remarks)


def _anew(wishes: Mapping[str, Wish], known: Mapping[str, str], present: Mapping[str, str | None]) -> list[Remembered]:
    """What is to be remembered besides what is known: values that are there and are not as wished."""
    anew = []
    for name, wish in wishes.items():
        for path, value in wish.values.items():
            before = present[path]
            if path not in known and before is not None and before != value:
                anew.append(Remembered(name, path, before))
    return anew


def _tuned(
    host: TunedHost,
    name: str,
    wish: Wish,
    was: dict[str, str | None],
    present: Mapping[str, str | None],
    write: Write | None,
) -> Row:
    """Write what is not as wished, without ``write`` nothing; the setting's row."""
    refused = Counter[str]()
    for path, value in wish.values.items():
        if write is not None and present[path] != value:
            refused += _try(host, path, value, write)
    now = {path: host.read(path) for path in was} | (dict(wish.values) if write is None else {})
    return _row(name, was, now, _note(len(wish.values), refused, "could not be set"), wish.reason)


def reset(host: TunedHost, folder: Path, *, dry_run: bool = False, write: Write = write_value) -> Outcome:
    """Put back what the record has, the last first, and read it back; what cannot be put back stays in the record."""
    if not any((folder / name).exists() for name in (_NAME, f"{_NAME}.new", _LOCK)):
        return Outcome((), ("nothing to reset: no tuning is in force",))
    with _locked(folder, dry_run):
        record, remarks = _usable(folder, host)
        if not record.entries:
            if not dry_run:
                _save(folder, record)
            return Outcome((), remarks or ("nothing to reset: no tuning is in force",))
        kept: list[Remembered] = []
        rows = []
        for name in reversed(record.settings):
            entries = [entry for entry in reversed(record.entries) if entry.setting == name]
            row, failed = _put_back(host, entries, SETTINGS[name], None if dry_run else write)
            rows.append(row)
            kept += failed
        if not dry_run:
            kept.reverse()
            _save(folder, replace(record, entries=tuple(kept)))
        return Outcome(tuple(rows), remarks, len(kept))


def _put_back(
    host: TunedHost, entries: Sequence[Remembered], setting: Setting, write: Write | None
) -> tuple[Row, list[Remembered]]:
    """Put back the files of one setting (none without ``write``); its row, and the entries that are not as before."""
    was, now, refused, vanished = {}, {}, Counter[str](), 0
    kept = []
    for entry in entries:
        was[entry.path] = host.read(entry.path)
        if was[entry.path] is None and setting.may_vanish:
            vanished += 1
            continue
        if was[entry.path] != entry.before and write is not None:
            refused += _try(host, entry.path, entry.before, write)
        now[entry.path] = entry.before if write is None else host.read(entry.path)
        if now[entry.path] != entry.before:
            kept.append(entry)
    note = _note(len(entries), refused, "could not be put back")
    gone = f"{vanished} are not there any more" if vanished else ""
    return _row(entries[0].setting, was, now, note, gone, setting.after_reset), kept


def _try(host: TunedHost, path: str, value: str, write: Write) -> Counter[str]:
    """Write a value and read it back; why it is not there, counted, or nothing."""
    try:
        write(host.file(path), value)
    except OSError as error:
        return Counter([error.strerror or str(error)])
    actual = host.read(path)
    return Counter() if actual == value else Counter([f"it reads '{actual}' and not '{value}'"])


def _note(files: int, refused: Counter[str], what: str) -> str:
    if not refused:
        return ""
    return f"{refused.total()} of {files} {what}: " + ", ".join(f"{why} ({count})" for why, count in refused.items())


def _row(name: str, was: dict[str, str | None], now: dict[str, str | None], *notes: str) -> Row:
    return Row(name, _summary(was), _summary(now), "; ".join(filter(None, notes)))


def _summary(values: dict[str, str | None]) -> str:
    """Each value once, with its count where there are several files."""
    counts = Counter("not there" if value is None else value for value in values.values())
    return ", ".join(value if len(values) == 1 else f"{value} ({count})" for value, count in counts.items())


@contextlib.contextmanager
def _locked(folder: Path, dry_run: bool) -> Iterator[None]:
    """One tuning at a time; ``LockBusy`` names the process that is at work, ``NotPrivate`` a folder of another user."""
    if dry_run:
        yield
        return
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    _refuse_others(folder)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with held(_LOCK, descriptor, _LOCK_SECONDS):
            yield
    finally:
        with contextlib.suppress(OSError):
            folder.rmdir()  # if nothing is remembered and no lab has its record there
        os.close(descriptor)


def _refuse_others(path: Path) -> None:
    """``NotPrivate`` for a folder or file that another user may have written; ``OSError`` if it is missing."""
    if (refusal := place_refusal(path) or writers_refusal(path)) is not None:
        raise NotPrivate(path, refusal, f"look at it and remove it: '{_COMMAND}' would write what it says")


def _usable(folder: Path, host: TunedHost) -> tuple[TuningRecord, tuple[str, ...]]:
    """The record of this boot, an empty one where there is none; and what is to be said of an older one."""
    boot_id = host.read(f"/{_BOOT_ID}") or ""
    empty = TuningRecord(boot_id, time.time_ns())
    record = _load(folder)
    if record is None:
        return empty, ()
    if record.boot_id == boot_id:
        return record, ()
    names = ", ".join(record.settings)
    return empty, (f"the tuning of an earlier boot ({names}) ended with it; its record is void and is removed",)


def _load(folder: Path) -> TuningRecord | None:
    try:
        _refuse_others(folder)
        _refuse_others(folder / _NAME)
        text = (folder / _NAME).read_text(encoding="utf-8")
    except OSError:
        return None
    return _parse(text, str(folder / _NAME))


def _parse(text: str, where: str) -> TuningRecord:
    try:
        document = json.loads(text)
        entries = tuple(Remembered(**entry) for entry in document["entries"])
        for entry in entries:
            if entry.setting not in SETTINGS or not re.fullmatch(SETTINGS[entry.setting].places, entry.path):
                raise ValueError(f"setting {entry.setting!r} does not write to {entry.path!r}")
        return TuningRecord(document["boot_id"], as_moment(document["since_realtime_ns"]), entries)
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{where}: cannot be read as the record of a tuning ({error}); look at it, put back what it says, remove it"
        ) from error


def _save(folder: Path, record: TuningRecord) -> None:
    """The record durably in the place of the old one; without entries there is none."""
    if record.entries:
        replace_text(folder / _NAME, record.as_text(), mode=0o644)
        return
    for name in (f"{_NAME}.new", _NAME):
        (folder / name).unlink(missing_ok=True)
    sync_directory(folder)
