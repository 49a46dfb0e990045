"""Simulated histories of known truth, as series of logarithms: for `benches/history.py` and its shortened form.

Main type: `World`; `nights` makes the series of one history, `measure` says what is found in many of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from virtoll.stats.arrays import np
from virtoll.stats.change_points import change_points

Tails = Literal["normal", "t with 3 degrees of freedom", "outliers"]


@dataclass(frozen=True)
class World:
    """A kind of history. `noise`: SD of a night's logarithm; `correlation`: of neighbouring nights (AR(1)).

    `tails`: what the noise is distributed like, of the same SD; `outliers`: normal, and one night in twenty 5 SD off.
    `change`: a share by which one series becomes slower, from the night `place` on until the night `until` (None: the
    end); 0: none does. `shared`: how much of the variance all series have in common, as the host's noise is. `grows`:
    how many times as large the noise is from the middle night on.
    """

    noise: float = 0.02
    correlation: float = 0.0
    tails: Tails = "normal"
    change: float = 0.0
    place: int = 30
    until: int | None = None
    nights: int = 60
    series: int = 30
    shared: float = 0.0
    grows: float = 1.0


@dataclass(frozen=True)
class Kept:
    """Of so many histories, shares: with a false alarm, with the change found (`found`), found at its very night
    (`exact`) and within one (`near`), with its place in what was told as possible (`covered`), and with its size in the
    interval (`sized`); the last four of those found. `alarms`: false changes in all.
    """

    histories: int
    alarmed: float
    alarms: int
    found: float = 0.0
    exact: float = 0.0
    near: float = 0.0
    covered: float = 0.0
    sized: float = 0.0


_NEAR = 3  # nights: a change told further from a true one is a false alarm


def nights(world: World, seed: int) -> list[list[float]]:
    """The series of one history; the first is the one that changes."""
    dice = np.random.default_rng(seed)
    shape = (world.series + 1, world.nights)
    if world.tails == "t with 3 degrees of freedom":
        steps = dice.standard_t(3, shape) / math.sqrt(3)
    else:
        steps = dice.standard_normal(shape)
        if world.tails == "outliers":
            steps += (dice.random(shape) < 1 / 20) * 5.0 * np.sign(dice.standard_normal(shape))
    values = steps.copy()
    for night in range(1, world.nights):
        values[:, night] = (
            world.correlation * values[:, night - 1] + math.sqrt(1 - world.correlation**2) * steps[:, night]
        )
    mixed = math.sqrt(1 - world.shared) * values[1:] + math.sqrt(world.shared) * values[0]
    mixed *= world.noise
    mixed[:, world.nights // 2 :] *= world.grows
    if world.change:
        mixed[0, world.place : world.until] += math.log(1 - world.change)
    return [[float(one) for one in row] for row in mixed]


def measure(world: World, histories: int, seed: int = 1) -> Kept:
    """What is found in so many histories."""
    truths = [place for place in (world.place, world.until) if world.change and place is not None]
    found, exact, near, covered, sized, alarmed, alarms = 0, 0, 0, 0, 0, 0, 0
    for number in range(histories):
        searched = change_points(nights(world, seed * 1_000_003 + number))
        false = sum(len(one.changes or ()) for one in searched[1:])
        own = searched[0].changes or ()
        false += sum(all(abs(one.place - truth) > _NEAR for truth in truths) for one in own)
        true = [one for one in own if truths and abs(one.place - truths[0]) <= _NEAR]
        alarmed, alarms = alarmed + bool(false), alarms + false
        if true:
            found += 1
            nearest = min(true, key=lambda one: abs(one.place - truths[0]))
            exact += nearest.place == truths[0]
            near += abs(nearest.place - truths[0]) <= 1
            covered += nearest.between[0] <= truths[0] <= nearest.between[1]
            sized += nearest.interval.low <= math.log(1 - world.change) <= nearest.interval.high
    of_found: Sequence[float] = [count / max(found, 1) for count in (exact, near, covered, sized)]
    return Kept(histories, alarmed / histories, alarms, found / histories, *of_found)
