"""Guests side by side, one for each part of a need: what each does beside a load that stands for the others. Pure.

No run has every workload beside every other. A load of the scenario `neighbours` that takes as much of the same or more
stands for a part (`STANDS_FOR`): it may show that the part beside it is met, and never that it is not. The
interference factor is the share of its performance alone that a guest keeps beside a load, by the run's own comparison.
It does not fit where a block's is further from the others' than `models.MOST_HELD_OUT`. Main type: `WithNeighbours`.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from virtoll.advise.frame_sizes import FORWARD
from virtoll.advise.meets import (
    Answer,
    BoundCheck,
    Finding,
    answer_of,
    checks_of_figures,
    family_of,
    finding,
    of_platform,
)
from virtoll.advise.models import MOST_HELD_OUT, held_out_of_blocks
from virtoll.advise.need import Known, Part, RouterNeed
from virtoll.advise.routers import asked_of_router
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import logs_of
from virtoll.stats.ratios import Ratios

# By what a workload stresses; a router is the load that forwards.
STANDS_FOR: Final[Mapping[str, str]] = {
    "packet path": "forward",
    "network": "network-flood",
    "CPU": "heavy",
    "application": "heavy",
    "kernel": "processes",
    "memory": "memory-bandwidth",
    "disk": "disk",
}


@dataclass(frozen=True)
class Factor:
    """What a platform's guest keeps of its performance alone beside a load: `share`, with the simultaneous interval.

    `held_out`: how far a block's is from the others', at most; None: one block. `why_not`: why it does not fit, or
    empty.
    """

    condition: str
    share: float | None
    low: float | None
    high: float | None
    held_out: float | None
    why_not: str


@dataclass(frozen=True)
class WithNeighbours:
    """A platform's guest for one part, beside guests for the others; `loads`: what stands for these, in words."""

    platform: str
    need: str
    loads: tuple[str, ...]
    answer: Answer
    findings: tuple[Finding, ...]
    factors: tuple[Factor, ...] = ()
    reason: str = ""


def load_of(part: Part, known: Known) -> str:
    """The load that stands for a part beside another."""
    name = FORWARD if isinstance(part, RouterNeed) else next(iter(part.asked))
    return STANDS_FOR.get(known.workloads[name].resource, "heavy")


def with_neighbours_of(
    analysis: Analysis, ratios: Ratios, parts: Sequence[Part], known: Known, platforms: Sequence[str]
) -> tuple[WithNeighbours, ...]:
    """For each platform and part of several what it does beside the others; nothing for a need of one part."""
    if len(parts) < 2:
        return ()
    demands = {part: _asked(analysis, ratios, part, _others(part, parts, known)) for part in parts}
    family = family_of(ratios, demands.values())
    rows = []
    for platform, part in itertools.product(platforms, parts):
        loads, of_part = _others(part, parts, known), demands[part]
        platform_demands = of_platform(of_part, platform)
        if not platform_demands:
            why = of_part if isinstance(of_part, str) else "it was not measured beside it"
            rows.append(WithNeighbours(platform, part.text, loads, Answer.NOT_MEASURED, (), reason=why))
            continue
        findings = tuple(finding(analysis, ratios, demand, family) for demand in platform_demands)
        needed = _needed_with_neighbours(part, parts)
        answer, reason = _answer(part, findings, _too_little(analysis, platform_demands, needed))
        factors = tuple(_factor(analysis, demand) for demand in _conditions(platform_demands))
        rows.append(WithNeighbours(platform, part.text, loads, answer, findings, factors=factors, reason=reason))
    return tuple(rows)


def _needed_with_neighbours(part: Part, parts: Sequence[Part]) -> float:
    """The highest rate that a router of the other parts must forward; 0 without one."""
    return max((other.rate for other in parts if other is not part and isinstance(other, RouterNeed)), default=0.0)


def _others(part: Part, parts: Sequence[Part], known: Known) -> tuple[str, ...]:
    """The loads that stand for all other parts, each once."""
    return tuple(dict.fromkeys(load_of(other, known) for other in parts if other is not part))


def _answer(part: Part, findings: Sequence[Finding], too_little: Mapping[str, str]) -> tuple[Answer, str]:
    """Met where it is so under any condition; never not met: the load may take more than a guest would."""
    reasons: dict[str, None] = {}
    for under in dict.fromkeys(verdict.under for verdict in findings):
        verdicts = [verdict for verdict in findings if verdict.under == under]
        answer = answer_of(part, verdicts)
        if answer is Answer.MEETS and under not in too_little:
            return Answer.MEETS, ""
        if answer is Answer.FAILS:
            reasons[f"{under} it does not, and the load may take more than the guest that it stands for"] = None
        else:
            known = (verdict.caveat or verdict.reason for verdict in verdicts)
            reasons |= dict.fromkeys(reason for reason in known if reason)
        if under in too_little:
            reasons[too_little[under]] = None
    return Answer.OPEN, "; ".join(reasons)


def _too_little(analysis: Analysis, demands: Sequence[BoundCheck], needed: float) -> dict[str, str]:
    """By condition, in words, why a guest beside that forwards does not stand for a router that must do so much."""
    reasons = {}
    for demand in demands:
        label = _label(analysis, demand)
        for use in analysis.isolation.uses:
            same = use.task.workload == demand.cell.task.workload and use.task.parameters == demand.cell.task.parameters
            if not same or (use.platform, use.condition) != (demand.cell.platform, label):
                continue
            if use.forwarded is not None and use.forwarded < needed:
                rate = f"{use.forwarded:.0f} frames/s, fewer than needed"
                reasons[f"beside {label}"] = f"the guest beside it forwarded {rate}"
    return reasons


def _label(analysis: Analysis, demand: BoundCheck) -> str:
    """The condition of a cell beside others, as the run names it."""
    return next(condition.label for condition in analysis.isolation.conditions if condition == demand.cell.under)


def _conditions(demands: Sequence[BoundCheck]) -> list[BoundCheck]:
    """One of each platform, workload and condition."""
    by_condition = {}
    for demand in demands:
        by_condition[demand.cell.task.workload, demand.cell.task.parameters, demand.cell.under] = demand
    return list(by_condition.values())


def _factor(analysis: Analysis, demand: BoundCheck) -> Factor:
    label = _label(analysis, demand)
    known = analysis.isolation.comparison(demand.cell.platform, demand.cell.task, label)
    if known is None or known.share is None:
        return Factor(label, None, None, None, None, "there is no value of the guest alone in the same rounds")
    held_out = held_out_of_blocks(list(logs_of(known.pairs).values()))
    why = "one block alone: no error of what it has not seen" if held_out is None else ""
    if held_out is not None and held_out > MOST_HELD_OUT:
        why = "does not fit"
    ends = known.simultaneous
    low, high = (ends.low, ends.high) if ends else (None, None)
    return Factor(label, known.share, low, high, held_out, why)


def _asked(analysis: Analysis, ratios: Ratios, part: Part, loads: Sequence[str]) -> list[BoundCheck] | str:
    """Beside the load that stands for all others; of several loads at once no run knows."""
    if len(loads) > 1:
        return f"no experiment has guests of several loads ({', '.join(loads)}) beside one at once"
    neighbours = {"neighbour_load": loads[0]}
    if isinstance(part, RouterNeed):
        return asked_of_router(analysis, ratios, part, neighbours)
    reason = ""
    for workload, bounds in part.asked.items():
        demands, why = checks_of_figures(ratios, workload, bounds, {**part.where, **neighbours})
        if demands:
            return demands
        reason = reason or why
    return f"{reason} beside the load {loads[0]}"
