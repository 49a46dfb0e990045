"""The guests themselves as CSV: each start, CPU time trial by trial, consolidation step by step."""

from collections.abc import Sequence

from virtoll.report.csv_table import CsvTable, Row
from virtoll.runfolder.guest_records import FootprintRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.guests import forwarded_frames, held_bytes, readiness, used_ns


def guest_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """The three tables; without rows where nothing was read."""
    return _guests(analysis), _host_cpu(analysis), _consolidation(analysis)


def _guests(analysis: Analysis) -> CsvTable:
    """One row a start; a column for the harness where it was measured."""
    measured = any(boot.executed_monotonic_ns is not None for boot in analysis.data.boots)
    header = (
        "boot",
        "platform",
        "block",
        "status",
        "ready_ns",
        "spawn_ns",
        "kernel_ns",
        "init_ns",
        *(["harness_ns"] if measured else []),
        "idle_bytes",
        "after_work_bytes",
        "idle_charged_bytes",
        "idle_files_bytes",
        "idle_shared_bytes",
        "caveat",
    )
    rows: list[Row] = []
    for boot in analysis.data.boots:
        way, read = readiness(boot), [one for one in analysis.data.footprints if one.boot == boot.boot]
        idle, worked = _at(read, "idle"), _at(read, "after-work")
        shared = [held_bytes(own) for own in idle.shared.values()] if idle else []
        rows.append(
            (
                boot.boot,
                boot.platform,
                boot.block + 1,
                boot.status,
                way.total if way else None,
                way.spawn if way else None,
                way.kernel if way else None,
                way.init if way else None,
                *([way.harness if way else None] if measured else []),
                held_bytes(idle.processes) if idle else None,
                held_bytes(worked.processes) if worked else None,
                idle.charged_bytes if idle else None,
                idle.files_bytes if idle else None,
                sum(one or 0 for one in shared) if shared and None not in shared else None,
                analysis.caveats.get(boot.platform),
            )
        )
    return CsvTable("guests", header, tuple(rows))


def _at(read: Sequence[FootprintRecord], when: str) -> FootprintRecord | None:
    return next((one for one in read if one.when == when), None)


def _host_cpu(analysis: Analysis) -> CsvTable:
    """One row a trial that was read before and after."""
    header = ("trial", "block", "platform", "workload", "status", "used_ns", "forwarded_frames", "caveat")
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.platform,
            one.workload,
            one.status,
            used,
            forwarded_frames(one) if one.points else None,
            analysis.caveats.get(one.platform),
        )
        for one in analysis.data.trials
        if (used := used_ns(one.host_cpu)) is not None
    )
    return CsvTable("host-cpu", header, rows)


def _consolidation(analysis: Analysis) -> CsvTable:
    header = (
        "platform",
        "step",
        "status",
        "guests",
        "available_before_bytes",
        "available_bytes",
        "processes_bytes",
        "shared_bytes",
        "reason",
        "caveat",
    )
    rows = tuple(
        (
            one.platform,
            one.step,
            one.status,
            one.guests,
            one.available_before_bytes,
            one.available_bytes,
            one.processes_bytes,
            one.shared_bytes,
            one.reason,
            analysis.caveats.get(one.platform),
        )
        for one in analysis.data.consolidation
    )
    return CsvTable("consolidation", header, rows)
