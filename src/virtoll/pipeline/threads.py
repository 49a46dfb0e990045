"""Jobs that go on at the same time, each by a thread of its own that works only in its turn (``agent.turns``)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from virtoll.agent import turns

Outcome = TypeVar("Outcome")


def at_once(jobs: Sequence[Callable[[], Outcome]]) -> list[Outcome]:
    """What each of them gave, in their order, when all have ended; the first error of one that failed.

    Also when the run is interrupted all have ended: whoever waits for a guest or for the others notices it.
    """
    from concurrent.futures import ThreadPoolExecutor, wait  # it brings in logging, which every start would pay for

    def in_turn(job: Callable[[], Outcome]) -> Outcome:
        with turns.taken():
            return job()

    threads = ThreadPoolExecutor(max_workers=max(1, len(jobs)))
    try:
        futures = [threads.submit(in_turn, job) for job in jobs]
        wait(futures)
    finally:
        threads.shutdown()
    return [future.result() for future in futures]
