# ruff: noqa: INP001
"""Whether a host that changes its speed within a block is taken for a platform that differs, by place of the step.

``python benches/positions.py [RUNS]``, from the repository's folder: 200 runs for each place, some minutes. Prints the
table of docs/statistics.md, and exits with 1 where more runs than 5 % find a difference that is none, beyond chance.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from scipy.stats import binom  # noqa: E402
from tests.support.stepped import LONG, SHORT, experiment_of, false_differences, places  # noqa: E402

RUNS = 200
LIMIT, CHANCE = 0.05, 0.001
JOBS = {"too long for two rounds": (5, LONG), "two rounds": (2, SHORT), "five rounds": (5, SHORT)}

Kind = tuple[str, int, float, int]
"""Job, number of platforms, CV and runs."""


def measured(kind: Kind) -> list[float]:
    """The share of runs with a false difference, by place of the step."""
    job, platforms, cv, runs = kind
    rounds, seconds = JOBS[job]
    experiment = experiment_of(platforms, rounds=rounds, blocks=3)
    return [false_differences(experiment, seconds, place, cv, runs) for place in range(1, places(experiment, seconds))]


def main() -> None:
    """Simulate, print, and exit with 1 where more is found than may be."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    kinds = [(job, platforms, cv, runs) for job in JOBS for platforms in (5, 2, 1) for cv in (0.02, 0.05)]
    print("| job | platforms | CV, % | places | false differences, % | at the worst place, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    missed = False
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for (job, platforms, cv, _), shares in zip(kinds, pool.imap(measured, kinds), strict=True):
            mean = sum(shares) / len(shares)
            every = runs * len(shares)
            missed |= bool(binom.sf(round(mean * every) - 1, every, LIMIT) < CHANCE)
            figures = f"{100 * mean:.1f} | {100 * max(shares):.1f}"
            print(f"| {job} | {platforms} | {100 * cv:.0f} | {len(shares)} | {figures} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
