"""What confinement costs, from a run with ``--against isolation=open``: A is each platform as it is, B the same, open.

``python benches/survive/isolation_cost.py RUN`` prints one Markdown table. Each ratio is strict to open, of the medians
of a block, gathered over the platforms by their geometric mean; its interval is Student's over the blocks.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from virtoll.runfolder.records import TrialRecord, duration_ns  # noqa: E402 - found by the path above
from virtoll.runfolder.store import RunFolder  # noqa: E402
from virtoll.stats.guests import cpus_used, used_ns  # noqa: E402
from virtoll.stats.intervals import student  # noqa: E402
from virtoll.stats.values import maximum_forwarded_rate  # noqa: E402

_OPEN = ".b"


def main(arguments: list[str]) -> int:
    """Print the table of one run."""
    if len(arguments) != 1:
        print((__doc__ or "").splitlines()[2])
        return 2
    head = ("workload", "what", "strict to open", "95 % interval", "platforms", "blocks")
    print(f"| {' | '.join(head)} |\n|{' --- |' * len(head)}")
    for (workload, what), blocks in sorted(ratios(RunFolder.open(Path(arguments[0]))).items()):
        found = student([statistics.fmean(by_platform) for by_platform in blocks])
        spread = found.interval
        told = "one block" if spread is None else f"{math.exp(spread.low):.3f} to {math.exp(spread.high):.3f}"
        most = max(map(len, blocks))
        print(f"| {workload} | {what} | {math.exp(found.value):.3f} | {told} | {most} | {len(blocks)} |")
    return 0


def ratios(run: RunFolder) -> dict[tuple[str, str], list[list[float]]]:
    """By workload and quantity: of each block the logarithms of strict to open, one for each platform that has both."""
    cells: defaultdict[tuple[str, str, int, str], dict[bool, list[float]]] = defaultdict(dict)
    for trial in run.latest_trials():
        if trial.status != "ok" or trial.warm_up:
            continue
        platform = trial.platform.removesuffix(_OPEN)
        for what, value in _values(trial):
            sides = cells[trial.workload, what, trial.block, platform]
            sides.setdefault(platform != trial.platform, []).append(value)
    found: defaultdict[tuple[str, str], dict[int, list[float]]] = defaultdict(dict)
    for (workload, what, block, _), sides in cells.items():
        if len(sides) == 2:
            ratio = math.log(statistics.median(sides[False]) / statistics.median(sides[True]))
            found[workload, what].setdefault(block, []).append(ratio)
    return {key: list(blocks.values()) for key, blocks in found.items()}


def _values(trial: TrialRecord) -> Iterator[tuple[str, float]]:
    """What a trial says that load beside it changes least: CPU time of the guest's processes, and frames forwarded."""
    rate = maximum_forwarded_rate(trial.points or ())
    busy = cpus_used(trial.host_cpu)
    if trial.points and len(trial.points) == 1:  # of one rate; a sweep has other rates on each side
        frames = sum(counts.forwarded_frames for counts in trial.points[0].sink.per_source)
        if busy and frames and trial.host_cpu is not None:
            passed_ns = sum(span.after.monotonic_ns - span.before.monotonic_ns for span in trial.host_cpu.measured)
            yield "CPU time of a forwarded frame", busy * passed_ns / frames
    elif rate:
        yield "maximum forwarding rate", rate
    used = used_ns(trial.host_cpu)
    if used and not rate:
        yield "CPU time on the host", used / trial.repeats
    duration = duration_ns(trial.clock) if trial.clock is not None else None
    if duration and not rate:
        yield "duration", duration / trial.repeats


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
