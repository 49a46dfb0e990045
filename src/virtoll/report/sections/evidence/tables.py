"""`plan.csv`: the trials as they were planned; `commands.csv`: every command line that the run executed."""

import shlex
from typing import Final

from virtoll.report.table import Table, WithCaveat, count, number, shared, text, with_caveats
from virtoll.runfolder.records import CommandRecord, PlannedTrial
from virtoll.stats.values import canonical

PLAN: Final = Table[WithCaveat[PlannedTrial]](
    "plan",
    "a trial as it was planned, in that order",
    lambda source: with_caveats(source.analysis, source.analysis.data.manifest.plan.trials),
    (
        shared("trial", lambda row: row.measured.trial),
        shared("block", lambda row: row.measured.block + 1),
        count(
            "round",
            "the round within the block, from 1; in the run folder it is one less",
            lambda row: row.measured.round + 1,
        ),
        shared("warm_up", lambda row: int(row.measured.warm_up)),
        shared("platform", lambda row: row.measured.platform),
        shared("workload", lambda row: row.measured.workload),
        shared("parameters", lambda row: canonical(row.measured.parameters)),
        shared("condition", lambda row: row.measured.condition and row.measured.condition.label),
        shared("guests", lambda row: row.measured.scale and row.measured.scale.guests),
        shared("vcpus", lambda row: row.measured.scale and row.measured.scale.vcpus),
        shared("memory_bytes", lambda row: row.measured.scale and row.measured.scale.memory_bytes),
        shared("caveat", lambda row: row.caveat),
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
