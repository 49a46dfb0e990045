"""What of a run can be compared, in one form: a value for each platform, task and circumstance, round by round. Pure.

Main type: `Cell`. Its `attributes` are all that a test's `where` can name: the workload's parameters, and

- `guests`, `vcpus`, `memory_bytes`: how many guests did the same at once, and of which size;
- `neighbour_load`: the load of its neighbours, or `nothing`; `neighbour_guests`, `neighbour_affinity`,
  `neighbour_platform`, `neighbour_memory_bytes`, `neighbour_rate_share`: how many they are, and the rest of them.
"""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.traffic_records import Point
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import receiving_apart
from virtoll.stats.compare import round_values
from virtoll.stats.compared import NOTHING, Reading
from virtoll.stats.guests import cpus_used
from virtoll.stats.summaries import CellSummary
from virtoll.stats.sweeps import LOSSLESS_SHARE
from virtoll.stats.values import Task, TasksOf, forwarded_rate, is_number, maximum_forwarded_rate, sent_rate

# A task of frames is the plain one where a test names none of these: what RFC 2544 and the papers send.
PLAIN: Mapping[str, Any] = {
    "sources": 1,
    "mix": "none",
    "ip_version": 4,
    "vlan": 0,
    "directions": "one",
    "destinations": 1,
    "egress": "one",
}
# Guests beside are of the measured one's own platform, as the papers' are.
USUAL: Mapping[str, Any] = {**PLAIN, "routes": 0, "neighbour_load": NOTHING, "neighbour_platform": None, "guests": 1}
SIZES = frozenset({"guests", "vcpus", "memory_bytes"})
_NEIGHBOURS = frozenset({"neighbour_guests", "neighbour_affinity", "neighbour_memory_bytes", "neighbour_rate_share"})
ATTRIBUTES = frozenset(USUAL) | SIZES | _NEIGHBOURS  # what a cell may have besides its workload's parameters
# Of what a link carries: what counts as all of it, and what a generator's clock may add.
_NEARLY_ALL, _NEARLY_MORE = 0.95, 1.01
NEIGHBOUR_LOAD = "neighbour_load"
SHARE = "share"
VCPUS = "vcpus"  # a parameter's value: as many as the guest has virtual CPUs
Under = str | Condition | ScalePoint
Rounds = Mapping[tuple[int, int], float]
AttributesOf = Callable[[Task, Under], Mapping[str, Any]]


def is_of_neighbours(attribute: str) -> bool:
    """Whether an attribute of a cell says something of its neighbours."""
    return attribute.startswith("neighbour_")


@dataclass(frozen=True)
class Cell:
    """One platform's values of one task: `rounds` has their logarithms by (block, round); `unit`: "share" of a part.

    `under`: `ALONE`, or what it ran beside or with. `lower_is_better`: of what was read. `at_least`: the true value may
    be larger than what was read. `width`: how far above it the upper bound of its search is, as a logarithm. `untold`:
    why nothing can be said of the value, empty where something can. `lossless`: a guest alone forwarded almost all
    frames at the highest rate that it was offered.
    """

    platform: str
    task: Task
    under: Under
    attributes: Mapping[str, Any]
    rounds: Rounds
    unit: str
    lower_is_better: bool = False
    at_least: bool = False
    width: float = 0.0
    untold: str = ""
    lossless: bool = False

    @property
    def key(self) -> tuple[str, Task, Under]:
        """What no two cells of a reading have in common."""
        return self.platform, self.task, self.under

    def number(self, key: str) -> float | None:
        """An attribute that is a number; None where it is none."""
        value = self.attributes.get(key)
        return float(value) if is_number(value) else None


def cells_of(analysis: Analysis, reading: Reading, link_mbit_per_second: float | None = None) -> tuple[Cell, ...]:
    """Every cell of the run that a reading has a value of, in the run's order; none of `CLOCK_ERROR`, of no trial.

    `link_mbit_per_second`: of a rate that is forwarded, what each source sends by a link of that rate; None: any.
    """
    if reading is Reading.CLOCK_ERROR:
        return ()
    attributes = cache(lambda task, under: _attributes(analysis, task, under))
    if link_mbit_per_second is not None:
        cells = _of_link(analysis, link_mbit_per_second, attributes)
    elif reading is Reading.VALUE:
        cells = _values(analysis, attributes)
    elif reading is Reading.NEIGHBOUR_DELIVERED:
        cells = _neighbours(analysis, attributes)
    elif reading is Reading.HOST_CPU:
        cells = _host_cpus(analysis, attributes)
    else:
        cells = _points(analysis, reading, attributes)
    platforms = {label: place for place, label in enumerate(analysis.platforms)}
    tasks = {task: place for place, task in enumerate(analysis.tasks)}
    under = [ALONE, *analysis.isolation.conditions, *analysis.at_once.points]
    order = {condition: place for place, condition in enumerate(under)}
    return tuple(sorted(cells, key=lambda cell: (platforms[cell.platform], tasks[cell.task], order[cell.under])))


def trials_of(analysis: Analysis, cell: Cell) -> list[TrialRecord]:
    """The believed trials of a cell's task under what it ran beside or with."""
    valid = (trial for trial in analysis.data.every_trial if trial.status == "ok" and trial.platform == cell.platform)
    trials = (trial for trial in valid if (trial.condition or trial.scale or ALONE) == cell.under)
    return [trial for trial in trials if cell.task.is_of(trial)]


def _values(analysis: Analysis, attributes: AttributesOf) -> Iterable[Cell]:
    def cell(platform: str, task: Task, under: Under, summary: CellSummary) -> Cell:
        return Cell(
            platform,
            task,
            under,
            attributes(task, under),
            round_values(summary.observations),
            task.metric.unit,
            lower_is_better=task.metric.better == "lower",
            at_least=under == ALONE and (platform, task) in analysis.lower_bounds,
            width=analysis.rate_widths.get((platform, task), 0.0) if under == ALONE else 0.0,
            lossless=under == ALONE and _kept_up(analysis, platform, task),
        )

    for (platform, task), summary in analysis.cells.items():
        yield cell(platform, task, ALONE, summary)
    conditions = {condition.label: condition for condition in analysis.isolation.conditions}
    for (platform, task, label), summary in analysis.isolation.cells.items():
        if label != ALONE:
            yield cell(platform, task, conditions[label], summary)
    for (platform, task, point), summary in analysis.at_once.cells.items():
        yield cell(platform, task, point, summary)


def _points(analysis: Analysis, reading: Reading, attributes: AttributesOf) -> Iterable[Cell]:
    """Cells of what single points tell: the one flat out, or for the sources' parts the one that forwarded most."""

    def read(trial: TrialRecord, task: Task) -> float | None:
        points = trial.points if task.metric.source == "points" else ()
        return _read(points or (), reading)

    trials = (*analysis.data.trials, *analysis.data.with_neighbours)
    for (platform, task, under), rounds in _rounds_of(analysis, trials, read).items():
        unit = task.metric.unit if reading is Reading.FLAT_OUT else SHARE
        untold = "" if reading is Reading.LEAST_SHARE else _not_overloaded(analysis, platform, task)
        yield Cell(platform, task, under, attributes(task, under), rounds, unit, untold=untold)


def _of_link(analysis: Analysis, link_mbit_per_second: float, attributes: AttributesOf) -> Iterable[Cell]:
    """Cells of the most that was forwarded of what links of a rate carry.

    A platform that was offered less than nearly all of that, and lost nothing or came to the generator's limit, may
    forward more.
    """
    open_ended: set[tuple[str, Task]] = set()

    def read(trial: TrialRecord, task: Task) -> float | None:
        shape = task.shape
        if task.metric.source != "points" or shape is None:
            return None
        carried = shape.frames_per_second(link_mbit_per_second) * shape.streams
        points = [point for point in trial.points or () if (sent_rate(point) or math.inf) <= carried * _NEARLY_MORE]
        most = max(points, key=lambda point: sent_rate(point) or 0.0, default=None)
        forwarded = maximum_forwarded_rate(points)
        if most is None or not forwarded:
            return None
        offered, cell = sent_rate(most) or 0.0, (trial.platform, task)
        headroom = analysis.headrooms.get(cell)
        lossless = (forwarded_rate(most) or 0.0) >= (1 - LOSSLESS_SHARE) * offered
        limited = lossless or (headroom is not None and headroom.generator_bound)
        if limited and offered < _NEARLY_ALL * carried:
            open_ended.add(cell)
        return math.log(forwarded)

    trials = (*analysis.data.trials, *analysis.data.with_neighbours)
    for (platform, task, under), rounds in _rounds_of(analysis, trials, read).items():
        at_least = (platform, task) in open_ended
        yield Cell(platform, task, under, attributes(task, under), rounds, task.metric.unit, at_least=at_least)


def _rounds_of(
    analysis: Analysis, trials: Iterable[TrialRecord], read: Callable[[TrialRecord, Task], float | None]
) -> dict[tuple[str, Task, Under], dict[tuple[int, int], float]]:
    """The logarithms that are read of believed trials, by platform, primary task and what it ran beside or with."""
    primary = TasksOf(task for task in analysis.tasks if task.metric.primary)
    rounds: dict[tuple[str, Task, Under], dict[tuple[int, int], float]] = {}
    for trial in trials:
        task = next(iter(primary(trial)), None) if trial.status == "ok" else None
        logarithm = None if task is None else read(trial, task)
        if task is not None and logarithm is not None:
            key = trial.platform, task, trial.condition or trial.scale or ALONE
            rounds.setdefault(key, {})[trial.block, trial.round] = logarithm
    return rounds


def _read(points: Sequence[Point], reading: Reading) -> float | None:
    """The logarithm of what a reading tells of a trial's points; None where they do not tell it."""
    if not points:
        return None
    if reading is Reading.LEAST_SHARE:
        best = max(points, key=lambda point: forwarded_rate(point) or 0.0)
        parts = [counts.forwarded_frames for counts in best.sink.per_source]
        return math.log(max(min(parts), 0.5) * len(parts) / sum(parts)) if sum(parts) else None
    flat_out = [point for point in points if point.intended_rate_frames_per_second is None]
    if not flat_out:
        return None
    if reading is Reading.DELIVERED:
        return _delivered(flat_out[-1:])
    rate = forwarded_rate(flat_out[-1])
    return math.log(rate) if rate else None


def _delivered(points: Sequence[Point], *, with_refused: bool = False) -> float | None:
    """The logarithm of the share of frames that came through; half a frame is added to either kind (Anscombe 1956).

    So a share of nothing has a logarithm too. What the first interface refuses slows a sender down, as flow control
    does, and is not lost. `with_refused`: the sender has a rate to keep, and what was refused did not come through.
    """
    sources = [source for point in points for source in point.sources]
    sent = sum(source.offered_frames for source in sources)
    if with_refused:
        sent += sum(source.refused_frames or 0 for source in sources)
    through = sum(counts.forwarded_frames for point in points for counts in point.sink.per_source)
    return math.log((through + 0.5) / (sent + 1.0)) if sent else None


def _not_overloaded(analysis: Analysis, platform: str, task: Task) -> str:
    """Why a sweep does not show what happens above a platform's capacity; empty where it does.

    One that loses nothing, though the generator could send more, slows the sender down.
    """
    if not _is_lossless(analysis, platform, task):
        return ""
    headroom = analysis.headrooms.get((platform, task))
    if headroom is not None and headroom.share is not None and not headroom.generator_bound:
        return ""
    return "almost no frames were lost at full load, so it was not offered more than it can forward"


def _is_lossless(analysis: Analysis, platform: str, task: Task) -> bool:
    curve = analysis.curve(platform, task)
    return curve is not None and curve.lossless


def _kept_up(analysis: Analysis, platform: str, task: Task) -> bool:
    """Whether a guest alone forwarded almost all frames at the highest rate that it was offered."""
    curve = analysis.curve(platform, task)
    if curve is None:
        return False
    highest = curve.points[-1].intended_rate
    if highest is None:
        return curve.lossless
    forwarded = [
        point.forwarded_frames / point.intended_frames
        for point in analysis.points
        if (point.platform, point.parameters, point.intended_rate) == (platform, task.parameters, highest)
    ]
    return statistics.median(forwarded) >= 1 - LOSSLESS_SHARE


def _neighbours(analysis: Analysis, attributes: AttributesOf) -> Iterable[Cell]:
    """What came through the guests beside that forward as a load, by the task of the guest that was measured."""
    apart = receiving_apart(analysis.data.boots)

    def read(trial: TrialRecord, _task: Task) -> float | None:
        points = [neighbour.traffic for neighbour in trial.neighbours if neighbour.traffic is not None]
        return _delivered(points, with_refused=trial.platform in apart)

    for (platform, task, under), rounds in _rounds_of(analysis, analysis.data.with_neighbours, read).items():
        yield Cell(platform, task, under, attributes(task, under), rounds, SHARE)


def _host_cpus(analysis: Analysis, attributes: AttributesOf) -> Iterable[Cell]:
    """How many of the host's CPUs a guest takes while it is measured, by its primary task; frames have theirs apart."""

    def read(trial: TrialRecord, task: Task) -> float | None:
        used = [cpus_used(member.host_cpu) for member in (trial.members or (trial,))]
        return math.log(used[0]) if task.shape is None and len(used) == 1 and used[0] else None

    for (platform, task, under), rounds in _rounds_of(analysis, analysis.data.every_trial, read).items():
        yield Cell(platform, task, under, attributes(task, under), rounds, "CPUs", lower_is_better=True)


def _attributes(analysis: Analysis, task: Task, under: Under) -> dict[str, Any]:
    guest = analysis.data.manifest.experiment.get("guest") or {}
    size = {"guests": 1, "vcpus": guest.get("vcpus"), "memory_bytes": guest.get("memory_bytes")}
    others: dict[str, Any] = {"neighbour_load": NOTHING}
    if isinstance(under, ScalePoint):
        size = {"guests": under.guests, "vcpus": under.vcpus, "memory_bytes": under.memory_bytes}
    elif isinstance(under, Condition):
        others = {
            "neighbour_load": under.load,
            "neighbour_guests": under.guests,
            "neighbour_affinity": under.affinity,
            "neighbour_platform": under.platform,
            "neighbour_memory_bytes": under.memory_bytes,
            "neighbour_rate_share": under.rate_share,
        }
    shape = task.shape
    frames = {key: getattr(shape, key) for key in PLAIN if shape is not None}
    by_vcpus = dict.fromkeys(_by_vcpus(task), size["vcpus"])
    return {**size, **frames, **json.loads(task.parameters), **by_vcpus, **others}


def _by_vcpus(task: Task) -> frozenset[str]:
    return frozenset(name for name, value in json.loads(task.parameters).items() if value == VCPUS)


def by_vcpus(cell: Cell) -> frozenset[str]:
    """Names of the workload's parameters that are as many as the guest has virtual CPUs."""
    return _by_vcpus(cell.task)


def differing(cell: Cell, other: Cell) -> frozenset[str]:
    """Names of the attributes in which two cells differ; of two workloads only those of their guests and others'.

    What is as many as virtual CPUs in both follows from `vcpus`.
    """
    names = {*cell.attributes, *other.attributes} - (by_vcpus(cell) & by_vcpus(other))
    if cell.task.workload != other.task.workload:
        names = {name for name in names if name in SIZES or is_of_neighbours(name)}
    return frozenset(name for name in names if cell.attributes.get(name) != other.attributes.get(name))
