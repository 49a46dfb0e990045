"""The rows of a dataset from a run's records: values as the report has them, nothing summed up and nothing dropped.

Main function: ``rows_of``. Values, rates and times to ready are those of ``stats``, so that a dataset and a report of
one run agree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from virtoll.report.dataset.tables import Boot, OfRun, PointRow, RunPlatform, RunRow, Sample
from virtoll.report.sections.guests.tables import starts
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Distribution, Point
from virtoll.stats.analysis import RunData
from virtoll.stats.caveats import caveats_of
from virtoll.stats.frame_cost import frame_costs
from virtoll.stats.guests_at_once import guests_of
from virtoll.stats.hand_over import cpu_distances, hand_overs_of, value_distance
from virtoll.stats.sweeps import point_value
from virtoll.stats.values import FrameCosts, Task, TasksOf, observations_of, tasks_of

Platforms = Mapping[str, RunPlatform]
"""By their labels."""


def rows_of(data: RunData) -> dict[str, Sequence[OfRun]]:
    """The rows of every table of ``TABLES`` of a run's records, in the order of the plan."""
    trials = sorted((*data.every_trial, *data.warm_ups), key=lambda trial: trial.trial)
    caveats = caveats_of(data.manifest, data.boots, trials)
    entries = {entry.label: entry for entry in data.manifest.platforms}
    labels = {*entries, *(trial.platform for trial in trials), *(boot.platform for boot in data.boots)}
    platforms = {label: RunPlatform(label, entries.get(label), caveats.get(label)) for label in labels}
    return {
        "samples": list(_samples(data, trials, platforms)),
        "points": list(_points(data, trials, platforms)),
        "boots": [Boot(data.manifest, platforms[start.boot.platform], start) for start in starts(data)],
        "runs": [RunRow(data.manifest, data, trials)],
    }


def _samples(data: RunData, trials: Sequence[TrialRecord], platforms: Platforms) -> Iterator[Sample]:
    """A row for each trial and metric of its workload; of several guests at once one for each of them."""
    costs = {
        trial: (cost.value, cost.none_because)
        for trial, cost in frame_costs(trials, data.boots, data.calibrations).items()
    }
    tasks_of_trial = TasksOf(tasks_of(data.manifest, trials))
    pairs = {pair.cpus: pair for pair in cpu_distances(hand_overs_of(data.every_trial, data.calibrations))}
    for trial in trials:
        tasks, platform = tasks_of_trial(trial), platforms[trial.platform]
        for guest, boot, problem, guest_trial in guests_of(trial):
            for task, value, reason in _values(tasks, guest_trial, costs, problem):
                yield Sample(
                    data.manifest,
                    platform,
                    trial,
                    boot,
                    task,
                    guest=guest,
                    value=value,
                    reason=reason,
                    distance=value_distance(task, (guest_trial,), pairs),
                )


def _values(
    tasks: Sequence[Task], trial: TrialRecord, costs: FrameCosts, problem: str | None
) -> Iterator[tuple[Task, float | None, str | None]]:
    """Each task of a trial with its value, or with why it has none."""
    for task in tasks:
        observations, gaps = observations_of((task,), (trial,), costs)
        if observations:
            yield task, observations[0].value, None
        else:
            yield task, None, problem or trial.reason or (gaps[0].reason if gaps else None)


def _points(data: RunData, trials: Sequence[TrialRecord], platforms: Platforms) -> Iterator[PointRow]:
    for trial in trials:
        for place, point in enumerate(trial.points or ()):
            books = point_value(trial, place, point)
            platform = platforms[trial.platform]
            yield PointRow(data.manifest, platform, trial, trial.boot, point, books=books, delay=_delay(point))


def _delay(point: Point) -> Distribution | None:
    """The delay of the frames; None of several sources, whose quantiles cannot be put together."""
    delays = [source.delay_ns for source in point.sink.per_source]
    return delays[0] if len(delays) == 1 else None
