"""A workload's values over a number that an experiment gives it several of: threads, processes, requests/s. Pure.

What is over what follows from the parameters that were asked for: no workload is named here. Tasks of frames are left
out, which have figures of their own over rates, sizes and sources. Main types: `OverParameter` (one panel of a figure),
`ParameterCurve` (one platform in it).
"""

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import MetricRecord
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Parameters, Task, canonical, is_number, words_in_common

FEWEST = 3  # values: two are a comparison, and no curve
_UNLIMITED_AT_ZERO = "_bits_per_second"


@dataclass(frozen=True)
class ParameterPoint:
    """A platform's values at one value of the parameter; `cell` None: there is none."""

    value: float
    cell: CellSummary | None


@dataclass(frozen=True)
class ParameterCurve:
    """One platform at every value of the parameter, rising; at least one point has a cell."""

    platform: str
    points: tuple[ParameterPoint, ...]


@dataclass(frozen=True)
class OverParameter:
    """One metric over one parameter, everything else equal: `others` tells it in words, where it is not alone.

    `condition`: what runs beside the guest, `ALONE` where nothing does. `curves` in the platforms' order.
    """

    metric: MetricRecord
    parameter: str
    values: tuple[float, ...]
    others: str
    condition: str
    curves: tuple[ParameterCurve, ...]


def over_parameters(
    tasks: Sequence[Task],
    cells: Mapping[tuple[str, Task, str], CellSummary],
    platforms: Sequence[str],
    conditions: Sequence[str],
) -> tuple[OverParameter, ...]:
    """By workload and parameter, then by metric, by what else was asked, and by condition in the given order.

    `tasks`: what is to be seen. `cells` by platform, task and condition. A parameter counts with three values of which
    anything was measured.
    """
    measured = {task for _, task, _ in cells}
    by_workload: dict[str, dict[tuple[MetricRecord, str], Task]] = {}
    for task in tasks:
        if task in measured and task.shape is None:
            by_workload.setdefault(task.workload, {})[task.metric, task.parameters] = task
    panels = []
    for by_set in by_workload.values():
        metrics = dict.fromkeys(metric for metric, _ in by_set)
        sets = dict.fromkeys(parameters for _, parameters in by_set)
        for parameter, series in _series(sets).items():
            for metric, members in itertools.product(metrics, series):
                of_values = {value: by_set[metric, text] for value, text in members.items() if (metric, text) in by_set}
                if len(of_values) >= FEWEST:
                    panels += _panels(metric, parameter, of_values, cells, platforms, conditions)
    return tuple(panels)


def _panels(
    metric: MetricRecord,
    parameter: str,
    of_values: Mapping[float, Task],
    cells: Mapping[tuple[str, Task, str], CellSummary],
    platforms: Sequence[str],
    conditions: Sequence[str],
) -> list[OverParameter]:
    """One for each condition under which anything was measured."""
    panels = []
    for condition in conditions:
        curves = []
        for platform in platforms:
            points = tuple(
                ParameterPoint(value, cells.get((platform, task, condition))) for value, task in of_values.items()
            )
            if any(point.cell is not None for point in points):
                curves.append(ParameterCurve(platform, points))
        if curves:
            others = words_in_common(list(of_values.values()))
            panels.append(OverParameter(metric, parameter, tuple(of_values), others, condition, tuple(curves)))
    return panels


def _series(sets: Iterable[str]) -> dict[str, list[dict[float, str]]]:
    """Of a workload's sets of parameters (canonical JSON), by parameter: series of the set at each value, rising.

    The parameter with the most values goes first. Another has a series only where that holds a set that none has yet:
    of a grid the longer side is drawn over, and the shorter tells its curves apart.
    """
    groups: dict[tuple[str, str], dict[float, str]] = {}
    for text in sets:
        parameters: Parameters = json.loads(text)
        for key, number in _numbers(parameters).items():
            rest = canonical({other: value for other, value in parameters.items() if other != key})
            groups.setdefault((key, rest), {})[number] = text
    long = {place: members for place, members in groups.items() if len(members) >= FEWEST}
    most: dict[str, int] = {}
    for (key, _), members in long.items():
        most[key] = max(most.get(key, 0), len(members))
    taken: set[str] = set()
    series: dict[str, list[dict[float, str]]] = {}
    for (key, _), members in sorted(long.items(), key=lambda item: (-most[item[0][0]], item[0][0])):
        if not taken.issuperset(members.values()):
            taken.update(members.values())
            series.setdefault(key, []).append(dict(sorted(members.items())))
    return series


def _numbers(parameters: Parameters) -> dict[str, float]:
    """The parameters that are numbers; a link's rate of 0 is none: it is not limited."""
    return {
        key: float(value)
        for key, value in parameters.items()
        if is_number(value) and (value or not key.endswith(_UNLIMITED_AT_ZERO))
    }
