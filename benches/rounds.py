# ruff: noqa: INP001
"""What more rounds of a block are worth, in a run's own trials: how much block ratios scatter with its first rounds.

``python benches/rounds.py RUN...``, from the repository's folder. For each run, task and platform it prints the
standard deviation over blocks of the logarithm of the ratio to the baseline, once from the first 1, 2, 3 ... rounds of
each block. All are of the same minutes, and of the values that count (near ones). Of the baseline itself it prints the
deviation within blocks.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from virtoll.report.build import load_analysis  # noqa: E402 - the path is set above
from virtoll.stats.analysis import Analysis  # noqa: E402
from virtoll.stats.compare import paired_shares  # noqa: E402
from virtoll.stats.values import Observation, Task  # noqa: E402

FIRST_ROUNDS = (1, 2, 3, 4, 6, 8, 12)


def first_rounds(observations: Iterable[Observation], rounds: int) -> list[Observation]:
    """Those of each block's first rounds."""
    return [observation for observation in observations if observation.round < rounds]


def scatter(task: Task, platform: Sequence[Observation], host: Sequence[Observation], rounds: int) -> float | None:
    """The standard deviation over blocks of the logarithm of the ratio; None of fewer than two blocks."""
    pairs = paired_shares(task, first_rounds(platform, rounds), first_rounds(host, rounds))
    return statistics.stdev(math.log(share) for _, share in pairs) if len(pairs) > 1 else None


def within_blocks(observations: Iterable[Observation]) -> float | None:
    """The standard deviation of the logarithm within blocks."""
    blocks: dict[int, list[float]] = {}
    for observation in observations:
        blocks.setdefault(observation.block, []).append(math.log(observation.value))
    variances = [statistics.variance(values) for values in blocks.values() if len(values) > 1]
    return math.sqrt(statistics.fmean(variances)) if variances else None


def print_task(analysis: Analysis, task: Task) -> None:
    """A line for each platform."""
    host = analysis.cells[analysis.baseline or "", task].observations
    most = max(observation.round for observation in host) + 1
    inside = within_blocks(host)
    print(f"{task.label}: the host scatters by {inside:.3f} within blocks" if inside else task.label)
    columns = [rounds for rounds in FIRST_ROUNDS if rounds <= most]
    print(f"  {'rounds':24}" + "".join(f"{rounds:8}" for rounds in columns))
    for (platform, other), cell in analysis.cells.items():
        if other == task and platform != analysis.baseline:
            deviations = (scatter(task, cell.observations, host, rounds) for rounds in columns)
            print(f"  {platform:24}" + "".join("       -" if sd is None else f"{sd:8.3f}" for sd in deviations))


def main() -> None:
    """Print all runs that are named."""
    for name in sys.argv[1:]:
        analysis = load_analysis(Path(name))
        print(f"{name}: {len(analysis.data.trials)} trials")
        for task in analysis.tasks:
            if task.metric.primary and (analysis.baseline, task) in analysis.cells:
                print_task(analysis, task)


if __name__ == "__main__":
    main()
