"""How often a workload's job runs between its marks: as often as the host needs for 200 ms, found once a run.

Main type: ``JobSizes``. A job of 30 ms is not measured: it is lost in what else the host does. The host runs it more
often each time, until even at its fastest it takes long enough. Every platform then runs it as often as that, but a
guest that would take three times as long runs it only until that is long enough. What they took is stored
(``sizing.jsonl``), so that a resumed run goes on with the same sizes.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from virtoll.errors import AgentError, GuestError
from virtoll.experiment.model import Experiment, WorkloadChoice
from virtoll.experiment.plan import Trial
from virtoll.pipeline.fleet import Fleet
from virtoll.pipeline.live_guest import running
from virtoll.pipeline.progress import Progress
from virtoll.pipeline.session import RunSession
from virtoll.runfolder.records import SizingRecord, SizingRun, duration_ns
from virtoll.runfolder.store import RunFolder
from virtoll.workloads import workload_of
from virtoll.workloads.base import SIZED_NS, Bench

_MOST_RUNS = 10
_MOST_UNMEASURED = 4  # a busy host holds up the mark of a job this short now and then, and it is run again
_MOST_ATTEMPTS = 2  # of the host: one disturbed moment must not leave a job short for all blocks of the run
_AIM = 1.1  # beyond the least time, so that the next run seldom falls short of it
_MOST_GROWTH = 64  # a run so much shorter than the least time says little of the next one
_MOST_LONGER = 3.0  # times the least time: a guest that takes longer for the host's repeats runs fewer


class JobSizes:
    """The repeats of each workload of a run; those that an earlier session found are read from the run folder."""

    def __init__(self, experiment: Experiment, folder: RunFolder, session: RunSession, progress: Progress) -> None:
        self._baseline = experiment.baseline
        self._hosts = (experiment.baseline, experiment.control)
        self._sized = experiment.order == "randomised" and (experiment.rounds > 1 or bool(experiment.conditions))
        self._folder = folder
        self._session = session
        self._progress = progress
        self._records: defaultdict[tuple[str, str, str], list[SizingRecord]] = defaultdict(list)
        for record in folder.sizings():
            self._records[record.workload, str(record.parameters), record.platform].append(record)

    def repeats(self, trial: Trial, fleet: Fleet) -> int:
        """How often the trial's job runs; 1 for a warm-up, and for what cannot be repeated or has no host to ask."""
        workload = workload_of(trial.workload)
        if trial.warm_up or not self._sized or not workload.repeatable or self._baseline is None:
            return 1
        host = self._record(trial.workload, self._baseline, fleet, None).repeats
        label = trial.platform.label
        if host == 1 or label in self._hosts or fleet.has_refused(label, trial.workload):
            return host
        return self._record(trial.workload, label, fleet, host).repeats

    def _record(self, choice: WorkloadChoice, label: str, fleet: Fleet, host: int | None) -> SizingRecord:
        """The last record of a platform's size; ``host``: the host's repeats, None if it is the host's own."""
        records = self._records[choice.workload, str(choice.parameters.model_dump(mode="json")), label]
        attempts = _MOST_ATTEMPTS if host is None else 1
        while not records or (records[-1].reason is not None and len(records) < attempts):
            records.append(self._measure(choice, label, fleet, len(records) + 1, host))
            self._folder.append(records[-1])
        return records[-1]

    def _measure(
        self, choice: WorkloadChoice, label: str, fleet: Fleet, attempt: int, host: int | None
    ) -> SizingRecord:
        """A platform's runs and its repeats; if it cannot run the job, the host's repeats or one, with the reason."""
        self._progress.message(f"sizing {choice.workload} on {label}")
        parameters = choice.parameters.model_dump(mode="json")
        record = SizingRecord(choice.workload, parameters, label, boot=None, repeats=host or 1, runs=(), reason=None)
        live = fleet.guest(label)
        if live is None:
            return record.replace(reason=fleet.why_absent(label))
        runs: list[SizingRun] = []
        unmeasured: list[str] = []
        refused: str | None = None
        try:
            with running((live,)):
                for _ in range(_MOST_RUNS):
                    repeats = _next(runs) if host is None else _next_of_guest(runs, host)
                    if repeats is None or len(unmeasured) == _MOST_UNMEASURED:
                        break
                    bench = replace(live.bench(self._session.pinning, self._session.tags), repeats=repeats)
                    try:
                        runs.append(_run(choice, bench, repeats))
                    except _NotMeasuredError as error:
                        unmeasured.append(str(error))
                    except AgentError as error:
                        if error.kind != "unsupported":
                            raise
                        refused = str(error)  # the guest is well
                        break
        except GuestError as error:
            reason, _ = fleet.lose(label, choice, error, f"sizing-{choice.workload}-{attempt}")
            return record.replace(boot=live.boot, runs=tuple(runs), reason=reason)
        if refused is not None:
            return record.replace(boot=live.boot, runs=tuple(runs), reason=refused)
        if len(unmeasured) == _MOST_UNMEASURED:
            reason = f"a run for its size is no measurement: {unmeasured[-1]}"
            return record.replace(boot=live.boot, runs=tuple(runs), reason=reason)
        repeats = runs[-1].repeats if host is None else _repeats_of_guest(runs, host)
        return record.replace(boot=live.boot, runs=tuple(runs), repeats=repeats)


class _NotMeasuredError(Exception):
    """A run whose duration is not known, or whose answer is wrong."""


def _run(choice: WorkloadChoice, bench: Bench, repeats: int) -> SizingRun:
    """One run."""
    outcome = workload_of(choice).measure(bench)
    if outcome.problem is not None or outcome.clock is None:
        raise _NotMeasuredError(outcome.problem or "there are no marks")
    return SizingRun(repeats, outcome.clock)


def _next(runs: Sequence[SizingRun]) -> int | None:
    """How often the host runs the job next; None where so many repeats as in the last two runs were long enough.

    One disturbed run may make a job look long: what counts is the fastest repeat of all runs.
    """
    if not runs:
        return 1
    last, repeat_ns = runs[-1].repeats, _fastest_ns(runs)
    if last * repeat_ns < SIZED_NS:
        return max(last + 1, math.ceil(min(_AIM * SIZED_NS / repeat_ns, _MOST_GROWTH * last)))
    return None if len(runs) > 1 and runs[-2].repeats == last else last


def _next_of_guest(runs: Sequence[SizingRun], host: int) -> int | None:
    """Another guest runs the job once, and once more if that was slow: the first run may have been disturbed."""
    return 1 if not runs or (len(runs) == 1 and _repeats_of_guest(runs, host) < host) else None


def _repeats_of_guest(runs: Sequence[SizingRun], host: int) -> int:
    """The host's repeats, or as many as take the least time where those take a guest much longer."""
    repeat_ns = _fastest_ns(runs)
    if host * repeat_ns <= _MOST_LONGER * SIZED_NS:
        return host
    return min(host, math.ceil(SIZED_NS / repeat_ns))


def _fastest_ns(runs: Sequence[SizingRun]) -> float:
    """Of one repeat, in all runs."""
    return min(max(duration_ns(run.clock) or 0, 1) / run.repeats for run in runs)
