"""Whether the checks of hostile neighbours notice anything: the harness itself does what no command may.

Table: ``FORBIDDEN``, by the part whose attack is in place meanwhile. Main function: ``unnoticed``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from benches.survive.neighbour_endings import Attack, carried_out, complaints
from benches.survive.neighbour_place import Place, Users, a_place


@dataclass(frozen=True)
class Forbidden:
    """What a shell does as the victim, and the first word of the complaint that must come. ``two``: for two users."""

    words: str
    script: Callable[[Place], str]
    column: str
    seconds: float = 30.0
    two: bool = False


_ANY: Final = (
    Forbidden("a program is executed", lambda place: f"{place.attacker}/script", "executed"),
    Forbidden("a file is overwritten", lambda place: f"echo x > {place.precious}/bashrc", "changed"),
    Forbidden("a file is new", lambda place: f": > {place.precious}/new", "changed"),
    Forbidden("a file is gone", lambda place: f"rm {place.precious}/site/tables/mine.svg", "changed"),
    Forbidden("a mode is another", lambda place: f"chmod 600 {place.precious}/bashrc", "changed"),
    Forbidden("a time is another", lambda place: f"touch -d 2001-01-01 {place.precious}/bashrc", "changed"),
    Forbidden("a folder's mode is another", lambda place: f"chmod 700 {place.precious}", "changed"),
    Forbidden("no end", lambda _place: "sleep 60", "endless", 0.5),
    Forbidden("a traceback", lambda _place: "echo 'Traceback (most recent call last):' >&2; exit 1", "words"),
    Forbidden("another exit code", lambda _place: "exit 3", "words"),
    Forbidden("no sentence", lambda _place: "exit 2", "words"),
    Forbidden("two sentences", lambda _place: "echo 'virtoll: a' >&2; echo 'virtoll: b' >&2; exit 2", "words"),
)
FORBIDDEN: Final[Mapping[str, tuple[Forbidden, ...]]] = {
    "states": (
        *_ANY,
        Forbidden("a setting is changed", lambda place: f"echo x > {place.precious}/device/driver_override", "changed"),
        Forbidden("the attacker's are gone", lambda place: f"rm -r {place.temporary}/v*/labs", "changed", two=True),
        Forbidden("a new file there", lambda place: f"cd {place.temporary}/v*/labs && : > x", "changed", two=True),
    ),
    "runs": (
        Forbidden("a link is followed", lambda place: f": > {place.runs}/run/.writer", "changed"),
        Forbidden("a link is gone", lambda place: f"rm {place.runs}/run/report", "changed"),
        Forbidden("a link leads elsewhere", lambda place: f"ln -sfn / {place.runs}/run/report", "changed"),
        Forbidden("a linked folder's file is gone", lambda place: f"rm {place.runs}/run/report/index.html", "changed"),
    ),
    "code": (
        Forbidden("a module is imported", lambda _place: f"{sys.executable} -c 'import json'", "executed"),
        Forbidden("a child imports a module", lambda _place: f"{sys.executable} -m json </dev/null; true", "executed"),
    ),
    "locks": (
        Forbidden("it waits", lambda _place: "sleep 60", "endless", 0.5),
        Forbidden("it does not say for whom", lambda _place: "echo 'virtoll: a process holds it' >&2; exit 2", "words"),
    ),
}  # fmt: skip


def unnoticed(bases: Mapping[str, Attack], users: Users) -> Iterator[tuple[str, bool]]:
    """Each forbidden change, and whether the checks missed it; ``bases``: an attack of each part that is in place."""
    for part, attack in bases.items():
        for one in FORBIDDEN[part]:
            if one.two and not users.two:
                continue
            with a_place(users) as place:
                command = attack.make(place, random.Random(0))
                shell = replace(command, arguments=(), program=("/bin/sh", "-c", one.script(place)))
                found = complaints(carried_out(place, shell, one.seconds))
            yield f"{part}: {one.words}", not any(complaint.startswith(one.column) for complaint in found)
