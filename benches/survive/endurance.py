"""Long and wide: does the instrument grow over hours, and is a host as before after hundreds of guests?

``hours``: a real campaign of native, netns, runc and qemu-tcg for ``--minutes``, ended by an interrupt as a user's.
Anonymous memory, open files and threads of each lasting process are read every ten seconds. A slope is
Theil's with the interval of Sen, over the medians of minutes, without the first tenth.
``model``: campaigns of the model platform, one after the other in one process, until they have measured 24 hours by
the model's clock.
``guests``: some 500 guests are started and stopped, and 128 are there at once; then the host is compared with before.

Ends with 1 where open files or threads grow, where memory grows by more than a mebibyte an hour, where a trial is
missing, or where anything is left.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, groupby
from pathlib import Path

from tests.support import experiments, machine
from tests.support.playground import Playground, playground

from virtoll.pipeline.execution import measure
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder.records import TrialRecord, between_marks_ns
from virtoll.runfolder.store import RunFolder
from virtoll.stats.clocks import theil_sen

MOST_KIB_AN_HOUR = 1024
_EVERY_SECONDS = 10.0
_WARM_UP = 0.1
_HOUR_NS = 3_600_000_000_000
_DAY_NS = 24 * _HOUR_NS
JOBS = [{"workload": "superpi", "digits": 131_072}, {"workload": "forward", "point_milliseconds": 5000}]
# A role and the words by which its process is known, in the order in which they are asked.
_ROLES = (
    ("PID 1 of the lab", ("virtoll.lab.init",)),
    ("janitor", ("virtoll.lab.launch",)),
    ("controller in the lab", ("in-lab-run",)),
    ("agent of the peer", ("--role", "peer")),
    ("agent of the host", ("--role", "host")),
    ("launcher", ("virtoll", "run")),
)


@dataclass(frozen=True)
class Use:
    """What a process holds at one moment; ``seconds`` since the first look."""

    seconds: float
    memory_kib: int
    files: int
    threads: int


@dataclass(frozen=True)
class Growth:
    """How one quantity changed: its first and last minute's median, and per hour with a 95 % interval."""

    first: float
    last: float
    per_hour: float
    low: float
    high: float


def use_of(pid: int, seconds: float) -> Use | None:
    """What a process holds now; None where it is gone."""
    folder = Path("/proc") / str(pid)
    with contextlib.suppress(OSError, StopIteration, IndexError):
        status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines() if ":" in line)
        memory = sum(int(status[key].split()[0]) for key in ("RssAnon", "VmSwap"))
        return Use(seconds, memory, len(list((folder / "fd").iterdir())), int(status["Threads"]))
    return None


def roles_of(seen: machine.Family) -> dict[str, int]:
    """The lasting processes of a run by their role."""
    found: dict[str, int] = {}
    for process in seen.processes:
        for role, words in _ROLES:
            if all(word in process.argv for word in words):
                found.setdefault(role, process.pid)
                break
    return found


def growth(values: Sequence[tuple[float, float]], unit_seconds: float = 60.0) -> Growth | None:
    """The change of (seconds, value) over the medians of minutes, without the warm-up; None for fewer than four."""
    end = values[-1][0] if values else 0.0
    taken = [pair for pair in values if pair[0] >= _WARM_UP * end]
    minutes = [
        (minute * unit_seconds, statistics.median(value for _, value in those))
        for minute, those in groupby(taken, key=lambda pair: pair[0] // unit_seconds)
    ]
    if len(minutes) < 4:
        return None
    hours, medians = [at / 3600 for at, _ in minutes], [value for _, value in minutes]
    slope, _, low, high = theil_sen(medians, hours)
    return Growth(medians[0], medians[-1], slope, low, high)


def rows(used: dict[str, list[Use]]) -> Iterator[tuple[str, bool]]:
    """A line of the table for each role, and whether nothing of it grows."""
    for role, uses in used.items():
        cells, steady = [], True
        for quantity, most in (("memory_kib", MOST_KIB_AN_HOUR), ("files", 0), ("threads", 0)):
            found = growth([(one.seconds, float(getattr(one, quantity))) for one in uses])
            if found is None:
                cells.append("too few values")
                continue
            # Ties leave no interval where a quantity never changes.
            interval = f" ({found.low:+.3g} to {found.high:+.3g})" if found.low == found.low else ""
            cells.append(f"{found.first:g} -> {found.last:g}; {found.per_hour:+.3g} an hour{interval}")
            steady = steady and not found.low > most
        yield f"| {role} | {' | '.join(cells)} |", steady


def table(used: dict[str, list[Use]]) -> int:
    """Print what was used; 1 where something grows."""
    print("| process | anonymous memory, KiB | open files | threads |\n| --- | --- | --- | --- |")
    code = 0
    for line, steady in rows(used):
        print(line)
        code |= not steady
    return code


def hours(minutes: float) -> int:
    """A real campaign for so long."""
    asked = experiments.document(
        platforms=["native", "netns", "runc", "qemu-tcg"],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1000,
        rounds=3,
        workloads=[{"workload": "superpi", "digits": 1000}, {"workload": "forward"}],
    )
    with playground(root=True) as place:
        file = experiments.write(place.base, **asked)
        used: dict[str, list[Use]] = {}
        with place.start("run", file) as running:
            running.wait_for("20/")
            began = time.monotonic()
            while (seconds := time.monotonic() - began) < minutes * 60:
                for role, pid in roles_of(machine.family(running.process.pid)).items():
                    if (use := use_of(pid, seconds)) is not None:
                        used.setdefault(role, []).append(use)
                running.listen(_EVERY_SECONDS)
                running.said = running.said[-10_000:]
            seen = machine.family(running.process.pid)
            running.process.send_signal(signal.SIGINT)
            ended = running.end()
            left, _ = place.settle(seen, running.token)
        return ended_well(place, ended, left) | table(used)


def guests(blocks: int) -> int:
    """128 guests at once of each of two platforms, and as many processes of the host, so many times."""
    asked = experiments.document(
        scenario="scale",
        scale={"guests": [128]},
        platforms=["native", "netns", "runc"],
        guest={"vcpus": 1, "memory": "96MiB"},
        blocks=blocks,
        rounds=1,
        workloads=[{"workload": "superpi", "digits": 65_536}],
    )
    with playground(root=True) as place:
        file = experiments.write(place.base, **asked)
        with place.start("run", file) as running:
            running.wait_for("1/")
            seen = machine.family(running.process.pid)
            print(f"{len(seen.processes)} processes and {len(seen.interfaces)} interfaces when the first trial ended")
            ended = running.end()
            left, _ = place.settle(seen, running.token)
        return int(ended != 0) | ended_well(place, ended, left)


def ended_well(place: Playground, ended: int, left: list[str]) -> int:
    """Print what the run did and what it left; 1 where it ended badly."""
    (path,) = place.runs.iterdir()
    folder = RunFolder.open(path)
    trials = folder.trials()
    statuses = ", ".join(f"{n} {status}" for status, n in sorted(Counter(trial.status for trial in trials).items()))
    print(
        f"{len(trials)} trials ({statuses}) in {len(folder.boots())} guests; exit {ended}; left: {left or 'nothing'}\n"
    )
    return int(bool(left) or len({trial.trial for trial in trials}) != len(trials))


def modelled_ns(trial: TrialRecord) -> int:
    """How long a trial took by the model's clock."""
    marked = between_marks_ns(trial.clock) if trial.clock is not None else None
    return (marked or 0) + sum(point.duration_ns or 0 for point in trial.points or ())


def model(hours_of_model: float, seed: int) -> int:
    """Campaigns of the model until they have measured so many hours."""
    measured, campaigns, missing = 0, 0, 0
    used: list[Use] = []
    with tempfile.TemporaryDirectory() as base:
        for number in count():
            if measured >= hours_of_model * _HOUR_NS:
                break
            asked = experiments.parsed(
                platforms=[experiments.fake("host"), experiments.fake("guest", cost=1.2)],
                baseline="host",
                guest={"vcpus": 1, "memory": "2GiB"},
                seed=seed + number,
                blocks=4,
                rounds=3,
                workloads=JOBS,
            )
            into = Path(base) / f"run-{number}"
            measure(asked, into, ["virtoll"], SilentProgress())
            folder = RunFolder.open(into)
            trials = folder.trials()
            missing += len(folder.manifest.plan.trials) - sum(trial.status == "ok" for trial in trials)
            measured += sum(map(modelled_ns, trials))
            campaigns += 1
            gc.collect()
            if (use := use_of(os.getpid(), float(number))) is not None:
                used.append(use)
    print(f"{campaigns} campaigns, {measured / _HOUR_NS:.1f} h by the model's clock, {missing} trials not ok\n")
    first, last = used[len(used) // 10], used[-1]
    print("| | after a tenth | at the end |\n| --- | --- | --- |")
    for name in ("memory_kib", "files", "threads"):
        print(f"| {name} | {getattr(first, name)} | {getattr(last, name)} |")
    return int(missing > 0 or last.files > first.files or last.threads > first.threads)


def main(arguments: Sequence[str]) -> int:
    """One of the three, or all of them."""
    parser = argparse.ArgumentParser(prog="endurance", description=__doc__)
    parser.add_argument("what", nargs="?", choices=("hours", "model", "guests", "all"), default="all")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--hours-of-model", type=float, default=24.0)
    parser.add_argument("--blocks", type=int, default=2, help="of 3 x 128 guests each")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    code = 0
    if asked.what in ("model", "all"):
        code |= model(asked.hours_of_model, asked.seed)
    if asked.what in ("guests", "all"):
        code |= guests(asked.blocks)
    if asked.what in ("hours", "all"):
        code |= hours(asked.minutes)
    return code
