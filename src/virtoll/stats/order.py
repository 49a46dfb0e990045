"""Reordering over a run: RFC 4737's ratio, extent and 3-reordering, RFC 5236's displacement, as rows. Pure.

Counts of a cell are added up over its points, trials and sources before anything is divided.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Density, Reordering, SinkCounts
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
    rows = [_row(cell, counts) for cell, counts in groups.items() if any(one.reordered_frames for one in counts)]
    places = places_of(tasks)
    return tuple(sorted(rows, key=lambda row: places[row.task]))


def _row(cell: Cell, counts: Sequence[SinkCounts]) -> OrderRow:
    reported = [one.reordering for one in counts if one.reordering is not None]
    extents = [one.extent_frames for one in reported if one.extent_frames.count]
    known, arrived = sum(one.count for one in extents), sum(one.forwarded_frames for one in counts)
    densities = [one.displacement for one in reported if one.displacement is not None]
    platform, task = cell
    return OrderRow(
        platform=platform,
        task=task,
        arrived_frames=arrived,
        reordered_frames=sum(one.reordered_frames for one in counts),
        known_frames=known,
        mean_extent=sum(one.sum for one in extents) / known if known else None,
        largest_extent=max((one.maximum for one in extents), default=None),
        largest_late_ns=max((one.late_time_ns.maximum for one in reported if one.extent_frames.count), default=None),
        three_reordered_share=sum(map(_three_reordered, reported)) / arrived,
        displaced_share=_displaced(densities),
        largest_displacement=max((abs(place) for one in densities for place, _ in one.histogram), default=None),
    )


def _three_reordered(reported: Reordering) -> int:
    return sum(frames for degree, frames in reported.n_reordering.histogram if degree >= TCP_DUPLICATES)


def _displaced(densities: Sequence[Density]) -> float | None:
    frames = sum(count for one in densities for _, count in one.histogram)
    away = sum(count for one in densities for place, count in one.histogram if place)
    return away / frames if frames else None
