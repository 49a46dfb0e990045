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


def measuring(file: Path, blocks: int = 1, into: Path | None = None) -> tuple[list[str | Path], Path]:
    """``virtoll``'s arguments that measure an experiment's first blocks without a report, and the run folder.

    A report costs as much as a small run. ``into``: the campaign's folder, next to the file where it is not given.
    """
    campaign = into or file.parent / "campaign"
    numbers, part = ("1", "block-1") if blocks == 1 else (f"1-{blocks}", f"blocks-1-{blocks}")
    return ["campaign", "block", file, "--block", numbers, "--into", campaign], campaign / part


def measure_experiment(folder: Path, **changed: Any) -> RunFolder:
    """The one block of an experiment, without a report; ``changed``: its keys."""
    arguments, made = measuring(experiments.write(folder, **changed))
    finished = in_process(*arguments, runs=folder)
    assert finished.returncode == 0, finished.stderr
    return RunFolder.open(made)
