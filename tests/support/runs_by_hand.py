"""Two runs whose jobs take a few given milliseconds, with what a comparison of them by hand needs."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tests.support.by_hand import clock
from tests.support.made_up_run import Made, made_up_run
from tests.support.small_run import manifested

from virtoll.runfolder.campaign_records import HostRecord
from virtoll.stats.analysis import Analysis, analyse
from virtoll.stats.between_runs import By
from virtoll.stats.compare import Comparison, Pair
from virtoll.stats.intervals import Interval

Durations = Mapping[str, Mapping[str, Sequence[float]]]
"""By label and workload what the job took in each block, ms."""

COST: By = "cost"
VALUES: By = "values"
PI, MASR = "superpi", "masr"
RUNC = Pair("runc", "runc")
NATIVE, AGAIN, SLOW = [100.0, 104, 98, 101], [103.0, 99, 100, 102], [120.0, 126, 119, 121]
LATER, LATER_AGAIN, SLOWER = [110.0, 109, 112], [108.0, 111, 110], [151.0, 149, 155]
NETNS, LATER_NETNS = [110.0, 112, 109, 111], [119.0, 120, 121]


def run(
    durations: Durations, *, baseline: str | None = "native", metric: Mapping[str, Any] | None = None, **changed: Any
) -> Analysis:
    """The run that measured just that. `metric`: by workload what its metric has instead; `changed`: the manifest."""
    made = [
        Made(label, workload, blocks=len(own)) for label, each in durations.items() for workload, own in each.items()
    ]
    kinds: dict[str, dict[str, Any]] = {
        label: {"platform": "native-again"} if label == "again" else {} for label in durations
    }
    blocks = max(len(own) for each in durations.values() for own in each.values())
    data = made_up_run(kinds, made, baseline=baseline, blocks=blocks)
    trials = (
        one.replace(clock=clock(round(durations[one.platform][one.workload][one.block] * 1e6))) for one in data.trials
    )
    metrics = tuple(one.replace(**(metric or {}).get(one.workload, {})) for one in data.manifest.metrics)
    manifest = data.manifest.replace(metrics=metrics, **changed)
    return analyse(replace(data, trials=tuple(trials), manifest=manifest))


def with_manifest(analysis: Analysis, **changed: Any) -> Analysis:
    return analyse(manifested(analysis.data, **changed))


def only(comparisons: Sequence[Comparison]) -> Comparison:
    (one,) = comparisons
    return one


def logs(durations: Sequence[float], *base: Sequence[float]) -> list[float]:
    """Of each block, the log of the share of the performance of `base`, whose geometric mean counts; of the job's own
    performance without.
    """
    means = [statistics.fmean(math.log(value) for value in each) for each in zip(*base, strict=True)]
    return [mean - math.log(value) for mean, value in zip(means or [0.0] * len(durations), durations, strict=True)]


def bounds(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def merged(analysis: Analysis, *fingerprints: str) -> Analysis:
    """The run as if each of its blocks were of the host with such a fingerprint."""
    manifest = analysis.data.manifest
    hosts = tuple(
        HostRecord(
            f"host-{each[0]}",
            {**manifest.host, "fingerprint": each},
            tuple(block for block, own in enumerate(fingerprints) if own == each),
        )
        for each in dict.fromkeys(fingerprints)
    )
    return with_manifest(analysis, hosts=hosts)
