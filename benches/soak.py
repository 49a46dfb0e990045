# ruff: noqa: INP001
"""Repeats what once went wrong with a guest, beside as much other load as the machine has, and counts what is odd.

It starts each guest in a lab of its own: ``python benches/soak.py points|requests COUNT KIND...`` as root,
from the repository's folder; the kinds of guests are those of ``tests/support/guests.py``.

``points``: flat-out points of 50 and 200 ms through the guest, each generator and sink in turn, frames of 64 to 1518
bytes. Printed are points that were ok, that are no result and that the agent refused; after one that
is no result, whether the guest answers an echo.

``requests``: small requests to the guest's agent, in hundreds, every second of which while the guest forwards; in the
others each tenth is a timed job after a park. Printed are requests that were answered, that were asked again
(``wake_seconds``) and that failed.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from tests.support import guests, inside  # noqa: E402

from virtoll.agent.operations.session import ClocksRequest  # noqa: E402
from virtoll.agent.timekeeper import await_path  # noqa: E402
from virtoll.errors import VirtollError  # noqa: E402
from virtoll.workloads import traffic  # noqa: E402
from virtoll.workloads.forward import ForwardParameters, stream_through  # noqa: E402
from virtoll.workloads.router import routing  # noqa: E402
from virtoll.workloads.traffic import send, unbalanced  # noqa: E402

GENERATORS = ("live-frames", "af-xdp", "af-packet")
SINKS = ("xdp", "tpacket")
SIZES = (64, 512, 1518)
LENGTHS_MS = (50, 200)
BESIDE_MS, BESIDE_PER_SECOND = 3000, 5000.0
TOGETHER = 100


def say(live: guests.Connected, text: str) -> None:
    """A line with the time and the guest's kind."""
    print(f"{time.strftime('%H:%M:%S')} {live.name}: {text}", flush=True)


def measured(live: guests.Connected, wanted: ForwardParameters, rate: float | None) -> tuple[str, str]:
    """What one point was, at a rate or flat out: a word to count it by, and a sentence if it is no result."""
    bench = live.bench
    try:
        point = send(bench.peer, stream_through(bench, wanted), wanted, bench.next_tag(), wanted.point_ns, rate)
    except VirtollError as error:
        return "refused", str(error)
    problem = unbalanced([point])
    return ("ok", "") if problem is None else ("no result", problem)


def points(live: guests.Connected, count: int) -> None:
    """So many flat-out points."""
    found: Counter[str] = Counter()
    shapes = itertools.cycle(itertools.product(GENERATORS, SIZES, SINKS, LENGTHS_MS))
    with routing(live.bench, ForwardParameters()):
        for number, (backend, size, sink, length) in zip(range(1, count + 1), shapes, strict=False):
            shape = {"backend": backend, "sink": sink, "frame_size_bytes": size, "point_milliseconds": length}
            outcome, sentence = measured(live, ForwardParameters.model_validate(shape), None)
            found[outcome] += 1
            if sentence:
                say(live, f"point {number}, {backend}, {sink}, {size} bytes, {length} ms: {outcome}: {sentence}")
            if outcome == "no result":
                _echo(live)
            if number % TOGETHER == 0:
                say(live, f"{number} points: {dict(found)}")
    say(live, f"points: {dict(found)}")


def _echo(live: guests.Connected) -> None:
    for link in live.bench.network.links:
        try:
            await_path(live.held.peer, link)
            say(live, f"  link {link.role} answers")
        except VirtollError as error:
            say(live, f"  link {link.role} is dead: {error}")


class Traffic:
    """Points through a guest, one after another until it is left."""

    def __init__(self, live: guests.Connected) -> None:
        """Not begun yet."""
        self.live, self.over = live, threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self.over.is_set():
            measured(self.live, ForwardParameters(point_milliseconds=BESIDE_MS), BESIDE_PER_SECOND)

    def __enter__(self) -> None:
        """It sends."""
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        """It has ended."""
        self.over.set()
        self.thread.join()


def requests(live: guests.Connected, count: int) -> None:
    """So many requests, in hundreds that are quiet and beside traffic in turn."""
    agent, found = live.held.agent, Counter[str]()
    write = agent._write_whole  # noqa: SLF001

    def counted(data: bytes) -> None:
        found["asked again"] += data == b"\n"
        write(data)

    agent._write_whole = counted  # type: ignore[method-assign]  # noqa: SLF001
    for first in range(0, count, TOGETHER):
        before, forwards = Counter(found), first // TOGETHER % 2 == 1
        with Traffic(live) if forwards else contextlib.nullcontext():
            _some(live, found, jobs=not forwards)
        say(live, f"{first + TOGETHER} requests, {'beside traffic' if forwards else 'quiet'}: {dict(found - before)}")
    say(live, f"requests: {dict(found)}")


def _some(live: guests.Connected, found: Counter[str], *, jobs: bool) -> None:
    for number in range(TOGETHER):
        try:
            if number % 10 or not jobs:  # the peer, which stamps a job's marks, is also who sends
                live.held.agent.ask(ClocksRequest(), 30.0)
                found["ok"] += 1
                continue
            live.guest.park()
            live.guest.resume()
            job = live.bench.timekeeper.time_job("idle", {"duration_ns": 20_000_000}, 30.0)
            found["ok" if job.problem is None else "held-up job"] += 1
        except VirtollError as error:
            found["failed"] += 1
            say(live, str(error))


WAYS = {"points": points, "requests": requests}


def main(way: str, count: int, kinds: list[str]) -> None:
    """Each kind in turn, in a guest of its own."""
    residual_ns = traffic.RESIDUAL_NS
    with guests.run_session() as session:
        traffic.RESIDUAL_NS = residual_ns  # as the product has it: the tests' sinks wait for longer
        for kind in kinds:
            live = guests.start(kind, session)
            WAYS[way](live, count)
            live.guest.stop()


if __name__ == "__main__":
    inside.enter_lab(__file__)
    main(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
