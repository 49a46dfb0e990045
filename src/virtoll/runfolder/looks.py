"""Looks at a run that is measured "until decided": fixed before it starts, each with the level that it spends.

Testing after every block until something is significant finds 13 % of false differences at a nominal 5 % (simulated).
So the blocks after which one looks are fixed in advance, and their levels add up to 5 % (Bonferroni over looks, which
holds whatever depends on what). A run ends at the first look at which all is decided, or at the last one, and what is
told of it is tested at the level of that look alone.

A run of a fixed number of blocks has spent its 5 % when it ends. Whoever extends it chooses how far by what it showed.
So each further number of blocks has a level of its own, and all of them together have 5 % more. Main types: ``Looks``,
``PLANNED``. Main function: ``extended_level``. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Looks:
    """(blocks, level) of each look, by number of blocks."""

    plan: tuple[tuple[int, float], ...]

    @classmethod
    def between(cls, least: int, most: int) -> Self:
        """The planned looks from `least` to `most` blocks, both included.

        What the looks that fall away would have spent, the first and the last spend. ValueError where `most` is less.
        """
        if not 2 <= least <= most:
            raise ValueError(f"looks need 2 <= least <= most blocks, not {least} and {most}")
        blocks = sorted({least, most, *(at for at, _ in PLANNED.plan if least < at < most)})
        levels = dict.fromkeys(blocks, 0.0)
        for at, level in PLANNED.plan:
            levels[next((look for look in blocks if look >= at), most)] += level
        if not all(levels.values()):  # a look of one's own between two planned ones
            levels = dict.fromkeys(blocks, sum(levels.values()) / len(blocks))
        return cls(tuple(levels.items()))

    @classmethod
    def of(cls, experiment: Mapping[str, Any]) -> Self | None:
        """The looks that a manifest's experiment fixes in its key `looks`, [[3, 0.02], ...]; None without it."""
        plan = tuple((int(at), float(level)) for at, level in experiment.get("looks") or ())
        return cls(plan) if plan else None

    def level_at(self, blocks: int) -> float:
        """The level at which what was measured in so many blocks is tested.

        Between two looks, as after an interrupt, it is that of the next: it is spent once in any case.
        """
        return next((level for at, level in self.plan if at >= blocks), self.plan[-1][1])

    def next_after(self, blocks: int) -> int | None:
        """After how many blocks one looks again; None: there is no further look."""
        return next((at for at, _ in self.plan if at > blocks), None)


def extended_level(level: float, first: int, blocks: int) -> float:
    """The level at which a run is tested that was to end after `first` blocks at `level`, and has so many now.

    Beyond the first it is level * first / (blocks * (blocks - 1)), whose sum over all further numbers of blocks is
    `level`. So it holds whatever number is chosen, by whatever was seen, and however often.
    """
    return level if blocks <= first else level * first / (blocks * (blocks - 1))


PLANNED = Looks(((3, 0.02), (5, 0.01), (7, 0.01), (9, 0.005), (12, 0.005)))
