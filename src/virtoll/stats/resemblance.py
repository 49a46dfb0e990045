"""Whether blocks resemble their neighbours, so that the boots of a run are not independent. Pure.

Tests and intervals take blocks as independent. Where something lasts from one block to the next, their mean is less
sure than it looks, and more blocks make it worse. The correlation of neighbouring blocks is taken over all comparisons
together, and tested against other orders of the same blocks: whole blocks change places, so that what comparisons share
stays shared. Main function: `resemblance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtoll.stats.arrays import np
from virtoll.stats.compare import Comparison, logs_of

FROM = 9  # blocks: with fewer, only the strongest correlation is found
LEVEL = 0.01
_ORDERS = 2000
_SEED = 1


@dataclass(frozen=True)
class Resemblance:
    """The correlation of neighbouring blocks, its p-value among other orders of them, and their number."""

    correlation: float
    p_value: float
    blocks: int

    @property
    def is_found(self) -> bool:
        """Whether so much would be chance in fewer than one run of a hundred."""
        return self.p_value < LEVEL


def resemblance(comparisons: Sequence[Comparison]) -> Resemblance | None:
    """Of the comparisons that have a share in each block; None where there are fewer than `FROM` blocks, or no noise.

    Each comparison counts alike, however noisy it is.
    """
    blocks = sorted({block for comparison in comparisons for block, _ in comparison.pairs})
    whole = [comparison for comparison in comparisons if len(comparison.pairs) == len(blocks) and not comparison.caveat]
    if len(blocks) < FROM or not whole:
        return None
    logs = np.array([list(logs_of(sorted(comparison.pairs)).values()) for comparison in whole])
    residuals = logs - logs.mean(axis=1, keepdims=True)
    scatter = np.sqrt((residuals**2).sum(axis=1, keepdims=True))
    varying = scatter[:, 0] > 0
    if not varying.any():
        return None
    scaled = residuals[varying] / scatter[varying]
    products = scaled.T @ scaled
    dice, in_order = np.random.default_rng(_SEED), _neighbours(products, np.arange(len(blocks)))
    as_much = 1
    for _ in range(_ORDERS):
        as_much += _neighbours(products, dice.permutation(len(blocks))) >= in_order - 1e-12
    return Resemblance(in_order / len(scaled), as_much / (1 + _ORDERS), len(blocks))


def _neighbours(products: np.ndarray, order: np.ndarray) -> float:
    """The sum of the products of neighbours in an order of the blocks."""
    return float(products[order[:-1], order[1:]].sum())
