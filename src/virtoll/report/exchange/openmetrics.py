"""Medians as OpenMetrics 1.0 text, in base units: gauges whose names end in the unit (seconds, bytes, ratio).

A family has the medians of a metric, and two others the ends of their intervals; a lower bound has no upper end.
"""

import re
from collections.abc import Iterator, Mapping

from virtoll import units
from virtoll.report.exchange.values import Exchanged, Value, results_of
from virtoll.system.printable import printable

_BASE = {  # by a metric's unit, the unit of the family and what a value is multiplied by
    "ns": ("seconds", 1e-9),
    "bytes": ("bytes", 1.0),
    "B/s": ("bytes_per_second", 1.0),
    "bytes/s": ("bytes_per_second", 1.0),
    "Mbit/s": ("bytes_per_second", 125_000.0),
    "1/s": ("per_second", 1.0),
    "": ("ratio", 1.0),
}
_BEGUN = "virtoll_run_begun_timestamp_seconds"


def openmetrics(exchanged: Exchanged) -> str:
    """The whole exposition, with the time at which the run began."""
    manifest = exchanged.analysis.data.manifest
    run = {"run": manifest.run, "experiment": str(manifest.experiment.get("name")), "virtoll": manifest.virtoll}
    families: dict[str, list[str]] = {
        _BEGUN: [
            *_head(_BEGUN, "seconds", "When the run began."),
            f"{_BEGUN}{_labels(run)} {manifest.created_realtime_ns / 1e9!r}",
        ]
    }
    for measured, cell in results_of(exchanged.analysis):
        unit, scale = _unit(measured.task.metric.unit)
        labels = _labels(
            {
                "platform": measured.platform,
                "workload": measured.task.workload,
                "size": measured.task.size,
                "parameters": measured.task.parameters,
            }
        )
        for end, value, meaning in (
            ("", cell.median, "Median over blocks"),
            ("low", measured.low, "Lower end of the median's interval"),
            ("high", measured.high, "Upper end of the median's interval"),
        ):
            if value is not None:
                name = _name(measured, end, unit)
                words = f"{meaning}: {units.metric_words(measured.task.metric.name)}."
                family = families.setdefault(name, list(_head(name, unit, words)))
                family.append(f"{name}{labels} {value * scale!r}")
    return "\n".join([line for lines in families.values() for line in lines] + ["# EOF"]) + "\n"


def _head(name: str, unit: str, words: str) -> Iterator[str]:
    yield f"# TYPE {name} gauge"
    yield f"# UNIT {name} {unit}"
    yield f"# HELP {name} {_escaped(words)}"


def _unit(unit: str) -> tuple[str, float]:
    if unit in _BASE:
        return _BASE[unit]
    return _plain(unit.replace("/s", " per second")), 1.0


def _name(value: Value, end: str, unit: str) -> str:
    """'virtoll_duration_seconds', 'virtoll_duration_low_seconds'; a unit that the metric names is not there twice."""
    stem = _plain(value.task.metric.name.removesuffix("_ns"))
    stem = "" if stem == unit else stem.removesuffix(f"_{unit}")
    return "_".join(filter(None, ("virtoll", stem, end, unit)))


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _labels(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    """Control characters written out, and then what stands for itself in quotes."""
    return printable(text).replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
