"""The rows of a dataset from a run's records: values as the report has them, nothing summed up and nothing dropped.

Main type: ``Rows``. Main function: ``rows_of``. Values, rates and times to ready are those of ``stats``, so that a
dataset and a report of one run agree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll.report.dataset.tables import Boot, OfRun, PointRow, RunRow, Sample
from virtoll.runfolder.guest_records import FootprintRecord
from virtoll.runfolder.records import BootRecord, Manifest, PlatformEntry, TrialRecord
from virtoll.runfolder.traffic_records import Distribution, Point
from virtoll.stats.analysis import RunData
from virtoll.stats.caveats import caveats_of
from virtoll.stats.frame_cost import frame_costs
from virtoll.stats.guests import held_bytes, readiness
from virtoll.stats.guests_at_once import guests_of
from virtoll.stats.sweeps import point_value
from virtoll.stats.values import FrameCosts, Task, TasksOf, canonical, observations_of, tasks_of

Who = Mapping[str, Mapping[str, Any]]
"""By a platform's label the columns that say which run and platform a row is of."""


@dataclass(frozen=True)
class Rows:
    """The rows of a run, in the order of the plan; of what a run has not, none."""

    samples: Sequence[Sample]
    points: Sequence[PointRow]
    boots: Sequence[Boot]
    runs: Sequence[RunRow]

    def by_table(self) -> dict[str, Sequence[OfRun]]:
        """The same by the names of ``TABLES``."""
        return {"samples": self.samples, "points": self.points, "boots": self.boots, "runs": self.runs}


def rows_of(data: RunData) -> Rows:
    """The rows of every table of a run's records."""
    trials = sorted((*data.every_trial, *data.warm_ups), key=lambda trial: trial.trial)
    run = _of_run(data.manifest)
    caveats = caveats_of(data.manifest, data.boots, trials)
    entries = {entry.label: entry for entry in data.manifest.platforms}
    named = {*entries, *(trial.platform for trial in trials), *(boot.platform for boot in data.boots)}
    who: Who = {label: {**run, **_of_platform(label, entries.get(label), caveats)} for label in named}
    return Rows(
        samples=tuple(_samples(data, trials, who)),
        points=tuple(_points(trials, who)),
        boots=tuple(_boots(data, who)),
        runs=(_run(data, trials, run),),
    )


def _of_run(manifest: Manifest) -> dict[str, Any]:
    return {
        "run": manifest.run,
        "experiment": manifest.experiment["name"],
        "virtoll": manifest.virtoll,
        "host_fingerprint": _text(manifest.host, "fingerprint"),
        "kernel": _text(manifest.host, "kernel"),
    }


def _of_platform(label: str, entry: PlatformEntry | None, caveats: Mapping[str, str]) -> dict[str, Any]:
    return {
        "platform": label,
        "platform_kind": entry.platform if entry else None,
        "platform_family": entry.family if entry else None,
        "platform_version": entry.version if entry else None,
        "guests_on": entry.host if entry else None,
        "caveat": caveats.get(label),
    }


def _of_trial(trial: TrialRecord, who: Who) -> dict[str, Any]:
    return {
        **who[trial.platform],
        "trial": trial.trial,
        "block": trial.block + 1,
        "round": trial.round + 1,
        "warm_up": trial.warm_up,
        "status": trial.status,
        "workload": trial.workload,
        "parameters": canonical(trial.parameters),
        "condition": trial.condition.label if trial.condition is not None else None,
        "guests": trial.scale.guests if trial.scale is not None else 1,
        "boot": trial.boot,
        "started_realtime_ns": trial.started_realtime_ns,
    }


def _samples(data: RunData, trials: Sequence[TrialRecord], who: Who) -> Iterator[Sample]:
    """A row for each trial and metric of its workload; of several guests at once one for each of them."""
    tasks = tasks_of(data.manifest, trials)
    costs = {
        trial: (cost.value, cost.none_because)
        for trial, cost in frame_costs(trials, data.boots, data.calibrations).items()
    }
    tasks_of_trial = TasksOf(tasks)
    for trial in trials:
        measured = tasks_of_trial(trial)
        common = _of_trial(trial, who) | _sizes(trial)
        for number, boot, problem, guest_trial in guests_of(trial):
            columns = common if number is None else common | {"boot": boot}
            for task, value, reason in _values(measured, guest_trial, costs, problem):
                yield _sample(task, trial, columns, guest=number, value=value, reason=reason)


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


def _sample(
    task: Task,
    trial: TrialRecord,
    common: Mapping[str, Any],
    *,
    guest: int | None,
    value: float | None,
    reason: str | None,
) -> Sample:
    return Sample(
        **common,
        ended_realtime_ns=trial.ended_realtime_ns,
        guest=guest,
        metric=task.metric.name,
        unit=task.metric.unit,
        better=task.metric.better,
        primary=task.metric.primary,
        value=value,
        reason=reason,
        repeats=trial.repeats,
    )


def _sizes(trial: TrialRecord) -> dict[str, int | None]:
    """The parameters that have a column of their own."""
    names = ("frame_size_bytes", "sources", "size_bytes", "threads", "processes", "digits")
    return {name: _number(trial.parameters, name) for name in names}


def _points(trials: Sequence[TrialRecord], who: Who) -> Iterator[PointRow]:
    for trial in trials:
        common = _of_trial(trial, who)
        for place, point in enumerate(trial.points or ()):
            yield _point(trial, place, point, common)


def _point(trial: TrialRecord, place: int, point: Point, common: Mapping[str, Any]) -> PointRow:
    value, delay = point_value(trial, place, point), _delay(point)
    return PointRow(
        **common,
        point=place,
        frame_size_bytes=value.frame_size_bytes,
        sources=len(point.sources),
        backend=point.backend,
        sink_backend=point.sink.backend,
        flat_out=value.flat_out,
        intended_rate_frames_per_second=value.intended_rate,
        duration_ns=value.duration_ns,
        offered_rate_frames_per_second=value.offered_rate,
        forwarded_rate_frames_per_second=value.forwarded_rate,
        intended_frames=value.intended_frames,
        offered_frames=value.offered_frames,
        unsent_frames=value.unsent_frames,
        refused_frames=value.refused_frames,
        forwarded_frames=value.forwarded_frames,
        lost_frames=value.lost_frames,
        duplicate_frames=value.duplicate_frames,
        reordered_frames=value.reordered_frames,
        foreign_frames=value.foreign_frames,
        late_trial_frames=value.late_trial_frames,
        forged_frames=value.forged_frames,
        kernel_dropped_frames=value.kernel_dropped_frames,
        loss_share=value.loss,
        delay_p1_ns=getattr(delay, "p1", None),
        delay_p50_ns=getattr(delay, "p50", None),
        delay_p90_ns=getattr(delay, "p90", None),
        delay_p99_ns=getattr(delay, "p99", None),
        delay_p999_ns=getattr(delay, "p999", None),
        delay_maximum_ns=getattr(delay, "maximum", None),
    )


def _delay(point: Point) -> Distribution | None:
    """The delay of the frames; None of several sources, whose quantiles cannot be put together."""
    delays = [source.delay_ns for source in point.sink.per_source]
    return delays[0] if len(delays) == 1 else None


def _boots(data: RunData, who: Who) -> Iterator[Boot]:
    """A row for each start; memory is of the readings in its boot."""
    read: dict[tuple[str, int, str], FootprintRecord] = {}
    for footprint in data.footprints:
        read.setdefault((footprint.boot, footprint.block, footprint.when), footprint)
    for boot in data.boots:
        idle = read.get((boot.boot, boot.block, "idle"))
        yield _boot(boot, who[boot.platform], idle, read.get((boot.boot, boot.block, "after-work")))


def _boot(
    boot: BootRecord, who: Mapping[str, Any], idle: FootprintRecord | None, worked: FootprintRecord | None
) -> Boot:
    way = readiness(boot)
    shared = [held_bytes(memory) for memory in idle.shared.values()] if idle else []
    known = [held for held in shared if held is not None]
    return Boot(
        **who,
        boot=boot.boot,
        block=boot.block + 1,
        attempt=boot.attempt,
        instance=boot.instance,
        guests=boot.scale.guests if boot.scale is not None else 1,
        status=boot.status,
        reason=boot.reason,
        attachment=boot.attachment,
        vcpus=boot.requested.vcpus if boot.requested else None,
        memory_bytes=boot.requested.memory_bytes if boot.requested else None,
        ready_ns=way.total if way else None,
        spawn_ns=way.spawn if way else None,
        kernel_ns=way.kernel if way else None,
        init_ns=way.init if way else None,
        harness_ns=way.harness if way else None,
        idle_bytes=held_bytes(idle.processes) if idle else None,
        after_work_bytes=held_bytes(worked.processes) if worked else None,
        idle_charged_bytes=idle.charged_bytes if idle else None,
        idle_files_bytes=idle.files_bytes if idle else None,
        idle_shared_bytes=sum(known) if known and len(known) == len(shared) else None,
    )


def _run(data: RunData, trials: Sequence[TrialRecord], run: Mapping[str, Any]) -> RunRow:
    manifest, host = data.manifest, data.manifest.host
    return RunRow(
        **run,
        created_realtime_ns=manifest.created_realtime_ns,
        state=data.state.state,
        reason=data.state.reason,
        baseline=manifest.baseline,
        control=manifest.control,
        seed=manifest.plan.seed,
        blocks=_number(manifest.experiment, "blocks"),
        rounds=_number(manifest.experiment, "rounds"),
        planned_trials=len(manifest.plan.trials),
        ended_trials=len(trials),
        ok_trials=sum(trial.status == "ok" for trial in trials),
        cpu_model=_text(host, "cpu_model"),
        cpus=_number(host, "cpus"),
        memory_bytes=_number(host, "memory_bytes"),
        hypervisor=_text(host, "hypervisor"),
        os=_text(host, "os"),
        root=host["root"] if isinstance(host.get("root"), bool) else None,
        agent_build=_text(manifest.agent or {}, "build"),
        image_digest=_text(manifest.image or {}, "digest"),
    )


def _text(of: Mapping[str, Any], key: str) -> str | None:
    """A text of a part of a record that has no fields; None where it is missing, or none."""
    value = of.get(key)
    return value if isinstance(value, str) else None


def _number(of: Mapping[str, Any], key: str) -> int | None:
    """The same of a whole number."""
    value = of.get(key)
    return value if type(value) is int else None
