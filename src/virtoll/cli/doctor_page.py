"""The doctor's answer for a person: what works in one line, then each thing that does not, with one remedy.

Main functions: ``sections``, pure; ``show_diagnosis`` prints them in as many columns as there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from virtoll.cli.doctor import Check, Diagnosis, Tried, install_commands
from virtoll.cli.output import columns, console
from virtoll.host import packages
from virtoll.system.printable import printable

if TYPE_CHECKING:
    from rich.text import Text

_DEPTH = 5
_STYLES = {"ok": "green", "no": "yellow", "--": "dim"}


@dataclass(frozen=True)
class Entry:
    """What is said in one piece: ``mark`` is ok, no or -- (a note); ``remedy`` stands below."""

    mark: str
    text: str
    remedy: str = ""


def sections(diagnosis: Diagnosis) -> list[list[Entry]]:
    """All that is said, in its order: what works, what does not, what does not without root, notes.

    Each platform that does not work is in exactly one entry.
    """
    if diagnosis.asked:
        head = [] if diagnosis.platforms else [_NOTHING]
        head += [_version(attempt) for attempt in diagnosis.platforms if attempt.available]
        notes = []
    else:
        head = [_host(diagnosis.host), *_summary(diagnosis)]
        notes = [Entry("--", f"{check.check}: {check.note}") for check in diagnosis.host if check.note]
    bad = [Entry("no", f"{check.check}: {check.found}", check.remedy) for check in diagnosis.host if not check.good]
    tried = [attempt for attempt in diagnosis.platforms if diagnosis.asked or attempt.family != "model"]
    works = [attempt for attempt in tried if attempt.available]
    return [head, [*bad, *_not(tried)], list(_without_root(works)), notes]


_NOTHING = Entry("no", "nothing can be measured here, and no platform was tried")


def _host(checks: Iterable[Check]) -> Entry:
    formats = {"kernel": "Linux {}", "CPUs": "{} CPUs", "user": "{}", "cgroups": "cgroups {}"}
    known = {check.check: check.found for check in checks if check.good}
    return Entry(
        "ok", f"this host: {', '.join(formats[name].format(known[name]) for name in formats if name in known)}"
    )


def _version(attempt: Tried) -> Entry:
    without = ", also without root" if attempt.without_root.works else ""
    return Entry("ok", f"{attempt.platform} works{without}: {attempt.version or 'its version is not known'}")


def _summary(diagnosis: Diagnosis) -> Iterator[Entry]:
    if not diagnosis.platforms:
        yield _NOTHING
        return
    tried = [attempt for attempt in diagnosis.platforms if attempt.family != "model"]
    works = [attempt for attempt in tried if attempt.available]
    as_user = [attempt for attempt in works if attempt.without_root.works]
    if not diagnosis.works:
        yield Entry("no", "nothing can be compared here: that takes the platforms native and netns")
    yield Entry("ok" if works else "no", _folded(f"{len(works)} of {len(tried)} platforms work", works))
    if works and len(as_user) == len(works):
        yield Entry("ok", "all of them work without root")
    elif as_user:
        yield Entry("ok", _folded(f"{len(as_user)} of them work without root too", as_user))


def _folded(head: str, platforms: list[Tried]) -> str:
    names = ", ".join(attempt.platform for attempt in platforms)
    return f"{head}: {names}" if names else head


def _not(tried: Iterable[Tried]) -> Iterator[Entry]:
    """Those that do not work; the same reason and remedy once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for attempt in tried:
        if not attempt.available:
            groups.setdefault((attempt.reason or "", attempt.remedy), []).append(attempt.platform)
    for (reason, remedy), names in groups.items():
        yield Entry("no", f"{', '.join(names)}: {reason}", remedy)


def _without_root(works: Iterable[Tried]) -> Iterator[Entry]:
    """Of those that work for root: why not for an ordinary user, or why nobody could find out."""
    groups: dict[tuple[str, str], list[Tried]] = {}
    for attempt in works:
        without_root = attempt.without_root
        if without_root.works is not True and without_root.reason is not None:
            groups.setdefault((without_root.reason, without_root.remedy), []).append(attempt)
    for (reason, remedy), ones in groups.items():
        unknown = ones[0].without_root.works is None
        names = ", ".join(attempt.platform for attempt in ones)
        head = "what works without root was not found out" if unknown else f"{names}, without root"
        yield Entry("--" if unknown else "no", f"{head}: {reason}", remedy)


def show_diagnosis(diagnosis: Diagnosis) -> None:
    """Print it: names are never broken, and a remedy begins a line of its own."""
    from rich.text import Text

    for number, section in enumerate(filter(None, sections(diagnosis))):
        if number:
            _print_line(Text())
        for entry in section:
            _print(entry.text, Text(f"[{entry.mark}]", style=_STYLES[entry.mark]), _DEPTH)
            if entry.remedy:
                _print(entry.remedy, Text(" " * _DEPTH + "->", style="bold"), _DEPTH + 3)
    for line in _installing(diagnosis):
        _print_line(Text(line))


def _installing(diagnosis: Diagnosis) -> Iterator[str]:
    """One command for all that is missing; what this host's package manager has by no name that is certain, by name."""
    commands, kind = install_commands(diagnosis.lacking), packages.manager()
    if commands:
        yield from ("", "All that is missing, in one command:")
        yield from (f"  {line}" for line in _continued(commands[0], columns() - 2))
    unnamed = diagnosis.lacking if kind is None else packages.names_for(kind, diagnosis.lacking)[1]
    if unnamed:
        yield from ("", "Missing as well, by Debian's names:")
        yield from (f"  {line}" for line in _continued(" ".join(unnamed), columns() - 2, end=""))


def _print(text: str, mark: Text, depth: int) -> None:
    from rich.text import Text

    for number, part in enumerate(Text(printable(text)).wrap(console(), columns() - depth, overflow="fold")):
        head = mark.copy() if number == 0 else Text()
        head.pad_right(depth - head.cell_len)
        _print_line(head + part)


def _print_line(line: Text) -> None:
    line.rstrip()
    console().print(line, soft_wrap=True)


def _continued(command: str, width: int, end: str = " \\") -> Iterator[str]:
    """A command in lines of at most this width, as a shell reads them; a longer word has a line of its own."""
    line = ""
    for word in command.split(" "):
        if line and len(line) + 1 + len(word) + len(end) > width:
            yield f"{line}{end}"
            line = f"    {word}" if end else word
        else:
            line = f"{line} {word}" if line else word
    yield line
