"""What one run says about claims: each test's ratios with their intervals, and the outcome that follows. Pure.

A ratio is of performance, round by round, as in `stats.compare`: a rate by the other, a duration by the one. Where the
run compares the two sides anyway, its own comparison is taken, with all that keeps it from a verdict. Else the mean of
the blocks' logarithms has Student's t interval.

A claim on several platforms is an intersection-union test: each single 95 % interval must lie where the claim says
(Berger 1982). One that does not meet it refutes the claim. Of many intervals one misses by chance, so these are
simultaneous (Bonferroni). A rate that is a lower bound opens the interval upwards, one that it is compared with opens
it downwards. Main types: `Finding` (one ratio), `Judged` (one claim).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from virtoll.claims.model import Claim, Range, Reading, Test
from virtoll.claims.readings import SHARE, Cell, Under, cells_of
from virtoll.claims.sides import is_wanted, sides_of
from virtoll.errors import UsageError
from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import forwarded_elsewhere
from virtoll.stats.caveats import hosts_of, why_other_host
from virtoll.stats.clocks import ClockError
from virtoll.stats.comparability import agents_by_platform, why_platform_incomparable
from virtoll.stats.compare import LEVEL, Comparison
from virtoll.stats.intervals import CONFIDENCE, Interval, student
from virtoll.stats.values import Task

_SCALES: Mapping[str, Mapping[str, float]] = {
    SHARE: {"%": 0.01, "ppm": 1e-6, SHARE: 1.0},
    "ns": {"ns": 1.0, "µs": 1e3, "us": 1e3, "ms": 1e6, "s": 1e9},
}


class Outcome(StrEnum):
    """What a run says about a claim."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    NOT_DECIDED = "not decided"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True)
class Finding:
    """One ratio of a test, or one value: `estimate` with its 95 % interval, and with one simultaneous with others.

    A ratio is of performance and has no `unit`. `under`: what the measured side ran beside or with; `against`: the
    other side in words. `reason`: why there is no interval, or what limits it. `functional`: of a platform whose
    numbers are no results; it decides nothing.
    """

    platform: str
    task: str
    under: str
    against: str
    unit: str
    blocks: int
    outcome: Outcome = Outcome.NOT_DECIDED
    estimate: float | None = None
    interval: Interval | None = None
    simultaneous: Interval | None = None
    reason: str = ""
    functional: bool = False


@dataclass(frozen=True)
class JudgedTest:
    """What a run says about one test; `missing`: what it lacks, where nothing of it was measured."""

    test: Test
    outcome: Outcome
    findings: tuple[Finding, ...]
    missing: str = ""


@dataclass(frozen=True)
class Judged:
    """What a run says about a claim, test by test."""

    claim: Claim
    outcome: Outcome
    tests: tuple[JudgedTest, ...]


def judge_claims(analysis: Analysis, claims: Sequence[Claim]) -> tuple[Judged, ...]:
    """One `Judged` for each claim, in order. `UsageError` where a value's unit is not what was read."""
    ledger = _Ledger(analysis)
    return tuple(ledger.judged(claim) for claim in claims)


@dataclass(frozen=True)
class _Side:
    """Logarithms by (block, round); whether the true ones may be larger, or smaller, than these."""

    logs: Mapping[tuple[int, int], float]
    at_least: bool = False
    at_most: bool = False

    def over(self, other: _Side) -> _Side:
        """The ratio of both."""
        logs = _differences(self.logs, other.logs)
        return _Side(logs, self.at_least or other.at_most, self.at_most or other.at_least)


class _Ledger:
    """One analysis, and what is read of it once for all claims."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._baseline = analysis.data.manifest.baseline or ""
        self._elsewhere = forwarded_elsewhere(analysis.data.boots)
        self._agents = agents_by_platform(analysis.data.boots)
        self._hosts = hosts_of(analysis.data.manifest)
        self._gaps = {one.task: math.log(one.factor) for one in analysis.two_states}
        self._cells = cache(lambda reading: cells_of(analysis, reading))
        self._values = {one.key: one for one in self._cells(Reading.VALUE)}
        # The run's own comparisons: with the baseline, alone or with as many guests, and with the same guest alone.
        at_once = {analysis.at_once.words(point): point for point in analysis.at_once.points}
        self._against_baseline: Mapping[tuple[str, Task, Under], Comparison] = {
            **{(one.platform, one.task, ALONE): one for one in analysis.comparisons},
            **{(one.platform, one.task, at_once[one.condition or ""]): one for one in analysis.at_once.comparisons},
        }
        self._against_alone = {(one.platform, one.task, one.condition): one for one in analysis.isolation.comparisons}

    def judged(self, claim: Claim) -> Judged:
        """What the run says about a claim."""
        manifest = self._analysis.data.manifest
        compared = {
            place: sides_of(test, manifest, self._cells)
            for place, test in enumerate(claim.tests)
            if test.reading is not Reading.CLOCK_ERROR
        }
        # As many ratios as can refute the claim: its intervals are simultaneous over these.
        family = sum(
            not self._is_functional(*pair)
            for found in compared.values()
            if not isinstance(found, str)
            for pair in found
        )
        tests = []
        for place, test in enumerate(claim.tests):
            found = compared.get(place)
            if isinstance(found, str):
                tests.append(JudgedTest(test, Outcome.NOT_MEASURED, (), found))
            elif found is not None:
                told = [self._finding(claim, test, own, other, family) for own, other in found]
                tests.append(_judged_test(test, told))
            else:
                tests.append(self._clocks(claim, test))
        return Judged(claim, _of_tests([one.outcome for one in tests]), tuple(tests))

    def _finding(self, claim: Claim, test: Test, own: Cell, other: Cell | None, family: int) -> Finding:
        """One ratio, or one value where there is no other side."""
        functional, known = self._is_functional(own, other), self._known(test, own, other)
        unit = own.unit if test.value is not None else ""
        asked = _in_unit(claim, test, unit)
        found = Finding(
            own.platform,
            own.task.label,
            self._under_words(own),
            self._against_words(own, other),
            unit,
            blocks=0,
            functional=functional,
        )
        untold = own.untold or (other.untold if other else "") or self._why_incomparable(own, other)
        if untold:
            return replace(found, reason=untold)
        if known is not None and known.caveat is not None and not functional:
            return replace(found, blocks=len(known.pairs), estimate=known.share, reason=known.reason or known.caveat)
        side = self._side(test, own)
        theirs = None if other is None else self._side(test, other)
        if side is None or (other is not None and theirs is None):
            return replace(found, reason="the baseline has no value of it")
        if theirs is not None:
            side = side.over(theirs)
        blocks = _by_block(side.logs) if known is None else {block: math.log(share) for block, share in known.pairs}
        if not blocks:
            return replace(found, reason=known.reason if known else "no block has a valid value of both sides")
        found = replace(found, blocks=len(blocks), estimate=math.exp(statistics.fmean(blocks.values())))
        if len(blocks) < 2:
            return replace(found, reason="one block alone: no interval")
        gap = max(self._gaps.get(one.task, 0.0) for one in (own, other) if one is not None)
        single, joint = _intervals(known, list(blocks.values()), family, gap)
        single, joint = _opened(single, side), _opened(joint, side)
        outcome = _outcome(asked, single, joint)
        open_end = outcome is Outcome.NOT_DECIDED and (side.at_least or side.at_most)
        reason = "a rate of it is a lower bound: more may be possible" if open_end else ""
        return replace(found, outcome=outcome, interval=single, simultaneous=joint, reason=reason)

    def _side(self, test: Test, cell: Cell) -> _Side | None:
        """Logarithms of performance, or of the value where that is asked for; None where there is no baseline's."""
        sign = -1.0 if cell.lower_is_better and test.value is None else 1.0
        more = math.log(cell.attributes["guests"]) if test.together else 0.0
        by = None if test.per is None else cell.number(test.per)
        less = math.log(by) if by else 0.0
        side = _Side({key: sign * value + more - less for key, value in cell.rounds.items()}, cell.at_least)
        if not test.relative_to_baseline:
            return side
        key = self._baseline, cell.task, cell.under
        base = self._values.get(key)
        if base is None:
            return None
        return side.over(_Side({key: sign * value for key, value in base.rounds.items()}, base.at_least))

    def _why_incomparable(self, own: Cell, other: Cell | None) -> str:
        """Why a value or a ratio would not be the platforms' own; empty where it is."""
        for one in (own, other):
            if one is not None and one.platform in self._elsewhere and one.task.is_forwarding_rate:
                return f"{one.platform} forwards {self._elsewhere[one.platform]}"
        if other is None or own.platform == other.platform:
            return ""
        refused = why_other_host(self._hosts, own.platform, other.platform)
        return refused or why_platform_incomparable(self._agents, own.platform, other.platform) or ""

    def _known(self, test: Test, own: Cell, other: Cell | None) -> Comparison | None:
        """The run's own comparison of two sides, where it has one."""
        plain = test.reading is Reading.VALUE and not (test.relative_to_baseline or test.per or test.together)
        if other is None or not plain or own.task != other.task:
            return None
        if own.platform == other.platform and other.under == ALONE:
            label = own.under.label if isinstance(own.under, Condition) else None
            return self._against_alone.get((own.platform, own.task, label))
        if other.platform == self._baseline and own.under == other.under:
            return self._against_baseline.get(own.key)
        return None

    def _under_words(self, cell: Cell) -> str:
        """What a cell ran beside or with, empty for alone."""
        if isinstance(cell.under, str):
            return ""
        return (
            f"beside {cell.under.label}"
            if isinstance(cell.under, Condition)
            else self._analysis.at_once.words(cell.under)
        )

    def _against_words(self, own: Cell, other: Cell | None) -> str:
        """The other side in words: what differs."""
        if other is None:
            return ""
        parts = [other.platform] if own.platform != other.platform else []
        if own.under != other.under:
            parts.append(self._under_words(other) or "alone")
        if own.task.workload != other.task.workload:
            parts.append(other.task.short)
        elif own.task != other.task:
            parts.append(other.task.size)
        return ", ".join(parts) or "its largest rate"

    def _is_functional(self, own: Cell, other: Cell | None) -> bool:
        return any(one.platform in self._analysis.caveats for one in (own, other) if one is not None)

    def _clocks(self, claim: Claim, test: Test) -> JudgedTest:
        """The clocks of the platforms that are asked for."""
        manifest = self._analysis.data.manifest
        asked = [one for one in self._analysis.clocks if is_wanted(one.platform, test.platforms, manifest)]
        if not asked:
            return JudgedTest(test, Outcome.NOT_MEASURED, (), "no clock of a platform that it is about was read")
        wanted = _in_unit(claim, test, SHARE)
        return _judged_test(test, [_clock(one, wanted, one.platform in self._analysis.caveats) for one in asked])


def _clock(clock: ClockError, asked: Range, functional: bool) -> Finding:
    """A clock's error without its sign, with Sen's interval; it is of that clock alone."""
    blocks = len({reading.block for reading in clock.readings})
    found = Finding(clock.platform, "the guest's clock", "", "", SHARE, blocks, functional=functional)
    slope = clock.slope
    if slope is None:
        return replace(found, reason=clock.why_no_slope)
    nearest = 0.0 if slope.low <= 0 <= slope.high else min(abs(slope.low), abs(slope.high))
    interval = Interval(nearest, max(abs(slope.low), abs(slope.high)), CONFIDENCE, "Theil and Sen")
    outcome = _outcome(asked, interval, interval)
    return replace(found, outcome=outcome, estimate=abs(slope.rate), interval=interval, simultaneous=interval)


def _intervals(known: Comparison | None, logs: Sequence[float], family: int, gap: float) -> tuple[Interval, Interval]:
    """The 95 % interval of a ratio, and the one simultaneous with its family; `gap`: of the host's two states."""
    if known is not None and known.interval is not None and known.simultaneous is not None:
        return known.interval, known.simultaneous
    found = []
    for confidence in (CONFIDENCE, 1 - LEVEL / max(family, 1)):
        own = student(logs, confidence).interval
        if own is None:
            raise ValueError("an interval needs two blocks")
        found.append(Interval(math.exp(own.low - gap), math.exp(own.high + gap), confidence, own.method))
    return found[0], found[1]


def _opened(interval: Interval, side: _Side) -> Interval:
    low = 0.0 if side.at_most else interval.low
    return replace(interval, low=low, high=math.inf if side.at_least else interval.high)


def _in_unit(claim: Claim, test: Test, unit: str) -> Range:
    """What is asked for, in the unit of what was read."""
    if test.value is None:
        return test.asked
    scales = _SCALES.get(unit, {unit: 1.0})
    if test.value.unit not in scales:
        raise UsageError(
            f"claim {claim.id}: test '{test.says}': what is read is in {unit}, and the claim gives "
            f"{test.value.unit!r}; give one of {', '.join(scales)}"
        )
    return test.value.scaled(scales[test.value.unit])


def _differences(
    one: Mapping[tuple[int, int], float], other: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], float]:
    """Round by round; where no round has both, block by block."""
    both = {key: value - other[key] for key, value in one.items() if key in other}
    if both:
        return both
    own, theirs = _by_block(one), _by_block(other)
    return {(block, 0): value - theirs[block] for block, value in own.items() if block in theirs}


def _by_block(rounds: Mapping[tuple[int, int], float]) -> dict[int, float]:
    blocks: dict[int, list[float]] = {}
    for (block, _), value in rounds.items():
        blocks.setdefault(block, []).append(value)
    return {block: statistics.median(values) for block, values in sorted(blocks.items())}


def _outcome(asked: Range, single: Interval, joint: Interval) -> Outcome:
    low = -math.inf if asked.at_least is None else asked.at_least
    high = math.inf if asked.at_most is None else asked.at_most
    if single.low >= low and single.high <= high:
        return Outcome.SUPPORTED
    return Outcome.REFUTED if joint.high < low or joint.low > high else Outcome.NOT_DECIDED


def _judged_test(test: Test, found: Sequence[Finding]) -> JudgedTest:
    """A test on all platforms, or on any; those whose numbers are no results decide nothing."""
    deciding = {one.outcome for one in found if not one.functional}
    if not deciding:
        return JudgedTest(test, Outcome.NOT_MEASURED, tuple(found), "it was measured only where numbers are no results")
    decisive, other = Outcome.REFUTED, Outcome.SUPPORTED
    if test.holds_for == "any":
        decisive, other = other, decisive
    outcome = decisive if decisive in deciding else other if deciding == {other} else Outcome.NOT_DECIDED
    return JudgedTest(test, outcome, tuple(found))


def _of_tests(outcomes: Sequence[Outcome]) -> Outcome:
    """A claim of several tests. A part that was not measured leaves it open, unless another part refutes it."""
    if Outcome.REFUTED in outcomes:
        return Outcome.REFUTED
    return outcomes[0] if len(set(outcomes)) == 1 else Outcome.NOT_DECIDED
