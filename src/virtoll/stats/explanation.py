"""Why a platform costs what it costs: what its guest made the host do for a job or a frame, beside the host itself.

Main type: `Explanation`, of one workload on one platform. A trial's value of a counter is the sum of its differences
over all that was measured, divided by the jobs or forwarded frames. It is compared with the baseline's trial of the
same repetition; several such differences have Student's interval, each for itself. A difference is *certain* if its t
test holds after Holm's correction over all counters of the platform and workload, some 30. If its interval alone leaves
zero out it is *likely*, as one or two of 30 are by chance. Trials with observers on are no results: nothing here is
read by any other statistic. Pure.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from virtoll.runfolder.explain_records import COUNTERS, ObservedTrial, counter
from virtoll.stats.compare import LEVEL
from virtoll.stats.intervals import Estimate, holm, student
from virtoll.stats.values import Task, canonical

Unit = Literal["job", "frame"]
_KINDS = {"": 0, "ns": 1, "bytes": 2}  # differences of one kind are ordered among themselves


@dataclass(frozen=True)
class Counted:
    """One counter of one platform, per job or frame: means over trials.

    `difference` to the baseline, with an interval where there are two repetitions of both; None where the baseline has
    no such counter. `p_adjusted`: of the difference, by Holm over all counters beside it; None without an interval.
    """

    name: str
    each: float
    baseline: float | None
    difference: Estimate | None
    trials: int
    p_adjusted: float | None = None

    @property
    def is_certain(self) -> bool:
        """Whether it differs, with all the counters beside it in mind."""
        return self.p_adjusted is not None and self.p_adjusted < LEVEL

    @property
    def is_likely(self) -> bool:
        """Whether it differs by itself, but for all the counters beside it: the interval leaves zero out."""
        interval = self.difference.interval if self.difference is not None else None
        return interval is not None and not interval.low <= 0 <= interval.high and not self.is_certain


@dataclass(frozen=True)
class Explanation:
    """One workload on one platform: `different` for certain, largest first, kind by kind; `open` may be zero.

    `likely`: different by their own intervals alone. `single`: of one repetition, so that no difference has an
    interval. `only_here`: counters that the baseline has not. `uncounted`: why counters, or all of an observer's, are
    missing. `lost`: why trials gave nothing.
    """

    platform: str
    workload: str
    parameters: str
    title: str
    unit: Unit
    trials: int
    different: tuple[Counted, ...]
    likely: tuple[Counted, ...]
    single: tuple[Counted, ...]
    open: tuple[Counted, ...]
    only_here: tuple[Counted, ...]
    uncounted: Mapping[str, str]
    lost: tuple[str, ...]


def explanations(
    observed: Sequence[ObservedTrial], tasks: Sequence[Task], platforms: Sequence[str], baseline: str | None
) -> tuple[Explanation, ...]:
    """One for each workload and platform that was observed, in the order of the tasks; the baseline's own first."""
    latest = {(*_cell(trial), trial.repetition): trial for trial in observed}
    cells: dict[tuple[str, str], dict[str, list[ObservedTrial]]] = {}
    for (platform, workload, parameters, _), trial in latest.items():
        cells.setdefault((workload, parameters), {}).setdefault(platform, []).append(trial)
    order = {(task.workload, task.parameters): place for place, task in reversed(list(enumerate(tasks)))}
    places = {label: place for place, label in enumerate(platforms)}
    rows = []
    for cell in sorted(cells, key=lambda key: (order.get(key, len(order)), key)):
        trials = cells[cell]
        names = sorted(trials, key=lambda name: (name != baseline, places.get(name, len(places))))
        title = tasks[order[cell]].work if cell in order else cell[0]
        base = _values(trials.get(baseline, ())) if baseline is not None else {}
        for name in names:
            against = base if name != baseline else {}
            rows.append(_explanation(name, cell, title, trials[name], against))
    return tuple(rows)


def _cell(trial: ObservedTrial) -> tuple[str, str, str]:
    return trial.platform, trial.workload, canonical(trial.parameters)


_Values = dict[str, dict[int, float]]


def _explanation(
    platform: str, cell: tuple[str, str], title: str, trials: Sequence[ObservedTrial], against: _Values
) -> Explanation:
    values = _values(trials)
    counts: defaultdict[str, list[Counted]] = defaultdict(list)
    for count in _corrected([_counted(name, each, against.get(name, {})) for name, each in values.items()]):
        counts[_standing(count)].append(count)
    jobs = [trial.jobs for trial in trials if trial.jobs is not None]
    lost = [trial.reason or trial.status for trial in trials if trial.status != "ok"]
    uncounted = {name: why for trial in trials for name, why in trial.uncounted.items() if name not in values}
    return Explanation(
        platform=platform,
        workload=cell[0],
        parameters=cell[1],
        title=title,
        unit="job" if jobs else "frame",
        trials=len(trials) - len(lost),
        different=tuple(sorted(counts["different"], key=_largest_first)),
        likely=tuple(sorted(counts["likely"], key=_largest_first)),
        single=tuple(sorted(counts["single"], key=_largest_first)),
        open=tuple(counts["open"]),
        only_here=tuple(sorted(counts["only_here"], key=_largest_first)),
        uncounted=uncounted,
        lost=tuple(dict.fromkeys(lost)),
    )


def _standing(count: Counted) -> str:
    """In which list of an explanation a counter stands."""
    if count.difference is None:
        return "only_here"
    if count.difference.interval is None:
        return "single"
    if count.is_certain:
        return "different"
    return "likely" if count.is_likely else "open"


def _values(trials: Sequence[ObservedTrial]) -> _Values:
    """By counter and repetition."""
    values: _Values = {}
    for trial in trials:
        if trial.status == "ok":
            for name, value in per_unit(trial).items():
                values.setdefault(name, {})[trial.repetition] = value
    return values


def per_unit(trial: ObservedTrial) -> dict[str, float]:
    """Each counter that was read around all of the trial's measured parts, per job or forwarded frame.

    One that this Virtoll has no words for, of a newer one's records, is left out.
    """
    units = trial.jobs
    if units is None:
        frames = [span.forwarded_frames for span in trial.spans if span.forwarded_frames is not None]
        units = sum(frames) if len(frames) == len(trial.spans) else 0
    if not units or not trial.spans:
        return {}
    named = [set(span.before.counted) & set(span.after.counted) for span in trial.spans]
    order = list(COUNTERS)
    known = [name for name in set.intersection(*named) if name.partition(":")[0] in COUNTERS]
    values = {}
    for name in sorted(known, key=lambda name: (order.index(name.partition(":")[0]), name)):
        values[name] = sum(span.after.counted[name] - span.before.counted[name] for span in trial.spans) / units
    return values


def _counted(name: str, by_repetition: Mapping[int, float], against: Mapping[int, float]) -> Counted:
    pairs = sorted(set(by_repetition) & set(against))
    differences = [by_repetition[repetition] - against[repetition] for repetition in pairs]
    difference = student(differences) if differences else None
    return Counted(
        name=name,
        each=statistics.fmean(by_repetition.values()),
        baseline=statistics.fmean(against.values()) if against else None,
        difference=difference,
        trials=len(pairs) or len(by_repetition),
        p_adjusted=p_value(differences) if len(differences) > 1 else None,
    )


def _corrected(counts: Sequence[Counted]) -> list[Counted]:
    """With Holm's p-values of all of them that have one."""
    tested = list(filter(lambda count: count.p_adjusted is not None, counts))
    adjusted = dict(zip(map(_name, tested), holm([count.p_adjusted or 0.0 for count in tested]), strict=True))
    return [replace(count, p_adjusted=adjusted.get(count.name)) for count in counts]


def _name(count: Counted) -> str:
    return count.name


def p_value(differences: Sequence[float]) -> float:
    """Of Student's t test that two or more differences are zero in the mean; 0 if all are the same, and not zero."""
    from virtoll.stats.arrays import stdtr

    mean, spread = statistics.fmean(differences), statistics.stdev(differences)
    if spread == 0:
        return 0.0 if mean else 1.0
    return float(2 * stdtr(len(differences) - 1, -abs(mean) * math.sqrt(len(differences)) / spread))


def _largest_first(count: Counted) -> tuple[int, float]:
    size = count.each if count.difference is None else count.difference.value
    return _KINDS[counter(count.name)[0].unit], -abs(size)
