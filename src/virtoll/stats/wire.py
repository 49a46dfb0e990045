"""The instrument's account of itself over a run: losses by place, pace, delay, fairness, CPU time, back ends. Pure.

Each function takes the trials of a run and gives rows; nothing is known of text or colour here. Medians are over trials
(and sources), counts are sums.
"""

import itertools
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Cpu, Distribution, Point, SourceCounts
from virtoll.stats.hops import Owner, locate
from virtoll.stats.summaries import known, median_of_known
from virtoll.stats.sweeps import LOSSLESS_SHARE
from virtoll.stats.values import Task, TasksOf, joint_ns, places_of

Cell = tuple[str, Task]


@dataclass(frozen=True)
class LossRow:
    """One cell's points, paced or flat out, together: frames by owner and segment; the drop counters of one point."""

    platform: str
    task: Task
    flat_out: bool
    offered_frames: int
    by_owner: dict[Owner, int]
    by_segment: dict[str, int]
    counters: dict[str, str]

    @property
    def lost_frames(self) -> int:
        """All of them."""
        return sum(self.by_owner.values())


@dataclass(frozen=True)
class PaceRow:
    """One target rate of one task with one back end: relative errors of the sources that sent all they should.

    `held` and `missed` count sources; `longest_gap_ns` and `worst_error` are the worst of those held; None: not
    reported.
    """

    task: Task
    backend: str
    target_rate: float
    held: int
    missed: int
    unsent_share: float
    median_rate: float | None
    median_error: float | None
    worst_error: float | None
    gap_variation: float | None
    longest_gap_ns: int | None
    batch_frames: int | None


@dataclass(frozen=True)
class DelayRow:
    """One-way delay of one cell at one target rate, ns: smallest, medians over trials and sources, largest."""

    platform: str
    task: Task
    target_rate: float
    what: str
    samples: int
    minimum_ns: int
    p50_ns: float
    p90_ns: float
    p99_ns: float
    maximum_ns: int

    @property
    def variation_ns(self) -> float:
        """Delay variation, RFC 5481 PDV at the 99th percentile: above the smallest."""
        return self.p99_ns - self.minimum_ns


@dataclass(frozen=True)
class FairRow:
    """Several sources flat out: each one's median forwarded rate, and Jain's index over them (1: equal shares)."""

    platform: str
    task: Task
    rates: tuple[float, ...]
    jain: float


@dataclass(frozen=True)
class CpuRow:
    """CPU time per million frames flat out, ns: generator by offered, sink and guest's cores by forwarded frames."""

    platform: str
    task: Task
    generator_ns: float | None
    sink_ns: float | None
    guest_cores_ns: float | None


@dataclass(frozen=True)
class BackendUse:
    """How many points used a back end (or sink) on which platforms, and why nothing better was taken."""

    kind: str
    name: str
    points: int
    platforms: tuple[str, ...]
    reason: str | None


def points_of(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> Iterator[tuple[Task, TrialRecord, Point]]:
    """Every point of every `ok` trial with its task."""
    rated = TasksOf(task for task in tasks if task.metric.source == "points")
    for trial in trials:
        if trial.status == "ok" and trial.points:
            for task in rated(trial)[:1]:
                yield from ((task, trial, point) for point in trial.points)


def loss_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[LossRow, ...]:
    """Losses by place, for each cell its paced points and its point flat out."""
    groups: dict[tuple[str, Task, bool], list[Point]] = {}
    for task, trial, point in points_of(tasks, trials):
        flat_out = point.intended_rate_frames_per_second is None
        groups.setdefault((trial.platform, task, flat_out), []).append(point)
    places = places_of(tasks)
    ordered = sorted(groups, key=lambda key: (places[key[1]], key[2]))
    return tuple(_loss_row(*key, groups[key]) for key in ordered)


def _loss_row(platform: str, task: Task, flat_out: bool, points: Sequence[Point]) -> LossRow:
    by_owner, by_segment, counters = dict[Owner, int](), dict[str, int](), dict[str, str]()
    for loss in itertools.chain.from_iterable(map(locate, points)):
        owner, words = loss.owner, loss.words
        by_owner[owner] = by_owner.get(owner, 0) + loss.frames
        by_segment[words] = by_segment.get(words, 0) + loss.frames
        if loss.counters:
            counters.setdefault(words, ", ".join(loss.counters))
    return LossRow(
        platform=platform,
        task=task,
        flat_out=flat_out,
        offered_frames=sum(source.offered_frames for point in points for source in point.sources),
        by_owner=by_owner,
        by_segment=by_segment,
        counters=counters,
    )


def pace_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[PaceRow, ...]:
    """Target against achieved rate, over all platforms: the pace is the generator's own."""
    groups: dict[tuple[Task, str, float], list[SourceCounts]] = {}
    for task, _, point in points_of(tasks, trials):
        if point.intended_rate_frames_per_second is not None:
            key = (task, point.backend, point.intended_rate_frames_per_second)
            groups.setdefault(key, []).extend(point.sources)
    places = places_of(tasks)
    ordered = sorted(groups, key=lambda key: (places[key[0]], key[1], key[2]))
    return tuple(_pace_row(*key, groups[key]) for key in ordered)


def _pace_row(task: Task, backend: str, target: float, sources: Sequence[SourceCounts]) -> PaceRow:
    held = [source for source in sources if source.unsent_frames == 0]
    rates = known(map(achieved_rate, held))
    errors = [rate / target - 1 for rate in rates if target]
    gaps = known(source.gap_ns for source in held)
    batches = known(source.batch_frames for source in held)
    intended = sum(source.intended_frames for source in sources)
    unsent = sum(source.unsent_frames for source in sources)
    return PaceRow(
        task=task,
        backend=backend,
        target_rate=target,
        held=len(held),
        missed=len(sources) - len(held),
        unsent_share=unsent / intended if intended else 0.0,
        median_rate=median_of_known(rates),
        median_error=median_of_known(errors),
        worst_error=max(errors, key=abs, default=None),
        gap_variation=median_of_known(gap.coefficient_of_variation for gap in gaps),
        longest_gap_ns=max((gap.maximum for gap in gaps), default=None),
        batch_frames=max(batches, default=None),
    )


def achieved_rate(source: SourceCounts) -> float | None:
    """Frames/s between the first and the last frame sent; None where the agent did not report when that was."""
    first, last = source.first_sent_monotonic_ns, source.last_sent_monotonic_ns
    if first is None or last is None or last <= first or source.offered_frames < 2:
        return None
    return (source.offered_frames - 1) * 1e9 / (last - first)


def delay_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[DelayRow, ...]:
    """For each cell its lowest rate and the highest at which (median over trials) at most 0.5 % were lost or unsent."""
    groups: dict[Cell, dict[float, list[Point]]] = {}
    for task, trial, point in points_of(tasks, trials):
        if point.intended_rate_frames_per_second is not None:
            rates = groups.setdefault((trial.platform, task), {})
            rates.setdefault(point.intended_rate_frames_per_second, []).append(point)
    rows, places = [], places_of(tasks)
    for (platform, task), rates in sorted(groups.items(), key=lambda item: places[item[0][1]]):
        falling = sorted(rates, reverse=True)
        chosen = {falling[-1]: "lowest rate"}
        for rate in falling:
            if statistics.median(map(_missing, rates[rate])) <= LOSSLESS_SHARE:
                chosen[rate] = "highest without loss"
                break
        for rate, what in chosen.items():
            delays = (counts.delay_ns for point in rates[rate] for counts in point.sink.per_source)
            reported = known(delays)
            if reported:
                rows.append(_delay_row(platform, task, rate, what, reported))
    return tuple(rows)


def _missing(point: Point) -> float:
    """Lost or unsent, as a share of what was intended."""
    intended = sum(source.intended_frames for source in point.sources)
    missing = intended - sum(counts.forwarded_frames for counts in point.sink.per_source)
    return missing / intended if intended else 1.0


def _delay_row(platform: str, task: Task, rate: float, what: str, reported: Sequence[Distribution]) -> DelayRow:
    rows = [(delay.minimum, delay.p50, delay.p90, delay.p99, delay.maximum) for delay in reported]
    least, p50, p90, p99, most = zip(*rows, strict=True)
    middle = statistics.median
    return DelayRow(
        platform=platform,
        task=task,
        target_rate=rate,
        what=what,
        samples=sum(delay.count for delay in reported),
        minimum_ns=min(least),
        p50_ns=middle(p50),
        p90_ns=middle(p90),
        p99_ns=middle(p99),
        maximum_ns=max(most),
    )


def fair_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[FairRow, ...]:
    """Cells with several sources, flat out, or at the one rate of a trial that has no other point."""
    groups: dict[Cell, list[list[float]]] = {}
    for task, trial, point in points_of(tasks, trials):
        comparable = point.intended_rate_frames_per_second is None or len(trial.points or ()) == 1
        if comparable and len(point.sources) > 1:
            rates = [_source_rate(point, counts.source) for counts in point.sink.per_source]
            groups.setdefault((trial.platform, task), []).append(rates)
    rows, places = [], places_of(tasks)
    for (platform, task), measured in sorted(groups.items(), key=lambda item: places[item[0][1]]):
        medians = tuple(statistics.median(column) for column in zip(*measured, strict=True))
        rows.append(FairRow(platform, task, medians, statistics.median(map(jain, measured))))
    return tuple(rows)


def _source_rate(point: Point, number: int) -> float:
    """One source's frames/s over a length that all sources of the point have in common, so that they compare."""
    source_counts = next(counts for counts in point.sink.per_source if counts.source == number)
    return source_counts.forwarded_frames * 1e9 / (joint_ns(point) if point.is_shared else point.duration_ns)


def jain(rates: Sequence[float]) -> float:
    """Jain's fairness index, (sum x)^2 / (n sum x^2): 1 for equal shares, 1/n where one has all; 1 where none has."""
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else 1.0


def cpu_rows(tasks: Sequence[Task], trials: Sequence[TrialRecord], guest_cpus: Sequence[int]) -> tuple[CpuRow, ...]:
    """CPU time per million frames of each cell flat out, over all its trials; `guest_cpus`: the guests' own cores."""
    groups: dict[Cell, list[Point]] = {}
    for task, trial, point in points_of(tasks, trials):
        if point.intended_rate_frames_per_second is None and _generator_ns(point.cpu) is not None:
            groups.setdefault((trial.platform, task), []).append(point)
    rows, places = [], places_of(tasks)
    for (platform, task), points in sorted(groups.items(), key=lambda item: places[item[0][1]]):
        offered = sum(source.offered_frames for point in points for source in point.sources)
        forwarded = sum(counts.forwarded_frames for point in points for counts in point.sink.per_source)
        used = [point.cpu for point in points]
        guest = [_busy_ns(cpu, guest_cpus) for cpu in used]
        rows.append(
            CpuRow(
                platform,
                task,
                _per_million(map(_generator_ns, used), offered),
                _per_million(map(_sink_ns, used), forwarded),
                None if None in guest else _per_million(guest, forwarded),
            )
        )
    return tuple(rows)


def _per_million(times_ns: Iterable[int | None], frames: int) -> float | None:
    measured = known(times_ns)
    return sum(measured) * 1e6 / frames if measured and frames else None


def _generator_ns(cpu: Cpu) -> int | None:
    return _exact_or_sum(cpu.generator_cpu_ns, cpu.generator_user_ns, cpu.generator_system_ns)


def _sink_ns(cpu: Cpu) -> int | None:
    return _exact_or_sum(cpu.sink_cpu_ns, cpu.sink_user_ns, cpu.sink_system_ns)


def _exact_or_sum(exact_ns: int | None, user_ns: int | None, system_ns: int | None) -> int | None:
    if exact_ns is not None:
        return exact_ns
    return None if user_ns is None or system_ns is None else user_ns + system_ns


def _busy_ns(cpu: Cpu, cores: Sequence[int]) -> int | None:
    used = [processor for processor in cpu.processors or () if processor.cpu in cores]
    if not used:
        return None
    return sum(
        processor.user_ns + processor.nice_ns + processor.system_ns + processor.irq_ns + processor.softirq_ns
        for processor in used
    )


def backend_uses(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> tuple[BackendUse, ...]:
    """Every back end and sink that was used, with why nothing better was taken, most used first."""
    points: dict[tuple[str, str, str | None], Counter[str]] = {}
    for _, trial, point in points_of(tasks, trials):
        for key in (
            ("generator", point.backend, point.backend_reason),
            ("sink", point.sink.backend or "not reported", point.sink.backend_reason),
        ):
            points.setdefault(key, Counter())[trial.platform] += 1
    ordered = sorted(points.items(), key=lambda item: -item[1].total())
    return tuple(
        BackendUse(kind, name, platforms.total(), tuple(platforms), reason)
        for (kind, name, reason), platforms in ordered
    )
