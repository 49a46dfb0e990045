"""Models of what was measured, each with its residuals and its error on what it has not seen. Pure.

All are sums of terms with coefficients that are not below 0, fitted to times by least squares of relative errors
(`nnls`): a time per frame, or its CPU time, by the frame's size; a time per job by the number of guests, or, times
their number, of virtual CPUs (Gunther 2007: in these times the universal scalability law is linear). The error
`held_out` is the largest relative one of a value that was left out of its own fit (leave-one-out, Stone 1974). Above
`MOST_HELD_OUT` a model *does not fit*, and answers nothing. Main type: `Fit`.

Gunther, N. J. (2007): Guerrilla Capacity Planning. Springer, chapters 4 to 6.
Stone, M. (1974): Cross-validatory choice and assessment of statistical predictions. Journal of the Royal Statistical
Society, Series B 36, 111-147.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

MOST_HELD_OUT = 0.10
BEYOND = 2  # the scalability law says nothing of more than so many times the largest number of guests measured


class Model(Enum):
    """Each kind: its formula in words, and the names of its coefficients, which are its terms in order."""

    FRAME_COST = ("time per frame = a + b x frame size", ("a_ns", "b_ns_per_byte"))
    SCALABILITY = (
        "time per job of each of n guests = t x (1 + sigma x (n - 1) + kappa x n x (n - 1))",
        ("t", "t_sigma", "t_kappa"),
    )
    CORES = (
        "CPU time per job on n virtual CPUs = t x (1 + sigma x (n - 1) + kappa x n x (n - 1))",
        ("t", "t_sigma", "t_kappa"),
    )

    @property
    def words(self) -> str:
        """Its formula."""
        return str(self.value[0])

    @property
    def coefficients(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(map(str, self.value[1]))

    @property
    def least(self) -> int:
        """How many different sizes it needs: one more than it has coefficients, so that one can be left out."""
        return len(self.coefficients) + 1

    def terms(self, x: float) -> tuple[float, ...]:
        """What its coefficients are multiplied with."""
        return (1.0, x) if self is Model.FRAME_COST else (1.0, x - 1, x * (x - 1))


@dataclass(frozen=True)
class Fit:
    """A model of values at `sizes`; `residual`: the largest relative one. `why_not`: why it does not fit, or empty.

    `held_out` None: too few sizes. `coefficients`: by name, in the unit of the values; none where it has too few.
    """

    model: Model
    sizes: tuple[float, ...]
    coefficients: Mapping[str, float]
    residual: float | None
    held_out: float | None
    why_not: str = ""

    @property
    def fits(self) -> bool:
        """Whether it may answer."""
        return not self.why_not

    def between(self, x: float) -> bool:
        """Whether that is within what was measured."""
        return self.sizes[0] <= x <= self.sizes[-1]

    def at(self, x: float) -> float:
        """What it says there."""
        return _sum(tuple(self.coefficients.values()), self.model, x)


def fit(model: Model, values: Mapping[float, float]) -> Fit:
    """The model of values, which are above 0, by size."""
    sizes = tuple(sorted(values))
    if len(sizes) < model.least:
        reason = f"{len(sizes)} measured, and it needs {model.least}"
        return Fit(model, sizes, {}, None, None, f"does not fit: {reason}")
    coefficients = solved(model, values)
    residual = max(abs(_sum(coefficients, model, x) / values[x] - 1) for x in sizes)
    held_out = 0.0
    for x in sizes:
        others = {y: values[y] for y in sizes if y != x}
        held_out = max(held_out, abs(predicted(model, others, x) / values[x] - 1))
    why_not = "" if held_out <= MOST_HELD_OUT else "does not fit"
    return Fit(model, sizes, dict(zip(model.coefficients, coefficients, strict=True)), residual, held_out, why_not)


def solved(model: Model, values: Mapping[float, float]) -> tuple[float, ...]:
    """The coefficients that make the sum of squared relative errors least, none below 0."""
    from scipy.optimize import nnls

    from virtoll.stats.arrays import np

    # Terms are brought to one size: those of many guests or large frames are a thousand times the others.
    terms = np.array([model.terms(x) for x in values]) / np.array([list(values.values())]).T
    scale = np.maximum(np.abs(terms).max(axis=0), np.finfo(float).tiny)
    solution, _ = nnls(terms / scale, np.ones(len(values)))
    return tuple(float(coefficient) for coefficient in solution / scale)


def predicted(model: Model, values: Mapping[float, float], x: float) -> float:
    """What the model of values says at a size."""
    return _sum(solved(model, values), model, x)


def held_out_of_blocks(logs: Sequence[float]) -> float | None:
    """How far the geometric mean of all other blocks is from each block's value, at most; None of fewer than two."""
    if len(logs) < 2:
        return None
    total = sum(logs)
    return max(math.expm1(abs((total - log) / (len(logs) - 1) - log)) for log in logs)


def geometric_mean(logs: Sequence[float]) -> float:
    """Of the logarithms of values."""
    return math.exp(statistics.fmean(logs))


def _sum(coefficients: Sequence[float], model: Model, x: float) -> float:
    return sum(coefficient * term for coefficient, term in zip(coefficients, model.terms(x), strict=True))
