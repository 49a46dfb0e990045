"""`plan.csv`: the trials as they were planned; `commands.csv`: every command line that the run executed.

`hand_over.csv`: every reading of how fast two CPUs hand a cache line to each other.
"""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, caveat, count, number, shared, text, whole
from virtoll.runfolder.hand_over import HandOver
from virtoll.runfolder.records import CommandRecord, PlannedTrial, TrialRecord
from virtoll.stats.hand_over import spans_of
from virtoll.stats.values import canonical

PLAN: Final = Table[PlannedTrial](
    "plan",
    "a trial as it was planned, in that order",
    lambda source: source.analysis.data.manifest.plan.trials,
    (
        shared("trial", lambda row: row.trial),
        shared("block", lambda row: row.block + 1),
        count(
            "round",
            "the round within the block, from 1; in the run folder it is one less",
            lambda row: row.round + 1,
        ),
        shared("warm_up", lambda row: int(row.warm_up)),
        shared("platform", lambda row: row.platform),
        shared("workload", lambda row: row.workload),
        shared("parameters", lambda row: canonical(row.parameters)),
        shared("condition", lambda row: row.condition and row.condition.label),
        shared("guests", lambda row: row.scale and row.scale.guests),
        shared("vcpus", lambda row: row.scale and row.scale.vcpus),
        shared("memory_bytes", lambda row: row.scale and row.scale.memory_bytes),
        caveat(lambda row: row.platform),
    ),
)

COMMANDS: Final = Table[CommandRecord](
    "commands",
    "a command line that the run executed",
    lambda source: source.analysis.data.commands,
    (
        number("realtime_ns", "ns", "when it was started, since 1970 (UTC)", lambda command: command.realtime_ns),
        text("role", "what it was for", lambda command: command.role),
        count("exit", "its exit code; empty: it did not end by itself", lambda command: command.exit),
        text("command", "as a shell takes it", lambda command: shlex.join(command.argv)),
    ),
)


@dataclass(frozen=True)
class HandOverRow:
    """A reading around a trial, or around a `point` of it, `points` or `cpu_points`; `when`: before or after."""

    trial: TrialRecord
    points: str | None
    point: int | None
    when: str
    reading: HandOver


def _hand_overs(source: ReportInput) -> Iterator[HandOverRow]:
    for trial in source.analysis.data.every_trial:
        for around in spans_of(trial):
            for when, readings in (("before", around.span.before), ("after", around.span.after)):
                for reading in readings:
                    yield HandOverRow(trial, around.points, around.place, when, reading)


HAND_OVER: Final = Table[HandOverRow](
    "hand_over",
    "a reading of how fast two CPUs hand a cache line to each other",
    _hand_overs,
    (
        shared("trial", lambda row: row.trial.trial),
        shared("block", lambda row: row.trial.block + 1),
        shared("platform", lambda row: row.trial.platform),
        shared("workload", lambda row: row.trial.workload),
        text(
            "points",
            "points or cpu_points: which list of the trial's; empty: it is around the trial",
            lambda row: row.points,
        ),
        shared("point", lambda row: row.point),
        text("when", "before or after", lambda row: row.when),
        count("cpu", "the CPU that writes first", lambda row: row.reading.cpus[0]),
        count("other_cpu", "the CPU that answers", lambda row: row.reading.cpus[1]),
        number(
            "round_trip_ns",
            "ns",
            "the shortest batch over its round trips; empty: there is no reading",
            lambda row: row.reading.round_trip_ns,
        ),
        whole("least_batch_ns", "ns", "the shortest batch", lambda row: row.reading.least_batch_ns),
        whole("median_batch_ns", "ns", "the middle batch", lambda row: row.reading.median_batch_ns),
        count("batch_round_trips", "round trips of a batch", lambda row: row.reading.batch_round_trips),
        count("batches", "batches that were timed", lambda row: row.reading.batches),
        text("reason", "why there is no reading", lambda row: row.reading.reason),
    ),
    optional=True,
)
