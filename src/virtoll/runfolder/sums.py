"""Whether a finished run folder is as it was when the run ended: `SHA256SUMS`, as `sha256sum` writes and checks it.

Main functions: `write_sums` (at the end of a run), `differences` (since then), `unchecked` (what has no digests). The
report is left out: it is made anew. So is the folder of explanations, which comes after the run's end and has a
`SHA256SUMS` of its own.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from virtoll.errors import StorageError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.opened import open_file, read_whole
from virtoll.runfolder.taken_over import WRITER

SUMS: Final = "SHA256SUMS"
EXPLANATIONS: Final = "explain"
UNDER_WAY: Final = ".new-"
"""What follows the name of a folder that is made anew, in that of the new one beside it."""
_REPORT = "report"
_READ = (".json", ".jsonl")  # what a reader takes for records
_LINE = re.compile(r"([0-9a-f]{64})  (\S.{,4094})")  # no path is longer (PATH_MAX)


def write_sums(folder: Path, root: Path | None = None) -> None:
    """Write a digest of each file of the folder, which is below `root`; `StorageError` where that cannot be."""
    try:
        jsonlines.replace_text(folder / SUMS, sums_of(folder), root, errors="surrogateescape")
    except OSError as error:
        raise StorageError(
            f"cannot write {folder / SUMS}: {error.strerror or error}; make room, then resume"
        ) from error


def sums_of(folder: Path) -> str:
    """The text of `SHA256SUMS` for a folder as it is; OSError."""
    return "".join(f"{_digest(folder / name)}  {name}\n" for name in _files(folder))


def listed(folder: Path) -> dict[str, str]:
    """The digests that a folder's `SHA256SUMS` has, by the files' paths; empty where it cannot be read."""
    try:
        text = read_whole(folder / SUMS).decode("utf-8", errors="surrogateescape")
    except OSError:
        return {}
    lines = (_LINE.fullmatch(line) for line in text.split("\n"))
    return {line[2]: line[1] for line in lines if line is not None and not _leads_out(line[2])}


def remove_sums(folder: Path, root: Path | None = None) -> None:
    """What follows changes the folder; `StorageError` where it cannot be changed."""
    jsonlines.remove(folder / SUMS, root)  # before the state says so: else a lost power could leave both


def differences(folder: Path) -> tuple[str, ...] | None:
    """What is not as it was, a sentence each; None where the folder has no sums: its run did not end, or is older.

    Explanations that did not come to their end have no sums yet, and are not looked at: `unchecked` says so.
    """
    try:
        text = read_whole(folder / SUMS).decode("utf-8", errors="surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        return (f"{SUMS}: cannot be read ({error.strerror or error})",)
    explained = differences(folder / EXPLANATIONS) or ()
    return (*_changed(folder, text), *(f"{EXPLANATIONS}/{sentence}" for sentence in explained))


def unchecked(folder: Path) -> tuple[str, ...]:
    """What of a run that has ended has no digests, so that nobody knows whether it is as it was; a sentence each."""
    sentences = []
    if not (folder / SUMS).exists():
        sentences.append(
            f"The folder has no {SUMS}: the file was lost. Whether its files have changed since is not known."
        )
    if (folder / EXPLANATIONS).is_dir() and not (folder / EXPLANATIONS / SUMS).exists():
        sentences.append(
            f"{EXPLANATIONS}/ has no {SUMS}: its trials did not come to their end, or the file was lost. Whether its "
            f"files have changed since is not known; 'virtoll explain {folder}' goes on with them."
        )
    return tuple(sentences)


def _changed(folder: Path, text: str) -> tuple[str, ...]:
    sentences, known = [], {}
    for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
        match = _LINE.fullmatch(line)
        if match is None or match[2] in known or _leads_out(match[2]):
            sentences.append(f"{SUMS}, line {number}: is damaged")
        else:
            known[match[2]] = match[1]
    if not text.endswith("\n"):
        sentences.append(f"{SUMS}: its end is missing")
    for name, digest in known.items():
        sentences += _difference(folder, name, digest)
    extra = [name for name in _files(folder) if name not in known and name.endswith(_READ)]
    sentences += [f"{name}: was not there" for name in extra]
    return tuple(line if line.isprintable() else ascii(line)[1:-1] for line in sentences)


def _leads_out(name: str) -> bool:
    """Whether a name is of no file below the folder: what is there is nobody's to read."""
    return name.startswith("/") or ".." in name.split("/")


def _difference(folder: Path, name: str, digest: str) -> list[str]:
    """What is not as it was of one file."""
    try:
        if not (folder / name).is_file():
            return [f"{name}: is missing"]
        return [] if _digest(folder / name) == digest else [f"{name}: has changed"]
    except (OSError, ValueError) as error:  # a name that no file can have
        return [f"{name}: cannot be read ({getattr(error, 'strerror', None) or error})"]


def _files(folder: Path) -> list[str]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    names = (path.relative_to(folder).as_posix() for path in paths)
    left_out = (EXPLANATIONS, SUMS, f"{SUMS}.new", WRITER)
    return sorted(name for name in names if name.split("/")[0] not in left_out and not is_of_the_report(name))


def is_of_the_report(name: str) -> bool:
    """Whether a path below a run folder is in its report, or in one that is under way: it is made anew."""
    first = name.split("/", maxsplit=1)[0]
    return first == _REPORT or first.startswith(f".{_REPORT}{UNDER_WAY}")


def _digest(path: Path) -> str:
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
