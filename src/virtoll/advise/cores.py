"""A job on a number of virtual CPUs that was not measured, by the scalability law of those that were. Pure.

Jobs that take as many workers as their guest has virtual CPUs (a parameter that is `vcpus`) are one task at each
number. Times the number of CPUs, the time of such a job is what the law is about (Gunther 2007). It answers only
between the numbers that were measured.
"""

from __future__ import annotations

import math
from dataclasses import replace

from virtoll.advise.meets import BoundCheck, caveat_of, measured_cells, untold
from virtoll.advise.models import Model, fit, geometric_mean, predicted
from virtoll.advise.need import Bound, FigureNeed
from virtoll.stats.ratios import Ratios, by_block
from virtoll.stats.readings import Cell, by_vcpus
from virtoll.stats.values import Task

VCPUS = "vcpus"


def asked_of_cores(ratios: Ratios, need: FigureNeed, workload: str, bound: Bound) -> list[BoundCheck]:
    """What each platform is asked of a number of virtual CPUs that was not measured; none where nothing tells it."""
    number = need.where.get(VCPUS)
    if not isinstance(number, int) or isinstance(number, bool):
        return []
    cells = measured_cells(ratios, workload, bound.figure.name, {**need.where, VCPUS: {"at_least": 1}})
    groups: dict[tuple[str, Task], dict[int, Cell]] = {}
    for cell in cells:
        metric = cell.task.metric
        if by_vcpus(cell) and (metric.source == "marks" or metric.better == "higher"):
            groups.setdefault((cell.platform, cell.task), {}).setdefault(int(cell.attributes[VCPUS]), cell)
    return [_asked(ratios, bound, by_number, number) for by_number in groups.values()]


def _asked(ratios: Ratios, bound: Bound, cells: dict[int, Cell], number: int) -> BoundCheck:
    """By the law, block by block; a cell of which nothing can be said where it does not fit, or would be beyond."""
    first = cells[min(cells)]
    sign = 1.0 if first.lower_is_better else -1.0
    numbers = ", ".join(map(str, sorted(cells)))
    reason = f"{number} virtual CPUs were not measured, and {numbers} do not show it"
    demand = BoundCheck(
        bound.text, bound.limit, first.lower_is_better, untold(first, reason), basis=tuple(cells.values())
    )
    if caveat_of(ratios, first) is not None:
        return demand
    logs = {n: by_block(cell.rounds) for n, cell in cells.items()}
    means = {}
    for n, values in logs.items():
        means[float(n)] = n * geometric_mean([sign * log for log in values.values()])
    fitted = fit(Model.CORES, means)
    demand = replace(demand, fit=fitted)
    if not fitted.fits or not fitted.between(number):
        return demand
    rounds = {}
    for block in sorted(set.intersection(*map(set, logs.values()))):
        times = {float(n): n * math.exp(sign * values[block]) for n, values in logs.items()}
        rounds[block, 0] = sign * math.log(predicted(Model.CORES, times, number) / number)
    task = f"{first.task.label} on {number} virtual CPUs, which was not measured, by a model"
    return replace(demand, cell=replace(first, rounds=rounds), task=task)
