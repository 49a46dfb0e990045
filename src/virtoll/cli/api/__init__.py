"""Virtoll from Python (docs/python.md): `run` measures an experiment, `load` opens a run that was measured.

What they hand out is what the report is made of: the records of the run folder, the analysis, and the rows of
`virtoll report --json`. `virtoll` itself has these names. Nothing here computes a statistic.
"""

from virtoll.cli.api.loaded import Run, load
from virtoll.cli.api.measured import run
from virtoll.cli.api.tables import Runs, load_all

__all__ = ["Run", "Runs", "load", "load_all", "run"]
