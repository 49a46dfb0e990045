"""Other users of the machine: hostile state folders, run folders, current directories and locks.

Each case makes what an attacker may leave where the victim meets it, starts a command as the victim, and looks at the
end: no program of the attacker's was executed, nothing outside of the victim's own folders for this changed, and the
command ended with one sentence at most. The attacks that are known come first, then cases by chance. ``main`` prints
the seed and one table, and ends with 1 if a case went wrong or the checks miss a change that the harness makes itself.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from benches.survive import neighbour_code, neighbour_locks, neighbour_runs, neighbour_states
from benches.survive.neighbour_checks import unnoticed
from benches.survive.neighbour_endings import Attack, Ending, carried_out, complaints
from benches.survive.neighbour_place import VIRTOLL, Users, a_place
from benches.survive.neighbour_runs import Originals

VICTIM, ATTACKER = 12345, 12346
PARTS: Final = ("states", "runs", "code", "locks")
_SHOWN: Final = 2  # of the cases of a row that went wrong alike
_SETTLED_SECONDS: Final = 60.0
COLUMNS: Final = ("executed", "changed", "words", "endless")
"""What may be wrong with a case: the first word of a complaint."""


@dataclass
class Row:
    """The cases of one kind."""

    name: str
    cases: int = 0
    codes: Counter[int | None] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    failed: int = 0

    def add(self, attack: Attack, ending: Ending, found: Sequence[str]) -> None:
        """Count a case; print it if it went wrong."""
        self.cases += 1
        self.codes[ending.code] += 1
        self.failed += bool(found)
        kinds = {complaint.split(maxsplit=1)[0].rstrip(":") for complaint in found}
        if any(self.wrong[kind] < _SHOWN for kind in kinds):
            lines = "\n".join(f"  {complaint}"[:500] for complaint in found[:8])
            print(f"{self.name}: {attack.words}\n{lines}\n{ending.words()}\n", file=sys.stderr, flush=True)
        self.wrong.update(kinds)

    def line(self) -> str:
        """Of the table."""
        numbers = (self.cases, self.codes[0], self.codes[1] + self.codes[2], *(self.wrong[name] for name in COLUMNS))
        return f"| {self.name} | {' | '.join(map(str, numbers))} | {self.cases - self.failed} |"


HEAD: Final = (
    "| attack | cases | exit 0 | refused | executed | changed outside | traceback or no sentence | no end | held |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
)


def why_alone() -> str | None:
    """Why the attacker can be no other user than the victim; None if he can."""
    return None if os.geteuid() == 0 else "needs root, to be two other users"


@functools.cache
def why_root_alone() -> str | None:
    """Why only root can be the victim; None if an ordinary user can."""
    if (why := why_alone()) is not None:
        return why
    command = ["setpriv", f"--reuid={VICTIM}", f"--regid={VICTIM}", "--clear-groups", "--", str(VIRTOLL), "--version"]
    ended = subprocess.run(command, cwd="/", env={}, capture_output=True, check=False)
    return None if ended.returncode == 0 else f"an ordinary user cannot start {VIRTOLL}"


def users(*, root: bool) -> Users:
    """The victim and the attacker of a case."""
    if why_alone() is not None:
        return Users(os.geteuid(), os.geteuid())
    return Users(0 if root or why_root_alone() is not None else VICTIM, ATTACKER)


def drawn(part: str, originals: Originals, dice: random.Random) -> Attack:
    """A case of a part by chance; root is the victim of one in five."""
    root = why_alone() is None and dice.random() < 0.2
    if part == "states":
        attack = neighbour_states.drawn(dice, root=root)
    elif part == "runs":
        attack = neighbour_runs.drawn(originals, dice)
    else:
        attack = neighbour_code.drawn(originals, dice)
    return replace(attack, root=root)


KNOWN: Final[Mapping[str, Callable[[Originals], list[Attack]]]] = {
    "states": lambda _originals: neighbour_states.known(),
    "runs": neighbour_runs.known,
    "code": neighbour_code.known,
    "locks": neighbour_locks.attacks,
}
_SHARES: Final[Mapping[str, int]] = {"states": 4, "runs": 5, "code": 2}


def attacks(asked: argparse.Namespace, originals: Originals) -> Iterator[tuple[Attack, random.Random]]:
    """The attacks of a campaign, each with the dice that make it."""
    for part in asked.part:
        for number, attack in enumerate(KNOWN[part](originals)):
            if attack.short or not asked.short:
                yield attack, random.Random(f"{asked.seed} {part} {number}")
    parts = [part for part in asked.part if part in _SHARES]
    for number in range(asked.cases if parts else 0):
        dice = random.Random(f"{asked.seed} {number}")
        part = dice.choices(parts, [_SHARES[part] for part in parts])[0]
        yield drawn(part, originals, dice), dice


def carry_out(attack: Attack, dice: random.Random, seconds: float, originals: Originals) -> tuple[Ending, list[str]]:
    """Make an attack, start the victim's command; how it ended, and what is wrong with that."""
    with a_place(users(root=attack.root), originals.cache) as place:
        ending = carried_out(place, attack.make(place, dice), 4 * seconds if attack.slow else seconds)
    return ending, complaints(ending)


def bases(originals: Originals) -> dict[str, Attack]:
    """An attack of each part, in whose place the checks are tried; without root those that need one user."""
    state = next(attack for attack in neighbour_states.known() if why_alone() is None or not attack.two)
    run = neighbour_runs.checked(originals)
    found = {"states": state, "runs": run, "code": neighbour_code.known(originals)[0]}
    return found if why_alone() is not None else {**found, "locks": neighbour_locks.attacks(originals)[0]}


def settings() -> dict[str, str]:
    """What the controllers of this host's cgroups and its PCI devices are set to."""
    found = {}
    for pattern in ("fs/cgroup/**/cgroup.subtree_control", "bus/pci/devices/*/driver_override"):
        for file in Path("/sys").glob(pattern):
            with contextlib.suppress(OSError):
                found[str(file)] = file.read_text(encoding="utf-8")
    return found


def changed_settings(before: Mapping[str, str]) -> list[str]:
    """The settings that are others now and stay so: a lab of somebody else's has its own for a while."""
    deadline = time.monotonic() + _SETTLED_SECONDS
    while True:
        after = settings()
        found = [
            f"{name}: {old!r}, then {after[name]!r}" for name, old in before.items() if after.get(name, old) != old
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.5)  # sysfs has no event for it


def main(arguments: list[str]) -> int:
    """Try the checks, then every attack; 1 where one reached anything, or a check missed a change."""
    parser = argparse.ArgumentParser(prog="neighbours", description=__doc__)
    parser.add_argument("--seed", type=int, default=None, help="what repeats it")
    parser.add_argument("--cases", type=int, default=300, help="by chance, after those that are known")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this part; repeatable")
    parser.add_argument("--seconds", type=float, default=60.0, help="after which a command has no end")
    parser.add_argument("--short", action="store_true", help="of the known attacks some, and no slow cases")
    asked = parser.parse_args(arguments)
    asked.part = asked.part or [*PARTS]
    asked.seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {asked.seed}", flush=True)
    for why in filter(None, (why_alone() or why_root_alone(),)):
        print(f"cases left out: {why}")
    before, rows = settings(), dict[str, Row]()
    with a_place(users(root=False)) as place:
        originals = Originals(place)
        missed = _tried_checks(asked, originals)
        for attack, dice in attacks(asked, originals):
            if (asked.short and attack.slow) or ((attack.two or attack.root) and why_alone() is not None):
                continue
            ending, found = carry_out(attack, dice, asked.seconds, originals)
            rows.setdefault(attack.row, Row(attack.row)).add(attack, ending, found)
    moved = changed_settings(before)
    print("\n".join(["", HEAD, *(rows[name].line() for name in sorted(rows)), *(f"changed: {line}" for line in moved)]))
    return 1 if missed or moved or any(row.failed for row in rows.values()) else 0


def _tried_checks(asked: argparse.Namespace, originals: Originals) -> list[str]:
    """The forbidden changes that the checks missed."""
    chosen = {part: attack for part, attack in bases(originals).items() if part in asked.part}
    tried = list(unnoticed(chosen, users(root=False)))
    missed = [words for words, was_missed in tried if was_missed]
    print(f"{len(tried)} forbidden changes made by the harness itself, {len(tried) - len(missed)} noticed", flush=True)
    for words in missed:
        print(f"not noticed: {words}", file=sys.stderr, flush=True)
    return missed
