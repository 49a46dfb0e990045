"""What a platform's frame sizes say of one that was not measured: its time per frame, by a model of theirs. Pure.

The time per frame is that between two forwarded frames, or the CPU time that one costs. Both are `a + b x frame size`,
where that fits (`models`). It answers only between the sizes that were measured.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from virtoll.advise.meets import BoundCheck, caveat_of, measured_cells, untold
from virtoll.advise.models import Model, fit, geometric_mean, predicted
from virtoll.advise.need import Bound, FigureNeed
from virtoll.stats.ratios import Ratios, by_block
from virtoll.stats.readings import Cell

FORWARD = "forward"
SIZE = "frame_size_bytes"
HIGHER = 1.10  # times: up to which a larger frame's higher rate is taken for chance


def asked_of_sizes(ratios: Ratios, need: FigureNeed, workload: str, bound: Bound) -> list[BoundCheck]:
    """What each platform is asked of a frame size that was not measured; none where nothing tells it."""
    size = need.where.get(SIZE)
    if workload != FORWARD or not isinstance(size, int) or isinstance(size, bool):
        return []
    cells = measured_cells(ratios, workload, bound.figure.name, {**need.where, SIZE: {"at_least": 1}})
    demands = []
    for group in groups(cells):
        modelled = frame_cost(group, size) if caveat_of(ratios, group[0]) is None else None
        if modelled is None or modelled.fit is None or not modelled.fit.fits:
            sizes = ", ".join(str(cell.attributes[SIZE]) for cell in group)
            cell = untold(group[0], f"frames of {size} B were not measured, and those of {sizes} B do not show it")
            fitted = None if modelled is None else modelled.fit
            modelled = BoundCheck("", 1.0, group[0].lower_is_better, cell, fit=fitted, basis=tuple(group))
        demands.append(replace(modelled, bound=bound.text, limit=bound.limit))
    return demands


def groups(cells: Iterable[Cell]) -> list[list[Cell]]:
    """Those that differ in the frame's size alone, by size; a sweep's own parameters are no matter."""
    groups: dict[tuple[object, ...], dict[int, Cell]] = {}
    for cell in cells:
        ways = (cell.attributes.get(name) for name in ("sources", "routes", "destinations"))
        key = (cell.platform, cell.under, *ways)
        groups.setdefault(key, {}).setdefault(int(cell.attributes[SIZE]), cell)
    return [[cell for _, cell in sorted(by_size.items())] for by_size in groups.values()]


def falls(cells: Sequence[Cell]) -> bool:
    """Whether no larger frame was forwarded at a higher rate than a smaller one, but for chance."""
    rates = [geometric_mean(list(by_block(cell.rounds).values())) for cell in cells]
    return all(later <= HIGHER * earlier for earlier, later in itertools.combinations(rates, 2))


def frame_cost(cells: Sequence[Cell], size: int) -> BoundCheck | None:
    """The value of a frame size by the model, block by block; None where the size is not between those measured.

    `cells`: of one platform, by size. Of rates that are lower bounds no model is made.
    """
    logs = {int(cell.attributes[SIZE]): by_block(cell.rounds) for cell in cells}
    if any(cell.at_least for cell in cells) or not min(logs) <= size <= max(logs):
        return None
    lower = cells[0].lower_is_better
    sign, unit = (1.0, 0.0) if lower else (-1.0, math.log(1e9))  # of frames/s the ns of one
    times, means = {}, {}
    for at, values in logs.items():
        times[float(at)] = {block: math.exp(sign * log + unit) for block, log in values.items()}
        means[float(at)] = geometric_mean([math.log(time) for time in times[at].values()])
    fitted = fit(Model.FRAME_COST, means)
    blocks = sorted(set.intersection(*map(set, times.values())))
    nearest = min(cells, key=lambda cell: abs(cell.attributes[SIZE] - size))
    if not fitted.fits or not blocks:
        return BoundCheck("", 1.0, lower, nearest, fit=fitted)
    rounds = {}
    for block in blocks:
        estimate = predicted(Model.FRAME_COST, {at: values[block] for at, values in times.items()}, size)
        rounds[block, 0] = sign * (math.log(estimate) - unit)
    task = f"{replace(nearest.task, size=f'{size} B').work}, which was not measured, by a model"
    return BoundCheck("", 1.0, lower, replace(nearest, rounds=rounds), fit=fitted, task=task, basis=tuple(cells))
