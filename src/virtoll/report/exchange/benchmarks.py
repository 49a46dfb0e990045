"""Medians for github-action-benchmark and for Bencher, as their JSON has them.

github-action-benchmark reads a file of each direction (`customSmallerIsBetter`, `customBiggerIsBetter`); Bencher's
Metric Format has a value and its ends for each measure of each benchmark.
"""

import json
from typing import Any, Final

from virtoll.report import words
from virtoll.report.exchange.values import Exchanged, Value, results_of
from virtoll.stats.summaries import CellSummary

_MOST_OF_A_BENCHMARK: Final = 1024  # letters that Bencher takes
_MOST_OF_A_MEASURE: Final = 64


def smaller_is_better(exchanged: Exchanged) -> str:
    """Times and costs, for `customSmallerIsBetter`."""
    return _of_direction(exchanged, "lower")


def bigger_is_better(exchanged: Exchanged) -> str:
    """Rates, for `customBiggerIsBetter`."""
    return _of_direction(exchanged, "higher")


def _of_direction(exchanged: Exchanged, better: str) -> str:
    entries = [
        _entry(value, cell) for value, cell in results_of(exchanged.analysis) if value.task.metric.better == better
    ]
    return json.dumps(entries, indent=1) + "\n"


def _entry(value: Value, cell: CellSummary) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": value.name, "unit": value.task.metric.unit or "share", "value": cell.median}
    if value.low is not None:
        entry["range"] = (
            f"{value.low:.6g} to {value.high:.6g}" if value.high is not None else f"at least {value.low:.6g}"
        )
    extra = [words.counted(cell.blocks, "block"), f"parameters {value.task.parameters}"]
    return entry | {"extra": "; ".join([*extra, *(["a lower bound"] if value.lower_bound else [])])}


def bencher(exchanged: Exchanged) -> str:
    """Bencher's Metric Format: an end that is not known is left out."""
    benchmarks: dict[str, dict[str, dict[str, float]]] = {}
    for value, cell in results_of(exchanged.analysis):
        metric = value.task.metric
        ends = {"lower_value": value.low, "upper_value": value.high}
        measure = f"{metric.name} ({metric.unit})" if metric.unit else metric.name
        benchmarks.setdefault(_cut(value.benchmark, _MOST_OF_A_BENCHMARK), {})[_cut(measure, _MOST_OF_A_MEASURE)] = {
            "value": cell.median,
            **{key: end for key, end in ends.items() if end is not None},
        }
    return json.dumps(benchmarks, indent=1) + "\n"


def _cut(name: str, most: int) -> str:
    """Of a longer name the beginning and the end, which tell it from others."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"
