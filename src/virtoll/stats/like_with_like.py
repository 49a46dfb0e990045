"""Values that were measured while the CPUs were near each other are compared with such, and far ones with far ones.

While a hypervisor has two CPUs far from each other, all that passes from one to the other is slower, by an own factor
on each platform. What a run says is of the near state, and the far one's rate is a figure of its own
(`stats/far_rates.py`). Main functions: `near_ones` (of one cell), `choices` (of two). Pure.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from virtoll.runfolder.hand_over import Distance
from virtoll.stats.values import Observation

_ALIKE: Final = (
    frozenset({None, Distance.NEAR}),
    frozenset({Distance.FAR}),
    frozenset({None, *Distance}),
)
"""What is compared with each other, first of all near with near: what is not known to be far counts as near."""


def near_ones(observations: Sequence[Observation]) -> tuple[Observation, ...]:
    """A cell's values without those that were not near, in each block that has others."""
    near = {observation.block for observation in observations if is_near(observation)}
    return tuple(observation for observation in observations if is_near(observation) or observation.block not in near)


def is_near(observation: Observation) -> bool:
    """Whether it is not known to have been measured while CPUs were far from each other, or changed their distance."""
    return observation.distance in _ALIKE[0]


def choices(
    first: Sequence[Observation], second: Sequence[Observation]
) -> Iterator[tuple[Sequence[Observation], Sequence[Observation]]]:
    """What of both may be compared with each other, the best first: near with near, far with far, all with all.

    Where nothing was far there is no choice.
    """
    if all(map(is_near, chain(first, second))):
        yield first, second
        return
    for distances in _ALIKE:
        yield _of(first, distances), _of(second, distances)


def _of(observations: Sequence[Observation], distances: frozenset[Distance | None]) -> list[Observation]:
    return [observation for observation in observations if observation.distance in distances]
