"""Thresholds that a run must keep to, from text, and whether it does. Pure. The grammar is in docs/gate.md.

A threshold is *met* where the whole simultaneous interval is on its right side, *missed* where it is on the wrong one,
and else it cannot be told. Slowdowns are the run's own comparisons with the baseline, so that they never contradict its
verdicts. Other figures have Student's t interval, simultaneous with those of all such thresholds (Bonferroni). Where
the A/A control differs in a workload, nothing of that workload is told. Main types: `Threshold`, `Check`, `Gate`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any, Final

from virtoll.advise.meets import BoundCheck, alarm_words, as_offered, more_blocks_for, why_not_measured
from virtoll.advise.need import BOUND, Figure, Known, KnownWorkload, figure_of, put_parameter, words_of
from virtoll.advise.quantities import NUMBER, quantity, scales_of
from virtoll.stats.analysis import Analysis
from virtoll.stats.clocks import ClockError
from virtoll.stats.compared import Compared, PlatformFilter
from virtoll.stats.intervals import Interval
from virtoll.stats.ratios import Ratio, Ratios
from virtoll.stats.readings import Cell
from virtoll.stats.remaining import MOST_TIMES
from virtoll.stats.sides import Sides

SLOWDOWN: Final = "slowdown"
EXAMPLE: Final = "'runc:forward 64B slowdown<1.5x'"
_WILD = re.compile(r"[*?\[]")
_HEAD = re.compile(r"([^\s:]+):\s*(\S+)\s+(\S.*)")
_FACTOR = re.compile(rf"{NUMBER}x")
_SIZE = "frame_size_bytes"


class Outcome(StrEnum):
    """What may be said of a threshold."""

    MET = "met"
    MISSED = "missed"
    UNKNOWN = "cannot tell"


@dataclass(frozen=True)
class Threshold:
    """A limit of a workload's figure (in its unit), or of its slowdown against the baseline (`figure` None, a factor).

    `platform`: a label, or a pattern of labels. `where`: the workload's parameters, and what its guest is given.
    `text`: as written, for a failure with `--fail-if` before it.
    """

    text: str
    platform: str
    workload: str
    figure: Figure | None
    limit: float
    where: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def is_of(self, platform: str, baseline: str | None, control: str | None) -> bool:
        """Whether it is about a platform; a pattern takes in neither the baseline nor its A/A control."""
        if not _WILD.search(self.platform):
            return platform == self.platform
        return platform not in (baseline, control) and fnmatchcase(platform, self.platform)


@dataclass(frozen=True)
class PlannedCell:
    """What a plan measures: a platform with a workload; `attributes`: its parameters, and what its guest is given."""

    platform: str
    workload: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Check:
    """A threshold and one platform's values: `low` to `high` hold together with all others; `unit` "x": a slowdown.

    None: nothing is known. `high` infinite: that end is open. `reason`: why it cannot be told. `margin`: how many times
    better than the limit the estimate is; below 1 it is worse. `more_blocks`: how many would tell; None: not known, or
    too many for a forecast by so few.
    """

    threshold: str
    platform: str
    task: str
    outcome: Outcome
    limit: float
    unit: str
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    margin: float | None = None
    blocks: int = 0
    reason: str = ""
    more_blocks: int | None = None


@dataclass(frozen=True)
class Gate:
    """All checks; `doubts`: why the whole run cannot be trusted, in words: the A/A control, or a damaged folder.

    `extendable`: the run's name where blocks may be added to it; None where not.
    """

    checks: tuple[Check, ...]
    doubts: tuple[str, ...]
    extendable: str | None = None

    @property
    def more_blocks(self) -> int | None:
        """How many more would tell all that more blocks can tell; None: they tell nothing."""
        return max((check.more_blocks for check in self.checks if check.more_blocks is not None), default=None)

    @property
    def outcome(self) -> Outcome:
        """A threshold that is missed comes first, then what cannot be told."""
        outcomes = {check.outcome for check in self.checks}
        if Outcome.MISSED in outcomes:
            return Outcome.MISSED
        return Outcome.UNKNOWN if self.doubts or Outcome.UNKNOWN in outcomes else Outcome.MET

    def count(self, outcome: Outcome) -> int:
        """How many checks came to it."""
        return sum(check.outcome is outcome for check in self.checks)


def parse_threshold(text: str, known: Known, *, fails: bool = False) -> Threshold:
    """A threshold of text; `fails`: the text says when it is missed, as after `--fail-if`. `ValueError` in words."""
    what = "--fail-if" if fails else "threshold"
    try:
        return _parsed(text, known, fails)
    except ValueError as error:
        problem = str(error).removeprefix(f"need '{text}': ")
        raise ValueError(f"{what} '{text}': {problem}") from error


def _parsed(text: str, known: Known, fails: bool) -> Threshold:
    head = _HEAD.fullmatch(text.strip())
    if head is None:
        raise ValueError(f"is not PLATFORM:WORKLOAD and a bound; write it as {EXAMPLE}")
    platform, workload, rest = head.groups()
    if workload not in known.workloads:
        raise ValueError(f"the workload '{workload}' is not known; known are {', '.join(known.workloads)}")
    of = known.workloads[workload]
    where: dict[str, Any] = {}
    bounds: list[re.Match[str]] = []
    for written in words_of(rest):
        word = f"{_SIZE}={written[:-1]}" if re.fullmatch(r"\d+B", written) else written
        named = BOUND.fullmatch(word)
        if named is None:
            raise ValueError(f"'{word}' is not understood; write it as {EXAMPLE}")
        if named[2] == "=":
            put_parameter(text, where, named, {workload: of})
        else:
            bounds.append(named)
    if len(bounds) != 1:
        raise ValueError(f"has {'no bound' if not bounds else 'several bounds'}; give one, as in {EXAMPLE}")
    figure, limit = _bound(text, bounds[0], of, fails)
    return Threshold(f"--fail-if {text}" if fails else text, platform, workload, figure, limit, where)


def _bound(text: str, named: re.Match[str], of: KnownWorkload, fails: bool) -> tuple[Figure | None, float]:
    name, sign, written = named.groups()
    figure = None if name == SLOWDOWN else _figure(name, of)
    less_is_better = figure is None or figure.better == "lower"
    right = "<" if less_is_better is not fails else ">"
    if not sign.startswith(right):
        better = "less" if less_is_better else "more"
        says = "when the run fails" if fails else "what must hold"
        raise ValueError(f"{better} {name} is better, and this says {says}; write '{name}{right}{written}'")
    if figure is not None:
        return figure, quantity(text, figure.name, written, scales_of(figure.unit))
    factor = _FACTOR.fullmatch(written)
    if factor is None or float(factor[1]) < 1:
        raise ValueError(f"a slowdown is a factor of 1 or more, got '{written}'; write it as '{SLOWDOWN}{sign}1.5x'")
    return None, float(factor[1])


def _figure(name: str, of: KnownWorkload) -> Figure:
    figure = figure_of(name, of.figures)
    if figure is None and name == "rate" and of.figures[0].unit.endswith("/s"):
        figure = of.figures[0]
    if figure is None:
        names = ", ".join((SLOWDOWN, *(known.name for known in of.figures)))
        raise ValueError(f"'{name}' is no figure of it; known are {names}")
    return figure


def refuse_unplanned(
    thresholds: Iterable[Threshold], planned: Sequence[PlannedCell], baseline: str | None, control: str | None
) -> None:
    """`ValueError` for a threshold of which nothing would be measured."""
    labels = list(dict.fromkeys(cell.platform for cell in planned))
    for threshold in thresholds:
        subject = f"threshold '{threshold.text}'"
        cells = [cell for cell in planned if threshold.is_of(cell.platform, baseline, control)]
        if not cells:
            raise ValueError(f"{subject}: no such platform here; there are {', '.join(labels)}")
        if threshold.figure is None and (baseline is None or threshold.platform in (baseline, control)):
            why = "there is no baseline to compare with" if baseline is None else "that is the bare host itself"
            raise ValueError(f"{subject}: {why}; ask of a figure, or of another platform")
        _refuse_unmeasured(subject, threshold, cells)


def _refuse_unmeasured(subject: str, threshold: Threshold, cells: Sequence[PlannedCell]) -> None:
    """`ValueError` if none of a platform's cells is of the threshold's workload and parameters."""
    named = [cell for cell in cells if cell.workload == threshold.workload]
    if not named:
        there = ", ".join(dict.fromkeys(cell.workload for cell in cells))
        raise ValueError(f"{subject}: {threshold.workload} is not measured there; measured are {there}")
    for key, value in threshold.where.items():
        values = [cell.attributes.get(key) for cell in named]
        if value not in values:
            measured = ", ".join(dict.fromkeys(map(str, values)))
            raise ValueError(f"{subject}: no trial has {key}={value}; measured are {measured}")


def judge_gate(analysis: Analysis, thresholds: Sequence[Threshold], damage: Sequence[str] = ()) -> Gate:
    """Each threshold on each platform that it is about; `damage`: what of the run folder is not as it was."""
    ratios = Ratios(analysis)
    doubts = _doubts(analysis, damage, with_thresholds=bool(thresholds))
    requests = [request for threshold in thresholds for request in _requests(analysis, ratios, threshold)]
    family = sum(request.results(ratios) for request in requests)
    unsound = {comparison.task.workload for comparison in analysis.alarms}
    checks: list[Check] = []
    for request in requests:
        threshold = request.threshold
        doubt = doubts[0] if damage else ""
        if not doubt and threshold.workload in unsound:
            doubt = "the A/A control differs from the baseline itself in this workload"
        if request.lacking:
            checks.append(_unknown(analysis, request))
        for side in request.sides:
            ratio = ratios.ratio(request.compared, side, family, value=threshold.figure is not None)
            check = _checked(analysis, threshold, side, ratio, family)
            checks.append(replace(check, outcome=Outcome.UNKNOWN, reason=doubt, more_blocks=None) if doubt else check)
    extendable = analysis.data.manifest.run if analysis.extendable and not damage else None
    return Gate(tuple(checks), tuple(doubts), extendable)


@dataclass(frozen=True)
class _Request:
    """A threshold on one platform: what is compared, or in words what the run lacks for it."""

    threshold: Threshold
    label: str
    compared: Compared
    sides: Sequence[Sides] = ()
    lacking: str = ""

    def results(self, ratios: Ratios) -> int:
        """How many of its values are results of a figure's, whose intervals are simultaneous."""
        if self.threshold.figure is None:
            return 0
        return sum(ratios.caveat(self.compared, side) is None for side in self.sides)


def _doubts(analysis: Analysis, damage: Sequence[str], *, with_thresholds: bool) -> list[str]:
    doubts = [f"the run folder is not as it was when the run ended: {'; '.join(damage)}"] if damage else []
    doubts += alarm_words(analysis)
    if not with_thresholds and not any(comparison.p_value is not None for comparison in analysis.control):
        doubts.append("the A/A control could not be tested, and there is no threshold")
    return doubts


def _requests(analysis: Analysis, ratios: Ratios, threshold: Threshold) -> Iterator[_Request]:
    """A threshold on each platform that it is about."""
    manifest = analysis.data.manifest
    labels = [entry.label for entry in manifest.platforms]
    chosen = [label for label in labels if threshold.is_of(label, manifest.baseline, manifest.control)]
    for label in chosen or [threshold.platform]:
        compared = _compared(threshold, label, manifest.baseline)
        sides = _sides(ratios, compared, threshold)
        if isinstance(sides, str):
            yield _Request(threshold, label, compared, lacking=sides)
        else:
            yield _Request(threshold, label, compared, sides)


def _unknown(analysis: Analysis, request: _Request) -> Check:
    """The check of what was not measured, with the reason."""
    threshold = request.threshold
    reason = why_not_measured(analysis, request.label, [threshold.workload])
    reason = request.lacking if reason.startswith("it was not measured") else reason
    unit = "x" if threshold.figure is None else threshold.figure.unit
    check = Check(threshold.text, request.label, threshold.workload, Outcome.UNKNOWN, threshold.limit, unit)
    return replace(check, reason=reason)


def _compared(threshold: Threshold, label: str, baseline: str | None) -> Compared:
    platforms = "baseline" if label == baseline else PlatformFilter(label=label)
    sides = {"workload": threshold.workload, "platforms": platforms, "where": dict(threshold.where)}
    if threshold.figure is None:
        return Compared.model_validate({**sides, "against": "baseline"})
    return Compared.model_validate({**sides, "metric": threshold.figure.name})


def _sides(ratios: Ratios, compared: Compared, threshold: Threshold) -> list[Sides] | str:
    """Of rates of which no more was asked than a parameter says, lower bounds (`meets.measured`)."""
    sides = ratios.sides(compared)
    if isinstance(sides, str):
        return sides
    pairs = [side for side in sides if not isinstance(side, ClockError)]
    if threshold.figure is None:
        return pairs
    return [(as_offered(cell, threshold.where), other) for cell, other in pairs]


def _checked(analysis: Analysis, threshold: Threshold, side: Sides, ratio: Ratio, family: int) -> Check:
    """What one ratio, or one value, says of a threshold: performance is compared, of which more is better."""
    cell, slowdown = side[0], threshold.figure is None
    less = slowdown or cell.lower_is_better
    unit = "x" if slowdown else cell.unit
    check = Check(threshold.text, ratio.platform, ratio.task, Outcome.UNKNOWN, threshold.limit, unit)
    if ratio.estimate is None:
        return replace(check, blocks=ratio.blocks, reason=ratio.caveat or ratio.reason)
    estimate, joint = ratio.estimate, ratio.simultaneous
    if slowdown:
        estimate, joint = 1 / estimate, inverse(joint)
    margin = threshold.limit / estimate if less else estimate / threshold.limit
    check = replace(check, estimate=estimate, margin=margin, blocks=ratio.blocks)
    if joint is None or ratio.caveat is not None:
        return replace(check, reason=ratio.caveat or ratio.reason)
    check = replace(check, low=joint.low, high=joint.high)
    good, bad = (joint.high, joint.low) if less else (-joint.low, -joint.high)
    limit = threshold.limit if less else -threshold.limit
    if good <= limit:
        return replace(check, outcome=Outcome.MET)
    if bad > limit:
        return replace(check, outcome=Outcome.MISSED)
    reason = ratio.reason or "the interval has values on both sides of the limit"
    return replace(check, reason=reason, more_blocks=_more_blocks(analysis, threshold, cell, family))


def inverse(interval: Interval | None) -> Interval | None:
    """Of an interval of shares that of the slowdowns, open where a share may be 0; None of None."""
    if interval is None:
        return None
    high = 1 / interval.low if interval.low > 0 else math.inf
    return replace(interval, low=1 / interval.high, high=high)


def _more_blocks(analysis: Analysis, threshold: Threshold, cell: Cell, family: int) -> int | None:
    """As in `meets`; of a slowdown by the run's own comparison and the size of its family.

    None in a run of several hosts, where hosts would decide, and of more than a forecast by so few can tell.
    """
    compared = analysis.comparison(cell.platform, cell.task)
    if analysis.host_of or (threshold.figure is None and compared is None):
        return None
    gap = analysis.gap(cell.platform, cell.task)
    demand = BoundCheck(threshold.text, threshold.limit, cell.lower_is_better, cell)
    if threshold.figure is None and compared is not None:
        shares = replace(cell, rounds={(block, 0): math.log(share) for block, share in compared.pairs}, untold="")
        demand = BoundCheck(threshold.text, 1 / threshold.limit, False, shares)
        family = analysis.family if cell.task.metric.primary else analysis.second_family
    blocks = more_blocks_for(demand, family, analysis.level_after, gap)
    if blocks is None or blocks > MOST_TIMES * analysis.blocks:
        return None
    return blocks
