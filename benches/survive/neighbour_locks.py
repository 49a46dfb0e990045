"""Locks that an attacker holds of the victim's folders and files, as far as he may open them.

The victim's command must end, or say for which process it waits. Table: ``CASES``. Main functions: ``attacks``.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from benches.survive.neighbour_endings import Attack, Command
from benches.survive.neighbour_place import Place
from benches.survive.neighbour_runs import Originals
from benches.survive.neighbour_states import LAB, experiment

_HOLDER: Final = """\
import fcntl, os, sys
held = []
for name in sys.argv[1:]:
    for flags in (os.O_RDWR, os.O_RDONLY):
        try:
            descriptor = os.open(name, flags)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # by another of its names
            break
        held.append(descriptor)
        break
print(len(held), flush=True)
sys.stdin.read()
"""
"""Locks what it may open, says how many those are, and holds them until its standard input ends."""


def _holder(place: Place) -> subprocess.Popen[bytes]:
    """A process of the attacker's that holds what it may open below the victim's home."""
    user = place.users.attacker
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--"] if os.geteuid() == 0 else []
    paths = [str(path) for path in sorted(place.home.rglob("*")) if path.is_dir() or path.is_file()]
    process = subprocess.Popen(
        [*become, sys.executable, "-I", "-c", _HOLDER, *paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd="/"
    )
    if process.stdout is not None and int(process.stdout.readline() or 0) == 0:
        process.kill()
        raise RuntimeError(f"user {user} could lock nothing below {place.home}")
    return process


def _state(place: Place) -> None:
    """A state folder as an earlier Virtoll left it, with the record of a lab that is dead."""
    record = place.folder(place.home / "state" / "labs" / LAB, place.users.victim, 0o755)
    (record / "lock").touch(mode=0o600)
    place.give(place.home / "state", place.users.victim)


def _live_state(place: Place) -> None:
    """A state folder as a run has it: no lab is dead."""
    place.folder(place.home / "state" / "labs", place.users.victim, 0o755)
    place.give(place.home / "state", place.users.victim)


def _nothing(_place: Place) -> None:
    """The run and the cache alone."""


def _writer(place: Place) -> None:
    """The file by which a killed writer held its run."""
    (place.runs / "run" / ".writer").write_text("0" * 32, encoding="ascii")


def _cache(place: Place) -> None:
    """A cache as it is made."""
    (place.home / "cache" / "lock").touch()
    place.give(place.home / "cache", place.users.victim)


CASES: Final[Mapping[str, tuple[Callable[[Place], None], Callable[[Place], tuple[str, ...]]]]] = {
    "state folder, run": (
        _live_state,
        lambda place: ("run", str(experiment(place)), "--into", str(place.runs / "new"), "-q"),
    ),
    "state folder, clean": (_state, lambda _place: ("clean",)),
    "state folder and run folder, resume": (
        _live_state,
        lambda place: ("resume", str(place.runs / "run"), "--quiet"),
    ),
    "run folder, report": (_nothing, lambda place: ("report", str(place.runs / "run"), "--quiet")),
    "run folder, pack": (_nothing, lambda place: ("pack", str(place.runs / "run"))),
    ".writer, extend": (_writer, lambda place: ("extend", str(place.runs / "run"), "--blocks", "+1", "--quiet")),
    "cache, query": (_cache, lambda place: ("query", "select count(*) from samples", str(place.runs / "run"))),
    "cache, clean --cache": (_cache, lambda _place: ("clean", "--cache")),
}
"""What is there, and what the victim starts."""
SHORT: Final = "state folder and run folder, resume"


def attacks(originals: Originals) -> list[Attack]:
    """Each case once, with an ordinary user as the victim, and the first with root too."""

    def attack(name: str) -> Attack:
        prepared, arguments = CASES[name]

        def make(place: Place, _dice: random.Random) -> Command:
            shutil.copytree(originals.interrupted if name == SHORT else originals.finished, place.runs / "run")
            prepared(place)
            place.give(place.runs, place.users.victim)
            started = arguments(place)
            process = _holder(place)
            return Command(started, holder=process)

        return Attack(f"lock: {name}", "all that the attacker may open is locked", make, two=True, short=name == SHORT)

    return [*map(attack, CASES), replace(attack("state folder, run"), root=True, short=False)]
