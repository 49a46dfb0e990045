"""A router's need: the largest rate of a platform that came through as it says, and the least that did not. Pure.

The maximum forwarding rate is an upper bound of any rate within bounds of loss and delay, so that a need with such
bounds is never refused less than one without.

Rates are those of `stats.bounded_rates`; what lies between the two is not known. Without bounds the workload's own
metric counts: what is forwarded, whatever is lost.

A frame size between those measured has the model's answer where it fits (`models`). Else a larger frame speaks for it
and a smaller one against it, if no larger frame was forwarded at a higher rate.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from virtoll.advise.frame_sizes import FORWARD, SIZE, falls, frame_cost, groups
from virtoll.advise.meets import BoundCheck, caveat_of, measured, measured_cells, untold
from virtoll.advise.need import RouterNeed
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounded_rates import ENOUGH, RateBounds, bracket
from virtoll.stats.bounds import receiving_apart
from virtoll.stats.ratios import Ratios
from virtoll.stats.readings import Cell, trials_of

SEARCH, SIDE_BY_SIDE = "throughput", "virtual-routers"
RATE = "maximum_forwarding_rate"
_WITHIN = "no rate that was offered came through within the bounds in each block"
_BEYOND = "no rate that was offered in each block was more than it can do"
_BOUND = "a rate of it is a lower bound: more may be possible"


def asked_of_router(
    analysis: Analysis, ratios: Ratios, need: RouterNeed, neighbours: Mapping[str, Any] | None = None
) -> list[BoundCheck] | str:
    """What each platform is asked; in words what the run lacks. `neighbours`: what they are to do (`readings`)."""
    workloads = [FORWARD] if need.plain else [FORWARD, SEARCH]
    where = {**need.where, **(neighbours or {})}
    demands: list[BoundCheck] = []
    reasons: list[str] = []
    for workload in workloads:
        cells = measured(ratios, workload, None, {**where, SIZE: need.frame_size_bytes})
        if isinstance(cells, str):
            reasons.append(cells)
        else:
            demands += [_asked(analysis, need, cell, cell) for cell in cells]
    known = {demand.cell.platform for demand in demands}
    others = measured_cells(ratios, FORWARD, RATE, {**where, SIZE: {"at_least": 1}})
    left = [cell for cell in others if cell.platform not in known]
    demands += [_by_size(analysis, ratios, need, group) for group in groups(left)]
    return demands or reasons[0]


def asked_of_routers(analysis: Analysis, ratios: Ratios, need: RouterNeed) -> list[BoundCheck]:
    """What each platform's routers side by side are asked, each of them: the one of which least came through."""
    where = {**need.where, SIZE: need.frame_size_bytes, "routers": {"at_least": 2}}
    demands = []
    for cell in measured_cells(ratios, SIDE_BY_SIDE, RATE, where):
        within = _within(analysis, need, cell)
        if need.plain:
            demands.append(BoundCheck(need.text, need.rate, False, replace(within, at_least=cell.at_least)))
        else:
            demands.append(BoundCheck(need.text, need.rate, False, within, _beyond(analysis, need, cell)))
    return demands


def _asked(analysis: Analysis, need: RouterNeed, near: Cell, far: Cell, note: str = "") -> BoundCheck:
    """`near` must reach the rate, and `far` must not, to fail it."""
    bound = need.text
    if need.plain:
        return BoundCheck(bound, need.rate, False, near, None if near is far else far, note=note)
    return BoundCheck(bound, need.rate, False, _within(analysis, need, near), _beyond(analysis, need, far), note=note)


def _by_size(analysis: Analysis, ratios: Ratios, need: RouterNeed, cells: Sequence[Cell]) -> BoundCheck:
    """What other sizes say of the size that is needed."""
    size = need.frame_size_bytes
    model = None
    if need.plain and caveat_of(ratios, cells[0]) is None:
        modelled = frame_cost(cells, size)
        model = modelled.fit if modelled is not None else None
        if modelled is not None and model is not None and model.fits:
            return replace(modelled, bound=need.text, limit=need.rate)
    larger = next((cell for cell in cells if cell.attributes[SIZE] > size), None)
    smaller = next((cell for cell in reversed(cells) if cell.attributes[SIZE] < size), None)
    note = ""
    if falls(cells):
        basis = " and ".join(f"{int(cell.attributes[SIZE])} B" for cell in filter(None, (smaller, larger)))
        note = f"frames of {size} B were not measured; estimated from {basis}: a larger frame takes no less time"
        near = larger or untold(cells[0], "no larger frame was measured")
        far = smaller or untold(cells[-1], "no smaller frame was measured")
    else:
        rises = f"frames of {size} B were not measured, and here larger frames were forwarded at a higher rate"
        near, far = untold(cells[0], rises), untold(cells[0], rises)
    return replace(_asked(analysis, need, near, far, note), fit=model)


def _within(analysis: Analysis, need: RouterNeed, cell: Cell) -> Cell:
    """The cell with the largest rates within the bounds, one a block."""
    if cell.untold:
        return cell
    rounds = _rates(analysis, need, cell, beyond=False)
    if not rounds:
        few = f"; it takes {ENOUGH / need.loss:.0f} frames to see such a loss" if need.loss else ""
        return untold(cell, _WITHIN + few)
    return replace(cell, rounds=rounds, at_least=False)


def _beyond(analysis: Analysis, need: RouterNeed, cell: Cell) -> Cell:
    """The cell with the least rates beyond the bounds, or the largest forwarded at all if less, one a block."""
    if cell.untold:
        return cell
    if cell.at_least:
        return untold(cell, _BOUND)
    rounds = _rates(analysis, need, cell, beyond=True)
    if not rounds:
        return untold(cell, _BEYOND)
    return replace(cell, rounds=rounds, at_least=False)


def _rates(analysis: Analysis, need: RouterNeed, cell: Cell, *, beyond: bool) -> dict[tuple[int, int], float]:
    """By block the median over its whole trials of the rate's logarithm; empty where a block has no such rate."""
    bounds = RateBounds(need.loss, need.p50_ns, need.p99_ns)
    apart = cell.platform in receiving_apart(analysis.data.boots)
    several = "routers" in cell.attributes
    blocks: dict[int, list[float]] = {}
    for trial in trials_of(analysis, cell):
        if trial.shortened:
            continue
        metered = trial.cpu_points or ()
        bracketed = bracket(trial.points or (), bounds, apart=apart, each=several, metered=metered)
        rate, none = bracketed.within, -math.inf
        if beyond:
            # No more comes through within the bounds than comes through at all.
            rate, none = min(filter(None, (bracketed.beyond, bracketed.most)), default=None), math.inf
        blocks.setdefault(trial.block, []).append(math.log(rate) if rate else none)
    rounds = {(block, 0): statistics.median(values) for block, values in sorted(blocks.items())}
    return rounds if all(map(math.isfinite, rounds.values())) else {}
