# ruff: noqa: INP001
"""Whether verdicts keep what they promise: simulated runs of known truth, judged by Virtoll's own functions.

``python benches/verdicts.py [--runs N] [--short]``, from the repository's folder; ``make verdicts``. Prints the tables
of docs/statistics.md and exits with 1 where a requirement is missed. The simulation itself is `tests/support/trials.py`;
the shortened form of these checks is `tests/stats/test_promises.py`.
"""

from __future__ import annotations

import argparse
import itertools
import multiprocessing
import os
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]
