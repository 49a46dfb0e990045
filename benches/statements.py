# ruff: noqa: INP001
"""Whether page, terminal, table, document, gate, claims, advice and comparisons ever contradict each other.

``python benches/statements.py [RUNS]``, from the repository's folder: 200 random runs, each also compared with itself
and with the next, some ten minutes. Prints each contradiction, and exits with 1 where there is one. The runs are those
of ``tests/support/statements.py``.
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

from tests.support.statements import contradictions, random_run  # noqa: E402
from tests.support.statements_of_two import contradictions_of_two  # noqa: E402

RUNS = 200


def found(seed: int) -> list[str]:
    """Each contradiction of a run, and of it and the next one."""
    run, other = random_run(seed), random_run(seed + 1)
    return [f"run {seed}: {problem}" for problem in (*contradictions(run), *contradictions_of_two(run, other))]


def main() -> None:
    """Draw, ask, and exit with 1 where something does not agree."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else RUNS
    with multiprocessing.Pool(os.cpu_count()) as pool:
        problems = [problem for of_run in pool.imap(found, range(runs)) for problem in of_run]
    print("\n".join(problems) or f"{runs} runs: no contradiction")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
