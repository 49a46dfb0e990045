"""Parts of a campaign of models: measured, killed, changed, and merged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments
from tests.support.experiments import fake
from tests.support.model_runs import StopAfter
from tests.support.model_runs import measured as measured_run

from virtoll.experiment.model import Experiment
from virtoll.pipeline.merge import Allowed, Merged, merge
from virtoll.pipeline.parts import part_name
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.sums import write_sums

BLOCKS = 24
RIGHT: dict[str, Any] = {
    "platforms": [fake("model"), fake("again", seed=2), fake("slow", cost=1.4, seed=3)],
    "baseline": "model",
    "control": "again",
    "blocks": BLOCKS,
    "workloads": [{"workload": "superpi", "digits": 1000}, experiments.FEW_POINTS],
}


def experiment(**changed: Any) -> Experiment:
    """The campaign's experiment, with other keys."""
    return experiments.parsed(**{**RIGHT, **changed})


def measured(folder: Path, *blocks: int, of: Experiment | None = None) -> Path:
    """A part with these blocks, from 1, in a campaign's folder."""
    numbers = tuple(block - 1 for block in blocks)
    return measured_run(of or experiment(), folder / part_name(numbers), blocks=numbers).path


def killed(folder: Path, *blocks: int, trials: int) -> Path:
    """A part that was killed after so many trials."""
    numbers = tuple(block - 1 for block in blocks)
    with pytest.raises(KeyboardInterrupt):
        measured_run(experiment(), folder / part_name(numbers), StopAfter(trials), blocks=numbers)
    return folder / part_name(numbers)


def changed(part: Path, host: dict[str, Any] | None = None, **keys: Any) -> Path:
    """The part with another host, or other keys in its manifest, and digests that fit."""
    manifest = json.loads((part / "manifest.json").read_text())
    manifest["host"] |= host or {}
    manifest |= keys
    (part / "manifest.json").write_text(json.dumps(manifest))
    write_sums(part)
    return part


def changed_lines(part: Path, name: str, change: Any) -> None:
    """A file of a part, each of whose records ``change`` has changed; digests fit."""
    records = [json.loads(line) for line in (part / name).read_text().splitlines()]
    for number, record in enumerate(records):
        change(number, record)
    (part / name).write_text("".join(json.dumps(record) + "\n" for record in records))
    write_sums(part)


def merged(parts: Path, *more: Path, partial: bool = False, without: tuple[str, ...] = (), **given: Any) -> Merged:
    """The parts in one run, in the folder ``run`` next to them."""
    return merge([parts, *more], lambda *_: parts.parent / "run", ["virtoll"], Allowed(partial, without), **given)


def untimed(trial: TrialRecord) -> tuple[object, ...]:
    """What of a trial is the plan's (the first seven) and the model's; not when it was."""
    durations = trial.clock and trial.clock.marks and trial.clock.marks.end_ns - trial.clock.marks.start_ns
    rates = [
        (point.intended_rate_frames_per_second, [one.forwarded_frames for one in point.sink.per_source])
        for point in trial.points or ()
    ]
    planned = trial.trial, trial.block, trial.platform, trial.workload, trial.parameters, trial.round, trial.warm_up
    return (*planned, trial.boot, trial.attempt, trial.status, durations, rates, trial.result, trial.check)
