"""`guests.csv`: each start; `host-cpu.csv`: CPU time trial by trial; `consolidation.csv`: the series step by step."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Column, Table, caveat, count, number, shared, text, whole
from virtoll.runfolder.guest_records import ConsolidationRecord, FootprintRecord
from virtoll.runfolder.records import BootRecord, TrialRecord
from virtoll.stats.analysis import RunData
from virtoll.stats.guests import Readiness, forwarded_frames, held_bytes, readiness, used_ns


@dataclass(frozen=True)
class Start:
    """A guest's start: its way to readiness, and its memory idle and after work; each None if it is not known."""

    boot: BootRecord
    way: Readiness | None
    idle: FootprintRecord | None
    worked: FootprintRecord | None

    @property
    def shared_bytes(self) -> int | None:
        """Of all daemons that serve several guests; None if there are none, or one could not be read."""
        daemons = list(map(held_bytes, self.idle.shared.values())) if self.idle else []
        if not daemons or None in daemons:
            return None
        return sum(held or 0 for held in daemons)


def starts(data: RunData) -> Iterator[Start]:
    """Each start; memory is of the readings in its boot."""
    readings: dict[tuple[str, int, str], FootprintRecord] = {}
    for footprint in data.footprints:
        readings.setdefault((footprint.boot, footprint.block, footprint.when), footprint)
    for boot in data.boots:
        idle = readings.get((boot.boot, boot.block, "idle"))
        worked = readings.get((boot.boot, boot.block, "after-work"))
        yield Start(boot, readiness(boot), idle, worked)


OF_START: Final[tuple[Column[Start], ...]] = (
    whole("ready_ns", "ns", "from the start until the agent answers", lambda row: row.way and row.way.total),
    whole(
        "spawn_ns",
        "ns",
        "of it, all before the guest's own kernel or first program: monitor, firmware, engine",
        lambda row: row.way and row.way.spawn,
    ),
    whole(
        "kernel_ns",
        "ns",
        "of it, the guest's own kernel until its first program; empty on the host's kernel",
        lambda row: row.way and row.way.kernel,
    ),
    whole("init_ns", "ns", "of it, the agent's own way", lambda row: row.way and row.way.init),
    whole(
        "harness_ns",
        "ns",
        "of it, Virtoll's own; the column is there where it was measured",
        lambda row: row.way and row.way.harness,
    ),
    whole(
        "idle_bytes",
        "bytes",
        "memory (PSS and page tables) of the guest's processes, when ready",
        lambda row: row.idle and held_bytes(row.idle.processes),
    ),
    whole(
        "after_work_bytes",
        "bytes",
        "the same at the block's end",
        lambda row: row.worked and held_bytes(row.worked.processes),
    ),
    whole(
        "idle_charged_bytes",
        "bytes",
        "what the guest's cgroup was charged, when ready",
        lambda row: row.idle and row.idle.charged_bytes,
    ),
    whole(
        "idle_files_bytes",
        "bytes",
        "of it, files in the page cache",
        lambda row: row.idle and row.idle.files_bytes,
    ),
    whole(
        "idle_shared_bytes",
        "bytes",
        "memory of daemons that serve several guests",
        lambda row: row.shared_bytes,
    ),
)
"""The way to readiness and memory: a dataset has them as well."""


def _columns_of(source: ReportInput) -> tuple[Column[Start], ...]:
    """All; without `harness_ns` if it was measured of no start."""
    if any(boot.executed_monotonic_ns is not None for boot in source.analysis.data.boots):
        return STARTS.columns
    return tuple(column for column in STARTS.columns if column.name != "harness_ns")


STARTS: Final = Table[Start](
    "guests",
    "a guest's start",
    lambda source: starts(source.analysis.data),
    (
        text("boot", "the start's name in the run folder", lambda row: row.boot.boot),
        shared("platform", lambda row: row.boot.platform),
        shared("block", lambda row: row.boot.block + 1),
        shared("status", lambda row: row.boot.status),
        *OF_START,
        caveat(lambda row: row.boot.platform),
    ),
    columns_of=_columns_of,
)

CPU_TIMES: Final = Table[TrialRecord](
    "host-cpu",
    "a trial around which the CPU time of the guest's processes was read",
    lambda source: [trial for trial in source.analysis.data.trials if used_ns(trial.host_cpu) is not None],
    (
        shared("trial", lambda trial: trial.trial),
        shared("block", lambda trial: trial.block + 1),
        shared("platform", lambda trial: trial.platform),
        shared("workload", lambda trial: trial.workload),
        shared("status", lambda trial: trial.status),
        number("used_ns", "ns", "CPU time of the guest's processes on the host", lambda trial: used_ns(trial.host_cpu)),
        number(
            "forwarded_frames",
            "frames",
            "forwarded meanwhile; empty: no frames were sent",
            lambda trial: forwarded_frames(trial) if trial.points else None,
        ),
        caveat(lambda trial: trial.platform),
    ),
)

STEPS: Final = Table[ConsolidationRecord](
    "consolidation",
    "a step of a consolidation series: one idle guest more",
    lambda source: source.analysis.data.consolidation,
    (
        shared("platform", lambda row: row.platform),
        count("step", "from 1", lambda row: row.step),
        text("status", "ok, failed or stopped", lambda row: row.status),
        shared("guests", lambda row: row.guests),
        number(
            "available_before_bytes",
            "bytes",
            "the host's available memory before the start",
            lambda row: row.available_before_bytes,
        ),
        number("available_bytes", "bytes", "the same after it", lambda row: row.available_bytes),
        number("processes_bytes", "bytes", "memory of all guests' processes", lambda row: row.processes_bytes),
        number(
            "shared_bytes",
            "bytes",
            "memory of daemons that serve several guests",
            lambda row: row.shared_bytes,
        ),
        shared("reason", lambda row: row.reason),
        caveat(lambda row: row.platform),
    ),
)
