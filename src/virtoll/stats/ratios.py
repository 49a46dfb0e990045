"""Ratios of what a run measured, each with its intervals: claims, needs and gates are judged by them. Pure.

A ratio is of performance, round by round, as in `stats.compare`: a rate by the other, a duration by the one. Where the
run compares the two sides anyway, its own comparison is taken, with all that keeps it from a verdict. Else the mean of
the blocks' logarithms has Student's t interval. A rate that is a lower bound opens the interval upwards, one that it is
compared with opens it downwards. Main types: `Ratio`, and `Ratios` (of one analysis).
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from virtoll.runfolder.conditions import ALONE, Condition
from virtoll.stats.analysis import Analysis
from virtoll.stats.bounds import forwarded_elsewhere, widened
from virtoll.stats.caveats import hosts_of, why_other_host
from virtoll.stats.clocks import ClockError
from virtoll.stats.comparability import agents_by_platform, why_platform_incomparable
from virtoll.stats.compare import Comparison, means_by_host
from virtoll.stats.compared import Compared, Reading
from virtoll.stats.intervals import CONFIDENCE, Interval, student
from virtoll.stats.readings import SHARE, Cell, Under, cells_of
from virtoll.stats.sides import Sides, is_wanted, nested_guests, not_measured, sides_of
from virtoll.stats.values import Task


@dataclass(frozen=True)
class Ratio:
    """One ratio, or one value: `estimate` with its 95 % interval, and with one simultaneous with others.

    A ratio is of performance and has no `unit`. `under`: what the measured side ran beside or with; `against`: the
    other side in words. `reason`: why there is no interval, or what limits it. `caveat`: why its numbers are no
    results, of a platform or of the baseline; None where they are.
    """

    platform: str
    task: str
    under: str
    against: str
    unit: str
    blocks: int
    estimate: float | None = None
    interval: Interval | None = None
    simultaneous: Interval | None = None
    reason: str = ""
    caveat: str | None = None

    @property
    def functional(self) -> bool:
        """Whether it shows that something works, and no more."""
        return self.caveat is not None


@dataclass(frozen=True)
class _Side:
    """Logarithms by (block, round); whether the true ones may be larger, or smaller, than these.

    `above`, `below`: by how much, where they are of searches that end with two bounds.
    """

    logs: Mapping[tuple[int, int], float]
    at_least: bool = False
    at_most: bool = False
    above: float = 0.0
    below: float = 0.0

    @property
    def reason(self) -> str:
        """What limits its interval; empty if nothing does."""
        return "a rate of it is a lower bound: more may be possible" if self.at_least or self.at_most else ""

    def over(self, other: _Side) -> _Side:
        """The ratio of both."""
        logs = _differences(self.logs, other.logs)
        return _Side(
            logs,
            self.at_least or other.at_most,
            self.at_most or other.at_least,
            above=self.above + other.below,
            below=self.below + other.above,
        )


class Ratios:
    """The ratios of one analysis; what is read of it is read once."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis
        self._baseline = analysis.data.manifest.baseline or ""
        self._elsewhere = forwarded_elsewhere(analysis.data.boots)
        self._agents = agents_by_platform(analysis.data.boots)
        self._hosts = hosts_of(analysis.data.manifest)
        self._nested = nested_guests(analysis.data.manifest)
        self._cells = cache(lambda reading, link: cells_of(analysis, reading, link))
        self._values = cache(lambda link: {cell.key: cell for cell in self._cells(Reading.VALUE, link)})
        # The run's own comparisons: with the baseline, alone or with as many guests, and with the same guest alone.
        self._against_baseline: dict[tuple[str, Task, Under], Comparison] = {
            (comparison.platform, comparison.task, ALONE): comparison for comparison in analysis.comparisons
        }
        at_once = {analysis.at_once.words(point): point for point in analysis.at_once.points}
        for comparison in analysis.at_once.comparisons:
            point = at_once[comparison.condition or ""]
            self._against_baseline[comparison.platform, comparison.task, point] = comparison
        self._against_alone = {
            (comparison.platform, comparison.task, comparison.condition): comparison
            for comparison in analysis.isolation.comparisons
        }

    def sides(self, compared: Compared) -> list[Sides] | list[ClockError] | str:
        """What is compared: pairs of cells, or clocks; in words what the run has not."""
        manifest = self._analysis.data.manifest
        if compared.reading is not Reading.CLOCK_ERROR:
            return sides_of(compared, manifest, self._cells)
        clocks = [clock for clock in self._analysis.clocks if is_wanted(clock.platform, compared.platforms, manifest)]
        return clocks or "no clock of a platform that this is about was read"

    def missing(self, compared: Compared, sides: Sequence[Sides | ClockError], *, any_platform: bool) -> str:
        """What of a comparison was not measured without a caveat, as `not_measured` says it; empty if all was."""
        pairs = [side for side in sides if not isinstance(side, ClockError) and self.caveat(compared, side) is None]
        return not_measured(compared, pairs, any_platform=any_platform)

    def caveat(self, compared: Compared, side: Sides | ClockError) -> str | None:
        """Why its numbers are no results; None where they are."""
        if isinstance(side, ClockError):
            labels = [side.platform]
        else:
            labels = [label for label, _ in self._parties(compared, side)]
        caveats = self._analysis.caveats
        if compared.host == "bare-metal":
            caveats = {**self._nested, **caveats}
        return next((caveats[label] for label in labels if label in caveats), None)

    def ratio(self, compared: Compared, side: Sides | ClockError, family: int, *, value: bool) -> Ratio:
        """One of the sides' ratios; `family`: with how many its interval is simultaneous.

        `value`: the value itself is asked for, in its unit, and not its performance.
        """
        caveat = self.caveat(compared, side)
        if isinstance(side, ClockError):
            return _clock(side, caveat)
        return self._of(compared, *side, family, value=value, caveat=caveat)

    def _of(
        self, compared: Compared, cell: Cell, other: Cell | None, family: int, *, value: bool, caveat: str | None
    ) -> Ratio:
        ratio = Ratio(
            cell.platform,
            cell.task.label,
            self._under_words(cell),
            self._against_words(cell, other),
            cell.unit if value else "",
            blocks=0,
            caveat=caveat,
        )
        untold = self._untold(compared, (cell, other), functional=caveat is not None)
        if untold:
            return replace(ratio, reason=untold)
        known = self._known(compared, cell, other)
        if known is not None and known.caveat is not None and caveat is None:
            return replace(ratio, blocks=len(known.pairs), estimate=known.share, reason=known.reason or known.caveat)
        side = self._over(compared, cell, other, value)
        if side is None:
            return replace(ratio, reason="the baseline has no value of it")
        blocks = _logs_by_block(side, known)
        if not blocks:
            return replace(ratio, reason=known.reason if known else "no block has a valid value of both sides")
        logs, counted = list(blocks.values()), "block"
        if self._analysis.host_of:
            logs, counted = list(means_by_host(blocks, self._analysis.host_of).values()), "host"
        ratio = replace(ratio, blocks=len(blocks), estimate=math.exp(statistics.fmean(logs)))
        if len(logs) < 2:
            return replace(ratio, reason=f"one {counted} alone: no interval")
        gap = max(self._analysis.gap(party.platform, party.task) for party in (cell, other or cell))
        single, joint = _intervals(known, logs, family, gap, self._analysis.level)
        if known is None:
            single, joint = (widened(interval, side.below, side.above) for interval in (single, joint))
        return replace(ratio, interval=_opened(single, side), simultaneous=_opened(joint, side), reason=side.reason)

    def _over(self, compared: Compared, cell: Cell, other: Cell | None, value: bool) -> _Side | None:
        """The ratio of both sides, or the one side's value; None where there is no baseline's."""
        side = self._side(compared, cell, value)
        if side is None or other is None:
            return side
        other_side = self._side(compared, other, value)
        return None if other_side is None else side.over(other_side)

    def _side(self, compared: Compared, cell: Cell, value: bool) -> _Side | None:
        """Logarithms of performance, or of the value where that is asked for; None where there is no baseline's."""
        sign = -1.0 if cell.lower_is_better and not value else 1.0
        more = math.log(cell.attributes["guests"]) if compared.together else 0.0
        by = cell.number(compared.per or "")
        less = math.log(by) if by else 0.0
        logs = {key: sign * log + more - less for key, log in cell.rounds.items()}
        side = _Side(logs, cell.at_least, above=cell.width)
        if not compared.relative_to_baseline:
            return side
        base = self._values(compared.link_mbit_per_second).get((self._baseline, cell.task, cell.under))
        if base is None:
            return None
        return side.over(_Side({key: sign * log for key, log in base.rounds.items()}, base.at_least, above=base.width))

    def _parties(self, compared: Compared, sides: Sides) -> list[tuple[str, Task]]:
        """What a ratio is made of, by platform and task: the baseline's too, where both sides are shares of it."""
        cells = [cell for cell in sides if cell is not None]
        parties = [(cell.platform, cell.task) for cell in cells]
        if compared.relative_to_baseline:
            parties += [(self._baseline, cell.task) for cell in cells]
        return parties

    def _untold(self, compared: Compared, sides: Sides, *, functional: bool) -> str:
        """Why nothing can be said of a value or a ratio, or why it would not be the platforms' own; empty where it is.

        What is functional is shown beside another host's, as the run's own comparisons have it.
        """
        for cell in sides:
            if cell is not None and cell.untold:
                return cell.untold
        if compared.overloaded and sides[0].lossless:
            return "almost no frames were lost, so it was not overloaded"
        parties = self._parties(compared, sides)
        for label, task in parties:
            if label in self._elsewhere and task.is_forwarding_rate:
                return f"{label} forwards {self._elsewhere[label]}"
        for first, second in itertools.combinations(dict.fromkeys(label for label, _ in parties), 2):
            other_host = None if functional else why_other_host(self._hosts, first, second)
            refused = other_host or why_platform_incomparable(self._agents, first, second)
            if refused:
                return refused
        return ""

    def _known(self, compared: Compared, cell: Cell, other: Cell | None) -> Comparison | None:
        """The run's own comparison of two sides, where it has one."""
        plain = compared.reading is Reading.VALUE and not (
            compared.relative_to_baseline or compared.per or compared.together or compared.link_mbit_per_second
        )
        if other is None or not plain or cell.task != other.task:
            return None
        if cell.platform == other.platform and other.under == ALONE:
            label = cell.under.label if isinstance(cell.under, Condition) else None
            return self._against_alone.get((cell.platform, cell.task, label))
        if other.platform == self._baseline and cell.under == other.under:
            return self._against_baseline.get(cell.key)
        return None

    def _under_words(self, cell: Cell) -> str:
        """What a cell ran beside or with, empty for alone."""
        if isinstance(cell.under, str):
            return ""
        if isinstance(cell.under, Condition):
            return f"beside {cell.under.label}"
        return self._analysis.at_once.words(cell.under)

    def _against_words(self, cell: Cell, other: Cell | None) -> str:
        """The other side in words: what differs."""
        if other is None:
            return ""
        parts = []
        if cell.platform != other.platform:
            parts.append(other.platform)
        if cell.under != other.under:
            parts.append(self._under_words(other) or "alone")
        if cell.task.workload != other.task.workload:
            parts.append(other.task.label)
        elif cell.task != other.task:
            parts.append(other.task.size)
        return ", ".join(parts) or "its largest rate"


def _clock(clock: ClockError, caveat: str | None) -> Ratio:
    """A clock's error without its sign, with Sen's interval; it is of that clock alone."""
    blocks = len({reading.block for reading in clock.readings})
    ratio = Ratio(clock.platform, "the guest's clock", "", "", SHARE, blocks, caveat=caveat)
    slope = clock.slope
    if slope is None:
        return replace(ratio, reason=clock.why_no_slope)
    nearest = 0.0 if slope.low <= 0 <= slope.high else min(abs(slope.low), abs(slope.high))
    interval = Interval(nearest, max(abs(slope.low), abs(slope.high)), CONFIDENCE, "Theil and Sen")
    return replace(ratio, estimate=abs(slope.rate), interval=interval, simultaneous=interval)


def _intervals(
    known: Comparison | None, logs: Sequence[float], family: int, gap: float, level: float
) -> tuple[Interval, Interval]:
    """The 95 % interval of a ratio, and the one simultaneous with its family; `gap`: of the host's two speeds.

    `level`: of the run, for the family.
    """
    if known is not None and known.interval is not None and known.simultaneous is not None:
        return known.interval, known.simultaneous
    intervals = []
    for confidence in (CONFIDENCE, 1 - level / max(family, 1)):
        interval = student(logs, confidence).interval
        if interval is None:
            raise ValueError("an interval needs two blocks")
        low, high = math.exp(interval.low - gap), math.exp(interval.high + gap)
        intervals.append(Interval(low, high, confidence, interval.method))
    return intervals[0], intervals[1]


def _opened(interval: Interval, side: _Side) -> Interval:
    low = 0.0 if side.at_most else interval.low
    return replace(interval, low=low, high=math.inf if side.at_least else interval.high)


def _differences(
    rounds: Mapping[tuple[int, int], float], other: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], float]:
    """Round by round; where no round has both, block by block."""
    both = {key: value - other[key] for key, value in rounds.items() if key in other}
    if both:
        return both
    blocks, theirs = by_block(rounds), by_block(other)
    return {(block, 0): value - theirs[block] for block, value in blocks.items() if block in theirs}


def _logs_by_block(side: _Side, known: Comparison | None) -> dict[int, float]:
    """Of the run's own comparison where it has one."""
    if known is None:
        return by_block(side.logs)
    return {block: math.log(share) for block, share in known.pairs}


def by_block(rounds: Mapping[tuple[int, int], float]) -> dict[int, float]:
    """The median of each block's logarithms, by block."""
    blocks: dict[int, list[float]] = {}
    for (block, _), value in rounds.items():
        blocks.setdefault(block, []).append(value)
    return {block: statistics.median(values) for block, values in sorted(blocks.items())}
