"""What being far from each other costs CPUs that hand frames over: each platform's rate near, and far. Pure.

Main type: `FarRate`. What is compared, and which values leave their cell, is in `stats/like_with_like.py`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.runfolder.hand_over import Distance
from virtoll.stats.like_with_like import near_ones
from virtoll.stats.summaries import median_of_known
from virtoll.stats.values import Observation, Task, grouped


@dataclass(frozen=True)
class FarRate:
    """A platform and task that was measured while CPUs were far from each other, or changed their distance meanwhile.

    `near`, `far`: the median of such trials in the metric's unit; None: there are none. `left_out`: trials that are in
    no median, and in no comparison with what was near. `explained`: the share of the variance of the logarithm between
    trials that the distance explains; None: all values are the same, or of one distance.
    """

    platform: str
    task: Task
    near: float | None
    far: float | None
    near_trials: int
    far_trials: int
    changed_trials: int
    left_out: int
    explained: float | None

    @property
    def share(self) -> float | None:
        """Performance far as a share of that near; None without one of both."""
        if self.near is None or self.far is None:
            return None
        return self.far / self.near if self.task.metric.better == "higher" else self.near / self.far


def far_rates(observations: Sequence[Observation]) -> tuple[FarRate, ...]:
    """One for each platform and task, in the order of the observations; none where CPUs were never far."""
    cells = grouped(observations, lambda observation: (observation.platform, observation.task))
    away = {Distance.FAR, Distance.CHANGED}
    rates = []
    for (platform, task), group in cells.items():
        if away.intersection(observation.distance for observation in group):
            rates.append(_far_rate(platform, task, group))
    return tuple(rates)


def _far_rate(platform: str, task: Task, observations: Sequence[Observation]) -> FarRate:
    by_distance = grouped(observations, lambda observation: observation.distance)
    values = {distance: list(map(_value, group)) for distance, group in by_distance.items()}
    near, far = values.get(Distance.NEAR, []), values.get(Distance.FAR, [])
    return FarRate(
        platform,
        task,
        near=median_of_known(near),
        far=median_of_known(far),
        near_trials=len(near),
        far_trials=len(far),
        changed_trials=len(values.get(Distance.CHANGED, [])),
        left_out=len(observations) - len(near_ones(observations)),
        explained=_explained(list(values.values())),
    )


def _explained(groups: Sequence[Sequence[float]]) -> float | None:
    everything: list[float] = []
    within = 0.0
    for group in groups:
        logs = list(map(math.log, group))
        everything += logs
        within += statistics.pvariance(logs) * len(logs)
    total = statistics.pvariance(everything) * len(everything)
    return 1 - within / total if len(groups) > 1 and total > 0 else None


def _value(observation: Observation) -> float:
    return observation.value
