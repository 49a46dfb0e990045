"""Medians for github-action-benchmark and for Bencher, as their JSON has them.

github-action-benchmark reads a file of each direction (`customSmallerIsBetter`, `customBiggerIsBetter`); Bencher's
Metric Format has a value and its ends for each measure of each benchmark.
"""

import json
from typing import Any, Final

from virtoll.report.exchange.values import Exchanged, Value, results_of
from virtoll.stats.summaries import CellSummary

_MOST_OF_A_BENCHMARK: Final = 1024  # letters that Bencher takes
_MOST_OF_A_MEASURE: Final = 64


def smaller_is_better(given: Exchanged) -> str:
    """Times and costs, for `customSmallerIsBetter`."""
    return _of_direction(given, "lower")


def bigger_is_better(given: Exchanged) -> str:
    """Rates, for `customBiggerIsBetter`."""
    return _of_direction(given, "higher")


def _of_direction(given: Exchanged, better: str) -> str:
    own = [_entry(one, cell) for one, cell in results_of(given.analysis) if one.task.metric.better == better]
    return json.dumps(own, indent=1) + "\n"


def _entry(one: Value, cell: CellSummary) -> dict[str, Any]:
    found: dict[str, Any] = {"name": one.name, "unit": one.task.metric.unit or "share", "value": cell.median}
    if one.low is not None:
        found["range"] = f"{one.low:.6g} to {one.high:.6g}" if one.high is not None else f"at least {one.low:.6g}"
    extra = [f"{cell.blocks} block{'' if cell.blocks == 1 else 's'}", f"parameters {one.task.parameters}"]
    return found | {"extra": "; ".join([*extra, *(["a lower bound"] if one.lower_bound else [])])}


def bencher(given: Exchanged) -> str:
    """Bencher's Metric Format: an end that is not known is left out."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for one, cell in results_of(given.analysis):
        metric = one.task.metric
        ends = {"lower_value": one.low, "upper_value": one.high}
        measure = f"{metric.name} ({metric.unit})" if metric.unit else metric.name
        found.setdefault(_cut(one.benchmark, _MOST_OF_A_BENCHMARK), {})[_cut(measure, _MOST_OF_A_MEASURE)] = {
            "value": cell.median,
            **{key: end for key, end in ends.items() if end is not None},
        }
    return json.dumps(found, indent=1) + "\n"


def _cut(name: str, most: int) -> str:
    """Of a longer name the beginning and the end, which tell it from others."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"
