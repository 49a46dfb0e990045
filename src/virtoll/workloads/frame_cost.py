"""The CPU time that a frame costs: two points at which the host's CPUs are read, with a few frames and with many.

Between them all is equal but the number of frames: the sender wakes equally often, sends what is due and sleeps. So the
difference of the CPUs' busy times over that of the frames is the time of one frame, whoever's core does the work. What
generator and sink take with nothing between (``pipeline/calibration.py``) is taken off in ``stats/frame_cost.py``.

Live frames cannot sleep, and send each frame by itself, which costs a router more. So packet sockets take their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from virtoll.agent.client import TrafficAgents
from virtoll.runfolder.traffic_records import Point
from virtoll.workloads.retakes import retaken_unobserved
from virtoll.workloads.sweep import frame_totals, source_rate
from virtoll.workloads.traffic import FrameParameters, Metering, TrafficStream, send

WAKE_NS = 1_000_000
FEW = 20  # a point with few frames has so many times fewer of them
# Half of what was forwarded at most: far from where frames wait and drops save work. Where even so frames are missing
# (a guest that is off its CPU), half of that, so many times.
_SHARE_OF_MAXIMUM, _MISSING_SHARE, _TRIES = 0.5, 0.005, 3


@dataclass(frozen=True)
class Meter:
    """Measures such points on one way: ``cpus`` are read, ``next_tag`` distinguishes traffic trials."""

    peer: TrafficAgents
    stream: TrafficStream
    shape: FrameParameters
    cpus: tuple[int, ...]
    next_tag: Callable[[], int]
    duration_ns: int

    def points(self, rate: float) -> list[Point]:
        """A point with few frames, and one with many: at this rate of each source."""
        return [self._point(frames_per_second) for frames_per_second in (rate / FEW, rate)]

    def points_below(self, swept: Sequence[Point], most: float) -> list[Point]:
        """The same at half of the largest rate of a source that a sweep forwarded, at ``most``, or at the next less.

        The last that were tried, where frames are missing at each.
        """
        rate = min(most, _SHARE_OF_MAXIMUM * max(map(source_rate, swept), default=0.0))
        if rate <= 0:
            return []
        points = self.points(rate)
        for _ in range(_TRIES - 1):
            if all(_missing(point) <= _MISSING_SHARE for point in points):
                break
            rate /= 2
            points = self.points(rate)
        return points

    def _point(self, rate: float) -> Point:
        backend = "af-xdp" if self.shape.backend == "af-xdp" else "af-packet"
        shape = self.shape.model_copy(update={"backend": backend})
        metering = Metering(self.cpus, WAKE_NS)

        def measure() -> Point:
            return send(self.peer, self.stream, shape, self.next_tag(), self.duration_ns, rate, metering=metering)

        return retaken_unobserved(measure).replace(wake_ns=WAKE_NS)


def _missing(point: Point) -> float:
    """Lost or unsent, as a share of what was intended."""
    intended, _, forwarded = frame_totals(point)
    return 1 - forwarded / intended if intended else 1.0
