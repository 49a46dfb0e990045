# ruff: noqa: INP001
"""Whether verdicts keep what they promise: simulated runs of known truth, judged by Virtoll's own functions.

``python benches/verdicts.py [SCALE]``, from the repository's folder, or ``make verdicts``: some ten minutes on two
cores; SCALE 0.1 takes a tenth of the runs. Prints the tables of docs/statistics.md, and exits with 1 where something
that is required is missed. What is simulated is said in ``tests/support/trials.py``; a shortened form of these checks
is ``tests/stats/test_promises.py``.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
REPOSITORY = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "src")]

from scipy.stats import binom  # noqa: E402
from tests.support.trials import WORLDS, Kept, Kind, measure  # noqa: E402

SIZES = ((6, 5), (12, 5), (50, 7))
BLOCKS = (3, 5, 9)
CVS = (0.02, 0.05, 0.15)
RUNS = {30: 800, 60: 500, 350: 60}
RUNS_IN_SEQUENCE, RUNS_UNTIL_DECIDED = 200, 500
FAMILY_ERRORS = 0.06
ALARMS = 0.02
LEAST_COVERAGE, MOST_COVERAGE = 0.93, 0.98
LEAST_OF_NOISY_HOST = 0.92  # nearly all of the noise is then one and the same in all comparisons
DISTURBED = (
    "outliers",
    "two states",
    "unlike",
    "grid",
    "speed in time",
)  # worlds whose intervals may be wider: they are reported
ALIKE_ERRORS = 0.05
FOUND, FOUND_NOISY = {0.5: 0.95, 0.1: 0.98}, {0.5: 0.85, 0.1: 0.98}
POWER_WORLDS = ("outliers", "uneven, outliers")
POWER_CV = 0.05
LESS = 0.02  # by which more blocks may decide less: chance in the simulation

Results = dict[Kind, Kept]
Missed = list[str]


def size_of(kind: Kind) -> int:
    """How many comparisons its family has."""
    return kind.size[0] * kind.size[1]


def grid(scale: float) -> list[Kind]:
    """Every kind of run that is simulated with a fixed number of blocks."""
    kinds = [
        Kind(world, size, blocks, cv, equal, max(int(RUNS[size[0] * size[1]] * scale), 20))
        for world, size, blocks, cv, equal in itertools.product(WORLDS, SIZES, BLOCKS, CVS, (False, True))
    ]
    return [kind for kind in kinds if size_of(kind) < 100 or kind.cv == POWER_CV or kind.blocks == BLOCKS[0]]


def sequence(scale: float) -> list[Kind]:
    """Runs of many numbers of blocks, for what more blocks decide, among them the old cliff at 12."""
    runs = max(int(RUNS_IN_SEQUENCE * scale), 20)
    return [
        Kind("uneven, outliers", (22, 5), blocks, cv, False, runs)
        for cv, blocks in itertools.product((0.05, 0.15), (3, 4, 5, 6, 7, 9, 11, 12, 13))
    ]


def until_decided(scale: float) -> list[Kind]:
    """Runs that end at the first look at which all is decided."""
    worlds = ("even", "outliers", "uneven, outliers", "noise of each cell its own", "host in two states")
    return [
        Kind(world, (6, 5), 12, cv, equal, max(int(RUNS_UNTIL_DECIDED * scale), 20), sequential=True)
        for world, cv, equal in itertools.product(worlds, (0.05, 0.15), (False, True))
    ]


def percent(share: float) -> str:
    """'4.1'."""
    return f"{100 * share:.1f}"


def spread(values: Iterable[float]) -> str:
    """'93.0 to 97.2', or one number."""
    every = sorted(values)
    low, high = percent(every[0]), percent(every[-1])
    return low if low == high else f"{low} to {high}"


def errors_of(what: str, own: Results, of: Callable[[Kept], float], limit: float) -> Missed:
    """Missed where the errors of all these kinds together exceed the limit, or those of one do beyond chance.

    Beyond chance: with errors at the limit, fewer than one simulation in a thousand would show so many.
    """
    runs = sum(kept.runs for kept in own.values())
    pooled = sum(of(kept) * kept.runs for kept in own.values()) / runs
    missed = [f"{what}: {percent(pooled)} % of {runs}"] if pooled > limit else []
    for kind, kept in own.items():
        if binom.sf(round(of(kept) * kept.runs) - 1, kept.runs, limit) < 0.001:
            missed.append(f"{what}: {percent(of(kept))} % of {kept.runs} {kind}")
    return missed


def fixed_table(results: Results) -> Missed:
    """By world and number of blocks: over all sizes and CVs together, and in brackets the worst of them."""
    missed: Missed = []
    print(
        "| what disturbs | blocks | families with a false verdict, all equal, % | not all equal, % | "
        "with a false *at least*, % | false A/A alarm, % | coverage, % |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for world, blocks in itertools.product(WORLDS, BLOCKS):
        here, cells = f"{world}, {blocks} blocks", []
        every = {kind: kept for kind, kept in results.items() if (kind.world, kind.blocks) == (world, blocks)}
        for what, equal, of in (
            ("family-wise errors", True, lambda kept: kept.errors),
            ("family-wise errors", False, lambda kept: kept.errors),
            ("false bounds", False, lambda kept: kept.bounds),
            ("false alarms", True, lambda kept: kept.alarms),
        ):
            own = {kind: kept for kind, kept in every.items() if kind.equal is equal}
            pooled = sum(of(kept) * kept.runs for kept in own.values()) / sum(kept.runs for kept in own.values())
            cells.append(f"{percent(pooled)} ({percent(max(map(of, own.values())))})")
            missed += errors_of(f"{here}: {what}", own, of, ALARMS if what == "false alarms" else FAMILY_ERRORS)
        low, high = min(one.coverage[0] for one in every.values()), max(one.coverage[1] for one in every.values())
        print(f"| {world} | {blocks} | {' | '.join(cells)} | {percent(low)} to {percent(high)} |")
        alike = max(one.alike for one in every.values())
        missed += [f"{here}: false alike {percent(alike)} %"] if alike > ALIKE_ERRORS else []
        wide = high > MOST_COVERAGE and not any(word in world for word in DISTURBED)
        least = LEAST_OF_NOISY_HOST if "noisier" in world else LEAST_COVERAGE
        missed += [f"{here}: coverage {percent(low)} to {percent(high)} %"] if low < least or wide else []
    return missed


def power_table(results: Results) -> Missed:
    """What is found, by CV: the range over sizes of family."""
    missed: Missed = []
    print("\n| what disturbs | CV, % | blocks | 0.8 found, % | 0.5 | 0.1 | 0.5, 3 x noisier | 0.1, 3 x noisier |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for world, cv, blocks in itertools.product(WORLDS, CVS, BLOCKS):
        own = {
            kind: kept
            for kind, kept in results.items()
            if (kind.world, kind.cv, kind.blocks, kind.equal) == (world, cv, blocks, False)
        }
        cells = []
        for share, noisy in ((0.8, False), (0.5, False), (0.1, False), (0.5, True), (0.1, True)):
            found = [(one.found_noisy if noisy else one.found).get(share) for one in own.values()]
            known = [value for value in found if value is not None]
            cells.append(spread(known) if known else "–")
            needed = (FOUND_NOISY if noisy else FOUND).get(share)
            if known and needed is not None and world in POWER_WORLDS and cv == POWER_CV and min(known) < needed:
                which = " on a noisy platform" if noisy else ""
                missed.append(f"{world}, {blocks} blocks: share {share}{which} found in {percent(min(known))} %")
        print(f"| {world} | {100 * cv:.0f} | {blocks} | {' | '.join(cells)} |")
    return missed


def monotone_table(results: Results) -> Missed:
    """What is decided by number of blocks."""
    missed: Missed = []
    print("\n| CV, % | share | " + " | ".join(f"{blocks} blocks" for blocks in (3, 4, 5, 6, 7, 9, 11, 12, 13)) + " |")
    print("| --- " * 11 + "|")
    for cv, (share, noisy) in itertools.product((0.05, 0.15), ((0.8, False), (0.5, True), (0.1, True))):
        own = [(kind.blocks, kept) for kind, kept in results.items() if kind.cv == cv]
        found = [(kept.found_noisy if noisy else kept.found)[share] for _, kept in sorted(own, key=lambda one: one[0])]
        print(f"| {100 * cv:.0f} | {share}{', 3 x noisier' if noisy else ''} | {' | '.join(map(percent, found))} |")
        if any(after < before - LESS for before, after in itertools.pairwise(found)):
            missed.append(f"CV {cv}, share {share}: more blocks decide less: {found}")
    return missed


def looks_table(results: Results) -> Missed:
    """Runs until decided."""
    missed: Missed = []
    print("\n| what disturbs | CV, % | truth | false verdict, % | blocks on average | not all decided after 12, % |")
    print("| --- | --- | --- | --- | --- | --- |")
    for kind, kept in results.items():
        truth = "all equal" if kind.equal else "1 to 0.1"
        print(
            f"| {kind.world} | {100 * kind.cv:.0f} | {truth} | {percent(kept.errors)} | {kept.mean_blocks:.1f} | "
            f"{percent(kept.unsettled)} |"
        )
        missed += errors_of("until decided: family-wise errors", {kind: kept}, lambda one: one.errors, FAMILY_ERRORS)
    return missed


def main() -> None:
    """Simulate, print, and exit with 1 where something is missed."""
    scale, begun = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, time.perf_counter()
    parts = (grid(scale), sequence(scale), until_decided(scale))
    missed: Missed = []
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for kinds, table in zip(parts, (None, monotone_table, looks_table), strict=True):
            done = dict(zip(kinds, pool.imap(measure, kinds), strict=True))
            missed += table(done) if table else [*fixed_table(done), *power_table(done)]
    print(f"\n{sum(len(kinds) for kinds in parts)} kinds of runs, {time.perf_counter() - begun:.0f} s")
    for line in missed:
        print(f"missed: {line}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
