"""The report's tables as CSV: raw values per trial, comparisons, points, clock, facts. Column names hold the units."""

import shlex
from collections.abc import Iterator, Sequence

from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report.conditional_throughput import throughput_tables
from virtoll.report.csv_table import CsvTable, Row, times_slower
from virtoll.report.explanation import explanation_tables
from virtoll.report.guest_tables import guest_tables
from virtoll.report.guests_at_once import at_once_tables
from virtoll.report.hosts import hosts_tables
from virtoll.report.listed_rates import listed_rate_tables
from virtoll.report.over_parameters import parameter_tables
from virtoll.report.pause_frames import pause_tables
from virtoll.report.report_input import ReportInput
from virtoll.report.scaling import scaling_tables
from virtoll.report.sections import SECTIONS
from virtoll.stats.analysis import Analysis
from virtoll.stats.values import TasksOf, canonical


def csv_tables(analysis: Analysis, ledger: Sequence[Judged] = (), beside: ThenAndNow = NO_PAPER) -> Iterator[CsvTable]:
    """Every table of the report, each made when it is asked for: those of a large run take 30 MB together.

    `ledger`: what the run says about claims; `beside`: what the papers have of it.
    """
    yield _cells(analysis)
    yield comparisons_table(analysis)
    yield _points(analysis)
    yield from listed_rate_tables(analysis)
    yield from pause_tables(analysis)
    yield _clock(analysis)
    yield from guest_tables(analysis)
    yield _equivalence(analysis)
    yield from hosts_tables(analysis)
    for section in SECTIONS:
        yield from section.csv_tables(ReportInput(analysis, ledger, beside))
    yield from at_once_tables(analysis)
    yield from scaling_tables(analysis)
    yield from parameter_tables(analysis)
    yield from throughput_tables(analysis)
    yield from explanation_tables(analysis)
    yield _plan(analysis)
    yield _commands(analysis)


def _cells(analysis: Analysis) -> CsvTable:
    """One row for each trial and metric, values or not: nothing that was tried is missing from it."""
    isolation, at_once = analysis.isolation, analysis.at_once
    every = (*analysis.observations, *isolation.observations, *at_once.observations)
    values = {(one.trial, one.task): one for one in every}
    header = (
        "trial",
        "block",
        "position",
        "platform",
        "condition",
        "workload",
        "parameters",
        "metric",
        "unit",
        "label",
        "status",
        "value",
        "flagged_outlier",
        "reason",
        "caveat",
    )
    rows: list[Row] = []
    gaps = {gap.trial: gap.reason for gap in (*analysis.gaps, *isolation.gaps, *at_once.gaps)}
    tasks_of_trial = TasksOf(analysis.tasks)
    for trial in analysis.data.every_trial:
        label = trial.condition.label if trial.condition is not None else None
        if trial.scale is not None:
            label = at_once.words(trial.scale)
        for task in tasks_of_trial(trial):
            one = values.get((trial.trial, task))
            if trial.scale is not None:
                cell = at_once.cells.get((trial.platform, task, trial.scale))
            elif label is not None:
                cell = isolation.cells.get((trial.platform, task, label))
            else:
                cell = analysis.cells.get((trial.platform, task))
            flagged = int(trial.trial in cell.outliers) if cell and one else None
            rows.append(
                (
                    trial.trial,
                    trial.block + 1,
                    one.position if one else None,
                    trial.platform,
                    label,
                    trial.workload,
                    task.parameters,
                    task.metric.name,
                    task.metric.unit,
                    task.label,
                    trial.status,
                    one.value if one else None,
                    flagged,
                    trial.reason or gaps.get(trial.trial),
                    analysis.caveats.get(trial.platform),
                )
            )
    return CsvTable("cells", header, tuple(rows))


def comparisons_table(analysis: Analysis) -> CsvTable:
    """One row for each platform other than the baseline and each task: share, interval and verdict."""
    header = (
        "platform",
        "baseline",
        "workload",
        "parameters",
        "metric",
        "unit",
        "label",
        "pairs",
        "baseline_median",
        "platform_median",
        "share",
        "low",
        "high",
        "times_slower",
        "interval_method",
        "p_value",
        "p_adjusted",
        "family",
        "verdict",
        "at_least",
        "margin",
        "smallest_detectable_factor",
        "reason",
        "caveat",
        "unlike_facts",
    )
    rows = []
    baseline = analysis.data.manifest.baseline
    for one in (*analysis.control, *analysis.comparisons):
        task, primary = one.task, "primary" if one.task.metric.primary else "second"
        base, own = analysis.cells.get((baseline or "", task)), analysis.cells.get((one.platform, task))
        interval = one.interval
        rows.append(
            (
                one.platform,
                baseline,
                task.workload,
                task.parameters,
                task.metric.name,
                task.metric.unit,
                task.label,
                len(one.pairs),
                base.median if base else None,
                own.median if own else None,
                one.share,
                interval.low if interval else None,
                interval.high if interval else None,
                times_slower(one.share),
                interval.method if interval else None,
                one.p_value,
                one.p_adjusted,
                "A/A" if one.platform == analysis.data.manifest.control else primary,
                str(one.verdict),
                one.at_least,
                one.margin,
                one.smallest,
                one.reason,
                one.caveat,
                ", ".join(analysis.unlike.get(one.platform, ())),
            )
        )
    return CsvTable("comparisons", header, tuple(rows))


def _points(analysis: Analysis) -> CsvTable:
    header = (
        "trial",
        "block",
        "platform",
        "frame_size_bytes",
        "point",
        "flat_out",
        "intended_rate_frames_per_second",
        "duration_ns",
        "offered_rate_frames_per_second",
        "forwarded_rate_frames_per_second",
        "intended_frames",
        "offered_frames",
        "unsent_frames",
        "forwarded_frames",
        "lost_frames",
        "duplicate_frames",
        "reordered_frames",
        "foreign_frames",
        "late_trial_frames",
        "forged_frames",
        "kernel_dropped_frames",
        "loss_share",
        "caveat",
    )
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.platform,
            one.frame_size_bytes,
            one.place,
            int(one.flat_out),
            one.intended_rate,
            one.duration_ns,
            one.offered_rate,
            one.forwarded_rate,
            one.intended_frames,
            one.offered_frames,
            one.unsent_frames,
            one.forwarded_frames,
            one.lost_frames,
            one.duplicate_frames,
            one.reordered_frames,
            one.foreign_frames,
            one.late_trial_frames,
            one.forged_frames,
            one.kernel_dropped_frames,
            one.loss,
            analysis.caveats.get(one.platform),
        )
        for one in analysis.points
    )
    return CsvTable("points", header, rows)


def _clock(analysis: Analysis) -> CsvTable:
    header = (
        "trial",
        "block",
        "platform",
        "workload",
        "method",
        "outside_ns",
        "guest_ns",
        "error_estimate_ns",
        "relative_error",
        "relative_estimate",
        "within_estimate",
        "caveat",
    )
    readings = sorted((one for clock in analysis.clocks for one in clock.readings), key=lambda one: one.trial)
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.platform,
            one.workload,
            one.method,
            one.outside_ns,
            one.guest_ns,
            one.error_estimate_ns,
            one.error,
            one.estimate,
            int(one.within),
            analysis.caveats.get(one.platform),
        )
        for one in readings
    )
    return CsvTable("clock", header, rows)


def _equivalence(analysis: Analysis) -> CsvTable:
    report = analysis.equivalence
    caveats = tuple(analysis.caveats.get(platform) for platform in report.platforms)
    rows: list[Row] = [("caveat", int(len(set(caveats)) <= 1), *caveats)]
    rows += [(row.name, int(row.equal), *(row.values.get(one) for one in report.platforms)) for row in report.rows]
    return CsvTable("equivalence", ("fact", "equal", *report.platforms), tuple(rows))


def _plan(analysis: Analysis) -> CsvTable:
    """One row for each trial that was planned, in the order planned."""
    header = (
        "trial",
        "block",
        "round",
        "warm_up",
        "platform",
        "workload",
        "parameters",
        "condition",
        "guests",
        "vcpus",
        "memory_bytes",
        "caveat",
    )
    rows = tuple(
        (
            one.trial,
            one.block + 1,
            one.round + 1,
            int(one.warm_up),
            one.platform,
            one.workload,
            canonical(one.parameters),
            one.condition.label if one.condition is not None else None,
            *((one.scale.guests, one.scale.vcpus, one.scale.memory_bytes) if one.scale is not None else (None,) * 3),
            analysis.caveats.get(one.platform),
        )
        for one in analysis.data.manifest.plan.trials
    )
    return CsvTable("plan", header, rows)


def _commands(analysis: Analysis) -> CsvTable:
    """One row for each command line that was executed, as a shell takes it; `exit` is empty where it did not end."""
    rows = tuple((one.realtime_ns, one.role, one.exit, shlex.join(one.argv)) for one in analysis.data.commands)
    return CsvTable("commands", ("realtime_ns", "role", "exit", "command"), rows)
