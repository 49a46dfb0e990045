"""Runs of the seeded model: measured to their end, killed on the way, and interrupted where the interrupt is lost."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments

from virtoll.errors import GuestError
from virtoll.experiment.model import Experiment
from virtoll.experiment.plan import Trial
from virtoll.pipeline.execution import Look, measure
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.guest_pool import GuestPool
from virtoll.pipeline.guest_request import GuestRequests
from virtoll.pipeline.guest_start import GuestStarts
from virtoll.pipeline.pinning import Pinning
from virtoll.pipeline.preview import plan_of
from virtoll.pipeline.progress import SilentProgress
from virtoll.platforms import PLATFORMS
from virtoll.platforms.host import Site
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder

JOBS: Sequence[dict[str, Any]] = ({"workload": "superpi", "digits": 1000}, {"workload": "forkwait", "processes": 500})


class StopAfter(SilentProgress):
    """Ends the run as SIGKILL would once so many trials are stored."""

    def __init__(self, trials: int) -> None:
        self.left = trials

    def trial_ends(self, trial: Trial, record: TrialRecord) -> None:  # noqa: ARG002 - the seam's signature
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


def measured(
    experiment: Experiment,
    into: Path,
    progress: SilentProgress | None = None,
    look: Look | None = None,
    blocks: tuple[int, ...] = (),
) -> RunFolder:
    """The run of an experiment; ``blocks``, from 0: a part with these alone."""
    measure(experiment, into, ["virtoll"], progress or SilentProgress(), look, blocks=blocks)
    return RunFolder.open(into)


def run(into: Path, progress: SilentProgress | None = None, **changed: Any) -> RunFolder:
    """The run of a small experiment: two jobs, two blocks, the platform 'model' as the baseline."""
    changed = {"baseline": "model", "workloads": list(JOBS), "blocks": 2, **changed}
    return measured(experiments.parsed(**changed), into, progress)


def run_with_neighbours(into: Path, **changed: Any) -> RunFolder:
    """``run`` with guests next to the measured one: one that is lightly loaded by default."""
    return run(into, **experiments.neighbours(**changed))


def killed_run(into: Path, trials: int, **changed: Any) -> RunFolder:
    """``run``, killed once so many trials were stored."""
    with pytest.raises(KeyboardInterrupt):
        run(into, StopAfter(trials), **changed)
    return RunFolder.open(into)


def fleet(experiment: Experiment, folder: RunFolder, site: Site) -> Fleet:
    """The guests of an experiment's one block, on one host."""
    (block,) = plan_of(experiment).blocks()
    requests = GuestRequests(experiment, Pinning((), None, None))
    starts = GuestStarts(0, folder, PLATFORMS, boots=Counter(), requests=requests, pool=GuestPool(SilentProgress()))
    return Fleet(experiment, block, lambda _: site, starts)


def interrupted_but_replaced() -> None:
    """An error of the clearing up takes the interrupt's place."""
    try:
        signal.raise_signal(signal.SIGTERM)
    finally:
        raise GuestError("its end")
