"""Readings of how fast CPUs hand a cache line over, made up."""

from __future__ import annotations

from collections.abc import Sequence

from virtoll.runfolder.hand_over import HandOver, HandOverSpan

BUSY = "a busy CPU"


def reading(round_trip_ns: int | None, cpus: tuple[int, int] = (1, 0)) -> HandOver:
    """A reading of so long a round trip; None: there is none, for a reason."""
    if round_trip_ns is None:
        return _reading(cpus, 0, None, None, BUSY)
    return _reading(cpus, 400, 50 * round_trip_ns, 52 * round_trip_ns, None)


def _reading(
    cpus: tuple[int, int], batches: int, least_ns: int | None, median_ns: int | None, reason: str | None
) -> HandOver:
    return HandOver(
        cpus=cpus,
        monotonic_ns=1,
        batch_round_trips=50,
        batches=batches,
        least_batch_ns=least_ns,
        median_batch_ns=median_ns,
        reason=reason,
    )


def span(before: Sequence[int | None], after: Sequence[int | None]) -> HandOverSpan:
    """Readings of CPU 1 with CPU 0, CPU 2 and so on, before something and after it."""
    others = [0, *range(2, 2 + max(len(before), len(after)))]
    return HandOverSpan(
        tuple(reading(time, (1, other)) for time, other in zip(before, others, strict=False)),
        tuple(reading(time, (1, other)) for time, other in zip(after, others, strict=False)),
    )
