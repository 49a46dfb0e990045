# ruff: noqa: INP001
"""How late the start mark of a job arrives, by the length of the pause between mark and job.

``virtoll`` starts each guest in a lab of its own: ``python benches/marks.py [TRIALS] [PLATFORM...]`` as root, from the
repository's folder; the kinds of guests are those of ``tests/support/guests.py``. Printed are medians with the smallest
and the largest, in ms, over trials whose pauses come in turn:

- *start* and *end*: the ICMP mark's arrival less the channel's stamp of the same edge. The agent writes the start to
  the channel just before its mark leaves, and the end just after.
- *late*: trials whose start mark came more than 1 ms after the channel's stamp.
- *guest - outside*: the guest's duration less the outside one, between the same two marks.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support import guests, inside  # noqa: E402

from virtoll.agent import timekeeper  # noqa: E402

PAUSES_NS = (0, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
KINDS = ("native", "runc", "runsc-systrap", "qemu-tcg", "qemu-tcg-e1000")
# Some 30 ms and some 800 ms on an emulated machine; `idle` leaves the virtual CPU at rest, as a pause does.
SHORT, LONG = ("superpi", {"digits": 4000}), ("superpi", {"digits": 24000})
IDLE = ("idle", {"duration_ns": 30_000_000})
LATE_MS = 1.0


def shown(values: list[float]) -> str:
    """Median, and from the smallest to the largest."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def measured(
    live: guests.Connected, job: tuple[str, dict[str, int]], trials: int, pauses_ns: tuple[int, ...] = PAUSES_NS
) -> None:
    """The trials of one job on one guest, and its lines of the table."""
    found: dict[int, list[tuple[float, float, float, float]]] = defaultdict(list)
    for _ in range(trials):
        for pause_ns in pauses_ns:
            timekeeper.PAUSE_NS = pause_ns
            clock = live.bench.timekeeper.time_job(*job, 120.0).clock
            marks, channel, guest = clock["marks"], clock["channel_marks"], clock["guest"]
            start, end = ((marks[edge] - channel[edge]) / 1e6 for edge in ("start_ns", "end_ns"))
            outside = (marks["end_ns"] - marks["start_ns"]) / 1e6
            inside = (guest["end_monotonic_ns"] - guest["start_monotonic_ns"]) / 1e6
            found[pause_ns].append((outside, start, end, inside - outside))
    for pause_ns, rows in found.items():
        columns = [list(column) for column in zip(*rows, strict=True)]
        late = sum(start > LATE_MS for start in columns[1])
        name = (
            f"{live.name:16}{job[0]:9}{pause_ns / 1e6:6.0f}{len(rows):5}{statistics.median(columns[0]):10.1f}{late:6}"
        )
        print(name + "".join(f"{shown(column):>26}" for column in columns[1:]), flush=True)


def main(asked: list[str]) -> None:
    """Print the table."""
    trials = int(asked[0]) if asked else 30
    heads = "".join(f"{head:>26}" for head in ("start", "end", "guest - outside"))
    print(f"{'platform':16}{'job':9}{'pause':>6}{'n':>5}{'outside':>10}{'late':>6}{heads}", flush=True)
    with guests.run_session() as session:
        for kind in asked[1:] or KINDS:
            live = guests.start(kind, session)
            measured(live, IDLE, trials, (0,))
            measured(live, SHORT, trials)
            measured(live, LONG, max(trials // 6, 3))
            live.guest.stop()


if __name__ == "__main__":
    inside.enter_lab(__file__)
    main(sys.argv[2:])
