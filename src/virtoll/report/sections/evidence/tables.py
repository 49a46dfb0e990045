"""`plan.csv`: the trials as they were planned; `commands.csv`: every command line that the run executed."""

import shlex
from typing import Final

from virtoll.report.table import Table, caveat, count, number, shared, text
from virtoll.runfolder.records import CommandRecord, PlannedTrial
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
