"""A run of real guests by the command line, from its first trial to its last."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support import experiments
from tests.support.commands import virtoll

from virtoll.runfolder.store import RunFolder


def run_experiment(folder: Path, *options: str, **changed: Any) -> RunFolder:
    """The run of an experiment, in ``folder/run``; ``changed``: its keys, ``options``: those of ``virtoll run``."""
    file = experiments.write(folder, **changed)
    finished = virtoll("run", file, "--into", folder / "run", *options, runs=folder)
    assert finished.returncode == 0, finished.stderr
    return RunFolder.open(folder / "run")
