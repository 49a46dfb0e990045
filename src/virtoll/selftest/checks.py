"""What each experiment of the self-test must show: an analysis in, findings out. Pure.

The analysis is the one that a report is made of. Nothing is read from the run folder that a user could not read too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.traffic_records import Point, SinkCounts
from virtoll.selftest import experiments as put_in
from virtoll.selftest.findings import Finding, Measured, Outcome, at_most, count, effect, not_tested, nothing
from virtoll.stats.analysis import Analysis
from virtoll.stats.arrays import bdtr
from virtoll.stats.clocks import ClockReading
from virtoll.stats.compare import DIFFERENT, Comparison
from virtoll.stats.fitness import FitnessLevel

# How exactly the faults themselves are known.
# Of the factor: the kernel gives 1 to 2 % more than the quota, and a guest that is stopped 100 times a second finds its
# caches cold (measured: at a quarter of a CPU a job takes up to 10 % more CPU time).
_QUOTA_TOLERANCE = 0.1
_CLOCK_TOLERANCE = 0.002
_LINK_TOLERANCE = 0.05  # of its rate: the token bucket's own burst
_DISK_TOLERANCE = 0.1  # of its rate: QEMU lets a tenth of a second through at once
_DELAY_TOLERANCE_US = 100
_SEGMENT_BYTES, _SEGMENT_FRAME_BYTES = 1448, 1514  # of TCP with timestamps at an MTU of 1500; the bucket counts frames
_LEAST_PAIRS = 8  # below, the interval of a noisy host may hold 20 %
_FALSE_LEVEL, _FALSE_TAIL = 0.05, 0.001


def findings(name: str, analysis: Analysis, *, short: bool) -> list[Finding]:
    """The findings of one check; a fault whose guest cannot run here is not tested."""
    planned = [platform["label"] for platform in put_in.EXPERIMENTS[name](short)["platforms"]]
    reasons = {label: reason for label in planned if (reason := _why_absent(analysis, label)) is not None}
    if put_in.RIGHT in reasons:
        return [not_tested((name, "all of it", ""), reasons[put_in.RIGHT])]
    labels = [label for label in planned if label not in reasons]
    absent = [not_tested((name, label, ""), reason) for label, reason in reasons.items()]
    return [*_CHECKS[name](analysis, labels), *absent]


def _why_absent(analysis: Analysis, label: str) -> str | None:
    """Why no trial of a guest could run; None where one did, whether it was believed or not."""
    trials = _trials(analysis, label)
    if any(trial.status in ("ok", "invalid") for trial in trials):
        return None
    return next((trial.reason for trial in trials if trial.reason is not None), "it has no trial")


def _cpu(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    for label, share in put_in.QUOTAS.items():
        if label in labels:
            what = ("cpu", f"{100 * share:g} % of a CPU", "times as long")
            slowdown = _slowdown(_comparison(analysis, label))
            finding = effect(what, 1 / share, slowdown, 1.0, _QUOTA_TOLERANCE / share)
            if finding.outcome is Outcome.MISSED and analysis.fitness.level is FitnessLevel.UNFIT:
                reason = "the host was unfit: the guest without a quota lacked CPU too"
                finding = replace(finding, outcome=Outcome.NOT_DECIDED, reason=reason)
            yield finding


def _clock(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    yield _rate_of(analysis, "clock", put_in.RIGHT, 1.0, put_in.CLOCK_RATE)
    if "fast" in labels:
        yield _rate_of(analysis, "clock", "fast", put_in.CLOCK_RATE, put_in.CLOCK_RATE)
    if "steps" in labels:
        yield _step(_steps_ms(analysis, "steps"))
    for comparison in analysis.comparisons:
        if comparison.platform == "fast" and len(comparison.pairs) >= _LEAST_PAIRS:
            what = (
                "clock",
                f"duration with a fast guest clock: {comparison.task.label}",
                "times as long",
            )
            yield nothing(what, _slowdown(comparison, together=True), 1.0, put_in.CLOCK_RATE)


def _kernel_clock(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    rates = {label: rate for label, rate in put_in.KERNEL_CLOCK_RATES.items() if label in labels}
    least = min(rates.values(), default=max(put_in.KERNEL_CLOCK_RATES.values()))
    yield _rate_of(analysis, "kernel-clock", put_in.RIGHT, 1.0, least)
    for label, rate in rates.items():
        yield _rate_of(analysis, "kernel-clock", label, rate, least)


def _rate_of(analysis: Analysis, check: str, label: str, rate: float, least: float) -> Finding:
    """``least``: the smallest rate of the check's wrong clocks, which a right one must be told from."""
    slope = next((clock.slope for clock in analysis.clocks if clock.platform == label), None)
    measured = None if slope is None else Measured(100 * slope.rate, 100 * slope.low, 100 * slope.high)
    what = (check, "a right clock" if rate == 1 else f"a clock {round(100 * (rate - 1))} % fast", "%")
    if rate == 1:
        return nothing(what, measured, 0.0, 100 * (least - 1))
    return effect(what, 100 * (rate - 1), measured, 0.0, 100 * _CLOCK_TOLERANCE)


def _steps_ms(analysis: Analysis, label: str) -> list[float]:
    """The differences, ms, of the trials that the clock cannot explain: beyond half of the step."""
    readings = next((clock.readings for clock in analysis.clocks if clock.platform == label), ())
    return [_apart_ms(reading) for reading in readings if abs(_apart_ms(reading)) > put_in.CLOCK_STEP_MILLISECONDS / 2]


def _apart_ms(reading: ClockReading) -> float:
    return (reading.guest_ns - reading.outside_ns) / 1e6


def _step(steps: list[float]) -> Finding:
    ordered = sorted(steps)
    middle = ordered[len(ordered) // 2] if ordered else None
    measured = None if middle is None else Measured(middle, ordered[0], ordered[-1])
    what = ("clock", "a clock that steps in every second job (range)", "ms")
    return effect(what, put_in.CLOCK_STEP_MILLISECONDS, measured, 0.0, 0.1 * put_in.CLOCK_STEP_MILLISECONDS)


def _path(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    quiet = _paced(analysis, put_in.RIGHT)
    yield _counted("no loss", quiet, 0, _lost)
    harms = [(f"drop-{every}", every, "dropped", _lost) for every in put_in.DROPS]
    harms += [(f"duplicate-{put_in.DUPLICATES}", put_in.DUPLICATES, "duplicated", _duplicates)]
    harms += [(f"swap-{put_in.SWAPS}", put_in.SWAPS, "overtaken", _reordered)]
    for label, every, words, read in harms:
        if label in labels:
            yield _counted(f"1 of {every} frames {words}", _paced(analysis, label), every, read)
    if "delay" in labels:
        later, base = _least_delay_us(_paced(analysis, "delay")), _least_delay_us(quiet)
        measured = None if later is None or base is None else Measured(later - base, later - base, later - base)
        what = ("path", "delay (the least one)", "µs")
        yield effect(what, put_in.DELAY_MICROSECONDS, measured, 0.0, _DELAY_TOLERANCE_US)


def _lost(sink: SinkCounts) -> int:
    return sink.lost_frames


def _duplicates(sink: SinkCounts) -> int:
    return sink.duplicate_frames


def _reordered(sink: SinkCounts) -> int:
    return sink.reordered_frames


def _counted(words: str, points: list[Point], every: int, read: Callable[[SinkCounts], int]) -> Finding:
    """Every Nth frame of the paced points; the count goes on from point to point, so that each may be 1 off."""
    offered = sum(source.offered_frames for point in points for source in point.sources)
    measured = sum(read(sink) for point in points for sink in point.sink.per_source) if points else None
    expected = offered / every if every else 0.0
    what = ("path", f"{words}, {offered} offered", "frames")
    return count(what, float(math.floor(expected)), measured, len(points) if every else 0)


def _paced(analysis: Analysis, label: str) -> list[Point]:
    """The first point of each trial: at a rate that the router is up to."""
    return [trial.points[0] for trial in _trials(analysis, label) if trial.points]


def _least_delay_us(points: list[Point]) -> float | None:
    sinks = [sink for point in points for sink in point.sink.per_source]
    delays = [sink.delay_ns.minimum for sink in sinks if sink.delay_ns is not None]
    return min(delays) / 1000 if delays else None


def _link(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    if "slow" not in labels:
        return
    truth = put_in.LINK_MBIT * _SEGMENT_BYTES / _SEGMENT_FRAME_BYTES
    rates = [8e-6 * put_in.LINK_BYTES * 1e9 / ns for ns in _values(analysis, "slow", "duration")]
    what = ("link", f"a link of {put_in.LINK_MBIT} Mbit/s (payload; range)", "Mbit/s")
    right = [8e-6 * put_in.LINK_BYTES * 1e9 / ns for ns in _values(analysis, put_in.RIGHT, "duration")]
    yield effect(what, truth, _range(rates), min(right, default=0.0), _LINK_TOLERANCE * truth)


def _disk(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    if "slow" not in labels:
        return
    size = next((trial.parameters["size_bytes"] for trial in _trials(analysis, "slow")), 0) / (1 << 20)
    truth = put_in.DISK_MIB_PER_SECOND
    rates = [size * 1e9 / ns for ns in _values(analysis, "slow", "round_time")]
    right = [size * 1e9 / ns for ns in _values(analysis, put_in.RIGHT, "round_time")]
    what = ("disk", f"a disk of {truth} MiB/s (range)", "MiB/s")
    yield effect(what, truth, _range(rates), min(right, default=0.0), _DISK_TOLERANCE * truth)


def _range(values: list[float]) -> Measured | None:
    ordered = sorted(values)
    return Measured(ordered[len(ordered) // 2], ordered[0], ordered[-1]) if ordered else None


def _values(analysis: Analysis, label: str, metric: str) -> list[float]:
    return [
        observation.value
        for observation in analysis.observations
        if observation.platform == label and observation.task.metric.name == metric
    ]


def _facts(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    wrong = {
        "cpus": ("one CPU more", "CPUs: asked"),
        "machine-cpus": ("one CPU more, in a machine", "CPUs: asked"),
        "machine-memory": ("half of the memory, in a machine", "memory: asked"),
    }
    for label in labels:
        trials, (words, reason) = _trials(analysis, label), wrong.get(label, ("a guest as it was asked for", ""))
        refused = sum(trial.status == "invalid" and reason in (trial.reason or "") for trial in trials)
        injected = len(trials) if label in wrong else 0
        yield count(("facts", words, "refused"), injected, refused if trials else None, 0)


def _nothing(analysis: Analysis, labels: list[str]) -> Iterator[Finding]:
    """No verdict that says different, and no more single intervals without 1 than chance leaves (binomial, 0.1 %)."""
    del labels
    tested = [comparison for comparison in analysis.comparisons if comparison.interval is not None]
    false = sum(comparison.verdict in DIFFERENT for comparison in tested)
    yield at_most(("nothing", f"false verdicts of {len(tested)} pairs", ""), false if tested else None, 0)
    apart = sum(
        comparison.interval is not None and not comparison.interval.low <= 1 <= comparison.interval.high
        for comparison in tested
    )
    limit = binomial_quantile(1 - _FALSE_TAIL, len(tested), _FALSE_LEVEL)
    what = ("nothing", f"single 95 % intervals without 1, of {len(tested)}", "")
    yield at_most(what, apart if tested else None, limit)


def binomial_quantile(probability: float, trials: int, chance: float) -> int:
    """The fewest successes not exceeded with this probability; `scipy.stats`, which has it, takes 1 s to import."""
    return next(count for count in range(trials + 1) if bdtr(count, trials, chance) >= probability)


def _comparison(analysis: Analysis, label: str) -> Comparison | None:
    return next((comparison for comparison in analysis.comparisons if comparison.platform == label), None)


def _slowdown(comparison: Comparison | None, *, together: bool = False) -> Measured | None:
    """As a factor. ``together``: with the interval that holds together with all others of the run.

    What must not differ needs it: of many single intervals some leave out the truth.
    """
    if comparison is None or comparison.share is None:
        return None
    interval = comparison.simultaneous if together else comparison.interval
    return Measured(1 / comparison.share, 1 / interval.high, 1 / interval.low) if interval is not None else None


def _trials(analysis: Analysis, label: str) -> list[TrialRecord]:
    return [trial for trial in analysis.data.trials if trial.platform == label]


_CHECKS: Mapping[str, Callable[[Analysis, list[str]], Iterator[Finding]]] = {
    "cpu": _cpu,
    "clock": _clock,
    "kernel-clock": _kernel_clock,
    "path": _path,
    "link": _link,
    "disk": _disk,
    "facts": _facts,
    "nothing": _nothing,
}
