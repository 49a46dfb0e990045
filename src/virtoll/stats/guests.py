"""What the guests themselves cost: the way to readiness, memory that the host pays, host CPU per unit of work. Pure.

Times and sizes are medians over blocks with order-statistic intervals; shares of CPU time are paired by block. What the
kernel does for a guest outside its processes (softirq, kernel threads) is in no figure here.
"""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeVar

from virtoll.runfolder.guest_records import CpuReading, FootprintRecord, HostCpu, ProcessMemory, ProcessTime
from virtoll.runfolder.records import BootRecord, TrialRecord
from virtoll.stats.intervals import Interval, median, median_interval, student
from virtoll.stats.reach import on_hosts_kernel
from virtoll.stats.values import Task, TasksOf

_Record = TypeVar("_Record")


@dataclass(frozen=True)
class Quantity:
    """A median over `blocks` blocks with its interval (None for one block)."""

    median: float
    interval: Interval | None
    blocks: int


@dataclass(frozen=True)
class Readiness:
    """One start, ns: from the first process to the answer `ready` by the outside clock, and its known parts.

    `kernel`: from when the guest's own kernel has a clock until its first program begins; None on the host's kernel.
    `spawn`: all before that (monitor, firmware, engine); `init`: the agent's own way. None: cannot be seen.
    `harness`: the first of it, until Virtoll had executed the platform's program; None: not measured.
    """

    total: int
    spawn: int | None
    kernel: int | None
    init: int | None
    harness: int | None = None


@dataclass(frozen=True)
class GuestCost:
    """One platform's guests. Times in ns, sizes in bytes; `idle` and `worked`: PSS and page tables of own processes.

    `harness`: Virtoll's own part of `ready`. `charged`: by the guest's cgroup, idle, where it has one; `shared`:
    processes that serve several guests, idle.
    """

    platform: str
    ready: Quantity | None
    harness: Quantity | None
    spawn: Quantity | None
    kernel: Quantity | None
    init: Quantity | None
    idle: Quantity | None
    worked: Quantity | None
    page_tables: Quantity | None
    charged: Quantity | None
    files: Quantity | None
    shared: Mapping[str, Quantity]
    processes: int | None


@dataclass(frozen=True)
class CpuUse:
    """CPU time of a guest's processes on the host, ns per unit of work; `ratio` to the baseline in the same block.

    The unit is the job, or for traffic a forwarded frame. For traffic there is no ratio, because where the host's own
    kernel forwards it does so outside all processes.
    """

    platform: str
    task: Task
    unit: str
    per_unit: Quantity
    ratio: float | None
    interval: Interval | None


def guest_costs(
    boots: Sequence[BootRecord], footprints: Sequence[FootprintRecord], platforms: Sequence[str]
) -> tuple[GuestCost, ...]:
    """One row for each platform of which a guest was started or read, in the given order."""
    rows = []
    for platform in platforms:
        started = [boot for boot in boots if boot.platform == platform and boot.instance == 0]
        ways = {boot.block: way for boot in started if (way := readiness(boot))}
        read = [footprint for footprint in footprints if footprint.platform == platform]
        if ways or read:
            rows.append(_guest_cost(platform, list(ways.values()), read))
    return tuple(rows)


def _guest_cost(platform: str, ways: Sequence[Readiness], footprints: Sequence[FootprintRecord]) -> GuestCost:
    idle = _last_of_blocks(footprints, "idle")
    worked = _last_of_blocks(footprints, "after-work")
    counts = [len(footprint.processes) for footprint in idle]
    return GuestCost(
        platform=platform,
        ready=_over(ways, lambda way: way.total),
        harness=_over(ways, lambda way: way.harness),
        spawn=_over(ways, lambda way: way.spawn),
        kernel=_over(ways, lambda way: way.kernel),
        init=_over(ways, lambda way: way.init),
        idle=_over(idle, lambda footprint: held_bytes(footprint.processes)),
        worked=_over(worked, lambda footprint: held_bytes(footprint.processes)),
        page_tables=_over(idle, lambda footprint: _page_tables_bytes(footprint.processes)),
        charged=_over(idle, lambda footprint: footprint.charged_bytes),
        files=_over(idle, lambda footprint: footprint.files_bytes),
        shared=_shared(idle),
        processes=round(statistics.median(counts)) if counts else None,
    )


def _last_of_blocks(footprints: Sequence[FootprintRecord], when: str) -> list[FootprintRecord]:
    """One footprint of each block: the last that was read then."""
    by_block = {footprint.block: footprint for footprint in footprints if footprint.when == when}
    return list(by_block.values())


def _shared(idle: Sequence[FootprintRecord]) -> dict[str, Quantity]:
    """The memory of processes that serve several guests, by their name."""
    held: dict[str, list[int | None]] = {}
    for footprint in idle:
        for name, processes in footprint.shared.items():
            held.setdefault(name, []).append(held_bytes(processes))
    medians = {name: quantity(sizes) for name, sizes in held.items()}
    return {name: median for name, median in medians.items() if median is not None}


def readiness(boot: BootRecord) -> Readiness | None:
    """How long one start took, and its parts as far as the clocks inside show them; None for a start that failed.

    On the host's kernel the agent's clock is the host's. On another kernel that clock began with the kernel
    itself, and what remains of the outside time went before it.
    """
    spawned, ready, clock = boot.spawn_monotonic_ns, boot.ready_monotonic_ns, boot.agent_clock
    if boot.status != "ok" or spawned is None or ready is None or ready <= spawned:
        return None
    total, shared = ready - spawned, on_hosts_kernel(boot)
    harness = boot.executed_monotonic_ns - spawned if boot.executed_monotonic_ns is not None else None
    if clock is None or shared is None:
        return Readiness(total, None, None, None, harness)
    init = clock.ready_monotonic_ns - clock.started_monotonic_ns
    kernel = None if shared else clock.started_boottime_ns
    spawn = clock.started_monotonic_ns - spawned if kernel is None else total - kernel - init
    if min(spawn, init) < 0 or spawn + init > total:  # another clock after all: a time namespace, a clock that is wrong
        return Readiness(total, None, None, None, harness)
    return Readiness(total, spawn, kernel, init, harness)


def held_bytes(processes: Sequence[ProcessMemory]) -> int | None:
    """PSS and page tables together; None where one of the processes could not be read, or there is none."""
    resident = _sum(processes, lambda process: process.pss_bytes)
    tables = _page_tables_bytes(processes)
    return resident + tables if resident is not None and tables is not None else None


def _page_tables_bytes(processes: Sequence[ProcessMemory]) -> int | None:
    return _sum(processes, lambda process: process.page_tables_bytes)


def cpu_uses(
    tasks: Sequence[Task],
    trials: Sequence[TrialRecord],
    platforms: Sequence[str],
    baseline: str | None,
    caveats: Mapping[str, str] = MappingProxyType({}),
) -> tuple[CpuUse, ...]:
    """Every cell whose `ok` trials were read before and after, by task and platform; no ratio where one is marked with
    a caveat.

    A workload's figures are of the same trials as its duration, whose CPU time is reported once.
    """
    tasks = [task for task in tasks if task.metric.source in ("marks", "points")]
    cells = _ns_per_unit(tasks, trials)
    rows = []
    for task in tasks:
        traffic = task.metric.source == "points"
        reference = cells.get((baseline, task), {})
        for platform in platforms:
            blocks = cells.get((platform, task), {})
            per_unit = quantity(blocks.values())
            if per_unit is None:
                continue
            ratio, interval = None, None
            if not traffic and platform != baseline and platform not in caveats and baseline not in caveats:
                ratio, interval = _ratio(blocks, reference)
            unit = "forwarded frame" if traffic else "job"
            rows.append(CpuUse(platform, task, unit, per_unit, ratio, interval))
    return tuple(rows)


def _ns_per_unit(
    tasks: Sequence[Task], trials: Sequence[TrialRecord]
) -> dict[tuple[str | None, Task], dict[int, float]]:
    """CPU time per unit by cell and block: the median of the block's trials."""
    cells: dict[tuple[str | None, Task], dict[int, list[float]]] = {}
    tasks_of_trial = TasksOf(tasks)
    for trial in trials:
        used = used_ns(trial.host_cpu) if trial.status == "ok" else None
        if used is None:
            continue
        for task in tasks_of_trial(trial):
            units = forwarded_frames(trial) if task.metric.source == "points" else trial.repeats
            if units:
                cells.setdefault((trial.platform, task), {}).setdefault(trial.block, []).append(used / units)
    medians = {}
    for cell, blocks in cells.items():
        medians[cell] = {block: median(values) for block, values in blocks.items()}
    return medians


def _ratio(blocks: Mapping[int, float], reference: Mapping[int, float]) -> tuple[float | None, Interval | None]:
    """The mean ratio over blocks that both have, with its interval."""
    logs = []
    for block, value in blocks.items():
        base = reference.get(block, 0)
        if value > 0 and base > 0:
            logs.append(math.log(value / base))
    if not logs:
        return None, None
    estimate = student(logs)
    interval = estimate.interval
    if interval is not None:
        low, high = math.exp(interval.low), math.exp(interval.high)
        interval = replace(interval, low=low, high=high)
    return math.exp(estimate.value), interval


def used_ns(cpu: HostCpu | None) -> int | None:
    """CPU time of the guest's processes over a trial, reaped children included; None where it was not read whole."""
    return _used_between(cpu.before, cpu.after) if cpu is not None else None


def cpus_used(cpu: HostCpu | None) -> float | None:
    """How many of the host's CPUs the guest's processes took on average while it was measured; None: not known."""
    if cpu is None:
        return None
    used = [_used_between(span.before, span.after) for span in cpu.measured]
    known = [time_ns for time_ns in used if time_ns is not None]
    passed_ns = sum(span.after.monotonic_ns - span.before.monotonic_ns for span in cpu.measured)
    return sum(known) / passed_ns if len(known) == len(used) and passed_ns > 0 else None


def _used_between(first: CpuReading | None, last: CpuReading | None) -> int | None:
    if first is None or last is None:
        return None
    before, after = _total(first), _total(last)
    return after - before if before is not None and after is not None and after >= before else None


def forwarded_frames(trial: TrialRecord) -> int:
    """Frames that a traffic trial forwarded, over all its points."""
    points = (*(trial.points or ()), *(trial.cpu_points or ()))
    return sum(counts.forwarded_frames for point in points for counts in point.sink.per_source)


def quantity(values: Iterable[float | None]) -> Quantity | None:
    """The median of one value a block, with its interval; None where no block has one."""
    known = [value for value in values if value is not None]
    return Quantity(statistics.median(known), median_interval(known), len(known)) if known else None


def _over(records: Sequence[_Record], value: Callable[[_Record], float | None]) -> Quantity | None:
    return quantity(map(value, records))


def _total(reading: CpuReading) -> int | None:
    return sum(map(_process_ns, reading.processes)) if reading.processes else None


def _process_ns(process: ProcessTime) -> int:
    cpu_ns = process.cpu_ns if process.cpu_ns is not None else process.user_ns + process.system_ns
    return cpu_ns + process.children_user_ns + process.children_system_ns


def _sum(processes: Sequence[ProcessMemory], part: Callable[[ProcessMemory], int | None]) -> int | None:
    values = [part(process) for process in processes]
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
