"""From trial records to one number a trial: durations from marks, rates from points.

Main types: `Task` (what was measured, whatever the platform) and `Observation` (one value of one trial). Only trials
with status `ok` give values; a trial that is `ok` and yet holds no value is a `Gap`, with its reason.
"""

import json
import math
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeGuard, TypeVar

from virtoll import units
from virtoll.runfolder.frame_shape import CPU_POINT_KEYS, SWEEP_KEYS, FrameShape, field_words
from virtoll.runfolder.hand_over import Distance
from virtoll.runfolder.parameters import SharedParameters, canonical_text
from virtoll.runfolder.records import Manifest, MetricRecord, TrialRecord, duration_ns
from virtoll.runfolder.traffic_records import Point, SinkCounts

Parameters = Mapping[str, Any]
Under = TypeVar("Under", bound=Hashable)
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
FrameCosts = Mapping[int, tuple[float | None, str]]
"""CPU time of a frame, ns, by number of trial; where it is None, why."""


@dataclass(frozen=True)
class Task:
    """One metric of one workload at one set of parameters; equal tasks may be compared between platforms.

    `parameters` is canonical JSON; `size` distinguishes it from the workload's other tasks in a few words ('64 B').
    """

    workload: str
    metric: MetricRecord
    parameters: str
    size: str

    def __hash__(self) -> int:
        """Of what tells tasks apart, made once: a report asks for half a million, of keys."""
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash(self.key)

    @property
    def key(self) -> tuple[str, str, str]:
        """What tells tasks apart, also those of another version, which may have other titles."""
        return self.workload, self.metric.name, self.parameters

    @property
    def label(self) -> str:
        """Its one name wherever it is read: 'IP forwarding 64 B', 'STREAM: copy rate 2000000 elements'."""
        return f"{title_of(self.metric)} {self.size}".rstrip()

    @property
    def work(self) -> str:
        """What ran, whatever is measured of it: 'IP forwarding 64 B', 'STREAM 2000000 elements'."""
        return f"{_workload_title(self.metric)} {self.size}".rstrip()

    @property
    def shape(self) -> FrameShape | None:
        """Its frames; None without any."""
        return FrameShape.of(json.loads(self.parameters))

    @property
    def is_forwarding_rate(self) -> bool:
        """Whether it is a router's, and not of guests that send."""
        return self.metric.name in ("maximum_forwarding_rate", "ndr", "pdr")

    @property
    def sign(self) -> int:
        """Of the logarithm of a value in that of performance: -1 where less is better."""
        return 1 if self.metric.better == "higher" else -1

    def is_of(self, trial: TrialRecord) -> bool:
        """Whether a trial measures this task."""
        return trial.workload == self.workload and canonical(trial.parameters) == self.parameters


class Observation(NamedTuple):
    """One trial's value in the metric's unit; `position` is its place in the order measured, from 0.

    `distance`: of the CPUs around it (`stats/hand_over.py`); None: not read, or it never changes. A tuple as
    `sweeps.PointValue` is.
    """

    task: Task
    platform: str
    trial: int
    block: int
    position: int
    value: float
    round: int = 0
    distance: Distance | None = None


@dataclass(frozen=True)
class Gap:
    """A trial that is `ok` in the folder and yet holds no value."""

    trial: int
    reason: str


def title_of(metric: MetricRecord) -> str:
    """A metric without a size, and with its name unless it is what its workload is known by: its duration or rate."""
    known = metric.primary and metric.source in ("marks", "points")
    return _workload_title(metric) if known else metric.title


def _workload_title(metric: MetricRecord) -> str:
    return metric.title.partition(": ")[0]


def forwarded_rate(point: Point) -> float | None:
    """Frames/s at the sink, summed over sources: of each `(forwarded - 1) / (last - first)`, at most
    `forwarded / duration` (docs/run-folder.md).

    A queue that drains after the end took longer than the point. A guest that stood still and then forwarded in a
    burst, or choked before the end, took less, and did not forward at that rate for the time of the point. A source of
    which nothing arrived adds 0; one of which a single frame arrived has no rate: None.

    Of a point in turn with other guests, `(forwarded - bursts)` over the time in which its bursts arrived.

    Over a link or CPUs that guests share it is of all frames together: each guest had more while it had them alone.
    """
    if point.is_shared:
        return sum(counts.forwarded_frames for counts in point.sink.per_source) * 1e9 / joint_ns(point)
    total = 0.0
    for counts in point.sink.per_source:
        if counts.forwarded_frames == 0:
            continue
        times = 1 if point.in_turn is None else point.in_turn.bursts
        took_ns = _arrived_ns(counts) if counts.bursts_ns is None else counts.bursts_ns
        if counts.forwarded_frames <= times or not took_ns:
            return None
        arrived = (counts.forwarded_frames - times) * 1e9 / took_ns
        total += min(arrived, counts.forwarded_frames * 1e9 / point.duration_ns)
    return total


def _arrived_ns(counts: SinkCounts) -> int:
    """From the first arrival to the last; 0 where they are not known."""
    first, last = counts.first_received_monotonic_ns, counts.last_received_monotonic_ns
    return 0 if first is None or last is None else max(0, last - first)


def joint_ns(point: Point) -> int:
    """How long frames of any source arrived, at least the point's own length, ns."""
    firsts = [counts.first_received_monotonic_ns for counts in point.sink.per_source]
    lasts = [counts.last_received_monotonic_ns for counts in point.sink.per_source]
    ended = max((last for last in lasts if last is not None), default=0)
    begun = min((first for first in firsts if first is not None), default=ended)
    return max(point.duration_ns, ended - begun)


def offered_rate(point: Point) -> float | None:
    """Frames/s that left the generator, summed over sources: `(offered - 1) / (last sent - first sent)`.

    Of a source that took turns, what it offered over the time of its bursts. None if a source offered fewer than two
    frames or took no time.
    """
    total = 0.0
    for source in point.sources:
        if source.bursts_ns:
            total += source.offered_frames * 1e9 / source.bursts_ns
            continue
        first, last = source.first_sent_monotonic_ns, source.last_sent_monotonic_ns
        if source.offered_frames < 2 or first is None or last is None or last <= first:
            return None
        total += (source.offered_frames - 1) * 1e9 / (last - first)
    return total if point.sources else None


def sent_rate(point: Point) -> float | None:
    """Frames/s that were sent, summed over sources: those that the first interface refused as well."""
    rate = offered_rate(point)
    offered = sum(source.offered_frames for source in point.sources)
    if rate is None or not offered:
        return None
    refused = sum(source.refused_frames or 0 for source in point.sources)
    return rate * (offered + refused) / offered


def best_point(points: Sequence[Point]) -> Point | None:
    """The point of a sweep that forwarded most; None where no point has a rate."""
    return max(points, key=lambda point: forwarded_rate(point) or 0.0, default=None)


def maximum_forwarded_rate(points: Sequence[Point]) -> float | None:
    """The largest forwarded rate of a sweep, frames/s; None where no point has a rate."""
    best = best_point(points)
    return None if best is None else forwarded_rate(best)


def tasks_of(manifest: Manifest, trials: Iterable[TrialRecord]) -> tuple[Task, ...]:
    """Every task of the plan (and of the records), by metric in the manifest's order and then as planned."""
    sets: dict[tuple[str, str], Parameters] = {}
    named = [(planned.workload, planned.parameters) for planned in manifest.plan.trials]
    for workload, parameters in named + [(trial.workload, trial.parameters) for trial in trials]:
        sets.setdefault((workload, canonical(parameters)), parameters)
    tasks: list[Task] = []
    for metric in manifest.metrics:
        family = [parameters for (workload, _), parameters in sets.items() if workload == metric.workload]
        family.sort(key=_by_what_is_sent)
        measured = family
        if metric.source == "cpu_points":
            measured = [values for values in family if values.get("cpu_milliseconds") != 0]
        tasks += [Task(metric.workload, metric, canonical(values), _size(values, family)) for values in measured]
    return tuple(tasks)


def works_of(manifest: Manifest) -> dict[tuple[str, str], str]:
    """What the plan's trials run, by workload and parameters as `canonical` text: 'IP forwarding 64 B'."""
    return {(task.workload, task.parameters): task.work for task in tasks_of(manifest, ())}


def printed_tasks(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """Those whose values a paper prints: a workload's own figures where it reports any, else its primary metric.

    The duration of a job that tells its rate is that rate once more.
    """
    telling = {task.workload for task in tasks if task.metric.source == "figures"}

    def is_printed(task: Task) -> bool:
        return task.metric.source == "figures" if task.workload in telling else task.metric.primary

    return tuple(filter(is_printed, tasks))


def words_in_common(tasks: Sequence[Task]) -> str:
    """What the sizes of tasks have in common, in the words that tell them from others': 'shared NIC'; often nothing."""
    sizes = [task.size.split(", ") for task in tasks]
    common = set(sizes[0]).intersection(*sizes)
    return ", ".join(word for word in sizes[0] if word in common)


def observations_of(
    tasks: Sequence[Task], trials: Sequence[TrialRecord], costs: FrameCosts | None = None, *, by_clock: bool = False
) -> tuple[tuple[Observation, ...], tuple[Gap, ...]]:
    """One value a task and `ok` trial, in the order measured, and the trials that should have one and have not.

    `costs`: of what takes calibrations as well (`stats/frame_cost.py`). One host measures the trials in the order of
    their numbers, whatever its clock was set to meanwhile. `by_clock`: several hosts did, side by side.
    """
    tasks_of_trial = TasksOf(tasks)
    observations, gaps = [], []
    ran = [trial for trial in trials if trial.status != "skipped"]
    ran.sort(key=lambda trial: ((trial.started_realtime_ns or 0) if by_clock else 0, trial.trial))
    for position, trial in enumerate(ran):
        if trial.status != "ok":
            continue
        for task in tasks_of_trial(trial):
            value, reason = _value(task.metric, trial, costs or {})
            if value is None:
                gaps.append(Gap(trial.trial, reason))
            else:
                observations.append(
                    Observation(task, trial.platform, trial.trial, trial.block, position, value, round=trial.round)
                )
    return tuple(observations), tuple(gaps)


def _value(metric: MetricRecord, trial: TrialRecord, costs: FrameCosts) -> tuple[float | None, str]:
    if metric.source == "cpu_points":
        return costs.get(trial.trial, (None, "no points for the CPU time of a frame were measured"))
    if metric.source == "points":
        rate = maximum_forwarded_rate(trial.points or ())
        if rate is None or rate <= 0:
            return None, "nothing was forwarded at any point of the sweep: there is no rate"
        return rate, ""
    if metric.source == "figures":
        figure = ((trial.result or {}).get("figures") or {}).get(metric.name)
        if not is_number(figure) or not math.isfinite(figure) or figure <= 0:
            return None, f"there is no figure {metric.name!r} above zero in the result"
        return float(figure), ""
    duration = duration_ns(trial.clock) if trial.clock else None
    if duration is None:
        return None, "the timestamps of its start and end are missing: the duration is not known"
    if duration <= 0:
        return None, f"the timestamps give a duration of {duration} ns: the outside clock cannot be believed"
    return duration / trial.repeats, ""


def why_missing(
    trials: Iterable[TrialRecord], under: Callable[[TrialRecord], Under | None]
) -> dict[tuple[str, str, str, Under], str]:
    """By platform, workload, parameters and what it was measured `under`, the first record's reason for no value.

    Trials measured under nothing (None) are left out.
    """
    reasons: dict[tuple[str, str, str, Under], str] = {}
    for trial in trials:
        what = under(trial)
        if trial.status != "ok" and what is not None:
            key = trial.platform, trial.workload, canonical(trial.parameters), what
            reasons.setdefault(key, f"{trial.status}: {trial.reason}")
    return reasons


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by what they have in common, in the order of the first of each."""
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def places_of(tasks: Iterable[Task]) -> dict[Task, int]:
    """Which place each task has, for sorting: `tasks.index` asks one after the other."""
    return {task: place for place, task in enumerate(tasks)}


class TasksOf:
    """Which of some tasks a trial measures, in their order: what `Task.is_of` says, without asking each of them.

    A shortened trial measures the primary one alone.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._found = grouped(tasks, lambda task: (task.workload, task.parameters))

    def __call__(self, trial: TrialRecord) -> Sequence[Task]:
        """None of them: empty."""
        tasks = self._found.get((trial.workload, canonical(trial.parameters)), ())
        return [task for task in tasks if task.metric.primary] if trial.shortened else tasks


def canonical(parameters: Parameters) -> str:
    """Parameters as JSON text with sorted keys: equal sets give equal text."""
    return parameters.canonical if isinstance(parameters, SharedParameters) else canonical_text(parameters)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_what_is_sent(parameters: Parameters) -> tuple[list[tuple[int, float, str]], ...]:
    """A key that sorts by all but how the CPU time of a frame is measured, and only then by that."""
    return _natural(_without(parameters, CPU_POINT_KEYS)), _natural(parameters)


def _natural(parameters: Parameters) -> list[tuple[int, float, str]]:
    """A key that sorts numbers by size, and before words."""
    return [_natural_value(parameters[key]) for key in sorted(parameters)]


def _natural_value(value: object) -> tuple[int, float, str]:
    return (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value))


_NOTHING = ("none", "auto")
_WORDS_OF = {
    ("nic", "own"): "own NIC",
    ("nic", "shared"): "shared NIC",
    ("sender", "frames"): "prepared frames",
    ("sender", "udp"): "UDP sockets",
    ("server", "own"): "own server",
    ("server", "shared"): "shared server",
    ("server", "shared-database"): "shared database",
    ("affinity", "shared"): "same CPUs",
    ("affinity", "apart"): "own CPUs",
    ("affinity", "unpinned"): "not pinned",
    ("jobs", "vcpus"): "a job for each vCPU",
    ("path", "peer"): "by the peer",
    ("path", "bridge"): "by the bridge",
}
_TOTAL, _EACH = "total_rate_frames_per_second", "each_rate_frames_per_second"
_LINK_RATE = "link_rate_bits_per_second"


def _that_count(parameters: Parameters) -> Parameters:
    """Without those that another makes mean nothing."""
    paced = parameters.get(_TOTAL) or parameters.get(_EACH)
    without: tuple[str, ...] = SWEEP_KEYS if paced else ()
    if parameters.get("nic") == "own":
        without += (_LINK_RATE,)
    if parameters.get("between") == "peer":
        without += ("path",)
    return _without(parameters, without)


def _size(parameters: Parameters, family: Sequence[Parameters]) -> str:
    """What distinguishes these parameters from their family's; where there is only one set, its first number."""
    parameters = _that_count(parameters)
    telling = _differing(parameters, family) or list(filter(_is_size, parameters.items()))[:1]
    if parameters.get(_EACH):  # then there is no rate of all, which is no sweep
        telling = [(key, value) for key, value in telling if key != _TOTAL]
    return ", ".join(filter(None, (_parameter(key, value) for key, value in telling)))


def _differing(parameters: Parameters, family: Sequence[Parameters]) -> list[tuple[str, Any]]:
    """The parameters of which the family has several values."""
    counting = [(_that_count(complete), complete) for complete in family]
    differing = []
    for key, value in parameters.items():
        # A key that was never asked for has a value of its own; one that means nothing has none.
        values = {repr(others.get(key)) for others, complete in counting if key in others or key not in complete}
        if len(values) > 1:
            differing.append((key, value))
    rates = [(key, value) for key, value in differing if key not in CPU_POINT_KEYS]
    if len(rates) == len(differing):
        return differing
    told_apart = {canonical_text(_without(complete, CPU_POINT_KEYS)) for complete in family}
    if len(told_apart) < len(family):
        return differing
    return rates


def _without(parameters: Parameters, keys: Collection[str]) -> Parameters:
    return {key: value for key, value in parameters.items() if key not in keys}


def _is_size(parameter: tuple[str, Any]) -> bool:
    key, value = parameter
    return type(value) is int and not key.endswith("_per_second") and not key.startswith("link_")


def _singular(words: str) -> str:
    """Of what is counted: 'processes' -> 'process', 'threads' -> 'thread'."""
    return words.removesuffix("es") if words.endswith(("sses", "ches")) else words.removesuffix("s")


def _parameter(key: str, value: Any) -> str:
    """One parameter in a few words: 'size_bytes' 67108864 -> '64 MiB', 'digits' 16384 -> '16384 digits'.

    A word says by itself what it is ('fork-exec', 'randread'), unless it says that there is nothing ('none').
    """
    phrase = field_words(key, value)
    if phrase is not None:
        return phrase
    words = key.replace("_", " ")
    if key in ("client", "peer_files"):  # which end is meant is not in the value
        return f"{words} {value}"
    if key == _TOTAL:
        return f"{value:g} frames/s in all" if value else "a sweep"
    if key == _EACH:
        return f"{value:g} frames/s each" if value else ""
    if isinstance(value, list) and key.endswith("_mbit_per_second"):
        rates = "/".join(f"{rate:g}" for rate in value)
        return f"{rates} Mbit/s" if value else ""
    if is_number(value) and key.endswith("_per_second"):
        return _rate(words.removesuffix(" per second"), value)
    if isinstance(value, str) and value not in _NOTHING:
        return _WORDS_OF.get((key, value), value)
    return _count(key, value) if type(value) is int else f"{words} {value}"


def _rate(words: str, value: float) -> str:
    """A rate: ('transactions', 250) -> '250 transactions/s', ('link rate bits', 1e9) -> 'link rate 1000 Mbit/s'."""
    if not words.endswith(" bits"):
        return f"{value:g} {words.removeprefix('rate ')}/s"
    words = words.removesuffix(" bits")
    return f"{words} {value / 1e6:g} Mbit/s" if value else f"{words} not limited"


def _count(key: str, value: int) -> str:
    if key.endswith("_bytes") or key == "size":
        return units.size(value)
    if key.endswith("_ns"):
        return units.nanoseconds(value)
    words = key.replace("_", " ")
    return f"{value} {_singular(words) if value == 1 else words}"
