"""What a fault of the disk did to a run of the models: what was told, what is stored, and whether it goes on.

`Bench` has a folder in memory and measures a small campaign there, once without a fault to know what is right. `Tally`
is a row of the table. `judge` looks at a run folder after a fault, has it go on on a disk without one, and counts what
was lost or believed that should not have been.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benches.survive.forked import Ended, virtoll

from virtoll.errors import VirtollError
from virtoll.runfolder.jsonlines import read
from virtoll.runfolder.overview import overview
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences

BLOCKS: Final = 2
TRIALS: Final = 8
PART: Final = f"blocks-1-{BLOCKS}"
EXPERIMENT: Final = """\
name: small
question: Is no finished trial lost?
platforms:
  - {platform: fake, label: model, seed: 1}
  - {platform: fake, label: model-cost, cost: 1.25, seed: 3}
baseline: model
guest: {vcpus: 1, memory: 256MiB}
blocks: 2
rounds: 1
seed: 1
workloads:
  - {workload: superpi, digits: 16384}
  - {workload: forkwait, processes: 500}
"""
_PLACES = re.compile(r"(/[\w.+-]+)+/?")


@dataclass
class Tally:
    """One fault: how often, trials that were told as finished, lost ones, what was believed wrongly, what else."""

    fault: str
    cases: int = 0
    hit: int = 0
    finished: int = 0
    lost: int = 0
    believed: int = 0
    wrong: list[str] = field(default_factory=list)
    sentences: Counter[str] = field(default_factory=Counter)

    @property
    def held(self) -> bool:
        """Whether all is as it must be."""
        return not (self.lost or self.believed or self.wrong)

    def told(self, what: str, ended: Ended) -> None:
        """Keep how a command ended that met the fault."""
        if ended.complaint is not None:
            self.wrong.append(f"{what}: {ended.complaint}")
        if ended.code:
            self.sentences[_PLACES.sub(".../", ended.sentence.removeprefix("virtoll: "))] += 1

    def row(self) -> str:
        """Of the table."""
        said = self.sentences.most_common(1)[0][0] if self.sentences else "–"
        numbers = (self.cases, self.hit, self.finished, self.lost, self.believed, len(self.wrong))
        return f"| {self.fault} | {' | '.join(map(str, numbers))} | {said[:160]} |"


HEAD: Final = (
    "| fault | cases | met | trials finished | lost | believed wrongly | otherwise wrong | most frequent sentence |\n"
    "| --- | --- | --- | --- | --- | --- | --- | --- |"
)


@dataclass(frozen=True)
class Bench:
    """A folder on a disk without faults, with the experiment's file, and the variables that keep commands in it."""

    place: Path

    @property
    def experiment(self) -> Path:
        """The file."""
        return self.place / "small.yaml"

    @property
    def variables(self) -> Mapping[str, str]:
        """No command writes elsewhere."""
        return {"VIRTOLL_RUNS": str(self.place / "runs"), "VIRTOLL_CACHE": str(self.place / "cache")}

    def made(self) -> Bench:
        """Write the experiment."""
        self.experiment.write_text(EXPERIMENT, encoding="utf-8")
        return self

    def measuring(self, into: Path) -> tuple[str | Path, ...]:
        """The command that measures the campaign into a folder, or goes on with it; no report."""
        return ("campaign", "block", self.experiment, "--block", f"1-{BLOCKS}", "--into", into)

    def measure(self, into: Path) -> Ended:
        """Do that."""
        return virtoll(*self.measuring(into), changed=self.variables)

    def empty(self, name: str) -> Path:
        """A folder that is empty."""
        folder = self.place / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def stored(part: Path) -> list[bytes]:
    """The whole lines of a part's trials."""
    return [line for _, line in read(part / "trials.jsonl")]


def judge(bench: Bench, into: Path, ends: list[Ended], tally: Tally) -> None:
    """``into``: the campaign's folder as the fault left it, on a disk without one; ``ends``: of the commands before."""
    part = into / PART
    told = max((one.finished for one in ends), default=0)
    tally.finished += told
    before: list[bytes] = []
    try:
        before = stored(part)
        if (part / "manifest.json").exists():
            tally.believed += believed_wrongly(part, tally)
    except VirtollError as error:
        tally.wrong.append(f"it cannot be read: {error}")
    tally.lost += max(0, told - len(before))
    again = bench.measure(into)
    if again.code:
        tally.wrong.append(f"it does not go on: {again.code} {again.err}")
        tally.lost += max(0, told - len(before)) if (part / "manifest.json").exists() else told
        return
    after = stored(part)
    if after[: len(before)] != before:
        tally.lost += 1
        tally.wrong.append("trials that were finished have changed")
    whole_once(part, tally)


def read_back(part: Path, right: list[bytes], told: int, tally: Tally) -> None:
    """What a reader finds after the power was lost; ``right``: the trials of the whole run, ``told``: told before."""
    try:
        there = stored(part)
        if there != right[: len(there)]:
            tally.believed += 1
            tally.wrong.append("records are there that were never written so")
        tally.lost += max(0, told - len(there))
        if (part / "manifest.json").exists():
            tally.believed += believed_wrongly(part, tally)
        elif told:
            tally.lost += told
            tally.wrong.append("there is no manifest")
    except VirtollError as error:
        tally.lost += told
        tally.wrong.append(f"it cannot be read: {error}")
    except OSError as error:
        tally.wrong.append(f"it is a traceback: {error!r}")


def whole_once(part: Path, tally: Tally) -> None:
    """Each trial exactly once, and nothing different since the end."""
    run = RunFolder.open(part)
    numbers = [one.trial for one in run.trials()]
    if sorted(numbers) != list(range(TRIALS)):
        tally.wrong.append(f"the trials are {sorted(numbers)}")
    if differences(part) != () or run.state().state != "complete":
        tally.wrong.append(f"it ended as {run.state().state} with {differences(part)}")


def believed_wrongly(part: Path, tally: Tally) -> int:
    """How much a reader takes for true of a folder that a fault left: a state, records, or digests that are not so."""
    run = RunFolder.open(part)
    wrong = 0
    for records in (run.trials, run.boots, run.commands, run.fitness):
        records()
    finished = run.finished_trials()
    if finished != frozenset(range(len(finished))):
        tally.wrong.append(f"finished are {sorted(finished)}")
        wrong += 1
    state = overview(part).state
    if state == "running" or (state == "complete" and len(finished) != TRIALS):
        tally.wrong.append(f"it is taken for {state} with {len(finished)} trials")
        wrong += 1
    if differences(part):
        tally.wrong.append(f"it is taken for damaged: {differences(part)}")
        wrong += 1
    return wrong
