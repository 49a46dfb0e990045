"""Trials with observers on, of a run that has ended: what a guest made its host do, beside what the host itself did.

``explain`` is the whole of it. It measures a run's cells again, a few times each, and keeps what observers counted.
What it writes is in the folder ``explain`` of the run's own, in records of their own type: no duration and no rate is
among them, and nothing of the finished run is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from virtoll.errors import GuestError, UsageError
from virtoll.experiment.model import Experiment
from virtoll.experiment.plan import Plan, Trial
from virtoll.experiment.selection import Selection, kept_cells
from virtoll.host.observe import Observation, observing
from virtoll.host.observe.base import Watched
from virtoll.host.observe.host_proc import host_proc
from virtoll.lab import interrupts
from virtoll.pipeline import manifest
from virtoll.pipeline.execution import fleet_of, measured, open_session_for, probe_all
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.live_guest import LiveGuest
from virtoll.pipeline.neighbours import Neighbours
from virtoll.pipeline.overhead import OverheadMeter
from virtoll.pipeline.preview import estimate
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.requirements import why_impossible
from virtoll.pipeline.session import RunSession
from virtoll.pipeline.sizing import JobSizes
from virtoll.pipeline.stored import stored_experiment
from virtoll.runfolder import jsonlines
from virtoll.runfolder.explain_records import CounterSpan, ObservedTrial
from virtoll.runfolder.overhead_records import OverheadReading
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import remove_sums, write_sums
from virtoll.workloads import workload_of

if TYPE_CHECKING:
    from virtoll.platforms.base import Probe
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class ExplainRequest:
    """What of a run is to be explained, and by how many trials of each platform and workload."""

    selection: Selection
    repetitions: int


def explain(run: RunFolder, request: ExplainRequest, progress: Progress) -> None:
    """Measure what is left to be observed, and store it beside the run; refused on another host than the run's."""
    experiment = explained_experiment(run)
    todo = outstanding(run, experiment, request)
    with open_session_for(experiment, progress) as session:
        manifest.refuse_other_host(run.manifest, experiment, session.site, "explain")
        folder = _prepared(run)
        session.commands.record_into(folder)
        session.boots = Counter((boot.platform, boot.block) for boot in folder.boots())
        choices = tuple(dict.fromkeys(trial.platform for trial in todo.trials))
        probes = probe_all(choices, session, progress)
        _observe(experiment, todo, folder, session, probes, progress)
        write_sums(folder.path, folder.root)


def explained_experiment(run: RunFolder) -> Experiment:
    """The run's experiment; a ``UsageError`` where the run has not ended, or has no trials of one guest."""
    if run.state().state != "complete":
        raise UsageError(f"{run.path}: its run has not ended; end it with 'virtoll resume {run.path}', then explain it")
    if run.manifest.merged is not None:
        raise UsageError(f"{run.path} is merged of parts; explain one of the parts, on the host that measured it")
    experiment = stored_experiment(run.manifest)
    if experiment.scenario in ("scale", "consolidation"):
        raise UsageError(
            f"{run.path}: its scenario is {experiment.scenario}, and guests are observed one at a time; "
            "explain a run of another scenario"
        )
    return experiment


def outstanding(run: RunFolder, experiment: Experiment, request: ExplainRequest) -> Plan:
    """The trials that are still to be observed, repetition by repetition; numbered on from those that were tried."""
    labels = {choice.label: choice.platform for choice in experiment.platforms}
    names = [choice.workload for choice in experiment.workloads]
    cells = kept_cells(labels, names, (experiment.baseline,), request.selection) & experiment.cells
    records = run.explanations.observed()
    done = {
        (record.platform, record.workload, _key(record.parameters), record.repetition)
        for record in records
        if record.status == "ok"
    }
    trials: list[Trial] = []
    for repetition in range(request.repetitions):
        for workload in experiment.workloads:
            key = workload.workload, _key(workload.parameters.model_dump(mode="json")), repetition
            for platform in experiment.platforms:
                if (platform.label, workload.workload) in cells and (platform.label, *key) not in done:
                    trials.append(Trial(len(records) + len(trials), repetition, platform, workload))
    return Plan(experiment.seed, tuple(trials))


def _key(parameters: Mapping[str, Any]) -> str:
    return json.dumps(parameters, sort_keys=True)


def _prepared(run: RunFolder) -> RunFolder:
    """The run's folder of explanations, whole, with the sizes of the run's jobs."""
    folder = run.explanations
    jsonlines.make_folder(folder.path, folder.root)
    remove_sums(folder.path, folder.root)
    folder.repair()
    if not folder.sizings():
        for record in run.sizings():
            folder.append(record)
    return folder


def _observe(
    experiment: Experiment,
    todo: Plan,
    folder: RunFolder,
    session: RunSession,
    probes: Mapping[str, Probe],
    progress: Progress,
) -> None:
    """Each trial's record; what cannot run has one at once, with the reason."""
    from virtoll.pipeline.drafts import skipped_trial

    able = []
    for trial in todo.trials:
        probe = probes[trial.platform.label]
        reason = why_impossible(trial, experiment) if probe.available else probe.reason
        if reason is None:
            able.append(trial)
        else:
            now_ns = time.time_ns()
            skipped = skipped_trial(trial, 1, reason).replace(started_realtime_ns=now_ns, ended_realtime_ns=now_ns)
            folder.append(_record(trial, skipped, (), {}, ()))
    plan = replace(todo, trials=tuple(able))
    progress.begin(len(todo.trials) - len(able), len(todo.trials), estimate(plan))
    sizes, neighbours = JobSizes(experiment, folder, session, progress), Neighbours(session, folder, progress)
    session.overhead = watcher = Watcher(session.overhead.agents)
    for batch in plan.batches():
        since_ticks = int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS_PER_SECOND)
        with fleet_of(experiment, batch, folder, session, progress) as fleet:
            for trial in batch:
                progress.trial_begins(trial)
                guests = _guests(trial, fleet)
                with watcher.watching(watched(guests, since_ticks)) as observation:
                    record = measured(trial, fleet, session, sizes, neighbours)
                interrupts.check()  # before it is stored: the trial may have failed of it
                cpus = tuple(sorted({cpu for live in guests for cpu in live.place.cpus}))
                folder.append(_record(trial, record, watcher.spans, observation.uncounted, cpus))
                progress.trial_ends(trial, record)


@dataclass
class Watcher(OverheadMeter):
    """Reads the observers' counters around each request whose answer is measured; ``spans``: of the last trial."""

    spans: list[CounterSpan] = field(default_factory=list)
    _observation: Observation = field(default_factory=lambda: Observation((), {}))

    @contextlib.contextmanager
    def watching(self, guest: Watched) -> Iterator[Observation]:
        """From now on it is this guest that is observed."""
        with observing(guest) as self._observation:
            yield self._observation

    def begin(self) -> OverheadReading:
        """A trial begins: what was counted before belongs to another, or to what comes before it."""
        self.spans.clear()
        return super().begin()

    @contextlib.contextmanager
    def measuring(self) -> Iterator[None]:
        """Around one request whose answer is what is measured; kept after an orderly end only."""
        before = self._observation.read()
        with super().measuring():
            yield
        self.spans.append(CounterSpan(before, self._observation.read_again(before)))


def watched(guests: Sequence[LiveGuest], since_ticks: int = 0) -> Watched:
    """Guests that are measured together, as observers see them; without processes where one has none here."""
    places = [live.guest.host_processes() for live in guests]
    processes = tuple(place for place in places if place is not None)
    model = all(live.site.is_model for live in guests)
    if not guests or (len(processes) < len(guests) and not model):
        return Watched()

    def counted() -> Mapping[str, int]:
        total: Counter[str] = Counter()
        for live in guests:
            total.update(live.guest.own_counters())
        return total

    if model:
        return Watched(platform=counted)
    host = guests[0].site.this_machine
    links = [link for live in guests for link in live.network.links]
    names = [name for link in links for name in (link.lab_interface, link.port_interface, link.outer_interface)]
    return Watched(
        processes=processes,
        cpus=tuple(sorted({cpu for live in guests for cpu in live.place.cpus})),
        interfaces=tuple(dict.fromkeys(names)),
        platform=counted,
        run=host.run,
        scratch=host.scratch / "observe",
        host_proc=host_proc(),
        since_ticks=since_ticks,
    )


def _guests(trial: Trial, fleet: Fleet) -> tuple[LiveGuest, ...]:
    """The guests that the trial will be of, started where they are not there; none where they cannot be had."""
    needs = workload_of(trial.workload).needs()
    try:
        return fleet.guests(trial.platform.label, needs.guests, needs.affinity)
    except GuestError:
        return ()  # the trial says why


def _record(
    trial: Trial,
    record: TrialRecord,
    spans: Sequence[CounterSpan],
    uncounted: Mapping[str, str],
    cpus: tuple[int, ...],
) -> ObservedTrial:
    """The observed trial: of what was measured its frames or jobs alone."""
    points = record.points or ()
    of_points = len(points) == len(spans)
    counted = tuple(
        span.replace(forwarded_frames=sum(source.forwarded_frames for source in points[place].sink.per_source))
        if of_points
        else span
        for place, span in enumerate(spans)
    )
    return ObservedTrial(
        platform=record.platform,
        workload=record.workload,
        parameters=record.parameters,
        repetition=trial.block,
        boot=record.boot,
        status=record.status,
        reason=record.reason,
        started_realtime_ns=record.started_realtime_ns or 0,
        ended_realtime_ns=record.ended_realtime_ns or 0,
        jobs=None if points else record.repeats,
        spans=counted if record.status == "ok" else (),
        uncounted=dict(uncounted),
        cpus=cpus,
        evidence=record.evidence,
        host=record.host,
        caveat=record.caveat,
    )
