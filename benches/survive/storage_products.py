"""What is made of a finished run, on a disk with a fault: archives, merged runs, reports, exports, lists, histories.

`COMMANDS` has each command with what it makes and how that is checked. A fault costs the command, never what was there:
the product is the old one, the new one, or not there, the run is as it was, and without the fault the command succeeds.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benches.survive.faulty_disk import CHANGING, EVERY, SYNCING, Fault, Seen, mounted
from benches.survive.forked import Ended, virtoll
from benches.survive.storage_runs import PART, Bench, Tally, whole_once

from virtoll.errors import VirtollError
from virtoll.experiment.parse import parse_experiment
from virtoll.runfolder.packing import pack as packed_to
from virtoll.runfolder.sums import differences
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.unpacking import unpack

ARCHIVE: Final = "run.virtoll.tar.zst"


@dataclass(frozen=True)
class Command:
    """A command on a disk that holds a campaign ``c`` and an archive of its part.

    ``words``: its arguments, given the disk. ``wrong``: what is wrong with what it made there, or left of it, in
    words; None: it is whole, or not there.
    """

    words: Callable[[Path], list[str | Path]]
    wrong: Callable[[Path], str | None]


def _archive(disk: Path) -> str | None:
    """``wrong`` of an archive."""
    file = disk / "new.zst"
    if not file.exists():
        return None
    into = disk.parent / "unpacked"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir()
    try:
        unpack(file, into)
    except VirtollError as error:
        return f"an archive is there that cannot be unpacked: {error}"
    return run_wrong(into)


def run_wrong(folder: Path) -> str | None:
    """``wrong`` of a run's folder."""
    if not folder.exists() or not (folder / "manifest.json").exists():
        left = [one.name for one in folder.glob("*") if one.name != WRITER]
        return f"{folder.name} is there without manifest, with {left}" if left else None
    tally = Tally("")
    try:
        whole_once(folder, tally)
    except VirtollError as error:
        return str(error)
    return tally.wrong[0] if tally.wrong else None


def _page(disk: Path) -> str | None:
    """``wrong`` of a report."""
    report = disk / "c" / PART / "report"
    if not report.exists():
        return None
    text = (report / "index.html").read_text(encoding="utf-8") if (report / "index.html").exists() else ""
    if not text.rstrip().endswith("</html>"):
        return "a page is there that has no end"
    return (
        None if any(report.glob("*.csv")) or any(report.glob("tables/*.csv")) else "a page is there without its tables"
    )


def _json(disk: Path) -> str | None:
    """``wrong`` of an export."""
    file = disk / "new.json"
    if file.exists():
        try:
            json.loads(file.read_bytes())
        except ValueError as error:
            return f"an export is there that is none: {error}"
    return None


def _experiment(disk: Path) -> str | None:
    """``wrong`` of a new experiment."""
    from virtoll.pipeline.preview import catalogue

    file = disk / "new.yaml"
    if file.exists():
        try:
            parse_experiment(file.read_text(encoding="utf-8"), file, catalogue())
        except VirtollError as error:
            return f"an experiment is there that is none: {error}"
    return None


def _nothing(_disk: Path) -> str | None:
    """It makes nothing."""
    return None


_ANSWERS: Final = ("--platform", "netns", "--workload", "superpi", "--question", "Is it so?")
COMMANDS: Final[Mapping[str, Command]] = {
    "pack": Command(lambda disk: ["pack", disk / "c" / PART, "--output", disk / "new.zst"], _archive),
    "pack --anonymous": Command(
        lambda disk: ["pack", disk / "c" / PART, "--anonymous", "--output", disk / "new.zst"],
        _archive,
    ),
    "unpack": Command(
        lambda disk: ["unpack", disk / ARCHIVE, "--into", disk / "new"], lambda disk: run_wrong(disk / "new")
    ),
    "merge": Command(
        lambda disk: ["campaign", "merge", disk / "c", "--into", disk / "new"], lambda disk: run_wrong(disk / "new")
    ),
    "report": Command(lambda disk: ["report", disk / "c" / PART], _page),
    "export": Command(
        lambda disk: ["export", disk / "c" / PART, "--format", "bencher", "--output", disk / "new.json"], _json
    ),
    "new": Command(lambda disk: ["new", disk / "new.yaml", *_ANSWERS], _experiment),
    "list runs": Command(lambda _disk: ["list", "runs"], _nothing),
    "verify": Command(lambda disk: ["verify", disk / "c" / PART], _nothing),
    "history": Command(lambda disk: ["history", disk / "c" / PART, disk / "c" / PART], _nothing),
    "query": Command(lambda disk: ["query", "select count(*) from samples", disk / "c" / PART], _nothing),
    "packed run": Command(lambda disk: ["claims", disk / ARCHIVE], _nothing),
}


def prepared(bench: Bench) -> Path:
    """The folder that each case begins with: a finished campaign and an archive of its part."""
    start = bench.place / "start"
    if not start.exists():
        done = bench.measure(start / "c")
        if done.code:
            raise RuntimeError(done.err)
        packed_to(start / "c" / PART, start / ARCHIVE)
    return start


def run(bench: Bench, command: Command, fault: Fault) -> tuple[Path, Ended, Seen]:
    """One command on a disk with a fault; what it holds then."""
    below, at = bench.empty("below"), bench.place / "at"
    shutil.copytree(prepared(bench), below, dirs_exist_ok=True)
    with mounted(below, at, fault) as seen:
        ended = again(bench, command, at)
    return below, ended, seen


def again(bench: Bench, command: Command, disk: Path) -> Ended:
    """The command on this disk, whose cache is on it too."""
    where = {"VIRTOLL_RUNS": str(disk / "c"), "VIRTOLL_CACHE": str(disk / "cache"), "XDG_CONFIG_HOME": str(bench.place)}
    return virtoll(*command.words(disk), changed=where)


FAULTS: Final[Mapping[str, tuple[frozenset[str], int, int | None]]] = {
    "EIO at one call": (EVERY, errno.EIO, 1),
    "EIO at one change": (CHANGING | SYNCING, errno.EIO, 1),
    "full from one call on": (CHANGING, errno.ENOSPC, None),
    "read-only from one call on": (CHANGING, errno.EROFS, None),
}


def try_command(bench: Bench, name: str, fault: str, drawn: Callable[[int], list[int]], tally: Tally) -> None:
    """One command with one kind of fault, at each call that is ``drawn`` of how many there are."""
    command = COMMANDS[name]
    kinds, number, times = FAULTS[fault]
    _, right, seen = run(bench, command, Fault(kinds))
    if right.code:
        tally.wrong.append(f"{name} fails without a fault: {right.err}")
        return
    for first in drawn(sum(count for kind, count in seen.calls.items() if kind in kinds)):
        left, ended, met = run(bench, command, Fault(kinds, first, times, number))
        tally.cases += 1
        tally.hit += bool(met.failed)
        if name != "verify" or ended.err:  # it tells what has changed on the standard output
            tally.told(f"{name} at call {first}", ended)
        wrong = command.wrong(left) or run_wrong(left / "c" / PART)
        if differences(left / "c" / PART) != ():
            wrong = f"the run has changed: {differences(left / 'c' / PART)}"
        if wrong is not None:
            tally.believed += 1
            tally.wrong.append(f"{name} at call {first}: {wrong}")
        for old in ("new.zst", "new.json", "new.yaml"):
            (left / old).unlink(missing_ok=True)
        shutil.rmtree(left / "new", ignore_errors=True)
        after = again(bench, command, left)
        if after.code:
            tally.wrong.append(f"{name} at call {first}: it fails without the fault: {after.err}")
