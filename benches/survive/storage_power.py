"""Lost power: what is recorded of a run, a pack or a merge is replayed at each prefix with each legal loss, and read.

`of_a_run`: no trial that was told is lost, nothing half-written is believed, and a sample of the states goes on to its
end. `of_a_product`: what a command makes (an archive, a merged run, a report, a kept table) is the old one, the new
one, or not there; a reader tells a part of it from the whole.
"""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from benches.survive.faulty_disk import MARK, Change, Fault, mounted
from benches.survive.forked import called
from benches.survive.power_loss import crashes, laid_out, tree
from benches.survive.storage_products import COMMANDS, again, prepared, run_wrong
from benches.survive.storage_runs import BLOCKS, PART, Bench, Tally, judge, read_back, stored

from virtoll.experiment.parse import parse_experiment
from virtoll.experiment.plan import Trial
from virtoll.pipeline.preview import catalogue
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder.records import TrialRecord


class Telling(SilentProgress):
    """Sets a mark when a trial is told to be finished."""

    def __init__(self, disk: Path) -> None:
        """``disk``: where a failing disk is mounted."""
        self._disk = disk

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """A look-up, which the disk keeps."""
        del record
        (self._disk / f"{MARK[1:]}{trial.number}").exists()


def recorded_run(bench: Bench) -> tuple[Sequence[Change], Path]:
    """The changes of a run, and its folder as it ended."""
    from virtoll.pipeline.execution import measure
    from virtoll.runfolder.writer import writing

    below, at = bench.empty("below"), bench.place / "at"

    def work() -> None:
        experiment = parse_experiment(bench.experiment.read_text(encoding="utf-8"), bench.experiment, catalogue())
        part = at / "c" / PART
        with writing(part):
            measure(experiment, part, ["virtoll"], Telling(at), blocks=tuple(range(BLOCKS)))

    with mounted(below, at, Fault(recorded=True)) as seen:
        ended = called(work)
    if ended.code:
        raise RuntimeError(ended.err)
    return seen.changes, below / "c"


def of_a_run(bench: Bench, chance: random.Random, resumed: int, *, most: int = 0) -> Tally:
    """Each distinct state is read; ``resumed`` of them, drawn, go on. ``most``: so many states, drawn; 0: all."""
    tally = Tally("power lost during a run")
    changes, whole = recorded_run(bench)
    right = stored(whole / PART)
    states = _drawn(_states(changes, chance), chance, most)
    go_on = set(chance.sample(range(len(states)), min(resumed, len(states))))
    for place, (told, files) in enumerate(states):
        tally.cases += 1
        tally.hit += 1
        tally.finished += len(told)
        laid_out(files, bench.empty("left"))
        part = bench.place / "left" / "c" / PART
        lost, believed = tally.lost, tally.believed
        read_back(part, right, len(told), tally)
        if place in go_on and (lost, believed) == (tally.lost, tally.believed):
            judge(bench, bench.place / "left" / "c", [], tally)
    return tally


PRODUCTS: Final[Mapping[str, str]] = {
    "pack": "new.zst",
    "unpack": "new/manifest.json",
    "merge": "new/manifest.json",
    "export": "new.json",
    "new": "new.yaml",
    "report": f"c/{PART}/report/index.html",
}
"""Commands, and a file that is there for good once they have ended."""


def of_a_product(bench: Bench, chance: random.Random, name: str, *, most: int = 0) -> Tally:
    """A command over a finished run; ``most``: so many states, drawn; 0: all."""
    tally = Tally(f"power lost during {name}")
    command, start = COMMANDS[name], prepared(bench)
    below, at = bench.empty("below"), bench.place / "at"

    def recorded() -> None:
        shutil.copytree(start, at, dirs_exist_ok=True, symlinks=True)
        for path in [at, *at.rglob("*")]:
            if not path.is_symlink():
                descriptor = os.open(path, os.O_RDONLY)
                os.fsync(descriptor)
                os.close(descriptor)
        (at / f"{MARK[1:]}begun").exists()
        done = again(bench, command, at)
        if done.code:
            raise RuntimeError(done.err)
        (at / f"{MARK[1:]}done").exists()

    with mounted(below, at, Fault(recorded=True)) as seen:
        ended = called(recorded)
    if ended.code:
        raise RuntimeError(ended.err)
    since = next(place for place, one in enumerate(seen.changes) if one.kind == "told")
    for told, files in _drawn(_states(seen.changes, chance, since), chance, most):
        tally.cases += 1
        tally.hit += 1
        left = bench.empty("left")
        laid_out(files, left)
        try:
            wrong = command.wrong(left) or run_wrong(left / "c" / PART)
        except OSError as error:
            wrong = f"a traceback: {error!r}"
        if wrong is not None:
            tally.believed += 1
            tally.wrong.append(wrong)
        if "done" in told and not (left / PRODUCTS[name]).exists():
            tally.lost += 1
            tally.wrong.append(f"{PRODUCTS[name]} is not there, though the command had ended")
    return tally


def _drawn(
    states: Iterable[tuple[tuple[str, ...], dict[str, bytes | None]]], chance: random.Random, most: int
) -> list[tuple[tuple[str, ...], dict[str, bytes | None]]]:
    every = list(states)
    return chance.sample(every, most) if most and most < len(every) else every


def _states(
    changes: Sequence[Change], chance: random.Random, since: int = 0
) -> Iterator[tuple[tuple[str, ...], dict[str, bytes | None]]]:
    """Each distinct state once, with the marks that had been set."""
    seen: set[bytes] = set()
    for crash in crashes(changes, chance, since):
        files = tree(changes, crash)
        digest = hashlib.sha256(repr(crash.told).encode())
        for path, content in files.items():
            digest.update(f"{path}\0".encode() + (b"folder" if content is None else content) + b"\0")
        if digest.digest() not in seen:
            seen.add(digest.digest())
            yield crash.told, files
