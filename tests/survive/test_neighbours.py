"""The short form of ``benches/survive/neighbours.py``: the attacks that are known, and a few by chance.

Each case is a command that a victim starts where an attacker, another user, has left something.
"""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from benches.survive.neighbour_endings import Command, Ending, complaints
from benches.survive.neighbour_states import commands, controllers, devices, fitting, record_files
from benches.survive.neighbours import HEAD, PARTS, why_alone
from tests.support.commands import DEADLINE_SECONDS, environment
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow
SEED = "202"  # by chance: a state folder, a run folder, a current directory of root's, none of which is measured in
TO_THE_END = {
    "current directory: run": "code",
    "current directory: explain": "code",
    "lock: state folder and run folder, resume": "locks",
}
"""Attacks at which a run measures to its end, and the part of each: one that is refused early shows little."""


def parts() -> list[str]:
    """Locks are held by another user, whom root alone can be."""
    return [part for part in PARTS if part != "locks" or why_alone() is None]


@pytest.mark.lab
@pytest.mark.timeout(DEADLINE_SECONDS)
def test_a_neighbour_reaches_nothing() -> None:
    chosen = [word for part in parts() for word in ("--part", part)]
    ended = subprocess.run(
        [sys.executable, "benches/survive", "neighbours", "--short", "--seed", SEED, "--cases", "3", *chosen],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    tried, noticed = re.findall(
        r"^(\d+) forbidden changes made by the harness itself, (\d+) noticed$", ended.stdout, re.MULTILINE
    )[0]
    assert int(tried) == int(noticed) > 1
    rows = [line.strip("| ").split(" | ") for line in ended.stdout.partition(HEAD)[2].strip().splitlines()]
    assert rows
    assert all(row[1] == row[-1] for row in rows), "each case held"
    whole = {row[0] for row in rows if row[2] == row[1]}
    assert whole >= {name for name, part in TO_THE_END.items() if part in parts()}, ended.stdout


def test_the_names_of_a_records_files_are_those_of_the_source() -> None:
    names = record_files()
    assert "lock" in names
    assert {commands, controllers, devices} <= {fitting(name) for name in names}


def ended(code: int | None, err: str = "", **more: tuple[str, ...]) -> Ending:
    executed, differences = more.get("executed", ()), more.get("differences", ())
    return Ending(Command(("resume",)), code, "", err, 60.0, executed=executed, differences=differences)


@pytest.mark.parametrize(
    ("ending", "column"),
    [
        (ended(0, executed=("7-shell",)), "executed"),
        (ended(0, differences=("home/x: a, then b",)), "changed"),
        (ended(1, "Traceback (most recent call last):\n  x\n"), "words"),
        (ended(2), "words"),
        (ended(2, "virtoll: a\nvirtoll: b\n"), "words"),
        (ended(-9), "words"),
        (ended(None), "endless"),
    ],
)
def test_what_is_wrong_with_an_ending_is_counted_in_its_column(ending: Ending, column: str) -> None:
    (complaint,) = complaints(ending)
    assert complaint.startswith(column)


@pytest.mark.parametrize("ending", [ended(0), ended(2, "virtoll: x is a link; remove it\n"), ended(1, "virtoll: no\n")])
def test_an_ending_by_one_sentence_is_in_order(ending: Ending) -> None:
    assert complaints(ending) == []
