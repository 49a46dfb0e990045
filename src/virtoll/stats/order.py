"""Reordering over a run: RFC 4737's ratio, extent and 3-reordering, RFC 5236's displacement, as rows. Pure.

Counts of a cell are added up over its points, trials and sources before anything is divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Density, Reordering, SinkCounts
from virtoll.stats.summaries import known
from virtoll.stats.values import Task, places_of
from virtoll.stats.wire import Cell, points_of

TCP_DUPLICATES = 3  # RFC 5681: so many duplicate acknowledgements are taken for a loss; RFC 4737, 5.4.1


@dataclass(frozen=True)
class OrderRow:
    """One cell in which frames arrived out of order. Shares are of all frames that arrived, each counted once.

    Extents in frames and late times in ns are over the reordered frames whose place is known (`known_frames`); None
    where there is none. `displaced_share`: frames not in their place, RFC 5236 RD, over the points that measured it;
    None: no sink did.
    """

    platform: str
    task: Task
    arrived_frames: int
    reordered_frames: int
    known_frames: int
    mean_extent: float | None
    largest_extent: int | None
    largest_late_ns: int | None
    three_reordered_share: float
    displaced_share: float | None
    largest_displacement: int | None

    @property
    def ratio(self) -> float:
        """The reordered ratio, RFC 4737, 4.1."""
        return self.reordered_frames / self.arrived_frames


def order_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[OrderRow, ...]:
    """The cells in which at least one frame was reordered, by task and platform."""
    groups: dict[Cell, list[SinkCounts]] = {}
    for task, trial, point in points_of(tasks, trials):
        groups.setdefault((trial.platform, task), []).extend(point.sink.per_source)
    rows = [_row(cell, counts) for cell, counts in groups.items() if any(sink.reordered_frames for sink in counts)]
    places = places_of(tasks)
    return tuple(sorted(rows, key=lambda row: places[row.task]))


def _row(cell: Cell, counts: Sequence[SinkCounts]) -> OrderRow:
    arrived = sum(sink.forwarded_frames for sink in counts)
    reported = known(sink.reordering for sink in counts)
    placed = [reordering for reordering in reported if reordering.extent_frames.count]
    extents = [reordering.extent_frames for reordering in placed]
    known_frames = sum(extent.count for extent in extents)
    densities = known(reordering.displacement for reordering in reported)
    platform, task = cell
    return OrderRow(
        platform=platform,
        task=task,
        arrived_frames=arrived,
        reordered_frames=sum(sink.reordered_frames for sink in counts),
        known_frames=known_frames,
        mean_extent=sum(extent.sum for extent in extents) / known_frames if known_frames else None,
        largest_extent=max((extent.maximum for extent in extents), default=None),
        largest_late_ns=max((reordering.late_time_ns.maximum for reordering in placed), default=None),
        three_reordered_share=sum(map(_three_reordered, reported)) / arrived,
        displaced_share=_displaced(densities),
        largest_displacement=max((abs(place) for density in densities for place, _ in density.histogram), default=None),
    )


def _three_reordered(reported: Reordering) -> int:
    return sum(frames for degree, frames in reported.n_reordering.histogram if degree >= TCP_DUPLICATES)


def _displaced(densities: Sequence[Density]) -> float | None:
    frames = sum(count for density in densities for _, count in density.histogram)
    away = sum(count for density in densities for place, count in density.histogram if place)
    return away / frames if frames else None
