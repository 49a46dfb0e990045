"""Hostile input: generated experiments, damaged run folders, packed archives with tricks, odd command lines.

Each case is a command in a process of its own (``watched``), which may use so much memory, time and disk, and is
watched for what it writes and starts. ``main`` prints one table and ends with 1 where a command ended otherwise than
documented, printed a traceback or a control character, wrote outside of its folders, or started a program.
"""

from __future__ import annotations

import argparse
import math
import random
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle, product
from pathlib import Path
from typing import Final

import yaml
from benches.survive.damaged_folders import COMMANDS, MAY_WRITE, OF_PARTS, Damage, damage, damages
from benches.survive.made_archives import HARMLESS, READERS, archives, made, parts_of
from benches.survive.made_experiments import Made, experiments
from benches.survive.odd_command_lines import commands, files, lines, reader, strange, words
from benches.survive.tally import Extent, Tally, drawn, table, wrong
from benches.survive.watched import STOPPED, Outcome, Place, preload, snapshot, watched
from tests.support.drawings import Blank, drawn_by

CODES: Final[Mapping[str, tuple[int, ...]]] = {
    "gate": (0, 2, 3, 4),
    "compare": (0, 2, 3, 4),
    "compare platforms": (0, 2, 3, 4),
    "verify": (0, 1, 2),
}
"""What a command that reads runs may end with, where it is more than 0 and 2."""
MODEL: Final = {
    "name": "models",
    "question": "Is it so?",
    "platforms": [
        {"platform": "fake", "label": "native", "seed": 1},
        {"platform": "fake", "label": "native-again", "seed": 2},
        {"platform": "fake", "label": "runc", "cost": 1.2, "seed": 3},
    ],
    "baseline": "native",
    "control": "native-again",
    "workloads": ["superpi", {"workload": "forward", "frame_size_bytes": 64}],
    "blocks": 2,
    "rounds": 2,
}
"""An experiment of models, which needs no root and no guest."""


@dataclass(frozen=True)
class Originals:
    """Runs that the command line makes in a place when a part copies the first."""

    place: Place

    @cached_property
    def run(self) -> Path:
        """A finished run of models, without its report."""
        folder = self.place.allowed / "whole"
        with drawn_by(Blank):
            self._make("run", str(self._experiment), "--into", str(folder), "--quiet")
        shutil.rmtree(folder / "report")
        return folder

    @cached_property
    def part(self) -> Path:
        """One part of a campaign in two parts, in the campaign's folder."""
        folder = self.place.allowed / "campaign"
        for block in ("1", "2"):
            self._make("campaign", "block", str(self._experiment), "--block", block, "--into", str(folder), "--quiet")
        return min(path.parent for path in folder.glob("*/manifest.json"))

    @property
    def _experiment(self) -> Path:
        file = self.place.allowed / "models.yaml"
        file.write_text(yaml.safe_dump(MODEL), encoding="utf-8")
        return file

    def _make(self, *argv: str) -> None:
        ended = watched(argv, self.place)
        if ended.code != 0:
            raise RuntimeError(ended.told())


@contextmanager
def a_place() -> Iterator[Place]:
    """Folders of its own, gone afterwards."""
    top = Path(tempfile.mkdtemp(prefix="virtoll-inputs-", dir="/var/tmp"))
    try:
        yield Place(top).make()
    finally:
        shutil.rmtree(top, ignore_errors=True)


def generated_experiments(extent: Extent, _originals: Originals) -> list[Tally]:
    """``plan`` and ``show experiment`` of generated files; what is refused is given to ``run`` too."""
    found: dict[str, Tally] = {}
    dice = random.Random(extent.seed)
    with a_place() as place:
        file = place.given / "mine.yaml"

        def case(made: Made) -> None:
            how, data = made
            tally = found.setdefault(how.split(",")[0], Tally(f"experiment: {how.split(',')[0]}"))
            file.write_bytes(data)
            arguments = dice.choice(
                [["plan"], ["plan"], ["plan", "--json"], ["plan", "--trials"], ["show", "experiment"]]
            )
            outcome = watched([*arguments, str(file)], place)
            tally.add(how, outcome, named="mine.yaml")
            if outcome.code == 2 and dice.random() < 0.1:
                tally.add(how, watched(["run", str(file)], place), (2,), "mine.yaml")

        drawn(extent, experiments(), case)
    return list(found.values())


def damaged_folders(extent: Extent, originals: Originals) -> list[Tally]:
    """Every command that reads a run, with a run folder that was damaged in one of many ways."""
    found: dict[str, Tally] = {}
    with a_place() as place:

        def case(drawn_case: tuple[str, Damage]) -> None:
            name, what = drawn_case
            tally = found.setdefault(name, Tally(f"folder: {name}"))
            outcome, changed = _read_damaged(place, originals, name, what)
            if changed:
                tally.fail(
                    f"changed the run: {changed[0]}", f"{tally.kind}: {what}: changed {changed}\n{outcome.told()}"
                )
            tally.add(str(what), outcome, CODES.get(name, (0, 2)))
            for one in injected(place.top):
                tally.fail(f"injected: {one[:60]}", f"{tally.kind}: {what}: {one}")

        drawn(extent, damages(), case)
    return sorted(found.values(), key=lambda one: one.kind)


def _read_damaged(place: Place, originals: Originals, name: str, what: Damage) -> tuple[Outcome, list[str]]:
    """One command on one damaged folder; which of the run's files it changed."""
    writes = name in MAY_WRITE
    runs = (place.allowed if writes else place.given) / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    if name in OF_PARTS:
        shutil.copytree(originals.part.parent, runs)
        folder = runs / originals.part.name
    else:
        folder = Path(shutil.copytree(originals.run, runs / "run"))
        shutil.copytree(originals.run, runs / "whole")
    damage(folder, what)
    before = snapshot(folder)
    to = place.allowed / "to"
    shutil.rmtree(to, ignore_errors=True)
    to.mkdir()
    call = None
    if name == "load":
        call = _loads(folder)
    outcome = watched(
        COMMANDS[name](folder, to),
        place,
        call=call,
        changed={"VIRTOLL_RUNS": str(folder.parent)},
        terminal=not name.startswith("report"),  # on a terminal a report's path is a link
    )
    after = snapshot(folder)
    different = [one for one in before.keys() | after.keys() if before.get(one) != after.get(one)]
    changed = [one for one in different if not one.startswith((".", "report", "explain"))]
    if name in ("resume", "extend") and outcome.code == 0:
        changed = []
    return outcome, changed if writes else []


def packed_runs(extent: Extent, originals: Originals) -> list[Tally]:
    """Every command that takes a packed run, with an archive with one trick."""
    found: dict[str, Tally] = {}
    reached = (Path("/var/tmp/virtoll-inputs-reached"), Path("/tmp/virtoll-inputs-reached"))  # noqa: S108
    with a_place() as place:
        parts = parts_of(originals.run)
        archive, to = place.given / "run.virtoll.tar.zst", place.allowed / "to"

        def case(drawn_case: tuple[str, str, int]) -> None:
            trick, name, number = drawn_case
            tally = found.setdefault(name, Tally(f"archive: {name}"))
            archive.write_bytes(made(parts, trick, number))
            for folder in (to, place.allowed / "runs", place.allowed / "cache"):
                shutil.rmtree(folder, ignore_errors=True)
            to.mkdir()
            outcome = watched(READERS[name](archive, to), place, terminal=True)
            tally.add(f"{trick} ({number})", outcome, (0, 2), archive.name if trick != "as it is" else "")
            there = [str(one) for one in reached if one.exists()]
            left = [str(one) for one in place.allowed.rglob("*.new-*")] + there
            held = sum(one.lstat().st_blocks * 512 for one in place.allowed.rglob("*"))
            if left or held > _MOST_DISK:
                tally.fail(f"left {left[:2]}, {held} bytes", f"{tally.kind}: {trick} ({number})\n{outcome.told()}")
            if outcome.code == 0 and trick not in HARMLESS:
                tally.fail(f"accepted: {trick}", f"{tally.kind}: {trick} ({number}) accepted\n{outcome.told()}")

        drawn(extent, archives(), case)
    return sorted(found.values(), key=lambda one: one.kind)


_MARKUP: Final = re.compile(r"<script>alert|<img src=x")
_FORMULAS: Final = re.compile(r"""(^|,)"?(=HYPERLINK|@SUM)""", re.MULTILINE)


def injected(top: Path) -> list[str]:
    """Where a page has a text of a run as markup, or a CSV file has one that a spreadsheet computes."""
    found = []
    for pattern, ending in ((_MARKUP, "html"), (_MARKUP, "svg"), (_FORMULAS, "csv")):
        for path in top.rglob(f"report/**/*.{ending}"):
            match = pattern.search(path.read_text(encoding="utf-8", errors="replace"))
            if match:
                found.append(f"{path.relative_to(top)}: {match[0]!r}")
    return found


def _loads(folder: Path) -> Callable[[], None]:
    def load() -> None:
        import virtoll
        from virtoll.errors import VirtollError

        try:
            str(virtoll.load(folder).analysis)
        except VirtollError as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(error.exit_code)

    return load


def odd_lines(extent: Extent, originals: Originals) -> list[Tally]:
    """Every command with odd arguments, options and variables; whatever would start something ends before it does."""
    found: dict[str, Tally] = {}
    with a_place() as place:
        strange(place.given)
        shutil.copytree(originals.run, place.given / "run")
        known, given = commands(), words(place.given)

        def case(drawn_case: tuple[list[str], dict[str, str]]) -> None:
            argv, variables = drawn_case
            group = argv[0] if not argv[0].startswith("in-lab") else "in-lab"
            tally = found.setdefault(group, Tally(f"command line: {group}"))
            outcome = watched(argv, place, changed=variables, terminal=True, harmless=True)
            stopped = outcome.code == STOPPED
            if stopped:
                outcome = replace(outcome, changed=(), started=())
            tally.add(f"{variables}", outcome, (0, 1, 2, 3, 4, STOPPED))
            for name in ("cache", "state", "config", "caches"):
                shutil.rmtree(place.allowed / name, ignore_errors=True)

        drawn(extent, lines(known, given), case)
    return sorted(found.values(), key=lambda one: one.kind)


def user_files(extent: Extent, originals: Originals) -> list[Tally]:
    """Claims, needs, thresholds, testbeds, keys, test results and a campaign's file, damaged; and what is no file."""
    found: dict[str, Tally] = {}
    with a_place() as place:
        run, to = Path(shutil.copytree(originals.run, place.allowed / "whole")), place.allowed / "to"
        to.mkdir()
        folder = place.given / "mine"
        folder.mkdir()

        def case(drawn_case: tuple[str, str, bytes]) -> None:
            kind, how, data = drawn_case
            file = folder / ("campaign.json" if kind == "campaign" else "mine.yaml")
            file.write_bytes(data)
            tally = found.setdefault(kind, Tally(f"file: {kind}"))
            tally.add(how, watched(reader(kind, file, run, to), place, terminal=True), (0, 2), file.name)
            file.unlink()

        drawn(extent, files(), case)
        strange(folder)
        tally = found["no file"] = Tally("file: what is none")
        for file, kind in readings(sorted(folder.iterdir()), extent.count):
            outcome = watched(reader(kind, file, run, to), place, terminal=True)
            tally.add(file.name, outcome, (0, 2) if kind == "key" else (2,), file.name)
    return sorted(found.values(), key=lambda one: one.kind)


def readings(files: Sequence[Path], count: int) -> list[tuple[Path, str]]:
    """Each file by each kind of reader; if fewer cases are asked for, one reader of each file.

    What has no end is read by all, since who takes it for a file reads it forever.
    """
    kinds = ("claims", "needs", "key", "tests", "testbed")
    if count >= len(kinds) * len(files):
        return list(product(files, kinds))
    endless = [file for file in files if file.name == "zero.yaml"]
    return [*product(endless, kinds), *zip(files, cycle(kinds), strict=False)]


_MOST_DISK: Final = 64 << 20
PARTS: Final[Mapping[str, Callable[[Extent, Originals], list[Tally]]]] = {
    "experiments": generated_experiments,
    "folders": damaged_folders,
    "archives": packed_runs,
    "lines": odd_lines,
    "files": user_files,
}


def odd_ssh_hosts(extent: Extent, _originals: Originals) -> list[Tally]:
    """A run whose generator is a host over SSH that behaves oddly, by each way once; root's."""
    from benches.survive.odd_hosts import BEHAVIOURS, SLOW, odd_hosts, table

    told = []
    tally = Tally("hosts over SSH")
    for one in odd_hosts(dict([*BEHAVIOURS.items(), *SLOW.items()][: extent.count])):
        told.append(one)
        tally.cases += 1
        tally.refused += one.code == 2
        tally.tracebacks += "Traceback" in one.said
        tally.memory_bytes = max(tally.memory_bytes, one.memory_bytes)
        if one.wrong:
            tally.fail(one.wrong[0], f"host over SSH: {one.behaviour}: {'; '.join(one.wrong)}\n{one.said[-2000:]}")
    print(table(told), end="\n\n")
    return [tally]


EVERY_PART: Final[Mapping[str, Callable[[Extent, Originals], list[Tally]]]] = {**PARTS, "hosts": odd_ssh_hosts}


def main(arguments: list[str]) -> int:
    """Run all parts, or one; prints the seed, the table and what is wrong."""
    parser = argparse.ArgumentParser(prog="survive inputs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000, help="of cases of each part")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which a part begins no more cases")
    parser.add_argument("--part", choices=[*EVERY_PART], action="append", help="only this part; repeatable")
    asked = parser.parse_args(arguments)
    preload()
    tallies: list[Tally] = []
    with a_place() as place:
        originals = Originals(place)
        for name in asked.part or EVERY_PART:
            tallies += EVERY_PART[name](Extent(asked.seed, asked.count, 60 * asked.minutes), originals)
    print(f"seed {asked.seed}, {asked.count} cases of each part\n")
    print(table(tallies))
    found = wrong(tallies)
    for one in found:
        print(f"\n{one}")
    return 1 if found else 0
