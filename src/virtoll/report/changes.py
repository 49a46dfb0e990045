"""What changed between two runs, in lines that a person reads: `package runc: 1.1.5 -> 1.1.12`. Pure."""

from collections.abc import Iterable

from virtoll.stats.changes import Change
from virtoll.system.printable import printable

NOTHING = "nothing that the two manifests record"


def change_line(change: Change) -> str:
    """One change in a line; what was not there before is new, and what is not there after is gone."""
    before, after = change.before, change.after
    if before is None or after is None:
        text = f"{after} (new)" if before is None else f"{before} (gone)"
    else:
        name = _shared_word(before, after)
        text = f"{before} -> {after.removeprefix(name)}"
    return printable(f"{change.what}: {text}").replace("\n", " ")


def change_lines(changes: Iterable[Change]) -> tuple[str, ...]:
    """A line each, in their order; one that says so where nothing changed."""
    return tuple(map(change_line, changes)) or (NOTHING,)


def _shared_word(before: str, after: str) -> str:
    """The name before a version, with its space, where both have it: 'runc ' of 'runc 1.1.5' and 'runc 1.1.12'."""
    (name, _, rest), (other, _, _) = before.partition(" "), after.partition(" ")
    return f"{name} " if name == other and rest[:1].isdigit() and name.isalpha() else ""
