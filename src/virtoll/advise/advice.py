"""All that a run says of a need, on each platform: its parts, guests side by side, how many, what would tell. Pure.

Main function: `advise`; main types: `Advice` and `PlatformAdvice`. Intervals of one question are simultaneous: those of
all platforms and parts alone, those beside others, and those of each part's numbers of guests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll.advise import missing
from virtoll.advise.cores import asked_of_cores
from virtoll.advise.frame_sizes import FORWARD, asked_of_sizes
from virtoll.advise.guests import Guests, guests_of
from virtoll.advise.meets import (
    Answer,
    BoundCheck,
    Statement,
    alarm_words,
    answer_of,
    checks_of_figures,
    family_of,
    finding,
    of_platform,
    why_not_measured,
)
from virtoll.advise.missing import Missing
from virtoll.advise.need import FigureNeed, Known, Part, RouterNeed
from virtoll.advise.neighbours import WithNeighbours, with_neighbours_of
from virtoll.advise.routers import SEARCH, asked_of_router
from virtoll.stats.analysis import Analysis
from virtoll.stats.ratios import Ratios


@dataclass(frozen=True)
class PlatformAdvice:
    """A platform and the whole need: `answer`, each part in a guest alone, and beside the others; `guests` by part."""

    platform: str
    answer: Answer
    alone: tuple[Statement, ...]
    with_neighbours: tuple[WithNeighbours, ...]
    guests: tuple[Guests, ...]
    caveat: str | None

    @property
    def times(self) -> float:
        """The least of its margins, by which platforms are ordered; 0 where there is none."""
        times = []
        for statement in self.alone:
            tightest = statement.tightest
            times.append(tightest.margin.times if tightest and tightest.margin else 0.0)
        return min(times, default=0.0)


@dataclass(frozen=True)
class Advice:
    """A need's parts, what may be said of each platform, those that meet it first, and what would tell the rest.

    `baseline`: the run's; None: it has none. `family`: how many intervals of guests alone hold together. `cautions`:
    what a reader of the run must be warned of, in words.
    """

    needs: tuple[str, ...]
    platforms: tuple[PlatformAdvice, ...]
    baseline: str | None
    family: int
    blocks: int
    missing: tuple[Missing, ...]
    cautions: tuple[str, ...]


def advise(analysis: Analysis, parts: Sequence[Part], known: Known) -> Advice:
    """What the run says of a need; the A/A control is no platform of its own."""
    ratios = Ratios(analysis)
    control = analysis.data.manifest.control
    platforms = [platform for platform in analysis.platforms if platform != control]
    demands = {part: _asked(analysis, ratios, part) for part in parts}
    family = family_of(ratios, demands.values())
    with_neighbours = with_neighbours_of(analysis, ratios, parts, known, platforms)
    guests = {part: guests_of(analysis, ratios, part) for part in parts}
    advised = []
    for platform in platforms:
        alone = tuple(_statement(analysis, ratios, platform, part, demands[part], family) for part in parts)
        together = tuple(statement for statement in with_neighbours if statement.platform == platform)
        many = tuple(count for each in guests.values() for count in each if count.platform == platform)
        caveat = analysis.caveats.get(platform)
        advised.append(PlatformAdvice(platform, _whole(alone, together), alone, together, many, caveat))
    order = (Answer.MEETS, Answer.OPEN, Answer.NOT_MEASURED, Answer.FAILS)
    advised.sort(key=lambda advice: (order.index(advice.answer), -advice.times))
    return Advice(
        needs=tuple(part.text for part in parts),
        platforms=tuple(advised),
        baseline=analysis.baseline,
        family=family,
        blocks=analysis.blocks,
        missing=_missing(analysis, parts, known, advised, guests),
        cautions=_cautions(analysis, parts),
    )


def _cautions(analysis: Analysis, parts: Sequence[Part]) -> tuple[str, ...]:
    """The run's own, those of frames where a router is asked for, and what its A/A control finds."""
    of_frames = analysis.cautions if any(isinstance(part, RouterNeed) for part in parts) else ()
    lines = [f"{caution.caution.title}: {caution.concerns}" for caution in of_frames]
    return (*lines, *alarm_words(analysis))


def _asked(analysis: Analysis, ratios: Ratios, part: Part) -> list[BoundCheck] | str:
    """What each platform's guest alone is asked; in words what the run lacks."""
    if isinstance(part, RouterNeed):
        return asked_of_router(analysis, ratios, part)
    reason = ""
    for workload, bounds in part.asked.items():
        demands, why = checks_of_figures(ratios, workload, dict.fromkeys(bounds), part.where)
        for other in (asked_of_cores, asked_of_sizes):
            demands = demands or [demand for bound in bounds for demand in other(ratios, part, workload, bound)]
        if demands:
            return demands
        reason = reason or why
    return reason


def _statement(
    analysis: Analysis, ratios: Ratios, platform: str, part: Part, demands: list[BoundCheck] | str, family: int
) -> Statement:
    platform_demands = of_platform(demands, platform)
    if not platform_demands:
        workloads = (FORWARD, SEARCH) if isinstance(part, RouterNeed) else tuple(part.asked)
        reason = demands if isinstance(demands, str) else why_not_measured(analysis, platform, workloads)
        return Statement(platform, part.text, Answer.NOT_MEASURED, (), reason)
    findings = tuple(finding(analysis, ratios, demand, family) for demand in platform_demands)
    answer, lacks = answer_of(part, findings), ""
    if answer is Answer.MEETS and isinstance(part, FigureNeed):
        lacks = _lacks(part, platform_demands)
    return Statement(platform, part.text, Answer.OPEN if lacks else answer, findings, lacks)


def _lacks(part: FigureNeed, demands: Sequence[BoundCheck]) -> str:
    """Which bound nothing was measured of, in words; empty where all were."""
    bounds = {demand.bound for demand in demands}
    workload = demands[0].cell.task.workload
    lacking = [bound.text for bound in part.asked[workload] if bound.text not in bounds]
    return f"nothing was measured of {', '.join(lacking)}" if lacking else ""


def _whole(alone: Sequence[Statement], with_neighbours: Sequence[WithNeighbours]) -> Answer:
    """What fails alone fails; what is met must be so side by side, where there are several parts."""
    answers = {statement.answer for statement in alone}
    if Answer.FAILS in answers:
        return Answer.FAILS
    if answers == {Answer.MEETS} and all(statement.answer is Answer.MEETS for statement in with_neighbours):
        return Answer.MEETS
    return Answer.NOT_MEASURED if answers == {Answer.NOT_MEASURED} else Answer.OPEN


def _missing(
    analysis: Analysis,
    parts: Sequence[Part],
    known: Known,
    advised: Sequence[PlatformAdvice],
    guests: Mapping[Part, Sequence[Guests]],
) -> tuple[Missing, ...]:
    """The experiments that would tell what is not known, of the platforms of which it is not."""
    able = [advice for advice in advised if advice.caveat is None and advice.answer is not Answer.FAILS]
    experiments: list[Missing] = []
    unlike = [advice.platform for advice in able if advice.answer is not Answer.MEETS]
    if len(parts) == 1:
        experiments += _missing_alone(analysis, parts[0], known, able)
    elif parts and unlike:  # guests alone are measured there too
        experiments.append(missing.with_neighbours(analysis, parts, known, unlike))
    for part in parts:
        counted = {count.platform for count in guests[part] if count.at_least is not None}
        uncounted = [advice.platform for advice in able if advice.platform not in counted]
        if uncounted:
            experiments.append(missing.at_once(analysis, part, known, uncounted))
    return tuple(experiments)


def _missing_alone(analysis: Analysis, part: Part, known: Known, able: Sequence[PlatformAdvice]) -> list[Missing]:
    platforms = [advice.platform for advice in able if _is_open(advice, part)]
    if not platforms:
        return []
    statements = [statement for advice in able for statement in advice.alone]
    findings = [each for statement in statements for each in statement.findings if each.answer is Answer.OPEN]
    more = [each.more_blocks for each in findings if each.more_blocks is not None]
    return [missing.alone(analysis, [part], known, platforms, max(more, default=None))]


def _is_open(advice: PlatformAdvice, part: Part) -> bool:
    answers = {statement.answer for statement in advice.alone if statement.need == part.text}
    return not answers.isdisjoint((Answer.OPEN, Answer.NOT_MEASURED))
