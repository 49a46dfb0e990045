"""The records of a run folder, field by field as docs/run-folder.md gives them.

Raw integers with the unit in the name; what does not apply is None, never zero. No behaviour lives here but the one
formula of a duration: reading, writing and checking are in `store`.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec.structs import force_setattr

from virtoll.runfolder import free_form
from virtoll.runfolder.campaign_records import HostRecord, MergedRecord, Moment, PartRecord
from virtoll.runfolder.conditions import Condition, NeighbourRecord
from virtoll.runfolder.facts import Facts
from virtoll.runfolder.guest_records import AgentClock, Forwarding, HostCpu, HostProcess, LimitsSeen
from virtoll.runfolder.hand_over import HandOverSpan
from virtoll.runfolder.overhead_records import Overhead
from virtoll.runfolder.parameters import shared
from virtoll.runfolder.record import Record
from virtoll.runfolder.scale import ScalePoint
from virtoll.runfolder.traffic_records import Point

Status = Literal["ok", "invalid", "failed", "skipped"]
RunState = Literal["running", "interrupted", "complete"]


class PlatformEntry(Record):
    """One platform of the experiment, available or not.

    `host`: where its guests live, in words; `caveat`: what all that is measured there is marked with, None for a host
    whose numbers may be results. `stands_for`: what of a paper's it is in the place of, in words. `counters`: whether
    counters are read around what is measured. `vcpus`, `memory_bytes`: its guests' own, None for all guests'.
    """

    label: str
    platform: str
    family: str
    parameters: dict[str, Any]
    available: bool
    reason: str | None
    version: str | None
    host: str | None = None
    caveat: str | None = None
    stands_for: str | None = None
    counters: bool = True
    vcpus: int | None = None
    memory_bytes: int | None = None

    @property
    def is_here(self) -> bool:
        """Whether its guests live on the machine that measures."""
        return self.host in (None, "this machine")


class MetricRecord(Record):
    """How the value of a workload's trial is read.

    `marks`: the duration in ns; `points`: the maximum rate in frames/s; `cpu_points`: the CPU time of a frame in ns;
    `figures`: the number of the metric's name in the result's `figures`, in the metric's own unit. `primary`: the one
    of its workload that the verdicts are about.
    """

    workload: str
    name: str
    unit: str
    better: Literal["lower", "higher"]
    source: Literal["marks", "points", "figures", "cpu_points", "host_cpu"]
    title: str
    resource: str
    primary: bool = True


class PlannedTrial(Record):
    """One trial of the plan, fixed before the first guest starts; from `round` on as in `TrialRecord`."""

    trial: int
    block: int
    platform: str
    workload: str
    parameters: dict[str, Any]
    round: int = 0
    warm_up: bool = False
    condition: Condition | None = None
    scale: ScalePoint | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", shared(self.parameters))


class PlanRecord(Record):
    """The plan: seed and trials in the order in which they were to be run."""

    seed: int
    estimated_seconds: float | None
    trials: tuple[PlannedTrial, ...]


class ExtensionRecord(Record):
    """That blocks were added to a finished run: how many it had before, when, and by which command."""

    blocks: int
    realtime_ns: Moment
    command: tuple[str, ...]


class AgainstRecord(Record):
    """Two builds or settings that were measured in one run, side by side in its rounds.

    `settings`: as they were asked for, paths absolute. `pairs`: the label of each platform as it is (A), and of the
    same with the settings (B). `programs`: under `a` and `b`, by name, the SHA-256 of each program's file that differs,
    and of the guests' kernel (`kernel`); one that was not there is missing.
    """

    settings: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    programs: dict[str, dict[str, str]]


class AnonymisedRecord(Record):
    """That names of hosts, users and places were replaced by stand-ins, and by which Virtoll."""

    virtoll: str


class Manifest(Record):
    """What a run is: written before the first guest starts, and replaced where the run is extended.

    `part`: the run has some blocks of a campaign. `merged` and `hosts`: it was made of such parts.
    `nodes`: which hosts the testbed's nodes were, by their labels.
    """

    format: int
    run: str
    created_realtime_ns: Moment
    virtoll: str
    experiment: dict[str, Any]
    command: tuple[str, ...]
    baseline: str | None
    control: str | None
    platforms: tuple[PlatformEntry, ...]
    metrics: tuple[MetricRecord, ...]
    plan: PlanRecord
    host: dict[str, Any]
    image: dict[str, Any] | None
    agent: dict[str, Any] | None
    pinning: dict[str, Any] | None
    testbed: dict[str, Any] | None = None
    nested: dict[str, Any] | None = None
    extensions: tuple[ExtensionRecord, ...] = ()
    against: AgainstRecord | None = None
    part: PartRecord | None = None
    merged: MergedRecord | None = None
    hosts: tuple[HostRecord, ...] = ()
    anonymised: AnonymisedRecord | None = None
    nodes: dict[str, str] | None = None

    def __post_init__(self) -> None:
        free_form.check("experiment", self.experiment, free_form.Experiment)
        free_form.check("host", self.host, free_form.Host)
        free_form.check("image", self.image, free_form.Image)
        free_form.check("pinning", self.pinning, free_form.Pinning)


class Marks(Record):
    """Start and end of a job on the outside clock, in ns."""

    start_ns: int
    end_ns: int


class GuestClock(Record):
    """The same job on the guest's own clocks, in ns; `pause_ns`: from the start mark to the job, 0 in older records."""

    start_monotonic_ns: int
    end_monotonic_ns: int
    start_realtime_ns: int
    end_realtime_ns: int
    user_cpu_ns: int
    system_cpu_ns: int
    pause_ns: int = 0

    @property
    def between_marks_ns(self) -> int:
        """From mark to mark, the pause included."""
        return self.end_monotonic_ns - self.start_monotonic_ns


class Clock(Record):
    """The timekeeper's readings of one trial; `realtime_step_ns`: the outside clock's step between the marks.

    `error_estimate_ns`: of the duration (docs/run-folder.md).
    """

    method: Literal["icmp", "channel"]
    marks: Marks | None
    channel_marks: Marks | None
    realtime_step_ns: int
    path_delay_before_ns: tuple[int, ...]
    path_delay_after_ns: tuple[int, ...]
    error_estimate_ns: int | None
    guest: GuestClock | None


def between_marks_ns(clock: Clock) -> int | None:
    """From mark to mark, the pause included: `end - start - step` of the outside clock; None without both marks."""
    if clock.marks is None:
        return None
    return clock.marks.end_ns - clock.marks.start_ns - clock.realtime_step_ns


def duration_ns(clock: Clock) -> int | None:
    """The job's outside duration: `between_marks_ns` less the share of it that the guest's clock says was the pause.

    A share and no length: it is the same by a clock that is fast or slow.
    """
    between_ns = between_marks_ns(clock)
    if between_ns is None or clock.guest is None or not clock.guest.pause_ns:
        return between_ns
    guest_ns = clock.guest.between_marks_ns
    return between_ns * (guest_ns - clock.guest.pause_ns) // guest_ns if guest_ns > 0 else between_ns


def outside_ns(clock: Clock, guest_ns: int) -> int | None:
    """So long by the guest's clock, in ns of the outside clock: the same share of the time between the marks.

    As in `duration_ns` it does not matter whether the guest's clock is fast or slow. None without marks, and where the
    guest's clock was not read.
    """
    between_ns = between_marks_ns(clock)
    if between_ns is None or clock.guest is None or clock.guest.between_marks_ns <= 0:
        return None
    return between_ns * guest_ns // clock.guest.between_marks_ns


def begin_ns(clock: Clock) -> int | None:
    """When the job began, by the outside clock: the start mark, and the pause by the guest's; None without marks.

    Of guests that begin together it is when the job was due: what one waits for a CPU after that is part of its job.
    """
    if clock.marks is None:
        return None
    return clock.marks.start_ns + (clock.guest.pause_ns if clock.guest is not None else 0)


def start_skew_ns(clocks: Sequence[Clock | None]) -> int | None:
    """From the first job's begin to the last one's, by the outside clock; None where one of them is not known."""
    begun = [begin for clock in clocks if clock is not None and (begin := begin_ns(clock)) is not None]
    return max(begun) - min(begun) if begun and len(begun) == len(clocks) else None


class SizingRun(Record):
    """One run of so many repeats of a workload's job."""

    repeats: int
    clock: Clock


class SizingRecord(Record):
    """How often a workload's job runs between its marks on a platform, and the runs that say so, in order.

    `reason`: why it could not run; then `repeats` is 1 for the host, and the host's for every other platform.
    """

    workload: str
    parameters: dict[str, Any]
    platform: str
    boot: str | None
    repeats: int
    runs: tuple[SizingRun, ...]
    reason: str | None

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", shared(self.parameters))


class Check(Record):
    """The check value of a job: a fast wrong answer shows here."""

    value: Any
    expected: Any
    ok: bool


class GuestRun(Record):
    """What one of several guests did that were measured at once: as a trial's own record has it of one guest."""

    boot: str
    clock: Clock | None
    result: dict[str, Any] | None
    check: Check | None
    problem: str | None
    host_cpu: HostCpu | None = None


class TrialRecord(Record):
    """One trial that came to an end, whatever that end was; `host` and `caveat` as in `PlatformEntry`.

    `round`: of its block and workload, from 0; trials of one round stand side by side. `warm_up`: in no summary.
    `repeats`: how often the job ran between its marks. `shortened`: it measured again what was best in an earlier round
    of its block, and nothing else. `cpu_points`: pairs of a few frames and many, for the CPU time of a frame; None
    where that was not measured. `overhead`: what the instrument itself used; None: not read.
    `condition`: what its neighbours were to do, None if it ran alone; `neighbours`: what each of them did. `scale`: how
    many guests did the same at once, None for one; `members`: what each of them did, and then clock, result and check
    of the trial are None. `hand_over`: how far apart its CPUs were just before and after it; None: not read.
    """

    trial: int
    block: int
    platform: str
    workload: str
    parameters: dict[str, Any]
    boot: str | None
    attempt: int
    status: Status
    reason: str | None
    started_realtime_ns: Moment | None
    ended_realtime_ns: Moment | None
    clock: Clock | None
    result: dict[str, Any] | None
    check: Check | None
    points: tuple[Point, ...] | None
    evidence: tuple[str, ...]
    host_cpu: HostCpu | None = None
    host: str | None = None
    caveat: str | None = None
    round: int = 0
    warm_up: bool = False
    shortened: bool = False
    repeats: Annotated[int, msgspec.Meta(ge=1)] = 1
    cpu_points: tuple[Point, ...] | None = None
    overhead: Overhead | None = None
    condition: Condition | None = None
    neighbours: tuple[NeighbourRecord, ...] = ()
    scale: ScalePoint | None = None
    members: tuple[GuestRun, ...] = ()
    hand_over: HandOverSpan | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "parameters", shared(self.parameters))


class Requested(Record):
    """What a guest was to be: host CPUs that it is pinned to, quota in CPUs, MAC addresses of its own links.

    `cpu_weight`, `disk` (its number) and the bytes per second that it reads of it at most, and as many that it writes:
    by its platform's parameters.
    """

    vcpus: int
    memory_bytes: int
    cpus: tuple[int, ...]
    cpu_quota: float | None = None
    interface_macs: tuple[str, ...] = ()
    cpu_weight: int | None = None
    disk: str | None = None
    disk_bytes_per_second: int | None = None


class BootRecord(Record):
    """One start of a guest, with the facts measured inside it; `host` and `caveat` as in `PlatformEntry`.

    `instance`: 0 for the platform's guest, from 1 for those co-located with it and for its neighbours. `scale`: how
    many guests were started at the same time, None for one.
    `executed_monotonic_ns`: when Virtoll's own part of the start was over; None: not measured.
    `forwarding`: which host CPUs forward for it; None: a model, or links that end on another host.
    `host_process`: what it is on its host; None: a model, or a guest without a process there.
    """

    boot: str
    platform: str
    block: int
    attempt: int
    status: Literal["ok", "failed"]
    reason: str | None
    spawn_monotonic_ns: int | None
    ready_monotonic_ns: int | None
    facts: Facts | None
    requested: Requested | None
    mismatches: tuple[str, ...]
    attachment: str | None
    evidence: tuple[str, ...]
    agent_clock: AgentClock | None = None
    host_boot_id: str | None = None
    limits_seen: LimitsSeen | None = None
    fatal: tuple[str, ...] = ()
    host: str | None = None
    caveat: str | None = None
    instance: int = 0
    executed_monotonic_ns: int | None = None
    forwarding: Forwarding | None = None
    scale: ScalePoint | None = None
    host_process: HostProcess | None = None


class CommandRecord(Record):
    """One command line that was executed; `exit` None: it did not end."""

    realtime_ns: Moment
    role: str
    argv: tuple[str, ...]
    exit: int | None


# What the lab's own bridges, veth pairs and taps make the kernel say while guests come and go.
LAB_MESSAGE: Final = re.compile(
    r"entered (blocking|disabled|forwarding|learning|listening) state|(entered|left) (promiscuous|allmulticast) mode"
    r"|renamed from |link becomes ready|^tun: |^bridge: |^br_netfilter"
)


class Pressure(Record):
    """Pressure stall totals since the host's boot, in microseconds."""

    cpu_some_us: int | None
    memory_some_us: int | None
    io_some_us: int | None


class FitnessRecord(Record):
    """The host's state between trials; counters are cumulative since the host's boot."""

    monotonic_ns: int
    realtime_ns: Moment
    after_trial: int | None
    steal_ns: int | None
    busy_ns: int | None
    idle_ns: int | None
    load_1m: float | None
    pressure: Pressure | None
    swap_in_pages: int | None
    swap_out_pages: int | None
    frequency_khz: tuple[int, ...] | None
    temperature_millicelsius: tuple[int, ...] | None
    throttle_count: int | None
    kernel_messages: tuple[str, ...]
    memory_available_bytes: int | None


class LookRecord(Record):
    """One look at a run that goes on until all is decided, after so many blocks, at the level that was kept for it.

    `undecided`: the primary comparisons without a verdict, in words; `ended`: the run ended with it.
    """

    blocks: int
    level: float
    undecided: tuple[str, ...]
    ended: bool


class State(Record):
    """Whether the run is at its end."""

    state: RunState
    reason: str | None
