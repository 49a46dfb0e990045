#!/usr/bin/env python3
"""Puts small faults into the Python of `src/virtoll`, one at a time, and reports which of them no test finds.

`make mutants-python MUTANTS_SAMPLE=200 MUTANTS_SEED=1` draws faults at random from all files (`changes` has their
kinds). First, each test is run once to store which lines it runs (`--keep-coverage`: as stored by the last run). Then
each fault meets the tests that run its lines, quick ones first, and then their modules, whose other tests may read what
one of these made: outside labs, and if all of them pass, in labs. A line that runs only as its module is imported, or
by no test, meets the tests nearby first. What passes all tests may still be a fault that mypy finds.

`python -m tools.mutants stats/bounds --sample 0 --tests tests/stats` tries all of one file by the tests of one room.

`explained.toml` has the faults that change nothing that anybody could see, each with its reason.
Prints a Markdown table by room, and each fault that is left. Exit codes: 0, 1 where something is left, 2 bad arguments.
"""

from __future__ import annotations

import argparse
import itertools
import json
import queue
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Final, Literal

import pytest
from tests.support.quick import distance
from tools.mutants.changes import Change, changed, changes_of, is_fault, lot, runs_at_import
from tools.mutants.trees import (
    DATA,
    ROOT,
    SHORT,
    WORK,
    Coverage,
    Runner,
    make_tree,
    measure_coverage,
    pytest_in,
    types_fit,
)

SOURCE: Final = ROOT / "src" / "virtoll"
EXPLAINED: Final = Path(__file__).with_name("explained.toml")
MOST_SECONDS: Final = 240.0
"""What the tests of one fault may take in all, by what they took without it; the quickest are tried."""
PATIENCE: Final = 4.0
"""A fault that makes its tests take so many times longer hangs: it is found."""
GENERATED: Final = ("tests/experiment/test_schema.py", "tests/runfolder/test_schema.py")
"""Tests of what is generated from the modules of all rooms."""
_FIRST_FAILURE: Final = ("-x", "-rfE", "-m", SHORT)
Fate = Literal["found", "found in labs", "found by mypy", "left"]


@dataclass(frozen=True)
class Outcome:
    """What came of a change: `by`, the first test that failed; `tests`, how many run its lines."""

    change: Change
    fate: Fate
    by: str
    tests: int


def drawn(paths: Sequence[str], sample: int, seed: int) -> list[Change]:
    """So many changes of these files and folders, at random; all of them where ``sample`` is 0."""
    files = sorted({file for path in paths or [""] for file in _files(path)})
    every = [change for file in files for change in _changes_in(file)]
    if sample:
        every.sort(key=lambda change: lot(change, seed))
    faults = (change for change in every if is_fault(_text(SOURCE / change.file), change))
    return list(itertools.islice(faults, sample or None))


def _files(path: str) -> Iterator[Path]:
    whole = SOURCE / path
    if whole.is_dir():
        yield from whole.rglob("*.py")
    elif whole.with_suffix(".py").is_file():
        yield whole.with_suffix(".py")
    else:
        raise SystemExit(f"{path} is no file or folder of {SOURCE}")


def _changes_in(file: Path) -> list[Change]:
    return changes_of(str(file.relative_to(SOURCE)), _text(file))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def judged(change: Change, tree: Path, coverage: Coverage) -> Outcome:
    """Put the change into the tree, run its tests, and put the file back."""
    file = tree / "src" / "virtoll" / change.file
    before = _text(file)
    by_line = [] if runs_at_import(before, change) else coverage.runners(change.file, change.lines)
    runners = by_line or coverage.runners(change.file)
    file.write_text(changed(before, change), encoding="utf-8")
    try:
        by = None if by_line else _failed_nearby(tree, change)
        if by is not None:
            return Outcome(change, "found", by, len(runners))
        for in_lab in (False, True):
            there = [runner for runner in runners if runner.in_lab == in_lab]
            for chosen in (_quickest(there), _quickest(coverage.modules(there))):
                by = _failed(tree, chosen) if chosen else None
                if by is not None:
                    return Outcome(change, "found in labs" if in_lab else "found", by, len(runners))
        if not types_fit(tree):
            return Outcome(change, "found by mypy", "", len(runners))
    finally:
        file.write_text(before, encoding="utf-8")
    return Outcome(change, "left", "", len(runners))


def _quickest(runners: Sequence[Runner]) -> list[Runner]:
    chosen: list[Runner] = []
    seconds = 0.0
    for runner in runners:
        seconds += runner.seconds
        if chosen and seconds > MOST_SECONDS:
            break
        chosen.append(runner)
    return chosen


def _failed_nearby(tree: Path, change: Change) -> str | None:
    """As `_failed`, of the tests that import the changed file, then of its room, then of what is generated from all."""
    changed = frozenset({PurePath("src/virtoll", change.file)})
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    nearness = {file.relative_to(ROOT): distance(file, changed) for file in files}
    nearby = sorted((file for file in nearness if nearness[file] < 2), key=nearness.__getitem__)
    marks = ["-m", f"not inside and {SHORT}"]
    return _first_failure(pytest_in(tree, ["-x", "-rfE", *marks, *map(str, nearby), *GENERATED]))


def _failed(tree: Path, runners: Sequence[Runner]) -> str | None:
    """The test that failed first, or what else went wrong; None where all pass."""
    expected = sum(runner.seconds for runner in runners)
    tests = [runner.test for runner in runners]
    try:
        done = pytest_in(tree, [*_FIRST_FAILURE, *tests], deadline_seconds=60 + PATIENCE * expected)
        if done.returncode == pytest.ExitCode.USAGE_ERROR:
            modules = sorted({test.partition("::")[0] for test in tests})
            done = pytest_in(tree, [*_FIRST_FAILURE, *modules], deadline_seconds=60 + PATIENCE * expected)
    except subprocess.TimeoutExpired:
        return "no end"
    return _first_failure(done)


def _first_failure(done: subprocess.CompletedProcess[str]) -> str | None:
    if done.returncode == 0:
        return None
    first = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", done.stdout, re.MULTILINE)
    return first[1] if first else f"pytest ended with {done.returncode}"


def main() -> int:
    """Draw, judge, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="*", metavar="PATH", help="a file or folder, as stats/bounds; without any, all")
    parser.add_argument("--sample", type=int, default=200, help="how many faults; 0: all (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="which faults are drawn (default: 1)")
    parser.add_argument("--children", type=int, default=2, help="faults tried side by side (default: 2)")
    parser.add_argument("--keep-coverage", action="store_true", help="which test runs which line is known")
    parser.add_argument("--tests", nargs="+", default=[], help="know of these tests alone (default: of all)")
    parser.add_argument("--left", action="store_true", help="try only what the last run with this seed left")
    asked = parser.parse_args()
    if asked.sample < 0 or asked.children < 1:
        parser.error("--sample is at least 0, --children at least 1")
    results = WORK / f"outcomes-{asked.seed}.json"
    changes = drawn(asked.paths, asked.sample, asked.seed)
    known = _known(results) if asked.left else {}
    if not (asked.keep_coverage and DATA.is_dir()):
        measure_coverage(asked.tests, workers=3)
    tried = [change for change in changes if change.key not in known]
    outcomes = [known[change.key] for change in changes if change.key in known]
    outcomes += _all_judged(tried, asked.children)
    results.write_text(json.dumps([asdict(outcome) for outcome in outcomes], indent=1), encoding="utf-8")
    return _report(outcomes)


def _known(results: Path) -> dict[tuple[str, str, str], Outcome]:
    """What the last run found."""
    stored = json.loads(results.read_text(encoding="utf-8"))
    outcomes = [Outcome(**{**entry, "change": Change(**entry["change"])}) for entry in stored]
    return {outcome.change.key: outcome for outcome in outcomes if outcome.fate != "left"}


def _all_judged(changes: Sequence[Change], children: int) -> list[Outcome]:
    """Several changes side by side, each in a tree of its own."""
    waiting: queue.SimpleQueue[Change] = queue.SimpleQueue()
    for change in changes:
        waiting.put(change)
    outcomes: list[Outcome] = []

    def work(number: int) -> None:
        tree, coverage = make_tree(f"tree-{number}"), Coverage()
        while True:
            try:
                change = waiting.get_nowait()
            except queue.Empty:
                return
            begun = time.monotonic()
            outcome = judged(change, tree, coverage)
            outcomes.append(outcome)
            progress = f"{len(outcomes)}/{len(changes)} {time.monotonic() - begun:.0f} s"
            print(f"{progress} {outcome.fate}: {change.where} {outcome.by}", flush=True)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(children)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def _report(outcomes: Sequence[Outcome]) -> int:
    """Print table and what is left; 1 where something is, or where an explanation matches no change."""
    entries = tomllib.loads(EXPLAINED.read_text(encoding="utf-8")).get("explained", [])
    reasons = {(entry["where"], entry["before"], entry["after"]) for entry in entries}
    left = [outcome for outcome in outcomes if outcome.fate == "left" and outcome.change.key not in reasons]
    rooms: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        room = outcome.change.file.partition("/")[0].removesuffix(".py")
        fate: str = outcome.fate
        if fate == "left" and outcome.change.key in reasons:
            fate = "explained"
        rooms.setdefault(room, Counter()).update(("tried", fate))
    columns = ("tried", "found", "found in labs", "found by mypy", "explained", "left")
    print(f"\n| room | {' | '.join(columns)} |")
    print(f"| --- |{' ---: |' * len(columns)}")
    total = sum(rooms.values(), Counter())
    for room, count in [*sorted(rooms.items()), ("all", total)]:
        print(f"| {room} | {' | '.join(str(count[column]) for column in columns)} |")
    for outcome in left:
        change = outcome.change
        print(f"\n{change.where} ({outcome.tests} tests run it)\n- {change.before}\n+ {change.after}")
    unused = reasons - {change.key for file in _files("") for change in _changes_in(file)}
    for where, before, after in sorted(unused):
        print(f"\n{EXPLAINED.name} explains a change that is not there: {where}\n- {before}\n+ {after}")
    return 1 if left or unused else 0


if __name__ == "__main__":
    sys.exit(main())
