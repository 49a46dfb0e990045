# ruff: noqa: INP001
"""What `virtoll compare` promises of two runs: simulated runs of known truth, judged by Virtoll's own functions.

``python benches/compare.py [RUNS]``, from the repository's folder: a minute or two. Prints the table of
docs/statistics.md. Each row is of two runs of one build, in one of which a platform in five is then slower by so much.
The runs are those of ``tests/support/trials.py``. A last part adds what a run has for itself, such as the memory that a
start happened to get: no comparison of two runs can tell that from a difference.
"""

from __future__ import annotations

import math
import os
import sys
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from tests.support.two_runs import Pairing, tried  # noqa: E402

WORLDS = (
    "even",
    "outliers",
    "uneven, outliers",
    "noise of each cell its own",
    "host in two states",
    "machine's speed in time",
)
BLOCKS = ((3, 3), (5, 5), (9, 9), (3, 9))
COSTS = (1.05, 1.1, 1.2)
OF_THE_RUN = (0.25, 0.5, 1.0)


def percent(share: float) -> str:
    """'4.1'."""
    return f"{100 * share:.1f}"


def main() -> None:
    """Print the tables."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    heads = ["false verdicts, %", "false A/A alarms, %", *(f"{percent(one - 1)} % slower found, %" for one in COSTS)]
    print(f"| what disturbs | blocks | {' | '.join(heads)} |")
    print(f"|{' --- |' * (2 + len(heads))}")
    for world in WORLDS:
        for blocks in BLOCKS:
            print_row(world, f"{blocks[0]} and {blocks[1]}", Pairing(world, blocks, runs))
    print()
    print(f"| of a run for itself, in standard deviations of a block | blocks | {' | '.join(heads)} |")
    print(f"|{' --- |' * (2 + len(heads))}")
    for spread in OF_THE_RUN:
        for blocks in ((3, 3), (9, 9)):
            print_row(f"{spread:g}", f"{blocks[0]} and {blocks[1]}", Pairing("even", blocks, runs, of_the_run=spread))


def print_row(head: str, blocks: str, pairing: Pairing) -> None:
    """False verdicts of equal runs, then what is found at each cost."""
    equal = tried(pairing)
    found = [percent(tried(pairing, math.log(cost)).found) for cost in COSTS]
    print(
        f"| {head} | {blocks} | {percent(equal.errors)} | {percent(equal.alarms)} | {' | '.join(found)} |", flush=True
    )


if __name__ == "__main__":
    main()
