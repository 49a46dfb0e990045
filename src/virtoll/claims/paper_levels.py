"""How much of a paper's figure was measured: the values of each parameter here, beside those of the paper. Pure.

A figure of which one value is absent was replayed in part. Main functions: `levels_of` and `lacking_of`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from virtoll.claims.paper_figures import Part
from virtoll.runfolder.records import PlannedTrial, TrialRecord
from virtoll.stats.compared import EXTREMES, NOTHING, Against, Scalar
from virtoll.stats.readings import USUAL, VCPUS
from virtoll.stats.sides import matches

Levels = Mapping[str, tuple[Scalar, ...]]
"""The values that a parameter has, by its name."""
SEARCH: Final = frozenset({"first_rate_frames_per_second", "rate_factor", "cpu_milliseconds", "sweep"})
"""How a rate is searched for: no paper has a value of these."""
OURS: Final = SEARCH | {"point_milliseconds", "duration_milliseconds", "datagrams", "egress"}
"""These, how long it is sent, and by which links: no value is a place in a paper's figure."""


@dataclass(frozen=True)
class Lacking:
    """One parameter of which a value is absent: those here and those of the paper."""

    parameter: str
    here: tuple[Scalar, ...]
    paper: tuple[Scalar, ...]


def levels_of(part: Part, trials: Iterable[TrialRecord | PlannedTrial]) -> Levels:
    """What trials have of a part, those of the other side of its comparison too."""
    sides = [part.now.where]
    if isinstance(part.now.against, Against):
        sides.append({**part.now.where, **part.now.against.where})
    kept = []
    for trial in trials:
        if trial.workload in part.now.workloads:
            attributes = attributes_of(trial)
            if any(_is_of(attributes, side) for side in sides):
                kept.append(attributes)
    return _values(kept)


def sizes_of(trials: Iterable[TrialRecord | PlannedTrial]) -> dict[str, Levels]:
    """By workload the values of all its parameters."""
    by_workload: dict[str, list[Mapping[str, Any]]] = {}
    for trial in trials:
        by_workload.setdefault(trial.workload, []).append(attributes_of(trial))
    return dict(zip(by_workload, map(_values, by_workload.values()), strict=True))


def lacking_of(here: Levels, paper: Levels) -> Iterator[Lacking]:
    """The parameters of which a value of the paper is absent here."""
    for name, values in paper.items():
        measured = here.get(name, ())
        if name not in OURS and measured and not set(values) <= set(measured):
            yield Lacking(name, measured, values)


def attributes_of(trial: TrialRecord | PlannedTrial) -> Mapping[str, Any]:
    """A trial's parameters, and what it ran beside or with, by the names that `where` has for them."""
    attributes = {**trial.parameters, "neighbour_load": NOTHING, "guests": 1}
    if trial.scale is not None:
        attributes |= {"guests": trial.scale.guests, "vcpus": trial.scale.vcpus}
    if (condition := trial.condition) is not None:
        attributes |= {
            "neighbour_load": condition.load,
            "neighbour_guests": condition.guests,
            "neighbour_affinity": condition.affinity,
            "neighbour_platform": condition.platform,
            "neighbour_rate_share": condition.rate_share,
        }
    if attributes.get("sources") == 1:
        attributes["egress"] = USUAL["egress"]  # of one source both are the same
    for name, value in attributes.items():
        if value == VCPUS:
            attributes[name] = attributes.get("vcpus")
    return attributes


def _is_of(attributes: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    for name, expected in where.items():
        is_extreme = isinstance(expected, str) and expected in EXTREMES
        if not is_extreme and not matches(attributes.get(name), expected):
            return False
    return all(attributes.get(name, value) == value for name, value in USUAL.items() if name not in where)


def _values(cells: Sequence[Mapping[str, Any]]) -> Levels:
    """Each value once; of a list, such as the rates of a sweep, each of its values."""
    values: dict[str, dict[Scalar, None]] = {}
    for attributes in cells:
        for name, value in attributes.items():
            for level in value if isinstance(value, list | tuple) else [value]:
                if level is not None:
                    values.setdefault(name, {})[level] = None
    return {name: _in_order(levels) for name, levels in values.items()}


def _in_order(levels: Iterable[Scalar]) -> tuple[Scalar, ...]:
    """Numbers by their size; all else as it comes."""
    listed = tuple(levels)
    numbers = [level for level in listed if isinstance(level, int | float) and not isinstance(level, bool)]
    return tuple(sorted(numbers)) if len(numbers) == len(listed) else listed
