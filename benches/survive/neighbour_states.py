"""Hostile state folders: whose they are, what their records hold, and which command of the victim meets them.

Tables: ``WHERE`` (which variable leads to the folder), ``MAKERS`` (whose it is and how open), ``LINES``, ``SHAPES`` and
``LINKS`` (what stands in it). The names of those files are read in ``lab/residue.py``. Main functions: ``known``
and ``drawn``. Must not write outside of the place, except into cgroupfs and sysfs by paths that lead back to it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import yaml
from benches.survive.neighbour_endings import Attack, Command
from benches.survive.neighbour_place import Place

from virtoll.lab import residue

LAB: Final = "virtoll-000000000000"
NOBODY: Final = 65534
EXPERIMENT: Final = {
    "name": "small",
    "question": "Is it so?",
    "platforms": ["netns", {"platform": "fake", "label": "runc", "seed": 3}],
    "baseline": "netns",
    "workloads": [{"workload": "superpi", "digits": 2000}],
    "blocks": 2,
    "rounds": 1,
}
"""A second of measuring in a lab, which an ordinary user may make too."""
Environment = dict[str, str | None]


def record_files() -> tuple[str, ...]:
    """The names of the files of a lab's record, as the source has them."""
    text = Path(residue.__file__).read_text(encoding="utf-8")
    return tuple(dict.fromkeys(["lock", *re.findall(r'"(\w+\.jsonl?)"', text)]))


def experiment(place: Place) -> Path:
    """The file of a small experiment, in the victim's home."""
    file = place.home / "small.yaml"
    file.write_text(yaml.safe_dump(EXPERIMENT), encoding="utf-8")
    return file


WHERE: Final[Mapping[str, Callable[[Place], tuple[Path, Environment]]]] = {
    "temporary folder": lambda place: (
        place.temporary / f"virtoll-{place.users.victim}",
        {"VIRTOLL_STATE": None},
    ),
    "temporary folder without the sticky bit": lambda place: (
        place.folder(place.temporary, os.geteuid(), 0o777) / f"virtoll-{place.users.victim}",
        {"VIRTOLL_STATE": None},
    ),
    "XDG_RUNTIME_DIR": lambda place: (
        place.folder(place.temporary / "runtime", place.users.attacker, 0o777) / "virtoll",
        {"VIRTOLL_STATE": None, "XDG_RUNTIME_DIR": str(place.temporary / "runtime")},
    ),
    "VIRTOLL_STATE": lambda place: (place.temporary / "state", {"VIRTOLL_STATE": str(place.temporary / "state")}),
}
MAKERS: Final[Mapping[str, tuple[bool, int]]] = {
    "another user's, 0755": (True, 0o755),
    "another user's, 0777": (True, 0o777),
    "another user's, setgid": (True, 0o2777),
    "the victim's, 0777": (False, 0o777),
    "the victim's, 0770": (False, 0o770),
    "the victim's, setgid": (False, 0o2777),
    "the victim's, 0700": (False, 0o700),
}
"""Whether the state folder is the attacker's, and its mode."""


def commands(place: Place) -> list[Any]:
    """Notes of programs to be run, in the form of a program, and in that of a verb with arguments."""
    shell = ["/bin/sh", "-c", place.canary("shell")]
    precious = str(place.precious / "site")
    verbs = ("remove", "rm", "run", "exec", "ip", "tc", "cp", "podman", "docker", "virsh", "sh", "../sh")
    arguments: tuple[Any, ...] = (
        shell,
        [precious],
        ["-rf", "--", precious],
        [f"{place.home}/runs/../precious"],
        ["\0"],
        [[]],
        "x",
        [1],
    )
    noted = [{"id": 1, "verb": verb, "arguments": words} for verb in verbs for words in arguments]
    return [
        {"id": 1, "argv": shell},
        {"id": 1, "argv": [str(place.attacker / "script")]},
        {"id": 1, "argv": ["rm", "-rf", "--", precious]},
        {"id": 1, "argv": "sh"},
        {"id": 1, "argv": [1, None]},
        {"id": [1], "argv": shell},
        {"argv": shell},
        *noted,
    ]


def controllers(place: Place) -> list[Any]:
    """Notes of cgroup folders that are none."""
    fake = str(place.precious / "device")
    return [
        {"folder": folder, "before": before}
        for folder in (fake, f"/sys/fs/cgroup/../../..{fake}", os.path.relpath(fake, "/sys/fs/cgroup"), "", 1, None)
        for before in ([], ["cpu"], {"cpu": 1}, 7)
    ]


def devices(place: Place) -> list[Any]:
    """Notes of PCI devices that are none."""
    fake = str(place.precious / "device")
    return [
        {"address": address, "driver": driver}
        for address in (fake, f"../../../..{fake}", "..", "0000:00:1f.9\n", "", 1, None)
        for driver in (None, "../../../../etc", "vfio-pci", "x" * 300)
    ]


def nonsense(_place: Place) -> list[Any]:
    """JSON that is no note."""
    return [
        [],
        {},
        1,
        None,
        "x",
        "1" + "0" * 4400,
        {"id": 1},
        {"folder": "/"},
        {"address": "x"},
        {"id": 1.5, "argv": {}},
    ]


LINES: Final[Mapping[str, Callable[[Place], list[Any]]]] = {
    "controllers": controllers,
    "vfio": devices,
    "devices": devices,
    "nonsense": nonsense,
    "": commands,
}
"""What is noted in a file, by a word in its name."""
Shape = Callable[[Path, Place, random.Random], None]


def fitting(file: str) -> Callable[[Place], list[Any]]:
    """The notes of a file of this name."""
    return next(notes for word, notes in LINES.items() if word in file)


def _lines(path: Path, place: Place, dice: random.Random) -> None:
    kinds = [fitting(path.name) if dice.random() < 0.7 else dice.choice(list(LINES.values())) for _ in range(4)]
    path.write_bytes(b"".join(_dumped(dice.choice(kind(place))) for kind in kinds))


def _first_lines(path: Path, place: Place, _dice: random.Random) -> None:
    """In order, but for what they say."""
    path.write_bytes(_dumped(fitting(path.name)(place)[0]))


def _dumped(note: Any) -> bytes:
    return (note if isinstance(note, str) and note.startswith("1000") else json.dumps(note)).encode() + b"\n"


def _after(junk: bytes) -> Shape:
    """Lines behind what a reader may stumble over."""

    def make(path: Path, place: Place, dice: random.Random) -> None:
        _lines(path, place, dice)
        path.write_bytes(junk + b"\n" + path.read_bytes())

    return make


def _sparse(path: Path, _place: Place, _dice: random.Random) -> None:
    path.touch()
    os.truncate(path, 3 << 30)


def _folder(path: Path, _place: Place, _dice: random.Random) -> None:
    (path / "below").mkdir(parents=True)


SHAPES: Final[Mapping[str, Shape]] = {
    "lines": _lines,
    "first lines": _first_lines,
    "bytes that are no UTF-8": _after(b"\xff\xfe\x00"),
    "deep nesting": _after(b"[" * 100_000),
    "a long line": _after(b"x" * (8 << 20)),
    "holes": _sparse,
    "FIFO": lambda path, _place, _dice: os.mkfifo(path),
    "socket": lambda path, _place, _dice: os.mknod(path, stat.S_IFSOCK | 0o666),
    "folder": _folder,
    "link to the victim's file": lambda path, place, _dice: path.symlink_to(place.precious / "bashrc"),
    "link to nothing": lambda path, place, _dice: path.symlink_to(place.precious / "new"),
    "link to itself": lambda path, _place, _dice: path.symlink_to(path.name),
    "hard link": lambda path, place, _dice: path.hardlink_to(place.precious / "records.jsonl"),
    "nothing": lambda path, _place, _dice: path.touch(),
}
NAMES: Final = (LAB, LAB, LAB, "virtoll-x", f"{LAB}\n", "virtoll-\x1b[31m", "virtoll- -rf", "virtoll-\udcff", "-rf")


@dataclass(frozen=True)
class State:
    """A hostile state folder; ``files``: of each record, the shape of each file by its name."""

    where: str
    maker: str
    command: str
    records: tuple[str, ...] = (LAB,)
    files: Mapping[str, str] = field(default_factory=dict)
    links: str = ""

    def make(self, place: Place, dice: random.Random) -> Command:
        """Make it."""
        folder, changed = WHERE[self.where](place)
        hostile, mode = MAKERS[self.maker]
        author = place.users.victim if mode == 0o700 else place.users.attacker
        place.folder(folder / "labs", author, mode)
        place.folder(folder, place.users.attacker if hostile else place.users.victim, mode)
        for name in self.records:
            record = place.folder(folder / "labs" / name, author, mode)
            (record / "lock").touch()
            for file, shape in self.files.items():
                (record / file).unlink(missing_ok=True)
                SHAPES[shape](record / file, place, dice)
            _open(record, 0o600 if mode == 0o700 else 0o666)
            place.give(record, author)
        if self.links:
            LINKS[self.links](folder, place)
        return Command(_arguments(place, self.command), changed=changed)


def _open(record: Path, mode: int) -> None:
    for path in record.iterdir():
        if path.is_file() and not path.is_symlink() and path.stat().st_nlink == 1:
            path.chmod(mode)


def _arguments(place: Place, command: str) -> tuple[str, ...]:
    if command == "run":
        return ("run", str(experiment(place)), "--into", str(place.runs / "new"), "--quiet")
    return ("doctor", "--json") if command == "doctor" else (command,)


def _moved(path: Path, place: Place) -> None:
    """A folder of the attacker's, and a link to it in its place."""
    other = place.attacker / "moved"
    path.rename(other)
    path.symlink_to(other)


def _elsewhere(path: Path, place: Place) -> None:
    """The victim's own files, where a record is expected."""
    shutil.rmtree(path)
    path.symlink_to(place.precious / "labs")


LINKS: Final[Mapping[str, Callable[[Path, Place], None]]] = {
    "the folder": _moved,
    "its labs": lambda folder, place: _moved(folder / "labs", place),
    "its labs, to the victim's files": lambda folder, place: _elsewhere(folder / "labs", place),
    "a record": lambda folder, place: _moved(folder / "labs" / LAB, place),
}
"""Which folder is a link."""

UNUSABLE: Final = ("/proc/x", "/dev/null/x", "/sys/x", "precious/bashrc", "loop", "-rf", "\x1b[31m", "x" * 300)
"""State folders that cannot be made."""


def _unusable(state: str, command: str) -> Attack:
    def make(place: Place, _dice: random.Random) -> Command:
        (place.home / "loop").symlink_to("loop")
        path = state if state.startswith(("/", "-", "\x1b")) else str(place.home / state)
        free = (place.home / "here",) if not path.startswith("/") else ()
        return Command(_arguments(place, command), changed={"VIRTOLL_STATE": path}, free=free)

    return Attack("state folder that cannot be made", f"VIRTOLL_STATE={state[:20]!r}, {command}", make, short=True)


def _nobody(place: Place, _dice: random.Random) -> Command:
    """Root's plain ``doctor`` asks as nobody: whose state folder in /tmp is the attacker's."""
    changed: Environment = {"VIRTOLL_STATE": None, "TMPDIR": None}
    record = place.folder(place.temporary / f"virtoll-{NOBODY}" / "labs" / LAB, place.users.attacker, 0o777)
    (record / "lock").touch()
    for file in record_files():
        if file != "lock":
            _first_lines(record / file, place, random.Random(0))
    place.give(record.parents[1], place.users.attacker)
    for path in (record.parents[1], record.parent, *record.iterdir()):
        path.chmod(0o777)
    return Command(("doctor",), changed=changed)


def _attack(state: State, *, short: bool = False) -> Attack:
    hostile, mode = MAKERS[state.maker]
    whose = "another user's" if hostile else "the victim's, hostile records" if mode == 0o700 else "open to others"
    row = f"state folder: {'a link' if state.links else whose}"
    files = ", ".join(f"{name}: {shape}" for name, shape in state.files.items())
    words = f"{state.where}, {state.maker}, {state.records!r} ({files}) {state.links}; {state.command}"
    return Attack(row, words, state.make, two=hostile, short=short, slow=state.command == "doctor")


def known() -> list[Attack]:
    """The attacks that were found by hand."""
    notes = [file for file in record_files() if file != "lock"]
    programs = {file: "first lines" for file in notes if fitting(file) is commands}
    theirs, mine = "another user's, 0777", "the victim's, 0777"
    states = [State(where, theirs, "clean", files=programs) for where in WHERE]
    states += [State("temporary folder", theirs, "run", files=programs)]
    states += [State("VIRTOLL_STATE", "the victim's, 0700", "clean", files=dict.fromkeys(notes, "first lines"))]
    longer = [State("VIRTOLL_STATE", theirs, "clean", files={"lock": "link to nothing"})]
    longer += [State("VIRTOLL_STATE", mine, "clean", files=programs, links=link) for link in LINKS]
    # A folder that others may write to is refused before any file in it is read.
    single = [
        State("VIRTOLL_STATE", maker, "clean", files={file: "first lines"})
        for file in notes
        for maker in (theirs, mine)
    ]
    doctor = Attack("doctor as nobody", "root's doctor", _nobody, two=True, slow=True, root=True)
    return [
        *(_attack(state, short=True) for state in states),
        *map(_attack, (*longer, *single)),  # in the short form those of ``tests/lab/test_state.py``
        _unusable("/proc/x", "run"),
        doctor,
    ]


def drawn(dice: random.Random, *, root: bool) -> Attack:
    """One by chance; ``root``: the victim is root."""
    if dice.random() < 0.08:
        return _unusable(dice.choice(UNUSABLE), dice.choice(("clean", "run")))
    files = dice.sample(record_files(), k=min(len(record_files()), dice.randint(1, 3)))
    state = State(
        "VIRTOLL_STATE" if root else dice.choice(list(WHERE)),  # root's other state folder is in /run
        dice.choice(list(MAKERS)),
        dice.choices(("clean", "run", "doctor"), (12, 4, 0.3))[0],
        tuple(dict.fromkeys(dice.choices(NAMES, k=2))),
        {file: dice.choice(list(SHAPES)) if dice.random() < 0.5 else "lines" for file in files},
    )
    links = dice.choice(list(LINKS)) if dice.random() < 0.15 and LAB in state.records else ""
    return _attack(replace(state, links=links))
