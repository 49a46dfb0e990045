"""Routers beside other guests as Schlosser et al. 2011 print them: means of Mbit/s on the wire, by size of frame.

Pure. A block counts once, as in `listed_rates`: its trials are averaged first. Main type: `RouterBeside`, of which
`change` is a cell of their Table 1 or a bar of their Figure 5, and `into_other` with `out_of_other` a pair of their
Tables 2 and 3. The project's own statistics of the same trials are shares with verdicts (`isolation.py`).
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.runfolder.frame_shape import FrameShape
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.intervals import Estimate, student
from virtoll.stats.isolation import Isolation
from virtoll.stats.summaries import CellSummary, known, mean_over_blocks, means_by_block
from virtoll.stats.values import Task, forwarded_rate, offered_rate


@dataclass(frozen=True)
class NeighbourRouter:
    """One platform's router under one condition, over the blocks that have it both alone and so.

    `alone`, `with_neighbours`: the most that it forwards, Mbit/s. `change`: the mean of the blocks'
    `with_neighbours / alone - 1`.
    `into_other`, `out_of_other`: what one guest beside was sent and forwarded, Mbit/s; None where it forwards nothing.
    `caveat`: why the change is not the router's own, such as that nothing was lost at the sender's largest rate.
    """

    platform: str
    task: Task
    shape: FrameShape
    condition: Condition
    blocks: int
    alone: Estimate
    with_neighbours: Estimate
    change: Estimate
    into_other: Estimate | None
    out_of_other: Estimate | None
    caveat: str | None


def neighbour_routers(
    isolation: Isolation, with_neighbours: Sequence[TrialRecord], platforms: Sequence[str]
) -> tuple[NeighbourRouter, ...]:
    """By condition as the experiment names them, then by frames as their tasks come, then by platform."""
    tasks = dict.fromkeys(comparison.task for comparison in isolation.comparisons)
    rates = [task for task in tasks if task.metric.source == "points" and task.is_forwarding_rate]
    cells = itertools.product(isolation.conditions, rates, platforms)
    return tuple(
        known(_row(isolation, with_neighbours, platform, task, condition) for condition, task, platform in cells)
    )


def _row(
    isolation: Isolation, with_neighbours: Sequence[TrialRecord], platform: str, task: Task, condition: Condition
) -> NeighbourRouter | None:
    comparison = isolation.comparison(platform, task, condition.label)
    shape = task.shape
    if comparison is None or shape is None:
        return None
    alone = _means(isolation.cells.get((platform, task, ALONE)), shape)
    under = _means(isolation.cells.get((platform, task, condition.label)), shape)
    blocks = sorted(alone.keys() & under.keys())
    if not blocks:
        return None
    measured = [
        trial for trial in with_neighbours if trial.status == "ok" and trial.platform == platform and task.is_of(trial)
    ]
    points = [
        (trial.block, neighbour.traffic)
        for trial in measured
        if trial.condition == condition
        for neighbour in trial.neighbours
        if neighbour.traffic is not None
    ]
    return NeighbourRouter(
        platform,
        task,
        shape,
        condition,
        len(blocks),
        alone=student([alone[block] for block in blocks]),
        with_neighbours=student([under[block] for block in blocks]),
        change=student([under[block] / alone[block] - 1 for block in blocks]),
        into_other=_of_points(points, offered_rate),
        out_of_other=_of_points(points, forwarded_rate),
        caveat=comparison.caveat,
    )


def _means(cell: CellSummary | None, shape: FrameShape) -> dict[int, float]:
    observations = cell.observations if cell else ()
    return means_by_block((observation.block, shape.mbit_per_second(observation.value)) for observation in observations)


def _of_points(points: Iterable[tuple[int, Point]], rate: Callable[[Point], float | None]) -> Estimate | None:
    """Over blocks, Mbit/s of that guest's own frames; None where no point has a rate."""
    rates = [
        (block, FrameShape(frame_size_bytes=point.frame_size_bytes).mbit_per_second(value))
        for block, point in points
        if (value := rate(point)) is not None
    ]
    return mean_over_blocks(rates) if rates else None
