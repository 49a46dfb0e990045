"""Two controllers on one run, and a clock that is set while a run goes on.

`two_writers`: commands that write or read one run at the same moment. `clock`: each process has the clock
of libfaketime (Debian `faketime`), which steps an hour while trials are measured; no machine's clock is touched.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

from benches.survive.faulty_disk import CHANGING, Fault, mounted
from benches.survive.forked import Ended, ended, started
from benches.survive.storage_runs import BLOCKS, PART, TRIALS, Bench, Tally, judge, stored, whole_once
from tests.support.drawings import Blank, drawn_by

from virtoll.cli.output import console
from virtoll.cli.progress import Names, PlainProgress
from virtoll.experiment.plan import Trial
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

_HOUR_NS: Final = 3600 * 10**9
_REFUSED: Final = "a process writes this run now"
_PAIRS: Final = (
    ("block", "block"),
    ("block", "resume"),
    ("resume", "resume"),
    ("resume", "block"),
)
_BESIDE: Final = ("report", "merge", "pack", "list", "clean")


def two_writers(bench: Bench, chance: random.Random, count: int) -> Tally:
    """Pairs of writers and readers, started together on a run that was left in its middle; one writer wins."""
    tally = Tally("two controllers on one run")
    for number in range(count):
        into = _begun(bench, chance)
        first, second = _PAIRS[number % len(_PAIRS)]
        beside = _BESIDE[number % len(_BESIDE)]
        with drawn_by(Blank), mounted(into.parent, bench.place / "at", Fault(fsync_seconds=0.02)):
            there = bench.place / "at" / "c"
            ways = [started(*_words(bench, one, there), changed=bench.variables) for one in (first, second, beside)]
            ends = [ended(one) for one in ways]
        tally.cases += 1
        for name, one in zip((first, second, beside), ends, strict=True):
            tally.hit += _REFUSED in one.err
            tally.told(name, one)
        judge(bench, into, ends[:2], tally)
        once_written(into / PART, tally)
    return tally


def two_hosts(bench: Bench, chance: random.Random, count: int) -> Tally:
    """Two writers by two mounts of one folder, of which neither sees the other's locks of folders, as NFS has it."""
    tally = Tally("two hosts on one run by a shared file system")
    shared = Fault(fsync_seconds=0.02, exchanges=False, shared_locks=True)
    for number in range(count):
        into = _begun(bench, chance)
        names = _PAIRS[number % len(_PAIRS)]
        hosts = [bench.place / "at", bench.place / "other"]
        with mounted(into.parent, hosts[0], shared), mounted(into.parent, hosts[1], shared):
            ways = [
                started(*_words(bench, name, host / "c"), changed=bench.variables)
                for name, host in zip(names, hosts, strict=True)
            ]
            ends = [ended(one) for one in ways]
        tally.cases += 1
        for name, one in zip(names, ends, strict=True):
            tally.hit += _REFUSED in one.err
            tally.told(name, one)
        judge(bench, into, ends, tally)
        once_written(into / PART, tally)
    return tally


def once_written(part: Path, tally: Tally) -> None:
    """No trial has two records: two controllers did not both measure it."""
    numbers = [json.loads(line)["trial"] for line in stored(part)]
    if len(numbers) != len(set(numbers)):
        tally.wrong.append(f"trials were measured twice: {numbers}")


def _begun(bench: Bench, chance: random.Random) -> Path:
    below, at = bench.empty("below"), bench.place / "at"
    with mounted(below, at, Fault(CHANGING, chance.randrange(20, 60), None)):
        bench.measure(at / "c")
    return below / "c"


def _words(bench: Bench, name: str, into: Path) -> list[str | Path]:
    part = into / PART
    words: dict[str, list[str | Path]] = {
        "block": ["campaign", "block", bench.experiment, "--block", "1-2", "--into", into],
        "resume": ["resume", part],
        "report": ["report", part],
        "merge": ["campaign", "merge", into, "--partial", "--into", bench.place / "merged"],
        "pack": ["pack", part, "--output", bench.place / "packed.zst", "--force"],
        "list": ["list", "runs"],
        "clean": ["clean"],
    }
    return words[name]


FAKETIME: Final = tuple(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))


@dataclass(frozen=True)
class Clock:
    """The clock of a process and its children, which ``set`` sets; the monotonic one stays as it is."""

    file: Path

    @property
    def variables(self) -> dict[str, str]:
        """What a process is started with."""
        return {
            "LD_PRELOAD": str(FAKETIME[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, seconds: int) -> None:
        """So far ahead of the machine's; who reads the file meanwhile finds the old or the new."""
        beside = self.file.with_suffix(".new")
        beside.write_text(f"{seconds:+d}s\n", encoding="ascii")
        beside.replace(self.file)


def clock(bench: Bench, chance: random.Random, count: int) -> Tally:
    """The clock is set by an hour after a trial that is drawn, forward and back in turns; nothing rests on it."""
    tally = Tally("clock set by an hour during a run")
    own = Clock(bench.empty("clock") / "clock")
    own.set(0)
    steps = [
        Step(bench.empty(f"stepped-{number}"), chance.randint(1, TRIALS - 1), 3600 if number % 2 == 0 else -3600)
        for number in range(count)
    ]
    ends = _stepped(bench, own, steps)
    for step in steps:
        tally.cases += 1
        tally.hit += 1
        tally.told("run", ends)
        begun = [one.started_realtime_ns or 0 for one in RunFolder.open(step.into / PART).trials()]
        moved = max((later - one for one, later in pairwise(begun)), key=abs)
        if abs(moved - step.seconds * 10**9) > _HOUR_NS // 2:
            tally.wrong.append(f"the clock was not set: {moved} ns")
        judge(bench, step.into, [ends], tally)
        tally.wrong += _derived(step.into / PART)
    return tally


@dataclass(frozen=True)
class Step:
    """A campaign's folder, after how many of its trials the clock is set, and by how many seconds."""

    into: Path
    after: int
    seconds: int


class Setting(PlainProgress):
    """Sets the clock after a trial."""

    def __init__(self, part: Path, own: Clock, step: Step) -> None:
        """``part``: of the campaign whose trials are counted."""
        super().__init__(console(), Names(part))
        self._own, self._step, self._ended = own, step, 0

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """At once, so that the next trial begins with it."""
        super().trial_ends(trial, record)
        self._ended += 1
        if self._ended == self._step.after:
            self._own.set(self._step.seconds)


def _stepped(bench: Bench, own: Clock, steps: Sequence[Step]) -> Ended:
    """The campaigns one after the other in a process of its own: a library is preloaded when a program begins."""
    words = [str(own.file), str(bench.experiment)]
    words += [str(word) for step in steps for word in (step.into, step.after, step.seconds)]
    where = {**os.environ, **bench.variables, **own.variables, "PYTHONPATH": os.pathsep.join(sys.path[:2])}
    done = subprocess.run(
        [sys.executable, "-m", "benches.survive.storage_writers", *words],
        capture_output=True,
        text=True,
        env=where,
        check=False,
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def _measured_here(file: str, experiment: str, *words: str) -> None:
    """In the process whose clock is libfaketime's: each campaign's blocks, as ``campaign block`` measures them."""
    from virtoll.experiment.parse import parse_experiment
    from virtoll.pipeline.execution import measure
    from virtoll.pipeline.parts import joined_campaign, part_of
    from virtoll.pipeline.preview import catalogue, plan_of
    from virtoll.runfolder.writer import writing

    parsed = parse_experiment(Path(experiment).read_text(encoding="utf-8"), Path(experiment), catalogue())
    blocks, clock = tuple(range(BLOCKS)), Clock(Path(file))
    for into, after, seconds in zip(*[iter(words)] * 3, strict=True):
        step = Step(Path(into), int(after), int(seconds))
        clock.set(0)
        joined_campaign(step.into, parsed, part_of(parsed, plan_of(parsed), blocks))
        part = step.into / PART
        with writing(part):
            measure(parsed, part, ["virtoll"], Setting(part, clock, step), blocks=blocks)


def _derived(part: Path) -> Iterator[str]:
    """What of the analysis rests on the clock that was set."""
    from virtoll.report.build import load_analysis
    from virtoll.stats.remaining import block_seconds

    analysis = load_analysis(part)
    values = {one.position: one.trial for cell in analysis.cells.values() for one in cell.observations}
    order = [values[position] for position in sorted(values)]
    if order != sorted(order):
        yield f"the order of the trials follows the clock: {order}"
    seconds = block_seconds(analysis.data.every_trial, analysis.data.fitness)
    if seconds is not None and not 0 <= seconds < _HOUR_NS / 10**9 / 2:
        yield f"a block is said to take {seconds} s"


def unlike_clocks(bench: Bench) -> Tally:
    """A run that begins an hour before the newest one: its user is told that `latest` is the other one."""
    tally = Tally("clock set back between two runs")
    tally.cases += 1
    runs = bench.empty("runs")
    (runs / "newest").mkdir()
    ahead = {"created_realtime_ns": time.time_ns() + _HOUR_NS, "run": "newest"}
    (runs / "newest" / "manifest.json").write_text(json.dumps(ahead), encoding="utf-8")
    with drawn_by(Blank):
        one = ended(started("run", bench.experiment, "--quiet", changed=bench.variables))
    tally.hit += "behind the run newest" in one.err
    tally.finished += TRIALS if one.code == 0 else 0
    if one.code or not tally.hit:
        tally.wrong.append(f"nothing was told: {one.err}")
    folders = [path for path in runs.iterdir() if path.name != "newest"]
    if len(folders) == 1:
        whole_once(folders[0], tally)
    else:
        tally.wrong.append(f"the runs are {folders}")
    return tally


if __name__ == "__main__":
    _measured_here(*sys.argv[1:])
