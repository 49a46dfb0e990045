"""Lost power by blocks, the part that runs in the emulated machine: what is logged, and how a state of the log is read.

`record` works on a disk whose writes dm-log-writes logs, and sets a mark in that log for each trial that is told as
finished, before and after each command. The log is another disk. `replayed` mounts states of the logged disk: ext4
recovers its journal, a reader looks at what is there, and e2fsck finds nothing. Of some states the run goes on.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

from benches.survive.block_log import Disk, Entry, State, entries, states
from benches.survive.forked import called, virtoll, warm
from benches.survive.storage_power import PRODUCTS
from benches.survive.storage_products import ARCHIVE, COMMANDS, again, run_wrong
from benches.survive.storage_runs import BLOCKS, PART, Bench, Tally, judge, read_back, stored

from virtoll.experiment.plan import Trial
from virtoll.pipeline.progress import SilentProgress
from virtoll.runfolder.records import TrialRecord

LOGGED: Final = "logged"
"""The name of the logged disk."""
_RUN: Final = "a run"


def mark(name: str) -> None:
    """Into the log, at once."""
    subprocess.run(["dmsetup", "message", LOGGED, "0", "mark", name], check=True)


class Telling(SilentProgress):
    """Marks each trial that is told to be finished; ``killed_after`` so many the process ends by SIGKILL."""

    def __init__(self, killed_after: int) -> None:
        """``killed_after``: trials; 0 for never."""
        self._left = killed_after

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:
        """The record is on the disk, by what is told."""
        del record
        mark(f"told-{trial.number}")
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def record(bench: Bench, disk: Path, killed_after: int) -> None:
    """A run that is killed and goes on to its end, then each command that makes something of it; each once."""
    from virtoll.experiment.parse import parse_experiment
    from virtoll.pipeline.execution import measure, resume
    from virtoll.pipeline.parts import joined_campaign, part_of
    from virtoll.pipeline.preview import catalogue, plan_of
    from virtoll.runfolder.writer import writing

    def begin(part: Path) -> None:
        experiment = parse_experiment(bench.experiment.read_text(encoding="utf-8"), bench.experiment, catalogue())
        blocks = tuple(range(BLOCKS))
        joined_campaign(disk / "c", experiment, part_of(experiment, plan_of(experiment), blocks))
        with writing(part):
            measure(experiment, part, ["virtoll"], Telling(killed_after), blocks=blocks)

    def go_on(part: Path) -> None:
        with writing(part):
            resume(part, Telling(0))

    for work, code in ((begin, -signal.SIGKILL), (go_on, 0)):
        ended = called(partial(work, disk / "c" / PART))
        if ended.code != code:
            raise RuntimeError(f"the run ended with {ended.code}: {ended.err}")
    virtoll("pack", disk / "c" / PART, "--output", disk / ARCHIVE, changed=bench.variables)
    os.sync()
    for name in PRODUCTS:
        mark(f"begun-{name}")
        done = again(bench, COMMANDS[name], disk)
        if done.code:
            raise RuntimeError(f"{name} ended with {done.code}: {done.err}")
        mark(f"done-{name}")
        mark(f"over-{name}")  # what the next command would find in its way is taken away, between two tries
        for made in disk.glob("new*"):
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        os.sync()


def replayed(
    bench: Bench, before: bytes, every: Sequence[Entry], chance: random.Random, most: int, *, goes_on: bool = False
) -> list[Tally]:
    """A tally of the run, and one of each command. ``most``: so many states of each, drawn; 0: all.

    ``before``: the disk when the log began, with an ext4 file system. ``goes_on``: states of the run alone, and from
    each it goes on.
    """
    tallies = {name: Tally(f"{name}, by blocks") for name in (_RUN, *PRODUCTS)}
    disk = Disk(before, every)
    with mounted_image(bench, disk.at(State(len(every), len(every)))) as at:
        right = stored(at / "c" / PART)
    found = [one for one in states(every, chance) if _of(one) in ({_RUN} if goes_on else tallies)]
    disk = Disk(before, every)
    for state in drawn(found, chance, most):
        tally = tallies[_of(state)]
        tally.cases += 1
        wrong = len(tally.wrong)
        _read(bench, disk.at(state), state, right, tally, goes_on=goes_on)
        if len(tally.wrong) > wrong:
            print(f"{state}: {tally.wrong[wrong:]}", file=sys.stderr, flush=True)
    return list(tallies.values())


def drawn(found: Sequence[State], chance: random.Random, most: int) -> list[State]:
    """Of each thing that went on so many, in their order: a command that writes little is drawn too. 0: all."""
    places: dict[str, list[int]] = {}
    for place, state in enumerate(found):
        places.setdefault(_of(state), []).append(place)
    kept = [chance.sample(of_one, min(most or len(of_one), len(of_one))) for of_one in places.values()]
    return [found[place] for place in sorted(chain.from_iterable(kept))]


def _of(state: State) -> str:
    """What went on in a state: the last thing that was begun; nothing between two commands."""
    names = [one.removeprefix("begun-") for one in state.told if one.startswith(("begun-", "over-"))]
    return names[-1] if names else _RUN


def _read(bench: Bench, content: bytearray, state: State, right: list[bytes], tally: Tally, *, goes_on: bool) -> None:
    told = sum(one.startswith("told-") for one in state.told)
    name = _of(state)
    try:
        with mounted_image(bench, content) as at:
            part = at / "c" / PART
            held = tally.lost, tally.believed
            read_back(part, right, told, tally)
            if name == _RUN:
                tally.finished += told
                if goes_on and held == (tally.lost, tally.believed):
                    tally.hit += 1
                    judge(bench, at / "c", [], tally)
                return
            wrong = COMMANDS[name].wrong(at) or run_wrong(part)
            if wrong is not None:
                tally.believed += 1
                tally.wrong.append(wrong)
            if f"done-{name}" in state.told and not (at / PRODUCTS[name]).exists():
                tally.lost += 1
                tally.wrong.append(f"{PRODUCTS[name]} is not there, though the command had ended")
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", None) or error
        tally.wrong.append(f"the file system: {said}")


@contextmanager
def mounted_image(bench: Bench, content: bytearray) -> Iterator[Path]:
    """An ext4 file system, whose journal is recovered; CalledProcessError where it cannot be, or is not clean then."""
    image, at = bench.place / "image", bench.place / "replayed"
    image.write_bytes(content)
    at.mkdir(exist_ok=True)
    _done("mount", "-t", "ext4", "-o", "loop", str(image), str(at))
    try:
        yield at
    finally:
        _done("umount", str(at))
    _done("e2fsck", "-fn", str(image))


def _done(*command: str) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True)


def main(arguments: Sequence[str]) -> int:
    """In the machine: ``record KILLED_AFTER``, or ``go-on BEFORE LOG SEED MOST``, which tells tallies as JSON."""
    place = Path("/run/power")
    place.mkdir(exist_ok=True)
    bench = Bench(place).made()
    warm()
    if arguments[0] == "record":
        record(bench, Path("/mnt"), int(arguments[1]))
        return 0
    before, log = map(Path, arguments[1:3])
    seed, most = map(int, arguments[3:])
    for tally in replayed(bench, before.read_bytes(), entries(log), random.Random(seed), most, goes_on=True):
        print(json.dumps({**asdict(tally), "sentences": dict(tally.sentences)}))
    shutil.rmtree(place)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
