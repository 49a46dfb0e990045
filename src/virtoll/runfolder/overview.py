"""What a list of runs shows of one, without a record of its trials being made.

Main types: ``Overview``, ``Head``. Main functions: ``overview``, ``head``, ``state_now``, ``created_ns``, ``run_name``.
A run whose state is ``running`` and that no process writes (`writer`) was killed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from virtoll.errors import RunFolderError
from virtoll.runfolder.jsonlines import MOST_LINE_BYTES, loads
from virtoll.runfolder.moments import LAST_MOMENT_NS, as_moment
from virtoll.runfolder.opened import open_file, read_whole
from virtoll.runfolder.writer import is_written

_CREATED = re.compile(rb'"created_realtime_ns": ?(\d+)[,\s}]')
_NAME = re.compile(rb'"run": ?"([\w.-]+)"')
_TRIAL = re.compile(rb'\{"trial": ?(\d+),')
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class Overview:
    """One run: `state` is ``running``, ``killed``, ``interrupted`` or ``complete``.

    `finished` and `planned` are numbers of trials, warm-ups among them. `created_ns` is of the host's realtime clock.
    """

    experiment: str
    state: str
    finished: int
    planned: int
    created_ns: int
    host: str


def overview(folder: Path) -> Overview:
    """A run as a list shows it; RunFolderError where its manifest or state is damaged.

    Trials are counted by their numbers at the beginnings of whole lines.
    """
    manifest = _json(folder / "manifest.json")
    try:
        return Overview(
            experiment=str(manifest["experiment"]["name"]),
            state=state_now(folder),
            finished=_finished(folder / "trials.jsonl"),
            planned=len(manifest["plan"]["trials"]),
            created_ns=as_moment(manifest["created_realtime_ns"]),
            host=str(manifest["host"]["fingerprint"])[:12],
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder}/manifest.json is damaged ({_words_of(error)}); restore it.") from error


@dataclass(frozen=True)
class Head:
    """Which run a folder holds, without its trials; `host` is the manifest's."""

    run: str
    experiment: str
    state: str
    created_ns: int
    host: Mapping[str, Any]


def head(folder: Path) -> Head:
    """What tells runs apart; RunFolderError where the manifest or state is damaged."""
    manifest = _json(folder / "manifest.json")
    try:
        return Head(
            run=str(manifest["run"]),
            experiment=str(manifest["experiment"]["name"]),
            state=state_now(folder),
            created_ns=as_moment(manifest["created_realtime_ns"]),
            host={"fingerprint": manifest["host"]["fingerprint"], **manifest["host"]},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RunFolderError(f"{folder}/manifest.json is damaged ({_words_of(error)}); restore it.") from error


def state_now(folder: Path) -> str:
    """The state, ``killed`` where it is ``running`` and nobody writes; RunFolderError where it cannot be read."""
    state = _state(folder)
    if state == "running" and not is_written(folder):
        state = _state(folder)  # who ended meanwhile has written how before the lock was free
        return "killed" if state == "running" else state
    return state


def created_ns(folder: Path) -> int:
    """When the run was created, by its manifest's first bytes; 0 where these do not tell it."""
    try:
        with open_file(folder / "manifest.json") as file:
            match = _CREATED.search(file.read(_HEAD_BYTES))
    except OSError:
        return 0
    return int(match[1]) if match and int(match[1]) <= LAST_MOMENT_NS else 0


def run_name(folder: Path) -> str:
    """The run's own name, by its manifest's first bytes; the folder's where these do not tell it."""
    try:
        with open_file(folder / "manifest.json") as file:
            match = _NAME.search(file.read(_HEAD_BYTES))
    except OSError:
        return folder.name
    return match[1].decode() if match else folder.name


def _state(folder: Path) -> str:
    if not os.path.lexists(folder / "state.json"):  # a link that leads nowhere is damage
        return "interrupted"
    state = _json(folder / "state.json").get("state")
    if state not in ("running", "interrupted", "complete"):
        raise RunFolderError(f"{folder}/state.json is damaged: no such state {state!r}; 'virtoll resume' replaces it.")
    return str(state)


def _words_of(error: Exception) -> str:
    return str(error) if isinstance(error, ValueError) else repr(error)


def _json(path: Path) -> dict[str, Any]:
    try:
        document = loads(read_whole(path))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} is damaged or cannot be read ({error}); restore it.") from error
    if not isinstance(document, dict):
        raise RunFolderError(f"{path} is damaged: it is no JSON object; restore it.")
    return document


def _finished(path: Path) -> int:
    """How many trials have a whole line; one that was repeated counts once."""
    try:
        with open_file(path) as file:
            lines = iter(partial(file.readline, MOST_LINE_BYTES), b"")
            heads = (_TRIAL.match(line) for line in lines if line.endswith(b"\n"))
            return len({head[1] for head in heads if head})
    except FileNotFoundError:
        return 0
    except OSError as error:
        raise RunFolderError(f"cannot read {path}: {error.strerror or error}.") from error
