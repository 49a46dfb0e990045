"""The experiment that would tell what a run does not, as the document of its YAML file. Pure.

Platforms and guests are the run's own, so that what is asked for can be measured where the rest was. Platforms whose
numbers are no results, or that this host has not, are left out. Main type: `Missing`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.advise.frame_sizes import FORWARD, SIZE
from virtoll.advise.need import FigureNeed, Known, Part, RouterNeed
from virtoll.advise.neighbours import load_of
from virtoll.advise.routers import SIDE_BY_SIDE
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounded_rates import ENOUGH

BLOCKS, MOST_BLOCKS = 5, 40
NUMBERS = (1, 2, 4, 8)
# Of the rate that is needed: one just below, that a platform which fails it fails, and one just above.
SHARES = (0.5, 0.98, 1.02, 1.25, 2.0)
_POINT_MS, _LONGEST_POINT_MS = 1000, 60_000
_OF_SWEEPS = ("first_rate_frames_per_second", "rate_factor", "stop_below_share")
_LOADS: Mapping[str, Mapping[str, Any]] = {"forward": {"rate_share": 0.95}}
_GIVEN = ("vcpus", "memory_bytes")


@dataclass(frozen=True)
class Missing:
    """What it would tell, in words, and the experiment; `note`: what it may not tell, or why it is so large."""

    tells: str
    document: Mapping[str, Any]
    note: str = ""


def alone(
    analysis: Analysis, parts: Sequence[Part], known: Known, platforms: Collection[str], more_blocks: int | None
) -> Missing:
    """Each part in one guest; `more_blocks`: so many more than the run had would decide, None: not known."""
    blocks = BLOCKS if more_blocks is None else max(BLOCKS, analysis.blocks + more_blocks)
    note = f"{blocks} blocks would be needed; {MOST_BLOCKS} are asked for" if blocks > MOST_BLOCKS else ""
    document = _document(analysis, known, "advise", platforms, blocks=min(blocks, MOST_BLOCKS), parts=parts)
    document["question"] = f"Is this met: {_needs(parts)}?"
    document["workloads"] = [entry for part in parts for entry in _entries(analysis, part, known)]
    return Missing("whether it is met", document, note)


def at_once(analysis: Analysis, part: Part, known: Known, platforms: Collection[str]) -> Missing:
    """The part in several guests at once: by the scenario `scale`, or routers side by side."""
    document = _document(analysis, known, "advise-guests", platforms, parts=[part])
    measured = {point.guests for point in analysis.at_once.points}
    numbers = sorted({1, *measured}) if max(measured, default=1) > 1 else NUMBERS
    document["question"] = f"How many guests meet this: {part.text}?"
    if isinstance(part, RouterNeed):
        (entry,) = _entries(analysis, part, known)
        entry |= {"workload": SIDE_BY_SIDE, "routers": list(NUMBERS[1:])}
        document["workloads"] = [entry]
    else:
        document |= {"scenario": "scale", "scale": {"guests": list(numbers)}, "rounds": 1}
        document["workloads"] = _entries(analysis, part, known)
    return Missing(f"how many guests of {part.text}", document)


def with_neighbours(analysis: Analysis, parts: Sequence[Part], known: Known, platforms: Collection[str]) -> Missing:
    """Each part beside a load that stands for the others."""
    document = _document(analysis, known, "advise-beside", platforms, parts=parts)
    document["question"] = f"Is this met side by side: {_needs(parts)}?"
    document |= {"scenario": "neighbours", "rounds": 1}
    loads = dict.fromkeys(load_of(part, known) for part in parts)
    document["neighbours"] = [{"load": load, **_LOADS.get(load, {})} for load in loads]
    document["workloads"] = [entry for part in parts for entry in _entries(analysis, part, known)]
    note = "no experiment has several loads beside one guest at once" if len(parts) > 2 and len(loads) > 1 else ""
    return Missing("whether guests side by side meet it", document, note)


def _needs(parts: Sequence[Part]) -> str:
    return " + ".join(part.text for part in parts)


def _document(
    analysis: Analysis,
    known: Known,
    name: str,
    platforms: Collection[str],
    *,
    parts: Sequence[Part],
    blocks: int = BLOCKS,
) -> dict[str, Any]:
    """Name, platforms, guest and size of an experiment; the rest is put in afterwards."""
    manifest = analysis.data.manifest
    kept = {manifest.baseline, manifest.control, *platforms}
    entries = [
        entry
        for entry in manifest.platforms
        if entry.label in kept and entry.caveat is None and entry.host in (None, _HERE)
    ]
    usable = [entry for entry in entries if entry.available or entry.label == manifest.baseline]
    baseline = manifest.baseline
    if baseline not in [entry.label for entry in usable]:
        baseline = usable[0].label if usable else "native"
    return {
        "name": name,
        "question": "",
        "platforms": [_platform(entry.label, entry.platform, entry.parameters, known) for entry in usable],
        "baseline": baseline,
        "guest": _guest(analysis, parts),
        "blocks": blocks,
        "rounds": max(1, min(100, int(manifest.experiment.get("rounds") or 1))),
    }


_HERE = "this machine"


def _platform(label: str, platform: str, parameters: Mapping[str, Any], known: Known) -> str | dict[str, Any]:
    """An entry: its name alone where nothing else is to be said."""
    chosen = _as_given(parameters, known.platforms.get(platform, {}))
    return {"platform": platform, "label": label, **chosen} if chosen or label != platform else platform


def _guest(analysis: Analysis, parts: Sequence[Part]) -> dict[str, Any]:
    """What each guest is given: the run's, or what the needs name."""
    guest = analysis.data.manifest.experiment.get("guest") or {}
    named = {key: value for part in parts for key, value in part.where.items() if key in _GIVEN}
    vcpus, memory = (named.get(key, guest.get(key)) for key in _GIVEN)
    document: dict[str, Any] = {"vcpus": vcpus or 1}
    if memory:
        document["memory"] = memory
    return document


def _entries(analysis: Analysis, part: Part, known: Known) -> list[dict[str, Any]]:
    """The workload of a part, with the parameters that the need names and else those that the run measured."""
    where = {key: value for key, value in part.where.items() if key not in _GIVEN}
    if isinstance(part, RouterNeed):
        return [{"workload": FORWARD, **where, **_rates(part, known)}]
    return _measured(analysis, part, known, where) or [{"workload": next(iter(part.asked)), **where}]


def _rates(need: RouterNeed, known: Known) -> dict[str, Any]:
    """Frames at rates around the one that is needed, each for so long that the loss would be seen."""
    per_source = need.rate / int(need.where.get("sources", 1))
    megabit = per_source / known.frames_per_second(need.frame_size_bytes, 1.0)
    slowest_ms = 1000 * ENOUGH / (need.loss * per_source * SHARES[0]) if need.loss else 0
    length = min(max(_POINT_MS, math.ceil(slowest_ms)), _LONGEST_POINT_MS)
    return {
        SIZE: need.frame_size_bytes,
        "sweep": "rates",
        "rates_mbit_per_second": [float(f"{share * megabit:.4g}") for share in SHARES],
        "point_milliseconds": length,
    }


def _measured(analysis: Analysis, need: FigureNeed, known: Known, where: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The run's own sets of parameters of the first workload that it has, with what the need names."""
    for workload in need.asked:
        entries: list[dict[str, Any]] = []
        planned = [trial.parameters for trial in analysis.data.manifest.plan.trials if trial.workload == workload]
        for parameters in planned:
            entry = {"workload": workload, **_as_given(parameters, known.workloads[workload].parameters), **where}
            if entry not in entries:
                entries.append(entry)
        if entries:
            return entries
    return []


def _as_given(parameters: Mapping[str, Any], usual: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as records have them, as a file may have them: without what is as usual, empty or of another sweep."""
    left_out = _OF_SWEEPS if parameters.get("sweep") == "rates" else ()
    kept = {key: value for key, value in parameters.items() if key not in left_out and value not in (None, [], "")}
    return {key: value for key, value in kept.items() if key not in usual or usual[key] != value}
