"""Hostile run folders: entries of a run that are links, other users' files, pipes, devices, odd names or holes.

Tables: ``ENTRIES`` (what is replaced), ``TRICKS`` (by what) and ``COMMANDS`` (what the victim starts then). Each case
copies one of ``Originals``, which Virtoll itself makes. Main functions: ``known`` and ``drawn``.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.survive.neighbour_endings import Attack, Command, carried_out
from benches.survive.neighbour_place import Place
from benches.survive.neighbour_states import experiment

RECORDS: Final = (
    "trials.jsonl",
    "boots.jsonl",
    "fitness.jsonl",
    "footprints.jsonl",
    "commands.jsonl",
    "explain/observed.jsonl",
)
WHOLE: Final = ("manifest.json", "state.json", "SHA256SUMS", "explain/SHA256SUMS")
FOLDERS: Final = ("evidence", "report", "report/tables", "report/figures", "explain", ".report.new-0a1b2c3d")
ENTRIES: Final = (
    *WHOLE,
    *RECORDS,
    *FOLDERS,
    *(f"{name}.new" for name in (*WHOLE, *RECORDS)),
    ".writer",
    "evidence/x",
    "report/index.html",
    "report/tables/cells.csv",
)
SCRATCH: Final = (".writer", ".new")  # a writer that was killed leaves such names
_SECONDS: Final = 120.0


@dataclass(frozen=True)
class Originals:
    """Runs that Virtoll makes in a place when a case copies the first; ``RuntimeError`` if it does not.

    A finished one, an interrupted one, the parts of a campaign and what was merged of them.
    """

    place: Place

    @functools.cached_property
    def finished(self) -> Path:
        """It with its report."""
        return self._made(
            "finished", "run", str(experiment(self.place)), "--into", str(self.place.runs / "finished"), "-q"
        )

    @property
    def cache(self) -> Path:
        """The cache in which they were made: with the image that a small guest needs."""
        return self.place.home / "cache"

    @functools.cached_property
    def interrupted(self) -> Path:
        """It without its last trial, and as an interrupt leaves it."""
        run = Path(shutil.copytree(self.finished, self.place.runs / "interrupted"))
        (run / "SHA256SUMS").unlink()
        shutil.rmtree(run / "report")
        lines = (run / "trials.jsonl").read_bytes().splitlines(keepends=True)
        (run / "trials.jsonl").write_bytes(b"".join(lines[:-1]))
        state = {"state": "interrupted", "reason": "stopped by the user (SIGINT)"}
        (run / "state.json").write_text(json.dumps(state, indent=1), encoding="utf-8")
        return run

    @functools.cached_property
    def campaign(self) -> Path:
        """The folder of its parts."""
        into = str(self.place.runs / "campaign")
        for block in ("1", "2"):
            words = ("campaign", "block", str(experiment(self.place)), "--block", block, "--into", into, "--quiet")
            folder = self._made("campaign", *words)
        return folder

    @functools.cached_property
    def merged(self) -> Path:
        """One run of these."""
        return self._made("merged", "campaign", "merge", str(self.campaign), "--into", str(self.place.runs / "merged"))

    def _made(self, name: str, *arguments: str) -> Path:
        ending = carried_out(self.place, Command(arguments), _SECONDS)
        if ending.code != 0 or ending.differences:
            raise RuntimeError(f"{ending.words()}\n{ending.differences}")
        return self.place.runs / name


Trick = Callable[[Path, str, Place, random.Random], None]
"""Puts something in the place of an entry: its path, its name in the run, where, and dice."""


def _target(name: str, place: Place, dice: random.Random) -> Path:
    """A file or folder of the victim's: of another run, with the same name if it is there, or of any other kind."""
    other = place.precious / "other" / name
    if other.exists() and dice.random() < 0.5:
        return other
    folder = name in FOLDERS
    return place.precious / ("site" if folder else dice.choice(("bashrc", "records.jsonl")))


def _linked(path: Path, name: str, place: Place, dice: random.Random) -> None:
    path.symlink_to(_target(name, place, dice))


def _linked_to_same(path: Path, name: str, place: Place, dice: random.Random) -> None:
    other = place.precious / "other" / name
    path.symlink_to(other if other.exists() else _target(name, place, dice))


def _relative(path: Path, name: str, place: Place, dice: random.Random) -> None:
    path.symlink_to(os.path.relpath(_target(name, place, dice), path.parent))


def _hard_linked(path: Path, name: str, place: Place, dice: random.Random) -> None:
    target = _target(name, place, dice)
    path.hardlink_to(target if target.is_file() else place.precious / "bashrc")


def _folder(path: Path, _name: str, _place: Place, _dice: random.Random) -> None:
    (path / "below").mkdir(parents=True)
    (path / "below" / "x").touch()


def _device(path: Path, _name: str, _place: Place, dice: random.Random) -> None:
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, dice.choice((3, 5, 7))))  # null, zero, full
    except OSError:  # no root, or a root that may not
        path.symlink_to("/dev/full")


def _sparse(path: Path, _name: str, _place: Place, _dice: random.Random) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


TRICKS: Final[Mapping[str, Trick]] = {
    "link": _linked,
    "link to the same of another run": _linked_to_same,
    "relative link": _relative,
    "link to nothing": lambda path, _name, place, _dice: path.symlink_to(place.precious / "new"),
    "link to itself": lambda path, _name, _place, _dice: path.symlink_to(path.name),
    "link to the attacker's": lambda path, _name, place, _dice: path.symlink_to(place.attacker / "script"),
    "hard link": _hard_linked,
    "FIFO": lambda path, _name, _place, _dice: os.mkfifo(path),
    "socket": lambda path, _name, _place, _dice: os.mknod(path, stat.S_IFSOCK | 0o666),
    "folder": _folder,
    "file": lambda path, _name, _place, _dice: path.touch(),
    "device": _device,
    "holes": _sparse,
    "gone": lambda _path, _name, _place, _dice: None,
}
MODES: Final = (0o000, 0o200, 0o444, 0o666, 0o777, 0o4777, 0o2777)
ODD_NAMES: Final = ("a\nb.jsonl", "\x1b[31m.json", "\udcff\udcfe.json", "-rf", "x" * 255, "\u202egnp.json", " ", "..x")

COMMANDS: Final[Mapping[str, Callable[[Path, Place], tuple[str, ...]]]] = {
    "resume": lambda run, _place: ("resume", str(run), "--quiet"),
    "extend": lambda run, _place: ("extend", str(run), "--blocks", "+1", "--quiet"),
    "report": lambda run, _place: ("report", str(run), "--quiet"),
    "explain": lambda run, _place: ("explain", str(run), "--platform", "runc", "--trials", "1"),
    "pack": lambda run, place: ("pack", str(run), "--output", str(place.home / "here" / "packed.virtoll.tar.zst")),
    "pack into a link": lambda run, place: ("pack", str(run), "--output", str(_a_link(place))),
    "pack --force into a link": lambda run, place: ("pack", str(run), "--force", "--output", str(_a_link(place))),
    "merge": lambda run, place: ("campaign", "merge", str(run.parent), "--into", str(place.runs / "new")),
    "merge again": lambda run, place: ("campaign", "merge", str(place.runs / "campaign"), "--into", str(run)),
    "list runs": lambda _run, _place: ("list", "runs"),
    "compare": lambda run, place: ("compare", str(run), str(place.runs / "whole")),
    "history": lambda run, _place: ("history", str(run.parent)),
    "query": lambda run, _place: ("query", "select count(*) from samples", str(run)),
    "verify": lambda run, _place: ("verify", str(run)),
}
WRITERS: Final = ("resume", "extend", "report", "explain", "merge again")


def _a_link(place: Place) -> Path:
    """A link of the attacker's in a folder of all users, where an archive is to be."""
    link = place.temporary / "packed.virtoll.tar.zst"
    if not link.is_symlink():
        link.symlink_to(place.precious / "new")
        place.give(link, place.users.attacker)
    return link


@dataclass(frozen=True)
class Hostile:
    """A run with entries that were replaced: (entry, trick). ``theirs``: the folder is the attacker's, open to all."""

    originals: Originals
    command: str
    replaced: tuple[tuple[str, str], ...]
    interrupted: bool = False
    theirs: bool = False
    mode: int | None = None
    odd_names: tuple[str, ...] = ()

    @property
    def harmless(self) -> bool:
        """Whether nothing was done to it."""
        return not self.replaced and self.command in WRITERS

    def make(self, place: Place, dice: random.Random) -> Command:
        """Make it."""
        shutil.copytree(self._original, place.precious / "other")
        place.give(place.precious, place.users.victim)
        shutil.copytree(self.originals.finished, place.runs / "whole")
        run = self._copied(place)
        for entry, trick in self.replaced:
            _replace(run, entry, trick, place, dice)
        for name in self.odd_names:
            (run / name).touch()
        place.give(place.runs, place.users.victim)
        if self.theirs:
            place.give(run, place.users.attacker)
            for path in _plain(run):
                path.chmod(0o777 if path.is_dir() else 0o666)
        for path in dice.sample(_plain(run), 2) if self.mode is not None else ():
            path.chmod(self.mode or 0)
        links = {path: str(path.readlink()) for path in run.rglob("*") if path.is_symlink()}
        kept = {path: target for path, target in links.items() if not _may_go(path.relative_to(run))}
        return Command(COMMANDS[self.command](run, place), free=(place.runs,), kept=kept, harmless=self.harmless)

    @property
    def _original(self) -> Path:
        return self.originals.interrupted if self.interrupted else self.originals.finished

    def _copied(self, place: Place) -> Path:
        if self.command == "merge":
            folder = Path(shutil.copytree(self.originals.campaign, place.runs / "campaign"))
            return min(path.parent for path in folder.glob("*/manifest.json"))
        if self.command == "merge again":
            shutil.copytree(self.originals.campaign, place.runs / "campaign")
            return Path(shutil.copytree(self.originals.merged, place.runs / "merged"))
        return Path(shutil.copytree(self._original, place.runs / "run"))


def _may_go(entry: Path) -> bool:
    """Whether a link may be removed: by a scratch file's name, or in a report, which is replaced as a whole."""
    scratch = entry.name.endswith(SCRATCH) or entry.name.startswith(".report.new-")
    return scratch or "report" in entry.parts[:-1]


def _plain(run: Path) -> list[Path]:
    """A run's folders and files, without links of both kinds."""
    found = [path for path in (run, *sorted(run.rglob("*"))) if not path.is_symlink()]
    return [path for path in found if path.is_dir() or (path.is_file() and path.stat().st_nlink == 1)]


def _replace(run: Path, entry: str, trick: str, place: Place, dice: random.Random) -> None:
    path = run / entry
    above = [parent for parent in path.parents if parent.is_relative_to(run)]
    if any(parent.is_symlink() or (parent.exists() and not parent.is_dir()) for parent in above):
        return  # its folder was replaced
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    TRICKS[trick](path, entry, place, dice)


def _attack(hostile: Hostile, *, short: bool = False) -> Attack:
    replaced = ", ".join(f"{entry}: {trick}" for entry, trick in hostile.replaced)
    state = "interrupted" if hostile.interrupted else "finished"
    names = f", also {hostile.odd_names!r}" if hostile.odd_names else ""
    whose = ", the attacker's" if hostile.theirs else ""
    mode = f", mode {hostile.mode:04o}" if hostile.mode is not None else ""
    words = f"{state}{whose}{mode}: {replaced or 'nothing replaced'}{names}"
    row = "nothing hostile" if hostile.harmless else f"run folder: {hostile.command}"
    return Attack(row, words, hostile.make, two=hostile.theirs, short=short)


_SAME: Final = "link to the same of another run"
_KNOWN: Final = (
    ("resume", ".writer", "link", True),
    ("extend", ".writer", "link", False),
    ("resume", ".writer", "hard link", False),
    ("resume", "SHA256SUMS.new", "link", False),
    ("extend", "manifest.json.new", "link", False),
    ("extend", "state.json.new", "link to nothing", False),
    ("report", "report", "link", False),
    ("report", "report/index.html", "hard link", False),
    ("explain", "explain", _SAME, False),
    ("explain", ".writer", "link to nothing", False),
    ("merge again", ".writer", "link", False),
    ("pack into a link", "evidence/x", "file", False),
    ("pack --force into a link", "SHA256SUMS", "gone", False),
)
"""Commands that write, entry, trick, and whether the short form has it: ``test_unplain_folders`` has each in short."""


def known(originals: Originals) -> list[Attack]:
    """The attacks that were found by hand, and the nearest to them; first runs to which nothing was done."""
    attacks = [_attack(Hostile(originals, command, ())) for command in WRITERS]
    attacks += [_attack(Hostile(originals, "resume", (), interrupted=True))]
    for command, entry, trick, short in _KNOWN:
        attacks.append(_attack(Hostile(originals, command, ((entry, trick),)), short=short))
    for entry in ("trials.jsonl", "evidence", "boots.jsonl"):
        attacks.append(_attack(Hostile(originals, "resume", ((entry, _SAME),), interrupted=True)))
    return attacks


def checked(originals: Originals) -> Attack:
    """A run with links that are there to be followed and removed."""
    return _attack(Hostile(originals, "verify", ((".writer", "link"), ("report", "link"))))


def drawn(originals: Originals, dice: random.Random) -> Attack:
    """One by chance."""
    command = dice.choice(WRITERS) if dice.random() < 0.6 else dice.choice(list(COMMANDS))
    entries = dice.sample(ENTRIES, k=dice.randint(1, 3))
    tricks = [dice.choice(list(TRICKS)) if dice.random() < 0.6 else dice.choice(list(TRICKS)[:4]) for _ in entries]
    replaced = dict(zip(sorted(entries), tricks, strict=True))
    if dice.random() < 0.4:  # otherwise a digest that differs ends most commands early
        replaced.setdefault("SHA256SUMS", "gone")
    hostile = Hostile(
        originals,
        command,
        tuple(replaced.items()),
        interrupted=dice.random() < 0.4,
        theirs=dice.random() < 0.3,
        mode=dice.choice(MODES) if dice.random() < 0.3 else None,
        odd_names=tuple(dice.sample(ODD_NAMES, k=2)) if dice.random() < 0.2 else (),
    )
    return _attack(hostile)
