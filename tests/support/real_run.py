"""A run of real guests by the command line, from its first trial to its last; its lab alone is another process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import experiments
from tests.support.commands import in_process

from virtoll.runfolder.store import RunFolder


def run_experiment(folder: Path, *options: str, **changed: Any) -> RunFolder:
    """The run of an experiment, in ``folder/run``; ``changed``: its keys, ``options``: those of ``virtoll run``."""
    file = experiments.write(folder, **changed)
    finished = in_process("run", file, "--into", folder / "run", *options, runs=folder)
    assert finished.returncode == 0, finished.stderr
    return RunFolder.open(folder / "run")


def measuring(file: Path) -> tuple[list[str | Path], Path]:
    """``virtoll``'s arguments that measure one block of an experiment without a report, and the run folder.

    A report costs as much as a small run.
    """
    campaign = file.parent / "campaign"
    return ["campaign", "block", file, "--block", "1", "--into", campaign], campaign / "block-1"


def measure_experiment(folder: Path, **changed: Any) -> RunFolder:
    """The one block of an experiment, without a report; ``changed``: its keys."""
    arguments, made = measuring(experiments.write(folder, **changed))
    finished = in_process(*arguments, runs=folder)
    assert finished.returncode == 0, finished.stderr
    return RunFolder.open(made)
