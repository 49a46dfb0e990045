"""Which of a run's cells a comparison is about, and which pairs of them it compares. Pure.

Main functions: `sides_of` (the cells, or in words what the run has not), `nic_kind` (what kind a platform's network
interface is) and `family_of` (what kind its guests are).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from virtoll.runfolder.records import Manifest, PlatformEntry
from virtoll.stats.compared import EXTREMES, NOTHING, Against, Compared, Each, PlatformFilter, Range, Reading
from virtoll.stats.readings import NEIGHBOUR_LOAD, USUAL, Cell, by_vcpus, differing, is_of_neighbours

PARAVIRTUAL_NICS = frozenset({"virtio", "virtio-net", "vmxnet3", "netfront"})
EMULATED_NICS = frozenset({"e1000", "e1000e", "82540EM", "82545EM", "rtl8139", "pcnet", "vlance"})
# One driver may have guests of several families.
_FAMILIES: tuple[tuple[str, Mapping[str, Any], str], ...] = (
    ("xen", {"type": "hvm"}, "hardware-assisted"),
    ("libvirt", {"domain_type": "kvm"}, "hardware-assisted"),
    ("libvirt", {"uri": "lxc:///system"}, "os-level"),
    ("libvirt", {"uri": "xen:///system"}, "paravirtualised"),
)
_ASSISTED = frozenset({"hardware-assisted", "paravirtualised"})
CellsOf = Callable[[Reading, float | None], Sequence[Cell]]
Sides = tuple[Cell, Cell | None]


def sides_of(compared: Compared, manifest: Manifest, cells_of: CellsOf) -> list[Sides] | str:
    """What is compared: each cell with each of its counterparts, or alone; a text says what the run lacks."""
    against = Against(platforms="baseline") if compared.against == "baseline" else compared.against
    free = {*compared.where, *compared.ignoring, *(against.where if against else ())}
    cells = _measured(compared, manifest, cells_of, free)
    if isinstance(cells, str):
        return cells
    if against is None:
        return [(cell, None) for cell in cells]
    others = _of_other_side(compared, against, cells_of, free)
    if isinstance(others, str):
        return others
    may_differ = _with_followers({*against.where, *compared.ignoring})
    pairs: list[Sides] = []
    for cell in cells:
        counterparts = [
            other
            for other in others
            if _is_counterpart(against, cell, other, manifest)
            and differing(cell, other) <= may_differ | _follows(cell, other, may_differ)
        ]
        pairs += [(cell, other) for other in _next(cell, counterparts, against)]
    return pairs or "the run has nothing that it could be compared with"


def _measured(compared: Compared, manifest: Manifest, cells_of: CellsOf, free: set[str]) -> list[Cell] | str:
    """The cells of the measured side; a text says what the run lacks."""
    named = " or ".join(compared.workloads)
    metrics = _listed(compared.metric)
    cells = [
        cell
        for cell in cells_of(compared.reading, compared.link_mbit_per_second)
        if _is_of(cell, compared.workloads, metrics)
    ]
    if not cells:
        what = " or ".join(metrics).replace("_", " ")
        if not metrics and compared.reading is not Reading.VALUE:
            what = compared.reading.replace("-", " ")
        if compared.link_mbit_per_second is not None:
            what = f"of what a link of {compared.link_mbit_per_second:g} Mbit/s carries"
        return f"the run has no value of {named} ({what})" if what else f"the run has no value of {named}"
    cells = [cell for cell in cells if is_wanted(cell.platform, compared.platforms, manifest)]
    if not cells:
        return f"{named} was not measured on a platform that this is about"
    selected = _selected(cells, compared.where, free)
    if not selected:
        return f"{named} was not measured {_lacking(cells, compared.where)}"
    if compared.per is not None and not all(cell.number(compared.per) for cell in selected):
        return f"{named} has no {compared.per.replace('_', ' ')} that its values could be divided by"
    return selected


def _of_other_side(compared: Compared, against: Against, cells_of: CellsOf, free: set[str]) -> list[Cell] | str:
    """The cells that may stand on the other side; a text says which of its attributes the run lacks."""
    workloads = compared.workloads if against.workload is None else (against.workload,)
    metrics = _listed(compared.metric if _has_same_metric(against) else against.metric)
    where = _where_of_the_others(compared.where, against.where)
    reading = against.reading or compared.reading
    measured = [cell for cell in cells_of(reading, compared.link_mbit_per_second) if _is_of(cell, workloads, metrics)]
    others = _selected(measured, where, free)
    if measured and not others and against.where:
        named = " or ".join(workloads)
        lacking = _lacking(measured, where)
        return f"the run has nothing that it could be compared with: {named} was not measured {lacking}"
    return others


def _has_same_metric(against: Against) -> bool:
    return against.metric is None and against.workload is None


def _lacking(cells: Sequence[Cell], where: Mapping[str, Any]) -> str:
    """In words the first thing asked for that no cell has, or the first of them that none has together."""
    exact = {key: value for key, value in where.items() if not _is_extreme(value)}
    for key, value in exact.items():
        if not _with(cells, key, value):
            return f"with {key.replace('_', ' ')} {_in_words(value)}"
    texts: list[str] = []
    for key, value in exact.items():
        cells = _with(cells, key, value)
        texts.append(f"{key.replace('_', ' ')} {_in_words(value)}")
        if not cells:
            return f"with {', '.join(texts)} at once"
    return "in the way that this asks for"


def _with(cells: Iterable[Cell], key: str, value: object) -> list[Cell]:
    """The cells that have a value of an attribute, or one of those that count."""
    return [cell for cell in cells if matches(cell.attributes.get(key), value)]


def _in_words(expected: object) -> str:
    """One value, several or a range: '2', '64 or 68', 'at least 500 and at most 1004'."""
    if isinstance(expected, Range):
        ends = (("at least", expected.at_least), ("at most", expected.at_most))
        return " and ".join(f"{words} {value:g}" for words, value in ends if value is not None)
    if isinstance(expected, Each):
        expected = expected.each
    return " or ".join(map(str, expected)) if isinstance(expected, list) else str(expected)


def not_measured(compared: Compared, sides: Sequence[Sides], *, any_platform: bool) -> str:
    """In words which of the values that must each be measured is not among the sides; empty if all are.

    Each platform among them must have all the values; `any_platform`: all platforms together must.
    """
    for key, value in compared.where.items():
        if not isinstance(value, Each):
            continue
        measured: dict[str, list[Any]] = {}
        for cell, _ in sides:
            measured.setdefault(cell.platform, []).append(cell.attributes.get(key))
        name = key.replace("_", " ")
        nowhere = _missing(value, list(chain.from_iterable(measured.values())))
        if nowhere:
            return f"not measured with {name} {nowhere}"
        for platform, values in measured.items():
            lacking = _missing(value, values)
            if lacking and not any_platform:
                return f"not measured with {name} {lacking} on {platform}"
    return ""


def _missing(choices: Each, measured: Sequence[Any]) -> str:
    return ", ".join(str(choice) for choice in choices.each if choice not in measured)


def is_wanted(platform: str, platforms: PlatformFilter | str, manifest: Manifest) -> bool:
    """Whether a platform is asked for: the baseline, or those of a filter other than it and its A/A control."""
    if isinstance(platforms, str):
        return platform == manifest.baseline
    if platform in (manifest.baseline, manifest.control):
        return False
    return any(entry.label == platform and _passes(entry, platforms) for entry in manifest.platforms)


def nic_kind(entry: PlatformEntry) -> str | None:
    """What kind a platform's network interface is; None where its guests have one of the host's kernel.

    Xen's para-virtualised guests have one of that kind without naming it.
    """
    nic = entry.parameters.get("nic")
    if entry.parameters.get("attachment") == "passthrough":
        return "passthrough"
    if family_of(entry) == "os-level":
        return None
    if nic in PARAVIRTUAL_NICS or (entry.platform == "xen" and entry.parameters.get("type") in ("pv", "pvh")):
        return "para-virtualised"
    return "emulated" if nic in EMULATED_NICS else None


def family_of(entry: PlatformEntry) -> str:
    """A platform's family, by what its guests are."""
    for product, parameters, family in _FAMILIES:
        if entry.platform == product and parameters.items() <= entry.parameters.items():
            return family
    return entry.family


def nested_guests(manifest: Manifest) -> dict[str, str]:
    """Platforms of this machine whose guests are nested, by label with why: they need what a CPU lends to guests."""
    hypervisor = manifest.host.get("hypervisor")
    if not hypervisor:
        return {}
    why = f"its host is itself a virtual machine ({hypervisor})"
    return {entry.label: why for entry in manifest.platforms if entry.is_here and family_of(entry) in _ASSISTED}


def _passes(entry: PlatformEntry, platforms: PlatformFilter) -> bool:
    pairs = (
        (entry.label, platforms.label),
        (entry.platform, platforms.product),
        (family_of(entry), platforms.family),
        (nic_kind(entry), platforms.nic),
        *((entry.parameters.get(name), value) for name, value in platforms.parameters.items()),
    )
    if not all(value is None or matches(actual, value) for actual, value in pairs):
        return False
    return not any(_passes(entry, other) for other in platforms.but_not)


def _is_of(cell: Cell, workloads: Sequence[str], metrics: Sequence[str]) -> bool:
    """Whether a cell is of one of these workloads and metrics; without a name of one, of the primary metric."""
    metric = cell.task.metric
    return cell.task.workload in workloads and (metric.name in metrics if metrics else metric.primary)


def _listed(names: str | Sequence[str] | None) -> list[str]:
    return [names] if isinstance(names, str) else list(names or ())


def _where_of_the_others(measured: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """What the other side must have: all that the measured one has, but for what is given there.

    Where nothing is to be beside it, nothing else is told of what is beside it.
    """
    where = {key: value for key, value in {**measured, **others}.items() if value != "next"}
    if where.get(NEIGHBOUR_LOAD) == NOTHING:
        return {key: value for key, value in where.items() if key == NEIGHBOUR_LOAD or not is_of_neighbours(key)}
    return where


def _selected(cells: Iterable[Cell], where: Mapping[str, Any], free: set[str]) -> list[Cell]:
    """Cells with the attributes that are asked for, and with the usual ones where a test names none.

    Then, where the least or the most is asked for, of those that differ in nothing else the ones that have it.
    """
    selected = list(cells)
    for key, value in where.items():
        if not _is_extreme(value):
            selected = _with(selected, key, value)
    for key, value in USUAL.items():
        if key not in free:
            selected = [cell for cell in selected if _is_usual(cell, key, value)]
    for key, value in where.items():
        if _is_extreme(value):
            selected = _extremes(selected, key, min if value == "least" else max)
    return selected


def _extremes(cells: Sequence[Cell], key: str, pick: Callable[[Iterable[float]], float]) -> list[Cell]:
    """Of cells that differ in one attribute alone, those with its least or largest number."""
    groups: dict[str, list[tuple[float, Cell]]] = {}
    for cell in cells:
        number = cell.number(key)
        if number is not None:
            groups.setdefault(_rest(cell, key), []).append((number, cell))
    selected = []
    for ranked in groups.values():
        extreme = pick(number for number, _ in ranked)
        selected += [cell for number, cell in ranked if number == extreme]
    return selected


def _is_usual(cell: Cell, key: str, value: object) -> bool:
    """Whether a cell has the usual value of an attribute; a source alone has one egress link in any case."""
    alone = key == "egress" and cell.number("sources") == 1
    return alone or bool(cell.attributes.get(key, value) == value)


def _rest(cell: Cell, key: str) -> str:
    """What tells a cell from all that differ from it in one attribute alone, and in those that follow from it."""
    follows = _with_followers({key}) | by_vcpus(cell)
    rest = {name: value for name, value in cell.attributes.items() if name not in follows}
    return json.dumps([cell.platform, cell.task.workload, cell.task.metric.name, rest], sort_keys=True)


def _with_followers(keys: set[str]) -> set[str]:
    """With what changes with them: of fewer guests each may have more memory (Camargos et al. 2008, Table 4)."""
    return keys | ({"memory_bytes"} if "guests" in keys else set())


def _follows(cell: Cell, other: Cell, may_differ: set[str]) -> set[str]:
    """All attributes of neighbours differ where one cell has neighbours and the other does not."""
    if NEIGHBOUR_LOAD not in may_differ or cell.attributes[NEIGHBOUR_LOAD] == other.attributes[NEIGHBOUR_LOAD]:
        return set()
    return {name for name in (*cell.attributes, *other.attributes) if is_of_neighbours(name)}


def _is_counterpart(against: Against, cell: Cell, other: Cell, manifest: Manifest) -> bool:
    """Whether a cell may stand on the other side by its metric and its platform."""
    if cell.task.metric != other.task.metric and _has_same_metric(against):
        return False
    if against.platforms is None:
        return cell.platform == other.platform and (cell.key != other.key or against.reading is not None)
    if cell.platform == other.platform or not is_wanted(other.platform, against.platforms, manifest):
        return False
    if not against.same_product:
        return True
    entries = {entry.label: entry for entry in manifest.platforms}
    first, second = entries[cell.platform], entries[other.platform]
    same_product = (first.platform, first.host) == (second.platform, second.host)
    return same_product and _unnamed(first, against) == _unnamed(second, against)


def _unnamed(entry: PlatformEntry, against: Against) -> dict[str, Any]:
    """A platform's parameters but for those by which the other side is chosen."""
    platforms = against.platforms
    if not isinstance(platforms, PlatformFilter):
        return dict(entry.parameters)
    named = set(platforms.parameters)
    if platforms.nic is not None:
        named.add("nic")
    return {name: value for name, value in entry.parameters.items() if name not in named}


def _next(cell: Cell, others: Sequence[Cell], against: Against) -> list[Cell]:
    """Those with the next larger value of each attribute of which the next is asked for."""
    counterparts = list(others)
    for key, value in against.where.items():
        if value != "next":
            continue
        at = cell.number(key)
        if at is None:
            return []
        numbers = [number for other in counterparts if (number := other.number(key)) is not None]
        following = min((number for number in numbers if number > at), default=math.inf)
        counterparts = [other for other in counterparts if other.number(key) == following]
    return counterparts


def _is_extreme(value: object) -> bool:
    return isinstance(value, str) and value in EXTREMES


def matches(value: object, expected: object) -> bool:
    """Whether a value is one that is asked for: it, one of several, or one of a range."""
    if isinstance(expected, Range):
        return expected.holds(value)
    if isinstance(expected, Each):
        return value in expected.each
    return value in expected if isinstance(expected, list) else value == expected
