"""`plan.csv`: the trials as they were planned; `commands.csv`: every command line that the run executed."""

import shlex
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, count, number, shared, text
from virtoll.runfolder.records import CommandRecord, PlannedTrial
from virtoll.stats.values import canonical


def _planned(source: ReportInput) -> list[tuple[PlannedTrial, str | None]]:
    """Each planned trial with its platform's caveat."""
    analysis = source.analysis
    return [(trial, analysis.caveats.get(trial.platform)) for trial in analysis.data.manifest.plan.trials]


PLAN: Final = Table[tuple[PlannedTrial, str | None]](
    "plan",
    "a trial as it was planned, in that order",
    _planned,
    (
        shared("trial", lambda row: row[0].trial),
        shared("block", lambda row: row[0].block + 1),
        count(
            "round",
            "the round within the block, from 1; in the run folder it is one less",
            lambda row: row[0].round + 1,
        ),
        shared("warm_up", lambda row: int(row[0].warm_up)),
        shared("platform", lambda row: row[0].platform),
        shared("workload", lambda row: row[0].workload),
        shared("parameters", lambda row: canonical(row[0].parameters)),
        shared("condition", lambda row: row[0].condition and row[0].condition.label),
        shared("guests", lambda row: row[0].scale and row[0].scale.guests),
        shared("vcpus", lambda row: row[0].scale and row[0].scale.vcpus),
        shared("memory_bytes", lambda row: row[0].scale and row[0].scale.memory_bytes),
        shared("caveat", lambda row: row[1]),
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
