"""Run folders that are damaged on purpose, and the commands that read them.

Main functions: ``damages`` (what is done to which file, drawn by Hypothesis), ``damage`` (does it) and ``COMMANDS``
(every command that reads a run). ``Damage.belied``: the digests are made anew after it, as who forges a run would.
"""

from __future__ import annotations

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benches.survive.made_experiments import HOSTILE, at, places, with_value, without
from hypothesis import strategies as st

from virtoll.runfolder.sums import SUMS, remove_sums, write_sums

FILES: Final = (
    "manifest.json",
    "state.json",
    "trials.jsonl",
    "boots.jsonl",
    "fitness.jsonl",
    "calibration.jsonl",
    "footprints.jsonl",
    "commands.jsonl",
    SUMS,
)
_LABELS: Final = tuple(one for one in HOSTILE[7:24] if "\0" not in one)
_ODD: Final[tuple[Any, ...]] = (
    None,
    True,
    -1,
    0,
    1.5,
    10**30,
    1e308,
    "",
    [],
    {},
    [[]],
    "x",
    "NaN",
    2**63,
    -(2**63) - 1,
    *HOSTILE[:24],
)
Command = Callable[[Path, Path], Sequence[str]]
"""From a run's folder and a folder to write to, to the arguments."""

COMMANDS: Final[Mapping[str, Command]] = {
    "report": lambda run, _to: ["report", str(run)],
    "report --json": lambda run, _to: ["report", str(run), "--json"],
    "claims": lambda run, _to: ["claims", str(run)],
    "claims --json": lambda run, _to: ["claims", str(run), "--json"],
    "advise": lambda run, _to: ["advise", str(run), "--need", "router 64B 200kpps loss<0.1%"],
    "gate": lambda run, _to: ["gate", str(run), "--fail-if", "runc:superpi slowdown>1.5x"],
    "compare": lambda run, _to: ["compare", str(run), str(run.with_name("whole"))],
    "compare platforms": lambda run, _to: ["compare", f"{run}:native", f"{run}:runc"],
    "history": lambda run, _to: ["history", str(run.parent)],
    "query": lambda run, _to: ["query", "select count(*), sum(value) from samples", str(run)],
    "query of all": lambda run, _to: ["query", "select * from runs", str(run.parent), "--json"],
    "validation": lambda run, _to: ["validation", str(run)],
    "verify": lambda run, _to: ["verify", str(run)],
    "export markdown": lambda run, _to: ["export", str(run), "--format", "markdown"],
    "export junit": lambda run, to: ["export", str(run), "--format", "junit", "--output", str(to / "junit.xml")],
    "export bencher": lambda run, _to: ["export", str(run), "--format", "bencher"],
    "export openmetrics": lambda run, _to: ["export", str(run), "--format", "openmetrics"],
    "export parquet": lambda run, to: ["export", str(run), "--parquet", "--output", str(to / "tables")],
    "pack": lambda run, to: ["pack", str(run), "--output", str(to / "packed.virtoll.tar.zst"), "--force"],
    "pack --anonymous": lambda run, to: [
        "pack", str(run), "--anonymous", "--output", str(to / "packed.virtoll.tar.zst"), "--force",
    ],
    "resume": lambda run, _to: ["resume", str(run)],
    "extend": lambda run, _to: ["extend", str(run), "--blocks", "+1"],
    "merge": lambda run, to: ["campaign", "merge", str(run.parent), "--into", str(to / "merged")],
    "campaign status": lambda run, _to: ["campaign", "status", str(run.parent)],
    "explain": lambda run, _to: ["explain", str(run), "--platform", "runc"],
    "list runs": lambda _run, _to: ["list", "runs"],
    "load": lambda run, _to: ["load", str(run)],
}  # fmt: skip
OF_PARTS: Final = frozenset({"merge", "campaign status"})
"""Commands whose run is a part of a campaign, in the campaign's folder."""
MAY_WRITE: Final = frozenset({"resume", "extend", "explain", "report", "report --json"})
"""Commands that write into the folder of the run: what they may change is looked at by itself."""


@dataclass(frozen=True)
class Damage:
    """What was done: ``kind`` in words, ``file`` which file, ``number`` where (by a seed)."""

    kind: str
    file: str
    number: int
    belied: bool


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, Damage]:
    """A command, and the damage of what it reads."""
    kind = draw(st.sampled_from(list(KINDS)))
    file = draw(st.sampled_from(FILES))
    return draw(st.sampled_from(list(COMMANDS))), Damage(
        kind, file, draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    )


def damage(run: Path, what: Damage) -> None:
    """Do it to a run's folder."""
    dice = random.Random(what.number)
    path = run / what.file
    if not path.is_file() and what.file != SUMS:
        path = run / "trials.jsonl"
    KINDS[what.kind](path, dice)
    if what.belied and what.file != SUMS:
        remove_sums(run)
        if dice.random() < 0.7 and what.kind not in _UNREADABLE:
            with suppress(Exception):
                write_sums(run)


def _bytes(change: Callable[[bytes, random.Random], bytes]) -> Callable[[Path, random.Random], None]:
    return lambda path, dice: _write(path, change(path.read_bytes(), dice))


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def _json(change: Callable[[Any, random.Random], Any]) -> Callable[[Path, random.Random], None]:
    """A change of one record's value, the rest as it was."""

    def damage_it(path: Path, dice: random.Random) -> None:
        data = path.read_bytes()
        lines = data.splitlines() if path.suffix == ".jsonl" else [data]
        number = dice.randrange(max(len(lines), 1))
        try:
            record = json.loads(lines[number])
        except (ValueError, IndexError):
            return
        lines[number] = json.dumps(change(record, dice)).encode()
        _write(path, b"\n".join(lines) + b"\n")

    return damage_it


def _odd_value(record: Any, dice: random.Random) -> Any:
    return with_value(record, dice.choice(list(places(record)) or [()]), dice.choice(_ODD))


def _odd_number(record: Any, dice: random.Random) -> Any:
    """A number of another size in the place of one: what no type refuses."""
    numbers = [place for place in places(record) if type(at(record, place)) in (int, float)]
    if not numbers:
        return record
    place = dice.choice(numbers)
    kind = type(at(record, place))
    odd = (0, 1, -1, 2**31, 2**53, 2**63 - 1, 10**18, 10**25) if kind is int else (0.0, -1.0, 1e-300, 1e300, 5e-324)
    return with_value(record, place, dice.choice(odd))


def _odd_text(record: Any, dice: random.Random) -> Any:
    texts = [place for place in places(record) if isinstance(at(record, place), str)]
    return with_value(record, dice.choice(texts), dice.choice(HOSTILE)) if texts else record


def _renamed_everywhere(path: Path, dice: random.Random) -> None:
    """A platform's label in all files: each agrees with the others, and nobody may have such a label."""
    label = dice.choice(_LABELS)
    run = path.parent
    for file in run.glob("*.json*"):
        if file.is_file():
            _write(file, file.read_bytes().replace(b'"runc"', json.dumps(label).encode()))


def _missing(record: Any, dice: random.Random) -> Any:
    there = list(places(record))
    return without(record, dice.choice(there)) if there else record


def _more(record: Any, dice: random.Random) -> Any:
    return {**record, dice.choice(["x", "__class__", "", "trial ", "\x1b[31m"]): dice.choice(_ODD)}


def _flipped(data: bytes, dice: random.Random) -> bytes:
    if not data:
        return data
    bit = dice.randrange(8 * len(data))
    return data[: bit // 8] + bytes([data[bit // 8] ^ (1 << bit % 8)]) + data[bit // 8 + 1 :]


def _lines(change: Callable[[list[bytes], random.Random], list[bytes]]) -> Callable[[Path, random.Random], None]:
    return _bytes(lambda data, dice: b"".join(change(data.splitlines(keepends=True), dice)))


def _in_its_place(make: Callable[[Path, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def damage_it(path: Path, dice: random.Random) -> None:
        path.unlink(missing_ok=True)
        make(path, dice)

    return damage_it


def _other_file(path: Path, dice: random.Random) -> None:
    other = path.with_name(dice.choice([one for one in FILES if one != path.name]))
    if other.is_file():
        shutil.copyfile(other, path)


def _sparse(path: Path, dice: random.Random) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(10 * 10**9 if dice.random() < 0.1 else 10**9)  # a digest of the larger takes half a minute


def _long_line(path: Path, _dice: random.Random) -> None:
    with path.open("ab") as file:
        file.write(b'{"trial":1,"x":"' + b"y" * (80 << 20) + b'"}\n')


def _deep(path: Path, dice: random.Random) -> None:
    opening = dice.choice([b"[", b'{"a":'])
    _write(path, opening * 200_000)


def _deep_line(path: Path, dice: random.Random) -> None:
    """Whole JSON, behind the others and as a value of one."""
    depth = dice.choice([300, 2000, 100_000])
    deep = b"[" * depth + b"]" * depth
    _write(path, path.read_bytes().rstrip(b"\n")[:-1] + b',"more":' + deep + b"}\n")


def _device(path: Path, dice: random.Random) -> None:
    name = dice.choice(["null", "zero", "full", "urandom"])
    numbers = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "urandom": (1, 9)}
    try:
        os.mknod(path, 0o020666, os.makedev(*numbers[name]))
    except OSError as error:
        if error.errno != errno.EPERM:
            raise
        path.symlink_to(f"/dev/{name}")


def _socket(path: Path, _dice: random.Random) -> None:
    os.mknod(path, 0o140666)


def _many_files(path: Path, dice: random.Random) -> None:
    for number in range(2000):
        (
            path.parent / "evidence" / f"{number}{dice.choice(HOSTILE[8:13])[:50].replace('/', '').replace(chr(0), '')}"
        ).touch()


def _odd_name(path: Path, dice: random.Random) -> None:
    name = dice.choice([b"\xff\xfe.json", b"a\nb.jsonl", b"\x1b[31m.json", "\u202e.json".encode(), b"-rf.json"])
    with open(os.path.join(os.fsencode(path.parent), name), "wb") as file:  # noqa: PTH118, PTH123 - a name of bytes
        file.write(b"{}")


def _half(line: bytes) -> bytes:
    return line[: len(line) // 2] + b"\n"


_DEVICES: Final = ("/dev/zero", "/dev/tty", "/dev/full")
_UNREADABLE: Final = (
    "sparse",
    "device",
    "FIFO",
    "socket",
    "link to a device",
    "link to itself",
    "folder",
    "folder as a link",
)
KINDS: Final[Mapping[str, Callable[[Path, random.Random], None]]] = {
    "flipped bit": _bytes(_flipped),
    "cut": _bytes(lambda data, dice: data[: dice.randrange(len(data) + 1)]),
    "line cut": _lines(lambda lines, dice: [_half(one) if dice.random() < 0.3 else one for one in lines]),
    "line missing": _lines(lambda lines, dice: [one for one in lines if dice.random() < 0.8]),
    "line twice": _lines(lambda lines, dice: [*lines, dice.choice(lines or [b""])]),
    "lines in another order": _lines(lambda lines, dice: dice.sample(lines, len(lines))),
    "empty": _bytes(lambda _data, _dice: b""),
    "zeroes": _bytes(lambda data, _dice: bytes(len(data))),
    "noise": _bytes(lambda data, dice: dice.randbytes(min(len(data), 5000))),
    "another type": _json(_odd_value),
    "another number": _json(_odd_number),
    "another text": _json(_odd_text),
    "another label": _renamed_everywhere,
    "missing key": _json(_missing),
    "another key": _json(_more),
    "other version": _json(lambda record, dice: {**record, "format": dice.choice(_ODD)}),
    "not a number": _bytes(lambda data, _dice: data.replace(b":1", b":NaN", 1).replace(b":2", b":Infinity", 1)),
    "many digits": _bytes(lambda data, _dice: data.replace(b":1", b":1" + b"0" * 6000, 1)),
    "two keys": _bytes(lambda data, _dice: data.replace(b"{", b'{"trial":7,"trial":8,', 1)),
    "BOM": _bytes(lambda data, _dice: b"\xef\xbb\xbf" + data),
    "UTF-16": _bytes(lambda data, _dice: data.decode(errors="replace").encode("utf-16")),
    "surrogates": _bytes(lambda data, _dice: data.replace(b'"native', b'"\\ud800native', 1)),
    "CRLF": _bytes(lambda data, _dice: data.replace(b"\n", b"\r\n")),
    "swapped files": _other_file,
    "no file": _in_its_place(lambda _path, _dice: None),
    "folder": _in_its_place(lambda path, _dice: path.mkdir()),
    "link to itself": _in_its_place(lambda path, _dice: path.symlink_to(path.name)),
    "link out": _in_its_place(lambda path, _dice: path.symlink_to("/etc/passwd")),
    "link to a device": _in_its_place(lambda path, dice: path.symlink_to(dice.choice(_DEVICES))),
    "folder as a link": _in_its_place(lambda path, _dice: path.symlink_to("/etc")),
    "FIFO": _in_its_place(lambda path, _dice: os.mkfifo(path)),
    "device": _in_its_place(_device),
    "socket": _in_its_place(_socket),
    "sparse": _sparse,
    "long line": _long_line,
    "deep": _deep,
    "deep line": _deep_line,
    "many files": _many_files,
    "odd name": _odd_name,
}  # fmt: skip
