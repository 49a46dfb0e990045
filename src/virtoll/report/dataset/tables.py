"""The tables of a dataset: their columns, each with its value of a row. `rows` makes the rows.

Main types: `Sample`, `PointRow`, `Boot` and `RunRow`, a class for the rows of each table; `TABLES` has the tables by
name. The Parquet files, the tables of Python and docs/dataset.md are made of these columns alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from virtoll.report.sections.forwarding.tables import BOOKS
from virtoll.report.sections.guests.tables import OF_START, Start
from virtoll.report.table import Column, Row, Table, count, flag, number, of_hand_over, of_part, shared, text, whole
from virtoll.runfolder.hand_over import Distance
from virtoll.runfolder.records import Manifest, PlatformEntry, TrialRecord
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.traffic_records import Distribution, Point
from virtoll.stats.analysis import RunData
from virtoll.stats.sweeps import PointValue
from virtoll.stats.values import Task, canonical

VERSION: Final = 1
"""Of the tables: another one takes a column away, or changes what one means. A new column changes nothing."""


@dataclass(frozen=True)
class OfRun:
    """A row of a run."""

    manifest: Manifest


@dataclass(frozen=True)
class RunPlatform:
    """A platform of a run. `entry`: None if the manifest has none. `caveat`: why its numbers are no measurements."""

    label: str
    entry: PlatformEntry | None
    caveat: str | None


@dataclass(frozen=True)
class OfPlatform(OfRun):
    """A row of a platform of the run."""

    platform: RunPlatform


@dataclass(frozen=True)
class OfTrial(OfPlatform):
    """A row of a trial; `boot`: the start of its guest."""

    trial: TrialRecord
    boot: str | None


@dataclass(frozen=True)
class Sample(OfTrial):
    """A trial's value of a metric, or that there is none: nothing that was tried is missing.

    `guest`: which of several guests at once, from 1. `distance`: of the CPUs around what the value is of.
    """

    task: Task
    guest: int | None
    value: float | None
    reason: str | None
    distance: Distance | None


@dataclass(frozen=True)
class PointRow(OfTrial):
    """A point of a sweep: the books of its frames over all sources, rates, and the delay of frames."""

    point: Point
    books: PointValue
    delay: Distribution | None


@dataclass(frozen=True)
class Boot(OfPlatform):
    """A start of a guest: how long it took, and what the guest held of the host's memory."""

    start: Start


@dataclass(frozen=True)
class RunRow(OfRun):
    """A run: what was to be measured, and on which host; `trials`: those that have ended."""

    data: RunData
    trials: Sequence[TrialRecord]


RowOfRun = TypeVar("RowOfRun", bound=OfRun)
RowOfPlatform = TypeVar("RowOfPlatform", bound=OfPlatform)
RowOfTrial = TypeVar("RowOfTrial", bound=OfTrial)


def _always(*columns: Column[Row]) -> tuple[Column[Row], ...]:
    """Columns that every row has a value of."""
    return tuple(replace(column, nullable=False) for column in columns)


def _guests(scale: ScalePoint | None) -> int:
    """How many were there at once."""
    return 1 if scale is None else scale.guests


def _text(record: Mapping[str, Any] | None, key: str) -> str | None:
    """A text of a part of a record that has no fields; None if it is missing, or no text."""
    value = (record or {}).get(key)
    return value if isinstance(value, str) else None


def _number(record: Mapping[str, Any], key: str) -> int | None:
    """The same of a whole number."""
    value = record.get(key)
    return value if type(value) is int else None


def _parameter(name: str, meaning: str = "", unit: str = "") -> Column[Sample]:
    """A parameter that has a column of its own."""
    text_of_it = f"the parameter of that name{meaning}"
    return whole(name, unit, text_of_it, lambda row: _number(row.trial.parameters, name))


def _of_host(name: str, meaning: str, key: str) -> Column[RowOfRun]:
    return text(name, meaning, lambda row: _text(row.manifest.host, key))


def _of_point(names: str) -> tuple[Column[PointRow], ...]:
    """Columns of `points.csv`."""
    return of_part((column for column in BOOKS if column.name in names.split()), lambda row: row.books)


def _delay(name: str, meaning: str) -> Column[PointRow]:
    return whole(f"delay_{name}_ns", "ns", meaning, lambda row: getattr(row.delay, name, None))


def _of_start(columns: Iterable[Column[Start]], meanings: Mapping[str, str]) -> tuple[Column[Boot], ...]:
    """Columns of `guests.csv`, some with another meaning here."""
    described = [replace(column, meaning=meanings.get(column.name, column.meaning)) for column in columns]
    return of_part(described, lambda row: row.start)


def _of_run() -> tuple[Column[RowOfRun], ...]:
    return (
        *_always(
            text("run", "the run's name", lambda row: row.manifest.run),
            text("experiment", "the experiment's name", lambda row: row.manifest.experiment["name"]),
            text("virtoll", "the version of Virtoll that measured", lambda row: row.manifest.virtoll),
        ),
        _of_host("host_fingerprint", "a digest of what identifies the host, its kernel and its CPU", "fingerprint"),
        _of_host("kernel", "the host's kernel", "kernel"),
    )


_OF_ENTRY: Final[tuple[Column[PlatformEntry], ...]] = (
    text("platform_kind", "the platform's registered name, such as `qemu-tcg`", lambda entry: entry.platform),
    text(
        "platform_family",
        "what kind of platform it is, such as native, os-level or emulated",
        lambda entry: entry.family,
    ),
    text("platform_version", "the version of the platform's product", lambda entry: entry.version),
    text("guests_on", "where its guests are, such as `this machine`", lambda entry: entry.host),
)


def _of_platform() -> tuple[Column[RowOfPlatform], ...]:
    return (
        *_of_run(),
        *_always(shared("platform", lambda row: row.platform.label)),
        *of_part(_OF_ENTRY, lambda row: row.platform.entry),
        text(
            "caveat",
            "why the platform's numbers are no measurements of speed; missing: they are",
            lambda row: row.platform.caveat,
        ),
    )


def _of_trial() -> tuple[Column[RowOfTrial], ...]:
    return (
        *_of_platform(),
        *_always(
            shared("trial", lambda row: row.trial.trial),
            shared("block", lambda row: row.trial.block + 1),
            count(
                "round",
                "the round of its block and workload, from 1; in the run folder it is one less",
                lambda row: row.trial.round + 1,
            ),
            shared("warm_up", lambda row: row.trial.warm_up),
            flag(
                "shortened",
                "whether it measured again the best point of its block's first round, and nothing else",
                lambda row: row.trial.shortened,
            ),
            shared("status", lambda row: row.trial.status),
            shared("workload", lambda row: row.trial.workload),
            shared("parameters", lambda row: canonical(row.trial.parameters)),
        ),
        text(
            "condition",
            "what guests beside it did; missing: it was alone",
            lambda row: row.trial.condition and row.trial.condition.label,
        ),
        *_always(count("guests", "how many guests did the same at once", lambda row: _guests(row.trial.scale))),
        text("boot", "the start of its guest, by its name in the run folder", lambda row: row.boot),
        whole(
            "started_realtime_ns",
            "ns",
            "when the trial began, since 1970 in UTC",
            lambda row: row.trial.started_realtime_ns,
        ),
    )


SAMPLES: Final = Table[Sample](
    "samples",
    "a trial and metric, and where several guests worked at once a guest; with a value or not",
    None,
    (
        *_of_trial(),
        whole(
            "ended_realtime_ns",
            "ns",
            "when the trial ended, since 1970 in UTC",
            lambda row: row.trial.ended_realtime_ns,
        ),
        count("guest", "which of several guests at once, from 1; missing: there was one", lambda row: row.guest),
        _parameter("frame_size_bytes", ": the frame with its FCS", "bytes"),
        _parameter("sources", ": traffic sources that send at once"),
        _parameter("size_bytes", ": how large what is worked on is", "bytes"),
        _parameter("threads"),
        _parameter("processes"),
        _parameter("digits", ", of Super Pi"),
        *_always(
            shared("metric", lambda row: row.task.metric.name),
            text("unit", "the unit of the value of this row", lambda row: row.task.metric.unit),
            text("better", "lower or higher: which value is the better one", lambda row: row.task.metric.better),
            flag(
                "primary",
                "whether it is the metric of its workload that verdicts are about",
                lambda row: row.task.metric.primary,
            ),
        ),
        number("value", "`unit`", "the value; missing: there is none", lambda row: row.value),
        text("reason", "why there is no value", lambda row: row.reason),
        *_always(
            count(
                "repeats",
                "how often the job ran between its marks; a duration is of one of them",
                lambda row: row.trial.repeats,
            )
        ),
        *of_hand_over(lambda row: row.trial.hand_over),
        text(
            "cpu_distance",
            "near, far or changed: of the CPUs around the points of the value; missing: not read, or always the same",
            lambda row: row.distance,
        ),
    ),
)

POINTS: Final = Table[PointRow](
    "points",
    "a point of a sweep",
    None,
    (
        *_of_trial(),
        *_always(
            shared("point", lambda row: row.books.place),
            whole("frame_size_bytes", "bytes", "the frame with its FCS", lambda row: row.books.frame_size_bytes),
            count("sources", "traffic sources that sent at once", lambda row: len(row.point.sources)),
            text("backend", "how the generator sent", lambda row: row.point.backend),
        ),
        text("sink_backend", "how the sink received", lambda row: row.point.sink.backend),
        *_always(flag("flat_out", "whether the generator sent as fast as it could", lambda row: row.books.flat_out)),
        number(
            "intended_rate_frames_per_second",
            "frames/s",
            "the rate that each source was to send; missing: flat out",
            lambda row: row.books.intended_rate,
        ),
        *_always(*_of_point("duration_ns")),
        *_of_point("offered_rate_frames_per_second forwarded_rate_frames_per_second"),
        *_always(
            *_of_point("intended_frames offered_frames unsent_frames"),
            whole(
                "refused_frames",
                "frames",
                "of the unsent, that the first interface did not take",
                lambda row: row.books.refused_frames,
            ),
            *_of_point("forwarded_frames lost_frames duplicate_frames reordered_frames foreign_frames"),
            *_of_point("late_trial_frames"),
        ),
        whole(
            "forged_frames",
            "frames",
            "with a wrong tag, in no other count; missing: frames had no tags",
            lambda row: row.books.forged_frames,
        ),
        whole(
            "kernel_dropped_frames",
            "frames",
            "that the sink's kernel dropped in front of it; missing: it does not tell",
            lambda row: row.books.kernel_dropped_frames,
        ),
        number("loss_share", "share", "lost / offered; missing: none were offered", lambda row: row.books.loss),
        *_of_point("hand_over_before_ns hand_over_after_ns"),
        _delay("p1", "one-way delay: 1 % of the frames took no longer"),
        _delay("p50", "half of them took no longer"),
        _delay("p90", "90 % of them"),
        _delay("p99", "99 % of them"),
        _delay("p999", "99.9 % of them"),
        _delay("maximum", "the longest"),
    ),
)

BOOTS: Final = Table[Boot](
    "boots",
    "a guest's start",
    None,
    (
        *_of_platform(),
        *_always(
            text("boot", "the start's name in the run folder", lambda row: row.start.boot.boot),
            shared("block", lambda row: row.start.boot.block + 1),
            count("attempt", "which attempt it was, from 1", lambda row: row.start.boot.attempt),
            count(
                "instance",
                "0 for the platform's own guest, from 1 for those started beside it",
                lambda row: row.start.boot.instance,
            ),
            count("guests", "how many guests were started at the same time", lambda row: _guests(row.start.boot.scale)),
            text("status", "ok or failed", lambda row: row.start.boot.status),
        ),
        text("reason", "why it failed", lambda row: row.start.boot.reason),
        text(
            "attachment",
            "how its links are attached: bridge, routed, macvtap, passthrough, ...",
            lambda row: row.start.boot.attachment,
        ),
        count(
            "vcpus",
            "virtual CPUs that were asked for",
            lambda row: row.start.boot.requested and row.start.boot.requested.vcpus,
        ),
        whole(
            "memory_bytes",
            "bytes",
            "memory that was asked for",
            lambda row: row.start.boot.requested and row.start.boot.requested.memory_bytes,
        ),
        *_of_start(
            OF_START,
            {
                "kernel_ns": "of it, the guest's own kernel until its first program; missing on the host's kernel",
                "harness_ns": "of it, Virtoll's own",
                "idle_files_bytes": "files of its folder in the lab's memory file system, when ready",
                "idle_shared_bytes": "memory of daemons that serve several guests, when ready",
            },
        ),
    ),
)


def _of_experiment(name: str, meaning: str) -> Column[RunRow]:
    return count(name, meaning, lambda row: _number(row.manifest.experiment, name))


def _ok_trials(row: RunRow) -> int:
    return sum(trial.status == "ok" for trial in row.trials)


def _root(row: RunRow) -> bool | None:
    root = row.manifest.host.get("root")
    return root if isinstance(root, bool) else None


RUNS: Final = Table[RunRow](
    "runs",
    "a run",
    None,
    (
        *_of_run(),
        *_always(
            whole(
                "created_realtime_ns",
                "ns",
                "when it was begun, since 1970 in UTC",
                lambda row: row.manifest.created_realtime_ns,
            ),
            text(
                "state",
                "complete, interrupted or running, as the folder says; one that was killed says running",
                lambda row: row.data.state.state,
            ),
        ),
        text("reason", "why it is in that state", lambda row: row.data.state.reason),
        shared("baseline", lambda row: row.manifest.baseline),
        text("control", "the label of the baseline's A/A control", lambda row: row.manifest.control),
        *_always(count("seed", "of the plan", lambda row: row.manifest.plan.seed)),
        _of_experiment("blocks", "blocks that were asked for"),
        _of_experiment("rounds", "rounds of each block and workload"),
        *_always(
            count(
                "planned_trials", "trials of the plan, warm-ups among them", lambda row: len(row.manifest.plan.trials)
            ),
            count("ended_trials", "trials that have ended, whatever their end", lambda row: len(row.trials)),
            count("ok_trials", "of these, trials that can be believed", _ok_trials),
        ),
        _of_host("cpu_model", "the host's processor", "cpu_model"),
        count("cpus", "the host's CPUs", lambda row: _number(row.manifest.host, "cpus")),
        whole("memory_bytes", "bytes", "the host's memory", lambda row: _number(row.manifest.host, "memory_bytes")),
        _of_host("hypervisor", "below the host; missing: none was found", "hypervisor"),
        _of_host("os", "the host's distribution", "os"),
        flag("root", "whether it was measured as root", _root),
        text("agent_build", "the build of the agent that measured", lambda row: _text(row.manifest.agent, "build")),
        text("image_digest", "the digest of the guests' image", lambda row: _text(row.manifest.image, "digest")),
    ),
)

TABLES: Final[Mapping[str, Table[Any]]] = {table.name: table for table in (SAMPLES, POINTS, BOOTS, RUNS)}
