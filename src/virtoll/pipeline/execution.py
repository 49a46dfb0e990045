"""The pipeline: experiment -> plan -> platforms -> workloads -> timekeeper -> run folder.

``measure`` is the whole of it in one short function. It knows neither statistics nor report: what it leaves behind is
a run folder (``docs/run-folder.md``).
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from virtoll.agent.hand_over import HandOverAround, hand_over_around
from virtoll.errors import AgentError, GuestCannot, GuestError, NeighbourFailed, UsageError
from virtoll.experiment.model import Experiment, PlatformChoice
from virtoll.experiment.plan import Plan, Trial
from virtoll.hosts.nodes import on_its_nodes
from virtoll.lab import interrupts
from virtoll.pipeline import against, consolidation, extension, manifest, parts, probe_cache, scale
from virtoll.pipeline.calibration import Calibrator
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.guest_pool import GuestPool
from virtoll.pipeline.guest_request import GuestRequests
from virtoll.pipeline.guest_start import GuestStarts
from virtoll.pipeline.in_turn import measured_in_turn
from virtoll.pipeline.live_guest import LiveGuest, running
from virtoll.pipeline.neighbours import Loaded, Neighbours
from virtoll.pipeline.pinning import pinning_for
from virtoll.pipeline.preview import estimate, needs_lab, plan_of
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.requirements import images_of, needs_kernel, possible, why_impossible
from virtoll.pipeline.session import RunSession, model_session, open_run_session
from virtoll.pipeline.sizing import JobSizes
from virtoll.pipeline.stored import plan_difference, stored_experiment
from virtoll.platforms import EVERY_PLATFORM, platform_of
from virtoll.platforms.base import Probe
from virtoll.runfolder.conditions import TRAFFIC_LOADS
from virtoll.runfolder.overhead_records import OverheadReading
from virtoll.runfolder.records import LookRecord, Status, TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.store import RunFolder
from virtoll.version import __version__
from virtoll.workloads import workload_of
from virtoll.workloads.base import Bench, Measurement

if TYPE_CHECKING:
    from virtoll.host.guest_usage import CpuAround

Look = Callable[[RunFolder, int], "LookRecord"]
"""What the results so far decide, after so many blocks: asked for, since this room knows no statistics."""


def measure(
    experiment: Experiment,
    into: Path,
    command: list[str],
    progress: Progress,
    look: Look | None = None,
    *,
    blocks: tuple[int, ...] = (),
) -> None:
    """Run an experiment from its first trial to its last into a new run folder.

    ``look`` is asked after the blocks of the experiment's ``looks``, and may end it there. ``blocks``: measure a part
    of a campaign, which has these blocks alone; none: all of it.
    """
    with open_session_for(experiment, progress) as session:
        whole = plan_of(experiment)
        part = parts.part_of(experiment, whole, blocks) if blocks else None
        plan = parts.only_blocks(whole, blocks) if blocks else whole
        builds = against.record_of(experiment, session)
        probes = probe_all(experiment.platforms, session, progress)
        held = possible(plan, experiment).trials
        usable = replace(plan, trials=tuple(t for t in held if probes[t.platform.label].available))
        document = manifest.build(
            into.name,
            command,
            experiment,
            plan,
            estimated_seconds=estimate(usable),
            probes=probes,
            site=session.site,
            pinning=session.pinning,
            smallest=session.smallest_image if len(images_of(experiment)) > 1 else None,
            against=builds,
        )
        document = document.replace(part=part)
        folder = RunFolder.create(into, document)
        session.commands.record_into(folder)
        _measure_plan(experiment, plan, folder, session, progress, look)
    folder.set_state("complete", None)  # after the lab's end, which records commands too


def resume(into: Path, progress: Progress, look: Look | None = None) -> None:
    """Go on with a run at its first unfinished trial; refused where the host or the agent is not the run's own."""
    folder = RunFolder.open(into)
    experiment = experiment_of(folder)
    with open_session_for(experiment, progress) as session:
        manifest.refuse_other_host(folder.manifest, experiment, session.site)
        against.refuse_changed(folder.manifest, experiment, session)
        folder.repair()
        folder.set_state("running", None)
        session.commands.record_into(folder)
        plan = parts.part_plan(experiment, folder.manifest.part)
        _measure_plan(experiment, plan, folder, session, progress, look)
    folder.set_state("complete", None)


def extend(into: Path, blocks: int, command: list[str], progress: Progress) -> None:
    """Add blocks to a finished run, up to so many in all; refused where anything is not as it was then.

    Its folder is held by the caller. Until the longer plan is stored, nothing of it has changed.
    """
    folder = RunFolder.open(into)
    extension.refuse_unfinished(folder, held=True)
    experiment = extension.extended_experiment(folder, blocks)
    with open_session_for(experiment, progress) as session:
        manifest.refuse_other_host(folder.manifest, experiment, session.site, "extend")
        against.refuse_changed(folder.manifest, experiment, session, "extend")
        extension.refuse_other_platforms(folder.manifest, probe_all(experiment.platforms, session, progress))
        plan = plan_of(experiment)
        folder.repair()
        folder = folder.extend(extension.extended_manifest(folder.manifest, plan, command))
        session.commands.record_into(folder)
        _measure_plan(experiment, plan, folder, session, progress, None)
    folder.set_state("complete", None)


def experiment_of(folder: RunFolder) -> Experiment:
    """The experiment that a run folder was made from; refused where this Virtoll plans other trials of it."""
    if folder.manifest.merged is not None:
        raise UsageError(
            f"{folder.path} is merged of parts; measure a block that it has not with 'virtoll campaign block', and "
            "merge again"
        )
    experiment = stored_experiment(folder.manifest)
    difference = plan_difference(folder.manifest.plan.trials, parts.part_plan(experiment, folder.manifest.part).trials)
    if difference is not None:
        raise UsageError(
            f"{folder.path}: {difference}; resume it with the Virtoll that began it ({folder.manifest.virtoll}, and "
            f"this is {__version__}), or start a new run of {experiment.name}"
        )
    return experiment


def _measure_plan(
    experiment: Experiment, plan: Plan, folder: RunFolder, session: RunSession, progress: Progress, look: Look | None
) -> None:
    many = experiment.scale is not None or experiment.consolidation is not None or experiment.conditions
    if many and not session.site.is_model:
        consolidation.many_guests()
    if experiment.consolidation is not None:
        consolidation.measure(experiment, folder, session, EVERY_PLATFORM, progress)
    else:
        _measure_trials(experiment, plan, folder, session, progress, look)


def _measure_trials(
    experiment: Experiment, plan: Plan, folder: RunFolder, session: RunSession, progress: Progress, look: Look | None
) -> None:
    from virtoll.host.fitness import FitnessSampler

    session.attempts = Counter(record.trial for record in folder.trials())
    session.boots = Counter((boot.platform, boot.block) for boot in folder.boots())
    _skip_impossible(experiment, plan, folder, session)
    finished = folder.finished_trials()
    todo = [trial for trial in plan.trials if trial.number not in finished]
    progress.begin(len(plan.trials) - len(todo), len(plan.trials), estimate(replace(plan, trials=tuple(todo))))
    calibrator = None
    if not session.site.is_model:
        calibrator = Calibrator(experiment, session.site, folder, session.pinning, session.tags)
    sizes = JobSizes(experiment, folder, session, progress)
    neighbours = Neighbours(session, folder, progress)
    with FitnessSampler() as sampler:
        folder.append(sampler.sample(None))
        _calibrate(calibrator, "start" if todo else None, progress)
        for batch in replace(plan, trials=tuple(todo)).batches():
            if _is_decided(experiment, batch[0].block, folder, progress, look):
                break
            against.refuse_change_meanwhile(folder.manifest, experiment, session)
            with fleet_of(experiment, batch, folder, session, progress) as fleet:
                for trial in batch:
                    progress.trial_begins(trial)
                    record = measured(trial, fleet, session, sizes, neighbours)
                    interrupts.check()  # before it is stored: the trial may have failed of it
                    folder.append(record)
                    folder.append(sampler.sample(trial.number))
                    progress.trial_ends(trial, record)
                    if calibrator is not None:
                        calibrator.note(trial.workload, record)
        _calibrate(calibrator, "end" if todo else None, progress)


def _is_decided(experiment: Experiment, blocks: int, folder: RunFolder, progress: Progress, look: Look | None) -> bool:
    """Whether a run that goes on until all is decided ends after so many blocks; each look is taken once."""
    if look is None or experiment.looks is None or experiment.looks.next_after(blocks - 1) != blocks:
        return False
    record = next((record for record in folder.looks() if record.blocks == blocks), None)
    if record is None:
        record = look(folder, blocks)
        folder.append(record)
    if record.ended:
        progress.message(f"all is decided after {blocks} blocks")
    else:
        progress.message(f"after {blocks} blocks {len(record.undecided)} comparisons are not decided")
    return record.ended


def _calibrate(calibrator: Calibrator | None, when: Literal["start", "end"] | None, progress: Progress) -> None:
    """Generator and sink back to back; nothing where all platforms are models or no trial is left."""
    if calibrator is not None and when is not None:
        progress.message(f"calibrating generator and sink ({when})")
        calibrator.run(when)


def fleet_of(
    experiment: Experiment, batch: tuple[Trial, ...], folder: RunFolder, session: RunSession, progress: Progress
) -> Fleet:
    """The guests of a batch of trials, to be entered: started when asked for, and ended with it."""
    starts = GuestStarts(
        batch[0].block,
        folder,
        EVERY_PLATFORM,
        boots=session.boots,
        requests=GuestRequests(experiment, session.pinning),
        pool=GuestPool(progress),
        overhead=session.overhead,
    )
    return Fleet(experiment, batch, session.site_of, starts)


def measured(trial: Trial, fleet: Fleet, session: RunSession, sizes: JobSizes, neighbours: Neighbours) -> TrialRecord:
    """One trial's record, whatever becomes of it: a failing guest costs its own trials only."""
    from virtoll.pipeline.drafts import skipped_trial

    session.attempts[trial.number] += 1
    refused = fleet.refuses(trial.platform.label, trial.workload)
    if refused is not None:
        return skipped_trial(trial, session.attempts[trial.number], refused)
    if trial.scale is not None:
        return _measure_at_once(trial, trial.scale, fleet, session)
    return _measure_trial(trial, fleet, session, sizes, neighbours)


@dataclass
class _Attempt:
    """What became of a trial so far; ``overhead``: what the instrument had used before it."""

    trial: Trial
    session: RunSession
    started_ns: int
    overhead: OverheadReading
    status: Status = "ok"
    reason: str | None = None
    boot: str | None = None
    evidence: tuple[str, ...] = ()
    shortened: bool = False
    outcome: Measurement = field(default_factory=Measurement)
    loaded: Loaded = field(default_factory=Loaded)
    host_cpu: CpuAround | None = None
    hand_over: HandOverAround = field(default_factory=HandOverAround)

    def skip(self, reason: str) -> None:
        """Nothing was measured."""
        self.status, self.reason = "skipped", reason

    def fail(self, error: GuestError) -> None:
        """A guest failed, or the peer's agent, which ends the run."""
        self.session.refuse_dead_agent(error)
        self.status, self.reason = "failed", str(error)

    def doubt(self, problem: str | None) -> None:
        """What was measured is not what was asked for, if there is a problem."""
        if self.status == "ok" and problem is not None:
            self.status, self.reason = "invalid", problem

    def record(self) -> TrialRecord:
        """As it is stored, without what was measured."""
        from virtoll.pipeline.drafts import skipped_trial

        return skipped_trial(self.trial, self.session.attempts[self.trial.number], self.reason).replace(
            boot=self.boot,
            status=self.status,
            started_realtime_ns=self.started_ns,
            ended_realtime_ns=time.time_ns(),
            evidence=self.evidence,
            shortened=self.shortened,
            overhead=self.session.overhead.cost_since(self.overhead, counters=self.trial.platform.counters),
            hand_over=self.hand_over.span,
        )


def _measure_trial(
    trial: Trial, fleet: Fleet, session: RunSession, sizes: JobSizes, neighbours: Neighbours
) -> TrialRecord:
    """The record of a trial of one guest, or of those that its workload measures side by side."""
    from virtoll.pipeline.drafts import with_outcome

    started_ns = time.time_ns()
    repeats = sizes.repeats(trial, fleet)
    attempt = _Attempt(trial, session, started_ns, session.overhead.begin())
    try:
        _measure_guests(attempt, fleet, neighbours, repeats)
    except NeighbourFailed as error:
        attempt.fail(error)
        if trial.condition is not None:
            attempt.evidence = fleet.lose_neighbours(trial.platform.label, trial.condition, f"trial-{trial.number}")
    except GuestCannot as error:  # no guest was asked for anything
        attempt.skip(str(error))
    except GuestError as error:
        attempt.fail(error)
        attempt.reason, attempt.evidence = fleet.lose(
            trial.platform.label, trial.workload, error, f"trial-{trial.number}"
        )
    record = attempt.record().replace(
        host_cpu=attempt.host_cpu.used if attempt.host_cpu else None,
        repeats=repeats,
        neighbours=attempt.loaded.records,
    )
    return with_outcome(record, attempt.outcome)


def _measure_guests(attempt: _Attempt, fleet: Fleet, neighbours: Neighbours, repeats: int) -> None:
    trial, session = attempt.trial, attempt.session
    workload = workload_of(trial.workload)
    needs = workload.needs()
    guests = fleet.guests(trial.platform.label, needs.guests, needs.affinity)
    if not guests:
        _skip_absent(attempt, fleet)
        return
    live = guests[0]
    attempt.boot = live.boot
    # What one of several used is no part of what was measured of all of them.
    used = live.host_cpu() if len(guests) == 1 else contextlib.nullcontext()
    neighbour_guests = fleet.neighbours(trial.platform.label, trial.condition) if trial.condition else ()
    with running(guests), used as attempt.host_cpu, live.prepared(workload.name, needs) as lacking:
        try:
            if lacking is not None:
                raise GuestCannot(lacking)
            co_located = tuple(other.bench(session.pinning, session.tags) for other in guests[1:])
            bench = replace(live.bench(session.pinning, session.tags, co_located), repeats=repeats)
            if trial.condition is not None:
                bench = replace(bench, cpus=())  # a load takes the idle time that CPU time is told from
            around = attempt.host_cpu
            counted = live.timekeeper.also(around.measuring) if around else contextlib.nullcontext()
            with (
                hand_over_around(bench.hand_overs) as attempt.hand_over,
                neighbours.loaded(neighbour_guests, trial.condition) as attempt.loaded,
                counted,
            ):
                _measure_round(attempt, live, bench, fleet)
        except AgentError as error:
            if error.kind != "unsupported":
                raise
            attempt.skip(str(error))  # the guest is well, and goes on with other trials
    problem = _unlike("its guest", guests) or _unlike("a guest beside it", neighbour_guests)
    attempt.doubt(problem or attempt.outcome.problem or attempt.loaded.problem)


def _measure_round(attempt: _Attempt, live: LiveGuest, bench: Bench, fleet: Fleet) -> None:
    """A warm-up, a whole trial, or what a later round measures of a guest that had a whole one."""
    trial = attempt.trial
    workload = workload_of(trial.workload)
    if trial.warm_up:
        attempt.outcome = workload.warm_up(bench)
        return
    first = live.first_rounds.get(trial.workload) if trial.later else None
    later = None
    if first is not None:
        in_turn = measured_in_turn(trial, live, bench, fleet, attempt.session)
        later = workload.measure_later(bench, first) if in_turn is None else in_turn
    if later is not None:
        attempt.outcome, attempt.shortened = later, True
        return
    attempt.outcome = workload.measure(bench)
    if attempt.outcome.problem is None:
        live.first_rounds[trial.workload] = attempt.outcome


def _skip_absent(attempt: _Attempt, fleet: Fleet) -> None:
    reason = fleet.why_absent(attempt.trial.platform.label)
    attempt.skip(reason)
    attempt.session.refuse_dead_agent(GuestError(reason))


def _measure_at_once(trial: Trial, point: ScalePoint, fleet: Fleet, session: RunSession) -> TrialRecord:
    """The record of a trial of several guests at once."""
    attempt = _Attempt(trial, session, time.time_ns(), session.overhead.begin())
    outcome = scale.Outcome()
    guests = fleet.group(trial.platform, point)
    try:
        if not guests:
            _skip_absent(attempt, fleet)
        else:
            attempt.boot = guests[0].boot
            outcome = scale.measure_at_once(trial, point, guests, session)
            attempt.hand_over.span = outcome.hand_over
            session.overhead.join()
            attempt.doubt(outcome.problem)
    except AgentError as error:  # the guests are well, and go on with other trials
        attempt.skip(str(error))
    except NeighbourFailed as error:
        attempt.fail(error)
        attempt.evidence = fleet.lose_group(trial.platform.label, trial.workload, error, f"trial-{trial.number}")
    return attempt.record().replace(members=outcome.members)


def _unlike(which: str, guests: Sequence[LiveGuest]) -> str | None:
    """In what guests are not those that were asked for, in one sentence; None: they are."""
    unlike = dict.fromkeys(text for guest in guests for text in guest.unlike)
    return f"{which} is not what was asked for: {'; '.join(unlike)}" if unlike else None


def _skip_impossible(experiment: Experiment, plan: Plan, folder: RunFolder, session: RunSession) -> None:
    """A record for each trial that cannot run, so that none is missing and no guest is started for it.

    Its platform cannot be used here, or has not what the workload needs.
    """
    from virtoll.pipeline.drafts import skipped_trial

    reasons = {entry.label: entry.reason for entry in folder.manifest.platforms if not entry.available}
    for trial in plan.trials:
        neighbour = trial.condition.platform if trial.condition is not None else None
        reason = reasons.get(trial.platform.label) or why_impossible(trial, experiment)
        if reason is None and neighbour is not None and neighbour in reasons:
            reason = f"the guests beside it cannot be there: {reasons[neighbour]}"
        if reason is not None and not session.attempts[trial.number]:
            folder.append(skipped_trial(trial, 1, reason))


@contextlib.contextmanager
def open_session_for(experiment: Experiment, progress: Progress) -> Iterator[RunSession]:
    """The ground that an experiment's guests stand on; nothing but numbers for models alone."""
    pinning = pinning_for(experiment)
    if not needs_lab(experiment):
        yield model_session(pinning)
        return
    neighbour_traffic = any(condition.load in TRAFFIC_LOADS for condition in experiment.conditions)
    with open_run_session(
        pinning,
        progress,
        experiment.image,
        on_its_nodes(experiment.testbed) if experiment.testbed is not None else None,
        kernel=needs_kernel(experiment),
        neighbour_traffic=neighbour_traffic,
        peer_data_bytes=max(
            (workload_of(choice).needs().peer_data_bytes for choice in experiment.workloads), default=0
        ),
    ) as session:
        yield session


def probe_all(choices: tuple[PlatformChoice, ...], session: RunSession, progress: Progress) -> dict[str, Probe]:
    """Find out which platforms work on their hosts, by label: by trying, or remembered from this host's same boot."""
    probes = {}
    for choice in choices:
        progress.message(f"trying {choice.label}")
        try:
            site = session.site_of(choice)
        except GuestError as error:
            probes[choice.label] = Probe(False, None, str(error))
            continue
        with site.awake():
            probes[choice.label] = probe_cache.probe(platform_of(choice), choice, site)
    return probes
