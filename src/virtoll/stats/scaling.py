"""How a rate goes with the size of what is asked: routes in the table, routers or senders side by side. Pure.

Ratios are made within a block, to the smallest size measured there, so that what a host does over hours cancels. A
block without the smallest size gives no ratio.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from virtoll.runfolder.records import Clock, TrialRecord, duration_ns
from virtoll.stats.summaries import block_values, known
from virtoll.stats.values import Observation, Task, canonical, words_in_common
from virtoll.stats.wire import FairRow, fair_rows

FACTORS: Mapping[str, str] = {
    "routes": "routes in the table",
    "routers": "virtual routers side by side",
    "transmitters": "transmitting guests side by side",
}


@dataclass(frozen=True)
class Step:
    """One platform at one size: rates by block, frames/s; their ratios to the smallest size of the same block.

    `shares`: each guest's median rate flat out, frames/s, and `jain` their fairness; None and nothing for one guest.
    `load_ns`: the outside durations of loading the table.
    """

    platform: str
    task: Task
    factor: str
    size: int
    rates: tuple[float, ...]
    ratios: tuple[float, ...]
    shares: tuple[float, ...]
    jain: float | None
    load_ns: tuple[int, ...]

    @property
    def rate(self) -> float:
        """The median over blocks."""
        return statistics.median(self.rates)

    @property
    def ratio(self) -> float | None:
        """The median over blocks."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def median_load_ns(self) -> int | None:
        """The upper median of `load_ns`; None: no table was loaded."""
        return statistics.median_high(self.load_ns) if self.load_ns else None


@dataclass(frozen=True)
class Scaling:
    """One platform over the sizes of one factor, everything else equal; `others` says what, where it is not alone."""

    platform: str
    factor: str
    others: str
    steps: tuple[Step, ...]

    @property
    def words(self) -> str:
        """What its sizes have in common (`values.words_in_common`)."""
        return words_in_common([step.task for step in self.steps])


def scalings(
    tasks: Sequence[Task], observations: Sequence[Observation], trials: Sequence[TrialRecord], platforms: Sequence[str]
) -> tuple[Scaling, ...]:
    """One row for each platform and factor of which at least two sizes were measured, platforms in the given order."""
    by_number = {trial.trial: trial for trial in trials}
    fair = {(row.platform, row.task): row for row in fair_rows(tasks, trials)}
    groups: dict[tuple[str, str], dict[str, dict[int, list[Observation]]]] = {}
    for observation in observations:
        parameters = by_number[observation.trial].parameters
        factor = next((name for name in FACTORS if name in parameters), None)
        if factor is not None and observation.task.metric.source == "points":
            sizes = groups.setdefault((factor, _others(factor, parameters)), {}).setdefault(observation.platform, {})
            sizes.setdefault(parameters[factor], []).append(observation)
    several = len({others for _, others in groups}) > 1
    rows = []
    for (factor, others), by_platform in groups.items():
        for platform in platforms:
            sizes = by_platform.get(platform, {})
            if len(sizes) < 2:
                continue
            first = block_values(sizes[min(sizes)])
            steps = []
            for size, observed in sorted(sizes.items()):
                row = fair.get((platform, observed[0].task))
                loads = known(_load_ns(by_number[observation.trial]) for observation in observed)
                steps.append(replace(_step(factor, size, observed, first, row), load_ns=tuple(loads)))
            rows.append(Scaling(platform, factor, others if several else "", tuple(steps)))
    return tuple(rows)


def _step(
    factor: str, size: int, observed: Sequence[Observation], first: Mapping[int, float], fair: FairRow | None
) -> Step:
    """One without its loads; `first`: the rates at the smallest size, by block."""
    rates = block_values(observed)
    shares, jain = (fair.rates, fair.jain) if fair else ((), None)
    return Step(
        platform=observed[0].platform,
        task=observed[0].task,
        factor=factor,
        size=size,
        rates=tuple(rates.values()),
        ratios=tuple(rate / first[block] for block, rate in rates.items() if first.get(block)),
        shares=shares,
        jain=jain,
        load_ns=(),
    )


def _others(factor: str, parameters: Mapping[str, Any]) -> str:
    """What else was asked; several destinations come with a table and are no other question."""
    return canonical({key: value for key, value in parameters.items() if key not in (factor, "destinations")})


def _load_ns(trial: TrialRecord) -> int | None:
    clock = ((trial.result or {}).get("routing_table") or {}).get("clock")
    return None if clock is None else duration_ns(Clock.from_json(clock))
