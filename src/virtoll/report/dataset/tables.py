"""What the tables of a dataset hold: a row of each as a frozen dataclass, whose fields are the columns.

Main types: ``Sample``, ``PointRow``, ``Boot`` and ``RunRow``; ``TABLES`` has them by name. A field's type says what a
column's values are, and whether one may be missing; ``Meaning`` has its unit and meaning. The Parquet files, the tables
of Python and docs/dataset.md are made of these alone. Must not: compute anything.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

from virtoll.report.table import ValueKind

VERSION: Final = 1
"""Of the tables: another one takes a column away, or changes what one means. A new column changes nothing."""


@dataclass(frozen=True)
class Meaning:
    """What a column says, and its unit ('' for a word or a number without one)."""

    meaning: str
    unit: str = ""


@dataclass(frozen=True)
class DatasetColumn:
    """One column: its name, what its values are, whether one may be missing, its unit and its meaning."""

    name: str
    kind: ValueKind
    nullable: bool
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfRun:
    """Which run a row is of, and what measured it: the first columns of each table."""

    run: Annotated[str, Meaning("the run's name")]
    experiment: Annotated[str, Meaning("the experiment's name")]
    virtoll: Annotated[str, Meaning("the version of Virtoll that measured")]
    host_fingerprint: Annotated[str | None, Meaning("a digest of what identifies the host, its kernel and its CPU")]
    kernel: Annotated[str | None, Meaning("the host's kernel")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfPlatform(OfRun):
    """Which platform of the run a row is of."""

    platform: Annotated[str, Meaning("the platform's label")]
    platform_kind: Annotated[str | None, Meaning("the platform's registered name, such as `qemu-tcg`")]
    platform_family: Annotated[str | None, Meaning("what kind of platform it is, such as native, os-level or emulated")]
    platform_version: Annotated[str | None, Meaning("the version of the platform's product")]
    guests_on: Annotated[str | None, Meaning("where its guests are, such as `this machine`")]
    caveat: Annotated[str | None, Meaning("why the platform's numbers are no measurements of speed; missing: they are")]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfTrial(OfPlatform):
    """Which trial a row is of, and how that ended."""

    trial: Annotated[int, Meaning("the trial's number in the plan, from 0")]
    block: Annotated[int, Meaning("the block's number, from 1; in the run folder it is one less")]
    round: Annotated[int, Meaning("the round of its block and workload, from 1; in the run folder it is one less")]
    warm_up: Annotated[bool, Meaning("whether it is a warm-up, which is no result")]
    status: Annotated[str, Meaning("ok, invalid, failed or skipped")]
    workload: Annotated[str, Meaning("the workload's name")]
    parameters: Annotated[str, Meaning("its parameters: JSON with sorted keys")]
    condition: Annotated[str | None, Meaning("what guests beside it did; missing: it was alone")]
    guests: Annotated[int, Meaning("how many guests did the same at once")]
    boot: Annotated[str | None, Meaning("the start of its guest, by its name in the run folder")]
    started_realtime_ns: Annotated[int | None, Meaning("when the trial began, since 1970 in UTC", "ns")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(OfTrial):
    """A trial's value of a metric, or that there is none: nothing that was tried is missing."""

    ended_realtime_ns: Annotated[int | None, Meaning("when the trial ended, since 1970 in UTC", "ns")]
    guest: Annotated[int | None, Meaning("which of several guests at once, from 1; missing: there was one")]
    frame_size_bytes: Annotated[int | None, Meaning("the parameter of that name: the frame with its FCS", "bytes")]
    sources: Annotated[int | None, Meaning("the parameter of that name: traffic sources that send at once")]
    size_bytes: Annotated[int | None, Meaning("the parameter of that name: how large what is worked on is", "bytes")]
    threads: Annotated[int | None, Meaning("the parameter of that name")]
    processes: Annotated[int | None, Meaning("the parameter of that name")]
    digits: Annotated[int | None, Meaning("the parameter of that name, of Super Pi")]
    metric: Annotated[str, Meaning("the metric's name")]
    unit: Annotated[str, Meaning("the unit of the value of this row")]
    better: Annotated[str, Meaning("lower or higher: which value is the better one")]
    primary: Annotated[bool, Meaning("whether it is the metric of its workload that verdicts are about")]
    value: Annotated[float | None, Meaning("the value; missing: there is none", "`unit`")]
    reason: Annotated[str | None, Meaning("why there is no value")]
    repeats: Annotated[int, Meaning("how often the job ran between its marks; a duration is of one of them")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow(OfTrial):
    """A point of a sweep: the books of its frames over all sources, rates, and the delay of frames."""

    point: Annotated[int, Meaning("the point's place in its sweep, from 0")]
    frame_size_bytes: Annotated[int, Meaning("the frame with its FCS", "bytes")]
    sources: Annotated[int, Meaning("traffic sources that sent at once")]
    backend: Annotated[str, Meaning("how the generator sent")]
    sink_backend: Annotated[str | None, Meaning("how the sink received")]
    flat_out: Annotated[bool, Meaning("whether the generator sent as fast as it could")]
    intended_rate_frames_per_second: Annotated[
        float | None, Meaning("the rate that each source was to send; missing: flat out", "frames/s")
    ]
    duration_ns: Annotated[int, Meaning("for how long it was to be sent", "ns")]
    offered_rate_frames_per_second: Annotated[float | None, Meaning("the rate that was really sent", "frames/s")]
    forwarded_rate_frames_per_second: Annotated[
        float | None, Meaning("the rate that arrived, first to last arrival", "frames/s")
    ]
    intended_frames: Annotated[int, Meaning("offered + unsent", "frames")]
    offered_frames: Annotated[int, Meaning("sent; forwarded + lost", "frames")]
    unsent_frames: Annotated[int, Meaning("that the generator was too late for", "frames")]
    refused_frames: Annotated[int, Meaning("of the unsent, that the first interface did not take", "frames")]
    forwarded_frames: Annotated[int, Meaning("that arrived, each once", "frames")]
    lost_frames: Annotated[int, Meaning("that never arrived", "frames")]
    duplicate_frames: Annotated[int, Meaning("that arrived once more", "frames")]
    reordered_frames: Annotated[int, Meaning("that arrived after one with a larger number", "frames")]
    foreign_frames: Annotated[int, Meaning("at the sink that are no test frames", "frames")]
    late_trial_frames: Annotated[int, Meaning("of an earlier trial", "frames")]
    forged_frames: Annotated[
        int | None, Meaning("with a wrong tag, in no other count; missing: frames had no tags", "frames")
    ]
    kernel_dropped_frames: Annotated[
        int | None, Meaning("that the sink's kernel dropped in front of it; missing: it does not tell", "frames")
    ]
    loss_share: Annotated[float | None, Meaning("lost / offered; missing: none were offered", "share")]
    delay_p1_ns: Annotated[int | None, Meaning("one-way delay: 1 % of the frames took no longer", "ns")]
    delay_p50_ns: Annotated[int | None, Meaning("half of them took no longer", "ns")]
    delay_p90_ns: Annotated[int | None, Meaning("90 % of them", "ns")]
    delay_p99_ns: Annotated[int | None, Meaning("99 % of them", "ns")]
    delay_p999_ns: Annotated[int | None, Meaning("99.9 % of them", "ns")]
    delay_maximum_ns: Annotated[int | None, Meaning("the longest", "ns")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot(OfPlatform):
    """A start of a guest: how long it took, and what the guest held of the host's memory."""

    boot: Annotated[str, Meaning("the start's name in the run folder")]
    block: Annotated[int, Meaning("the block's number, from 1; in the run folder it is one less")]
    attempt: Annotated[int, Meaning("which attempt it was, from 1")]
    instance: Annotated[int, Meaning("0 for the platform's own guest, from 1 for those started beside it")]
    guests: Annotated[int, Meaning("how many guests were started at the same time")]
    status: Annotated[str, Meaning("ok or failed")]
    reason: Annotated[str | None, Meaning("why it failed")]
    attachment: Annotated[str | None, Meaning("how its links are attached: bridge, routed, macvtap, passthrough, ...")]
    vcpus: Annotated[int | None, Meaning("virtual CPUs that were asked for")]
    memory_bytes: Annotated[int | None, Meaning("memory that was asked for", "bytes")]
    ready_ns: Annotated[int | None, Meaning("from the start until the agent answers", "ns")]
    spawn_ns: Annotated[
        int | None,
        Meaning("of it, all before the guest's own kernel or first program: monitor, firmware, engine", "ns"),
    ]
    kernel_ns: Annotated[
        int | None, Meaning("of it, the guest's own kernel until its first program; missing on the host's kernel", "ns")
    ]
    init_ns: Annotated[int | None, Meaning("of it, the agent's own way", "ns")]
    harness_ns: Annotated[int | None, Meaning("of it, Virtoll's own", "ns")]
    idle_bytes: Annotated[
        int | None, Meaning("memory (PSS and page tables) of the guest's processes, when ready", "bytes")
    ]
    after_work_bytes: Annotated[int | None, Meaning("the same at the block's end", "bytes")]
    idle_charged_bytes: Annotated[int | None, Meaning("what the guest's cgroup was charged, when ready", "bytes")]
    idle_files_bytes: Annotated[
        int | None, Meaning("files of its folder in the lab's memory file system, when ready", "bytes")
    ]
    idle_shared_bytes: Annotated[
        int | None, Meaning("memory of daemons that serve several guests, when ready", "bytes")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow(OfRun):
    """A run: what was to be measured, and on which host."""

    created_realtime_ns: Annotated[int, Meaning("when it was begun, since 1970 in UTC", "ns")]
    state: Annotated[
        str, Meaning("complete, interrupted or running, as the folder says; one that was killed says running")
    ]
    reason: Annotated[str | None, Meaning("why it is in that state")]
    baseline: Annotated[str | None, Meaning("the label that platforms are compared with")]
    control: Annotated[str | None, Meaning("the label of the baseline's A/A control")]
    seed: Annotated[int, Meaning("of the plan")]
    blocks: Annotated[int | None, Meaning("blocks that were asked for")]
    rounds: Annotated[int | None, Meaning("rounds of each block and workload")]
    planned_trials: Annotated[int, Meaning("trials of the plan, warm-ups among them")]
    ended_trials: Annotated[int, Meaning("trials that have ended, whatever their end")]
    ok_trials: Annotated[int, Meaning("of these, trials that can be believed")]
    cpu_model: Annotated[str | None, Meaning("the host's processor")]
    cpus: Annotated[int | None, Meaning("the host's CPUs")]
    memory_bytes: Annotated[int | None, Meaning("the host's memory", "bytes")]
    hypervisor: Annotated[str | None, Meaning("below the host; missing: none was found")]
    os: Annotated[str | None, Meaning("the host's distribution")]
    root: Annotated[bool | None, Meaning("whether it was measured as root")]
    agent_build: Annotated[str | None, Meaning("the build of the agent that measured")]
    image_digest: Annotated[str | None, Meaning("the digest of the guests' image")]


TABLES: Final[Mapping[str, type[OfRun]]] = {"samples": Sample, "points": PointRow, "boots": Boot, "runs": RunRow}
ROWS: Final[Mapping[str, str]] = {
    "samples": "a trial and metric, and where several guests worked at once a guest; with a value or not",
    "points": "a point of a sweep",
    "boots": "a guest's start",
    "runs": "a run",
}
"""What a row is of, by table."""

_KINDS: Final[Mapping[type, ValueKind]] = {
    str: ValueKind.TEXT,
    int: ValueKind.COUNT,
    float: ValueKind.NUMBER,
    bool: ValueKind.ANSWER,
}


@cache
def columns_of(table: str) -> tuple[DatasetColumn, ...]:
    """The columns of a table in their order; ``KeyError`` where there is no such table."""
    kind = TABLES[table]
    hints = get_type_hints(kind, include_extras=True)
    return tuple(_column(field.name, hints[field.name]) for field in fields(kind))


def _column(name: str, hint: Any) -> DatasetColumn:
    value, description = get_args(hint)
    nullable = get_origin(value) is types.UnionType
    kind = next(member for member in get_args(value) if member is not types.NoneType) if nullable else value
    return DatasetColumn(name, _KINDS[kind], nullable, description.unit, description.meaning)
