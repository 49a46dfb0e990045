# ruff: noqa: INP001
"""How long a fitness sample of this host takes: `python benches/host_sample.py [SAMPLES]`, figures in microseconds.

A run takes one after each trial, so that it should stay below 5 ms. Nothing is judged here: on a busy host the largest
say what else the host did.
"""

from __future__ import annotations

import statistics
import sys
import time

from virtoll.host.fitness import FitnessSampler


def main(samples: int) -> None:
    """Prints the smallest, the median, the 99th percentile and the largest."""
    durations = []
    with FitnessSampler() as sampler:
        sampler.sample(None)
        for trial in range(samples):
            start = time.perf_counter_ns()
            sampler.sample(trial)
            durations.append((time.perf_counter_ns() - start) / 1000)
    durations.sort()
    rows = {
        "smallest": durations[0],
        "median": statistics.median(durations),
        "99th percentile": durations[int(0.99 * (samples - 1))],
        "largest": durations[-1],
    }
    for name, microseconds in rows.items():
        print(f"{name:>16} {microseconds:9.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
