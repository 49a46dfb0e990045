"""Sweeps over a list of rates as Schlosser et al. 2011 draw them: Mbit/s on the wire, means with 95 % t intervals.

Pure. A block counts once: its rounds are averaged first, because guests are fresh in each block alone. The project's
own statistics of the same points are medians in frames/s (`stats/sweeps.py`). Main types: `ListedCurve` (their Figure
3) and `Accumulated` (their Figure 4).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.frame_shape import FrameShape
from virtoll.stats.intervals import Estimate
from virtoll.stats.summaries import CellSummary, mean_over_blocks
from virtoll.stats.sweeps import PointValue
from virtoll.stats.values import Task, canonical, grouped


@dataclass(frozen=True)
class ListedPoint:
    """One rate of the list, in Mbit/s of each source (None: flat out), over the blocks that have it.

    `offered` and `forwarded` are in Mbit/s of all sources together.
    """

    target_mbit_per_second: float | None
    blocks: int
    offered: Estimate
    forwarded: Estimate


@dataclass(frozen=True)
class ListedCurve:
    """One platform's sweep over a list of rates; points as the list has them, flat out last."""

    platform: str
    task: Task
    shape: FrameShape
    points: tuple[ListedPoint, ...]


@dataclass(frozen=True)
class Accumulated:
    """The largest rate of a platform's sweeps from so many sources, in Mbit/s of all of them together.

    `group`: canonical JSON of the parameters but their number: what is equal there differs in sources alone.
    """

    platform: str
    task: Task
    shape: FrameShape
    group: str
    blocks: int
    rate: Estimate


@dataclass(frozen=True)
class ListedRates:
    """Everything of a run whose sweep is a list; `accumulated` only where at least two numbers of sources were run."""

    curves: tuple[ListedCurve, ...]
    accumulated: tuple[Accumulated, ...]


def listed_rates(
    tasks: Sequence[Task],
    points: Sequence[PointValue],
    cells: Mapping[tuple[str, Task], CellSummary],
    platforms: Sequence[str],
) -> ListedRates:
    """The sweeps over a list among these points, by task and then platform in the given order."""
    listed = [(task, shape, rates) for task in tasks if (rates := _rates(task)) and (shape := task.shape) is not None]
    measured = grouped(points, lambda point: (point.platform, point.parameters))
    curves = (
        _curve(platform, task, shape, rates, measured.get((platform, task.parameters), ()))
        for task, shape, rates in listed
        for platform in platforms
    )
    accumulated = [
        _accumulated(platform, task, shape, cells[platform, task])
        for task, shape, _ in listed
        for platform in platforms
        if (platform, task) in cells
    ]
    numbers: dict[str, set[int]] = {}
    for entry in accumulated:
        numbers.setdefault(entry.group, set()).add(entry.shape.sources)
    several = (entry for entry in accumulated if len(numbers[entry.group]) > 1)
    return ListedRates(tuple(curve for curve in curves if curve.points), tuple(several))


def _rates(task: Task) -> Sequence[float]:
    """The list of a task's sweep, Mbit/s; empty for every other sweep, and for what has none."""
    if task.metric.source != "points":
        return ()
    rates: Sequence[float] = json.loads(task.parameters).get("rates_mbit_per_second") or ()
    return rates


def _curve(
    platform: str, task: Task, shape: FrameShape, rates: Sequence[float], measured: Sequence[PointValue]
) -> ListedCurve:
    points = []
    for target in (*rates, None):
        intended = None if target is None else shape.frames_per_second(target)
        known = [
            (point.block, point.offered_rate, point.forwarded_rate)
            for point in measured
            if point.intended_rate == intended and point.offered_rate is not None and point.forwarded_rate is not None
        ]
        if known:
            offered = _over_blocks(shape, ((block, rate) for block, rate, _ in known))
            forwarded = _over_blocks(shape, ((block, rate) for block, _, rate in known))
            points.append(ListedPoint(target, len({block for block, _, _ in known}), offered, forwarded))
    return ListedCurve(platform, task, shape, tuple(points))


def _accumulated(platform: str, task: Task, shape: FrameShape, cell: CellSummary) -> Accumulated:
    others = {key: value for key, value in json.loads(task.parameters).items() if key != "sources"}
    rate = _over_blocks(shape, ((observation.block, observation.value) for observation in cell.observations))
    return Accumulated(platform, task, shape, canonical(others), cell.blocks, rate)


def _over_blocks(shape: FrameShape, rates: Iterable[tuple[int, float]]) -> Estimate:
    """Mean of the blocks' means, Mbit/s, of rates in frames/s by block; at least one."""
    return mean_over_blocks((block, shape.mbit_per_second(rate)) for block, rate in rates)
