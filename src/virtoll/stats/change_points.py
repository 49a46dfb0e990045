"""Where series of values change their level: E-divisive means, with a permutation test that holds a stated level.

A series is split where the means after a place, up to some end, and before it differ by the most standard errors: the
hierarchical search of Matteson and James (2014, Journal of the American Statistical Association 109:334) with squared
distances, which asks for means alone. How many standard errors chance gives is found by random orders of the same
values, so that the level holds whatever they are distributed like. What was split is searched again. Values further
than three robust standard deviations from the median count as that far: one bad run is no change.

Random orders spread noise that grows over time evenly, so that its late half looks like changes. So the difference is
counted in standard errors by the noise on both sides of the split, if these are larger (Welch 1947, Biometrika 34:28).

Runs that resemble their neighbours look like changes to any such test. What a value has from the one before is taken
away before the test (prewhitening: Serinaldi and Kilsby 2016, Stochastic Environmental Research and Risk Assessment
30:763). The place of a change is that of the values as they are.

All series together have one level: each has its equal part (Bonferroni), and so have the stretches that are tested at a
time. Main types: `ChangePoint`, `Searched`; main function: `change_points`. Pure, and the same each time.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from virtoll.stats.arrays import ndtri, np
from virtoll.stats.intervals import CONFIDENCE, Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

LEVEL: Final = 0.05
LEAST: Final = 5  # values on either side of a change: below, a median and its interval say next to nothing
_ORDERS: Final = 20  # how many random orders are beyond a statistic that is just at the level
_FIRST: Final = 500  # random orders that are tried at first
_AT_ONCE: Final = 1_000_000  # values that are shuffled at a time
_ROUNDING: Final = 1e-9
_REACH: Final = 3.0  # robust standard deviations
_SD_OF_MAD: Final = 1.4826  # of normal values
_MOST_CORRELATION: Final = 0.95
_CAUTION: Final = 0.5  # standard errors by which more is taken away than the correlation: too little is a false alarm
_ACCIDENT: Final = 1.645  # standard errors of a correlation that one series in twenty has by accident
_NOISE_OF: Final = 20  # values that the noise of a side is taken from, the nearest of the other side's if it has fewer
_ENDS: Final = 24  # about how many ends are tried after a place
_WITHIN: Final = (
    7.35  # of the likelihood-ratio statistic of a place, at 95 % (Hansen 2000, Econometrica 68:575, table 1)
)


@dataclass(frozen=True)
class ChangePoint:
    """A change of the level between two neighbouring values.

    `place`: how many values are before it. `between`: the first and the last place that the values leave possible, at
    95 %. `shift`: by how much the level after it is above that before, in the values' unit, with the interval of this
    change alone (Hodges and Lehmann; of the stretches on either side). `p_adjusted`: for all series together.
    """

    place: int
    between: tuple[int, int]
    shift: float
    interval: Interval
    p_adjusted: float


@dataclass(frozen=True)
class Searched:
    """What one series shows. `correlation`: of neighbours about their level; `alike`: it is no accident.

    `changes`: in order; None where there are too few values to tell any (`fewest`), and `correlation` too.
    """

    changes: tuple[ChangePoint, ...] | None
    correlation: float | None
    alike: bool


@lru_cache(maxsize=64)
def fewest(series: int, level: float = LEVEL) -> int:
    """With how many values a change can be told at all where so many series are searched: 11 or more.

    It can where one in the middle, far above the noise, is rare enough by chance.
    """
    part, number = level / max(series, 1), 2 * LEAST
    while True:
        noise = np.arange(number) % 3 / 1e3
        noise[(number + 1) // 2 :] += 1
        if _chance(noise, 1 / part) <= part:
            return number + 1  # the first one is used up where neighbours resemble each other
        number += 1


def change_points(series: Sequence[Sequence[float]], level: float = LEVEL) -> list[Searched]:
    """The changes of each series, which has its values in the order of time.

    `level`: the chance that any change is told of any of these series where there is none.
    """
    least = fewest(len(series), level)
    return [_searched(np.asarray(values, dtype=float), level, len(series), least) for values in series]


def _searched(values: Array, level: float, family: int, least: int) -> Searched:
    if len(values) < least:
        return Searched(None, None, False)
    correlation, error = _correlation(values), 1 / math.sqrt(len(values))
    taken = min(max(correlation + _CAUTION * error, 0.0), _MOST_CORRELATION)
    p_values = _segmented(values, level / family, taken)
    places = sorted(p_values)
    ends = [0, *places, len(values)]
    changes = [
        _described(values[low:high], place - low, low, min(p_values[place] * family, 1.0))
        for low, place, high in zip(ends[:-2], places, ends[2:], strict=True)
    ]
    return Searched(tuple(changes), correlation, correlation > _ACCIDENT * error)


def _segmented(values: Array, part: float, correlation: float) -> dict[int, float]:
    """The places at which a series is split, each with its p-value; at this level, and with this correlation."""
    p_values: dict[int, float] = {}
    while True:
        ends = [0, *sorted(p_values), len(values)]
        stretches = [(low, high) for low, high in itertools.pairwise(ends) if high - low > 2 * LEAST]
        if not stretches:
            return p_values
        tested = []
        for low, high in stretches:
            p_value, place = _best(values[low:high], correlation, len(stretches) / part)
            tested.append((p_value * len(stretches), low + place))
        p_value, place = min(tested)
        if p_value > part:
            return p_values
        p_values[place] = max(p_value, *p_values.values(), 0.0)  # none is surer than that after which it was looked for


def _best(values: Array, correlation: float, rarity: float) -> tuple[float, int]:
    """The p-value of the likeliest change of a stretch, and its place. `rarity`: one in so many decides."""
    whitened = values[1:] - correlation * values[:-1] if correlation > 0 else values
    return _chance(_near(whitened), rarity), _likeliest(values)


def _likeliest(values: Array) -> int:
    """How many values are before the place that splits a stretch best."""
    return int(_scan(_near(values)[None, :])[1][0])


def _near(values: Array) -> Array:
    """The values, those that are further from the median than noise goes as far as that; in any order the same."""
    centre = np.median(values)
    reach = _REACH * _SD_OF_MAD * float(np.median(np.abs(values - centre)))
    return np.clip(values, centre - reach, centre + reach) if reach > 0 else values


def _chance(values: Array, rarity: float) -> float:
    """How rarely random orders of these values look as much like a change; as fine as one in `rarity` needs it.

    It ends early where so many do that it decides nothing (Besag and Clifford 1991, Biometrika 78:301).
    """
    orders = math.ceil(_ORDERS * rarity)
    furthest, places, ends = _scan(values[None, :])
    statistic = float(furthest[0]) / _unevenness(values[: ends[0]], int(places[0]))
    dice, tried, beyond = np.random.default_rng(len(values)), 0, 0
    while tried < orders and beyond < _ORDERS:
        rows = min(orders - tried, max(tried, _FIRST), max(_AT_ONCE // len(values), 1))
        shuffled = dice.permuted(np.tile(values, (rows, 1)), axis=1)
        beyond += int((_scan(shuffled)[0] >= statistic - _ROUNDING).sum())
        tried += rows
    return (1 + beyond) / (1 + tried)


def _unevenness(values: Array, place: int) -> float:
    """How many times as far the means before and after a place scatter as they would by even noise; not below 1."""
    number = len(values)
    noise = np.concatenate([values[:place] - values[:place].mean(), values[place:] - values[place:].mean()]) ** 2
    before, after = noise[: max(place, _NOISE_OF)], noise[min(place, max(number - _NOISE_OF, 0)) :]
    even = noise.sum() / (number - 2) * (1 / place + 1 / (number - place))
    if even == 0:
        return 1.0
    of_sides = before.sum() / ((len(before) - 1) * place) + after.sum() / ((len(after) - 1) * (number - place))
    return max(1.0, math.sqrt(of_sides / even))


def _correlation(values: Array) -> float:
    """What a value has from the one before, as a share of its distance from its level; below 0 where they alternate.

    The levels are those of the stretches that a first search finds, which takes values for independent and is easily
    content, and of both sides of the likeliest change in each: so no change is taken for a correlation. Taking so many
    means away makes the correlation smaller, which is corrected for (Kendall 1954, Biometrika 41:403).
    """
    ends = [0, *sorted(_segmented(values, LEVEL, 0.0)), len(values)]
    more = [low + _likeliest(values[low:high]) for low, high in itertools.pairwise(ends) if high - low >= 2 * LEAST]
    ends = sorted({*ends, *more})
    stretches = [values[low:high] for low, high in itertools.pairwise(ends)]
    left = np.concatenate([stretch - stretch.mean() for stretch in stretches])
    squares = float((left**2).sum())
    correlation = float((left[1:] * left[:-1]).sum()) / squares if squares > 0 else 0.0
    return correlation + (len(stretches) * (1 + correlation) + 2 * correlation) / len(values)


def _scan(rows: Array) -> tuple[Array, NDArray[np.int64], NDArray[np.int64]]:
    """Of each row, all of the same values, the statistic, and how many values are before its place and before its end.

    It is the largest difference of the means after a place, up to some end, and before it, in its standard errors under
    random order. Ends before the last value find what is soon undone.
    """
    number = rows.shape[1]
    sums = np.cumsum(rows, axis=1)
    spread = float(rows[0].std(ddof=1)) or 1.0
    statistic, best, until = np.zeros(len(rows)), np.full(len(rows), LEAST), np.full(len(rows), number)
    for end in _ends(number):
        places = np.arange(LEAST, end - LEAST + 1)
        before = sums[:, places - 1]
        far = np.abs((sums[:, end - 1 : end] - before) / (end - places) - before / places)
        far /= spread * np.sqrt(1 / places + 1 / (end - places))
        nearest = far.argmax(axis=1)
        furthest = far[np.arange(len(far)), nearest]
        best = np.where(furthest > statistic, places[nearest], best)
        until = np.where(furthest > statistic, end, until)
        statistic = np.maximum(statistic, furthest)
    return statistic, best, until


def _ends(number: int) -> list[int]:
    """Up to where a level is looked at after a place: the last value, and at most so many ends before it."""
    return list(range(number, 2 * LEAST - 1, -max(LEAST, math.ceil(number / _ENDS))))


def _described(values: Array, place: int, begins: int, p_adjusted: float) -> ChangePoint:
    """One change of a stretch in which there is no other, and how large it is."""
    shift, interval = shift_between(values[:place].tolist(), values[place:].tolist())
    low, high = _possible(values, place)
    return ChangePoint(begins + place, (begins + low, begins + high), shift, interval, p_adjusted)


def _possible(values: Array, place: int) -> tuple[int, int]:
    """The places that the likelihood ratio of a change of the mean does not rule out, and the place itself."""
    number = len(values)
    places = np.arange(1, number)
    sums, total = np.cumsum(values)[:-1], values.sum()
    between = (sums - places * total / number) ** 2 * number / (places * (number - places))
    left = float(((values - values.mean()) ** 2).sum()) - between
    noise = float(left.min()) / (number - 2)
    possible = places[left - left.min() <= _WITHIN * noise]
    return min(int(possible[0]), place), max(int(possible[-1]), place)


def shift_between(
    before: Sequence[float], after: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, Interval]:
    """By how much values after are above those before: the median of all differences, and its rank-sum interval.

    Hodges and Lehmann (1963); Hollander, Wolfe and Chicken (2014), 4.2 and 4.3, by the normal approximation.
    """
    differences = np.sort(np.subtract.outer(np.asarray(after), np.asarray(before)).ravel())
    number = len(before) * len(after)
    spread = math.sqrt(number * (len(before) + len(after) + 1) / 12)
    rank = max(math.floor(number / 2 - float(ndtri((1 + confidence) / 2)) * spread), 1)
    ends = float(differences[rank - 1]), float(differences[number - rank])
    return statistics.median(differences.tolist()), Interval(*ends, confidence, "Hodges and Lehmann")
