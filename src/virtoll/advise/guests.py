"""How many guests of a platform a host takes of which each still meets a need. Pure.

Measured are the numbers of the scenario `scale` and of the workload `virtual-routers`. What must meet the bound is the
worst guest of each trial. The answer is the largest number at which it does, with all smaller ones measured; between
and beyond them the scalability law answers, where it fits (`models`). Main type: `Guests`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from virtoll.advise.frame_sizes import SIZE
from virtoll.advise.meets import Answer, BoundCheck, Finding, answer_of, caveat_of, family_of, finding, measured_cells
from virtoll.advise.models import BEYOND, Fit, Model, fit, geometric_mean, predicted
from virtoll.advise.need import FigureNeed, Part, RouterNeed
from virtoll.advise.routers import asked_of_routers
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests_at_once import each_guest
from virtoll.stats.ratios import Ratios, by_block
from virtoll.stats.readings import Cell, Under
from virtoll.stats.values import Task, observations_of

Rounds = dict[tuple[int, int], float]


@dataclass(frozen=True)
class Step:
    """A number of guests that was measured: what its worst guest says of the need."""

    guests: int
    answer: Answer
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Guests:
    """How many guests of a platform meet a part of a need, each of them.

    `at_least`: the largest number measured at which they do, as at all smaller ones; None: at none. `not_with`: the
    smallest at which they do not; None: at none. `by_model`: the largest number by the scalability law, where it fits
    and says more, and no more than the host has memory for; `beyond`: it is more than was measured. `fit` None: there
    is no model of what is asked for. `taken_bytes`: of the host's memory by each guest, at most; None: not known.
    """

    platform: str
    need: str
    steps: tuple[Step, ...]
    fit: Fit | None = None
    by_model: int | None = None
    caveat: str | None = None
    taken_bytes: float | None = None

    @property
    def at_least(self) -> int | None:
        met: int | None = None
        for step in self.steps:
            if step.answer is not Answer.MEETS:
                break
            met = step.guests
        return met

    @property
    def not_with(self) -> int | None:
        return next((step.guests for step in self.steps if step.answer is Answer.FAILS), None)

    @property
    def beyond(self) -> bool:
        return self.by_model is not None and self.by_model > self.steps[-1].guests


def guests_of(analysis: Analysis, ratios: Ratios, part: Part) -> tuple[Guests, ...]:
    """One for each platform of which several guests at once were measured as the part says; none of one guest alone."""
    demands = _routers(analysis, ratios, part) if isinstance(part, RouterNeed) else _jobs(analysis, ratios, part)
    family = family_of(ratios, itertools.chain.from_iterable(by_number.values() for by_number in demands.values()))
    rows = []
    for platform, by_number in demands.items():
        if max(by_number) > 1:
            guests = _guests(analysis, ratios, part, platform, by_number, family)
            if guests.caveat is None:
                guests = _with_model(analysis, ratios, guests, by_number, family)
            rows.append(guests)
    return tuple(rows)


def _guests(analysis: Analysis, ratios: Ratios, part: Part, platform: str, by_number: ByNumber, family: int) -> Guests:
    """A platform's guests without a model."""
    steps = []
    for number in sorted(by_number):
        findings = tuple(finding(analysis, ratios, demand, family) for demand in by_number[number])
        steps.append(Step(number, answer_of(part, findings), findings))
    caveat = next((caveat_of(ratios, demand.cell) for each in by_number.values() for demand in each), None)
    groups = [group for group in analysis.at_once.groups if group.platform == platform]
    taken = max((group.taken_bytes or 0.0 for group in groups), default=0)
    return Guests(platform, part.text, tuple(steps), caveat=caveat, taken_bytes=taken or None)


ByNumber = dict[int, list[BoundCheck]]


def _jobs(analysis: Analysis, ratios: Ratios, need: FigureNeed) -> dict[str, ByNumber]:
    """By platform and number of guests what the worst of them is asked; of the first workload that was measured."""
    worst = _worst(analysis)
    for workload, bounds in need.asked.items():
        demands: dict[str, ByNumber] = {}
        for bound in bounds:
            cells = measured_cells(ratios, workload, bound.figure.name, {**need.where, "guests": {"at_least": 1}})
            for cell in cells:
                rounds = worst.get((cell.platform, cell.task, cell.under))
                if rounds is not None:
                    demand = BoundCheck(bound.text, bound.limit, cell.lower_is_better, replace(cell, rounds=rounds))
                    number = int(cell.attributes["guests"])
                    demands.setdefault(cell.platform, {}).setdefault(number, []).append(demand)
        if demands:
            return demands
    return {}


def _worst(analysis: Analysis) -> dict[tuple[str, Task, Under], Rounds]:
    """The logarithm of the worst guest's value of each trial, by round."""
    trials = analysis.data.at_once
    under = {trial.trial: trial.scale for trial in trials}
    values, _ = observations_of(analysis.tasks, each_guest(trials))
    worst: dict[tuple[str, Task, Under], Rounds] = {}
    for observation in values:
        point = under[observation.trial]
        if point is not None:
            rounds = worst.setdefault((observation.platform, observation.task, point), {})
            key, log = (observation.block, observation.round), math.log(observation.value)
            pick = max if observation.task.metric.better == "lower" else min
            rounds[key] = pick(rounds.get(key, log), log)
    return worst


def _routers(analysis: Analysis, ratios: Ratios, need: RouterNeed) -> dict[str, ByNumber]:
    demands: dict[str, ByNumber] = {}
    for demand in asked_of_routers(analysis, ratios, need):
        number = int(demand.cell.attributes["routers"])
        demands.setdefault(demand.cell.platform, {}).setdefault(number, []).append(demand)
    return demands


def _with_model(analysis: Analysis, ratios: Ratios, answer: Guests, demands: ByNumber, family: int) -> Guests:
    """With the scalability law, where one bound of a rate or a duration is asked of each number of guests."""
    single = _single(demands)
    if not single:
        return answer
    first = single[min(single)]
    sign = 1.0 if first.lower_is_better else -1.0
    logs = {number: by_block(demand.cell.rounds) for number, demand in single.items()}
    times = {}
    for number, values in logs.items():
        times[float(number)] = geometric_mean([sign * log for log in values.values()])
    fitted = fit(Model.SCALABILITY, times)
    answer = replace(answer, fit=fitted)
    blocks = sorted(set.intersection(*map(set, logs.values())))
    if not fitted.fits or len(blocks) < 2:
        return answer
    start = best = answer.at_least or 0
    most = min(BEYOND * max(single), max(_room(analysis, answer), *single))
    for number in range(start + 1, most + 1):
        rounds = {(block, 0): sign * _predicted_log(logs, sign, block, number) for block in blocks}
        modelled = replace(first, cell=replace(first.cell, rounds=rounds), fit=fitted)
        if number < fitted.sizes[0] or finding(analysis, ratios, modelled, family).answer is not Answer.MEETS:
            break
        best = number
    if answer.not_with is not None:
        best = min(best, answer.not_with - 1)
    return replace(answer, by_model=best if best > start else None)


def _predicted_log(logs: Mapping[int, Mapping[int, float]], sign: float, block: int, number: int) -> float:
    """The logarithm of the time that so many guests take in a block by the model of that block."""
    times = {float(guests): math.exp(sign * values[block]) for guests, values in logs.items()}
    return math.log(predicted(Model.SCALABILITY, times, number))


def _single(demands: ByNumber) -> dict[int, BoundCheck]:
    """The one bound of each number of guests; empty if there are more, or they have no sum."""
    single = {number: checks[0] for number, checks in demands.items() if len(checks) == 1}
    if len(single) < len(demands) or any(check.against is not None for check in single.values()):
        return {}
    metrics = {check.cell.task.metric for check in single.values()}
    return single if len(metrics) == 1 and _has_sum(next(iter(single.values())).cell) else {}


def _room(analysis: Analysis, answer: Guests) -> int:
    """For how many guests the host had memory before any was started; what was measured had."""
    known = [group.available_before_bytes for group in analysis.data.groups if group.platform == answer.platform]
    available = min((size for size in known if size is not None), default=None)
    if available is None or answer.taken_bytes is None:
        return BEYOND * answer.steps[-1].guests
    return int(available // answer.taken_bytes)


def _has_sum(cell: Cell) -> bool:
    """Whether all guests together do so much of it: jobs, or a rate; a latency has no sum."""
    metric = cell.task.metric
    return SIZE not in cell.attributes and (metric.source == "marks" or metric.better == "higher")
