"""Which differences a run would find: by family of platforms, since an emulator is noisier than a container. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compare import Comparison


@dataclass(frozen=True)
class Detectable:
    """The smallest detectable differences of one metric on the platforms of one family, as factors above 1.

    `factor` is the median of `count` comparisons (platforms and sizes), which lie from `low` to `high`.
    """

    family: str
    metric: MetricRecord
    factor: float
    low: float
    high: float
    count: int


def detectable(comparisons: Sequence[Comparison], families: Mapping[str, str]) -> tuple[Detectable, ...]:
    """One for each family of platforms and metric that was tested, in order of first appearance.

    `families`: by platform, its label to the family.
    """
    factors: dict[tuple[str, MetricRecord], list[float]] = {}
    for comparison in comparisons:
        if comparison.smallest is not None:
            factors.setdefault((families[comparison.platform], comparison.task.metric), []).append(comparison.smallest)
    return tuple(
        Detectable(family, metric, statistics.median(smallest), min(smallest), max(smallest), len(smallest))
        for (family, metric), smallest in factors.items()
    )
