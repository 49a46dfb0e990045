# ruff: noqa: INP001
"""What `virtoll history` promises: simulated nights of known truth, searched by Virtoll's own functions.

``python benches/history.py [SCALE]``, from the repository's folder: half an hour on one busy core; SCALE 0.1 takes a
tenth of the histories. Prints the tables of docs/statistics.md. What is simulated is said in
``tests/support/nights.py``; a shortened form is ``tests/stats/test_change_points.py``.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from tests.support.nights import World, measure  # noqa: E402

HISTORIES = 600
CHANGED = 200
QUIET: dict[str, World] = {
    "independent nights": World(),
    "independent, 12 nights x 3": World(nights=12, series=3),
    "independent, 365 nights x 30": World(nights=365),
    "half of the noise is the host's": World(shared=0.5),
    "heavier tails (t, 3 degrees)": World(tails="t with 3 degrees of freedom"),
    "one night in twenty 5 SD off": World(tails="outliers"),
    "noise twice as large from the middle on": World(grows=2.0),
    "noise four times as large from the middle on": World(grows=4.0),
    "correlation of neighbours 0.2": World(correlation=0.2),
    "correlation of neighbours 0.3": World(correlation=0.3),
    "correlation of neighbours 0.5": World(correlation=0.5),
}
CHANGES = (0.03, 0.05, 0.10)
NOISES = (0.01, 0.02, 0.04)
PLACES: dict[str, World] = {
    "in the middle": World(),
    "10 nights before the end": World(place=50),
    "5 nights before the end": World(place=55),
    "for 10 nights, then undone": World(place=25, until=35),
    "in the middle, outliers": World(tails="outliers"),
    "in the middle, correlation 0.3": World(correlation=0.3),
}


def percent(share: float) -> str:
    """'4.1'."""
    return f"{100 * share:.1f}"


def main(scale: float) -> None:
    """Simulate and print."""
    begun = time.perf_counter()
    print("| nights without a change | histories | with a false alarm, % | false changes in all |")
    print("| --- | --- | --- | --- |")
    for name, world in QUIET.items():
        histories = max(int(HISTORIES * scale * (0.25 if world.nights > 100 else 1)), 20)
        kept = measure(world, histories)
        print(f"| {name} | {histories} | {percent(kept.alarmed)} | {kept.alarms} |", flush=True)
    histories = max(int(CHANGED * scale), 20)
    print(
        f"\n| one change, in {histories} histories | noise of a night, % | change, % | found, % | at its night, % "
        "| within one, % | place covered, % | size covered, % | false alarm elsewhere, % |"
    )
    print("| --- " * 9 + "|")
    for name, world in PLACES.items():
        for noise in NOISES if name == "in the middle" else NOISES[1:2]:
            for change in CHANGES:
                kept = measure(replace(world, noise=noise, change=change), histories)
                rates = (kept.found, kept.exact, kept.near, kept.covered, kept.sized, kept.alarmed)
                print(
                    f"| {name} | {100 * noise:g} | {100 * change:g} | {' | '.join(map(percent, rates))} |", flush=True
                )
    one = time.perf_counter()
    measure(World(change=0.05), 5)
    print(f"\n60 nights x 30 series: {(time.perf_counter() - one) / 5:.2f} s; all of this {one - begun:.0f} s")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
