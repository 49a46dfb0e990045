"""Why a platform costs what it costs: what its guest made the host do for a job or a frame, beside the host itself.

Main type: `Explanation`, of one workload on one platform. A trial's value of a counter is the sum of its differences
over all that was measured, divided by the jobs or forwarded frames. It is compared with the baseline's trial of the
same repetition; several such differences have Student's interval, each for itself and not corrected for their number.
Trials with observers on are no results: nothing here is read by any other statistic. Pure.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from virtoll.runfolder.explain_records import COUNTERS, ObservedTrial, counter
from virtoll.stats.intervals import Estimate, student
from virtoll.stats.values import Task, canonical

Unit = Literal["job", "frame"]
_KINDS = {"": 0, "ns": 1, "bytes": 2}  # differences of one kind are ordered among themselves


@dataclass(frozen=True)
class Counted:
    """One counter of one platform, per job or frame: means over trials.

    `difference` to the baseline, with an interval where there are two repetitions of both; None where the baseline has
    no such counter.
    """

    name: str
    each: float
    baseline: float | None
    difference: Estimate | None
    trials: int

    @property
    def is_certain(self) -> bool:
        """Whether the interval of the difference leaves zero out."""
        interval = None if self.difference is None else self.difference.interval
        return interval is not None and not interval.low <= 0 <= interval.high


@dataclass(frozen=True)
class Explanation:
    """One workload on one platform: `different` largest first, kind by kind; `open` those that may be zero.

    `single`: of one repetition, so that no difference has an interval. `only_here`: counters that the baseline has not.
    `uncounted`: why counters, or all of an observer's, are missing. `lost`: why trials gave nothing.
    """

    platform: str
    workload: str
    parameters: str
    title: str
    unit: Unit
    trials: int
    different: tuple[Counted, ...]
    single: tuple[Counted, ...]
    open: tuple[Counted, ...]
    only_here: tuple[Counted, ...]
    uncounted: Mapping[str, str]
    lost: tuple[str, ...]


def explanations(
    observed: Sequence[ObservedTrial], tasks: Sequence[Task], platforms: Sequence[str], baseline: str | None
) -> tuple[Explanation, ...]:
    """One for each workload and platform that was observed, in the order of the tasks; the baseline's own first."""
    latest = {(*_cell(one), one.repetition): one for one in observed}
    cells: dict[tuple[str, str], dict[str, list[ObservedTrial]]] = {}
    for (platform, workload, parameters, _), one in latest.items():
        cells.setdefault((workload, parameters), {}).setdefault(platform, []).append(one)
    order = {(task.workload, task.parameters): place for place, task in reversed(list(enumerate(tasks)))}
    places = {label: place for place, label in enumerate(platforms)}
    found = []
    for cell in sorted(cells, key=lambda one: (order.get(one, len(order)), one)):
        own = cells[cell]
        names = sorted(own, key=lambda name: (name != baseline, places.get(name, len(places))))
        title = tasks[order[cell]].work if cell in order else cell[0]
        against = _values(own[baseline]) if baseline in own else None
        found += [_explanation(name, cell, title, own[name], None if name == baseline else against) for name in names]
    return tuple(found)


def _cell(one: ObservedTrial) -> tuple[str, str, str]:
    return one.platform, one.workload, canonical(one.parameters)


_Values = dict[str, dict[int, float]]


def _explanation(
    platform: str, cell: tuple[str, str], title: str, trials: Sequence[ObservedTrial], against: _Values | None
) -> Explanation:
    values = _values(trials)
    counted = [_counted(name, own, (against or {}).get(name)) for name, own in values.items()]
    compared = [(one, one.difference.interval) for one in counted if one.difference is not None]
    uncounted = {name: why for one in trials for name, why in one.uncounted.items() if name not in values}
    return Explanation(
        platform=platform,
        workload=cell[0],
        parameters=cell[1],
        title=title,
        unit="job" if any(one.jobs is not None for one in trials) else "frame",
        trials=sum(one.status == "ok" for one in trials),
        different=tuple(sorted((one for one, _ in compared if one.is_certain), key=_largest_first)),
        single=tuple(sorted((one for one, interval in compared if interval is None), key=_largest_first)),
        open=tuple(one for one, interval in compared if interval is not None and not one.is_certain),
        only_here=tuple(sorted((one for one in counted if one.difference is None), key=_largest_first)),
        uncounted=uncounted,
        lost=tuple(dict.fromkeys(one.reason or one.status for one in trials if one.status != "ok")),
    )


def _values(trials: Sequence[ObservedTrial]) -> _Values:
    """By counter and repetition."""
    found: _Values = {}
    for one in trials:
        if one.status == "ok":
            for name, value in per_unit(one).items():
                found.setdefault(name, {})[one.repetition] = value
    return found


def per_unit(trial: ObservedTrial) -> dict[str, float]:
    """Each counter that was read around all of the trial's measured parts, per job or forwarded frame.

    One that this Virtoll has no words for, of a newer one's records, is left out.
    """
    units = trial.jobs
    if units is None:
        frames = [span.forwarded_frames for span in trial.spans]
        units = sum(one for one in frames if one is not None) if None not in frames else 0
    if not units or not trial.spans:
        return {}
    named = [set(span.before.counted) & set(span.after.counted) for span in trial.spans]
    order = list(COUNTERS)
    known = [name for name in set.intersection(*named) if name.partition(":")[0] in COUNTERS]
    return {
        name: sum(span.after.counted[name] - span.before.counted[name] for span in trial.spans) / units
        for name in sorted(known, key=lambda name: (order.index(name.partition(":")[0]), name))
    }


def _counted(name: str, own: Mapping[int, float], against: Mapping[int, float] | None) -> Counted:
    pairs = sorted(set(own) & set(against or {}))
    differences = [own[one] - (against or {})[one] for one in pairs]
    return Counted(
        name=name,
        each=statistics.fmean(own.values()),
        baseline=statistics.fmean(against.values()) if against else None,
        difference=student(differences) if differences else None,
        trials=len(pairs) or len(own),
    )


def _largest_first(one: Counted) -> tuple[int, float]:
    size = one.each if one.difference is None else one.difference.value
    return _KINDS[counter(one.name)[0].unit], -abs(size)
