"""What a developer needs of a test that failed: its last commands, its run folders, and the end of guests' consoles.

The helpers that run commands note them here, and ``watch`` has the product's hosts and guests do so too. Notes are
emptied before each test. A failed test's report has them as a section of its own, which also comes out of a lab.
"""

from __future__ import annotations

import contextlib
import functools
import shlex
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from virtoll.lab.commands import ConnectedHost
from virtoll.lab.inside import Lab
from virtoll.platforms.last_words import CONSOLE
from virtoll.platforms.managed_guest import ManagedMachine
from virtoll.platforms.process_guest import AgentGuest, StartedGuest
from virtoll.runfolder.store import RunFolder

TITLE: Final = "what the test ran last"
_MOST_COMMANDS: Final = 12
_MOST_PLACES: Final = 4
_MOST_LINES: Final = 15
_MOST_CHARACTERS: Final = 1000

_commands: deque[str] = deque(maxlen=_MOST_COMMANDS)
_consoles: deque[str] = deque(maxlen=_MOST_PLACES)
_places: deque[Path] = deque(maxlen=_MOST_PLACES)
_runs: dict[Path, str] = {}
_guests: list[weakref.ref[StartedGuest]] = []
"""Those that are up: some serve several tests."""


def forget() -> None:
    """Another test begins."""
    for notes in (_commands, _consoles, _places, _runs):
        notes.clear()


def note_command(argv: Sequence[str | Path]) -> None:
    """A command of the test, which starts now."""
    _commands.append(f"$ {shlex.join(map(str, argv))[:_MOST_CHARACTERS]}")


def note_end(code: object, output: str) -> None:
    """The command has ended with ``code``, and printed this."""
    last = output.strip().splitlines()[-1:] or ["nothing was printed"]
    _commands.append(f"  exit code {code}: {last[0][:_MOST_CHARACTERS]}")


def note_place(place: Path) -> None:
    """A run folder, or a folder that has run folders."""
    _places.append(place)


def look(places: Sequence[Path] = ()) -> None:
    """Read the runs in these places and in those that were noted, before somebody removes them."""
    for place in (*places, *_places):
        for manifest in (*place.glob("manifest.json"), *place.glob("*/manifest.json")):
            _runs[manifest.parent] = "\n".join(_lines_of_run(manifest.parent))


def add_section(report: pytest.TestReport, arguments: Mapping[str, object]) -> None:
    """A failed test's report gets the notes; ``arguments``: the test's, some of which are runs and folders."""
    if not report.failed:
        return
    folders = [value.path for value in arguments.values() if isinstance(value, RunFolder)]
    look([*folders, *(value for value in arguments.values() if isinstance(value, Path))])
    for known in _guests[-_MOST_PLACES:]:
        if (guest := known()) is not None:
            _note_console(guest)
    if text := "\n".join([*_commands, *_runs.values(), *_consoles]):
        report.sections.append((TITLE, text))


def watch() -> None:
    """From now on the product's hosts note the programs that they start, and its guests their consoles at the end."""
    noted: Sequence[tuple[type, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = (
        (ConnectedHost, "output", _noting_program),
        (ConnectedHost, "spawn", _noting_program),
        (Lab, "spawn", _noting_program),
        (StartedGuest, "__post_init__", _noting_start),
        (AgentGuest, "stop", _noting_end),
        (ManagedMachine, "stop", _noting_end),
    )
    for kind, name, noting in noted:
        setattr(kind, name, noting(getattr(kind, name)))


def _noting_program(start: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(start)
    def noting(host: ConnectedHost, argv: Sequence[str], *arguments: Any, **named: Any) -> Any:
        note_command([f"{host.name}:", *argv] if host.connection.prefix else argv)
        return start(host, argv, *arguments, **named)

    return noting


def _noting_start(made: Callable[[StartedGuest], None]) -> Callable[[StartedGuest], None]:
    @functools.wraps(made)
    def noting(guest: StartedGuest) -> None:
        _guests.append(weakref.ref(guest))
        made(guest)

    return noting


def _noting_end(stop: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(stop)
    def noting(guest: StartedGuest) -> None:
        _note_console(guest)
        _guests[:] = [known for known in _guests if (up := known()) is not None and up is not guest]
        stop(guest)

    return noting


def _note_console(guest: StartedGuest) -> None:
    """The end of what is here of a guest's console; nothing is asked of another host."""
    said = bytes(guest.agent.console)
    if isinstance(guest, AgentGuest) and guest.host is None:
        with contextlib.suppress(OSError):
            said = guest.console_file.read_bytes() + said
    if said.strip():
        _consoles.append("\n".join([f"console of {guest.agent.who}:", *_end_of(said)]))


def _lines_of_run(folder: Path) -> Iterator[str]:
    """Its path, its state, and the ends of the consoles that it keeps."""
    yield f"run folder {folder}"
    with contextlib.suppress(OSError):
        yield from _end_of((folder / "state.json").read_bytes())
    for console in sorted((folder / "evidence").glob(f"*/{CONSOLE}"))[-_MOST_PLACES:]:
        yield f"console {console.relative_to(folder)}:"
        yield from _end_of(console.read_bytes())


def _end_of(text: bytes) -> list[str]:
    lines = text.decode(errors="replace").strip().splitlines()[-_MOST_LINES:]
    return [f"  {line[:_MOST_CHARACTERS]}" for line in lines]
