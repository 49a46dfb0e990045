"""All that a run says of a need, on each platform: its parts, guests side by side, how many, what would tell. Pure.

Main function: `advise`; main types: `Advice` and `PlatformAdvice`. Intervals of one question are simultaneous: those of
all platforms and parts alone, those beside others, and those of each part's numbers of guests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll.advise import missing
from virtoll.advise.beside import Beside, beside_of
from virtoll.advise.cores import asked_of_cores
from virtoll.advise.frame_sizes import FORWARD, asked_of_sizes
from virtoll.advise.guests import Guests, guests_of
from virtoll.advise.meets import (
    Answer,
    Asked,
    Statement,
    family_of,
    finding,
    measured,
    of_all,
    of_any,
    why_not_measured,
)
from virtoll.advise.missing import Missing
from virtoll.advise.need import FigureNeed, Known, Part, RouterNeed
from virtoll.advise.routers import SEARCH, asked_of_router
from virtoll.claims.ratios import Ratios
from virtoll.stats.analysis import Analysis


@dataclass(frozen=True)
class PlatformAdvice:
    """A platform and the whole need: `answer`, each part in a guest alone, and beside the others; `guests` by part."""

    platform: str
    answer: Answer
    alone: tuple[Statement, ...]
    beside: tuple[Beside, ...]
    guests: tuple[Guests, ...]
    caveat: str | None

    @property
    def times(self) -> float:
        """The least of its margins, by which platforms are ordered; 0 where there is none."""
        tightest = [one.tightest for one in self.alone]
        return min((one.margin.times if one and one.margin else 0.0 for one in tightest), default=0.0)


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
    platforms = [one for one in analysis.platforms if one != control]
    asked = {part: _asked(analysis, ratios, part) for part in parts}
    family = family_of(ratios, (one for own in asked.values() if not isinstance(own, str) for one in own))
    beside = beside_of(analysis, ratios, parts, known, platforms)
    guests = {part: guests_of(analysis, ratios, part) for part in parts}
    found = []
    for platform in platforms:
        alone = tuple(_statement(analysis, ratios, platform, part, asked[part], family) for part in parts)
        own = tuple(one for one in beside if one.platform == platform)
        many = tuple(one for each in guests.values() for one in each if one.platform == platform)
        caveat = analysis.caveats.get(platform)
        found.append(PlatformAdvice(platform, _whole(alone, own), alone, own, many, caveat))
    order = (Answer.MEETS, Answer.OPEN, Answer.NOT_MEASURED, Answer.FAILS)
    found.sort(key=lambda one: (order.index(one.answer), -one.times))
    return Advice(
        needs=tuple(part.text for part in parts),
        platforms=tuple(found),
        baseline=analysis.baseline,
        family=family,
        blocks=analysis.blocks,
        missing=_missing(analysis, parts, known, found, guests),
        cautions=_cautions(analysis, parts),
    )


def _cautions(analysis: Analysis, parts: Sequence[Part]) -> tuple[str, ...]:
    """The run's own, those of frames where a router is asked for, and what its A/A control finds."""
    of_frames = analysis.cautions if any(isinstance(part, RouterNeed) for part in parts) else ()
    told = [f"{one.caution.title}: {one.concerns}" for one in of_frames]
    if analysis.alarms:
        tasks = ", ".join(one.task.label for one in analysis.alarms)
        told.append(f"the A/A control differs from the baseline itself: {tasks}")
    return tuple(told)


def _asked(analysis: Analysis, ratios: Ratios, part: Part) -> list[Asked] | str:
    """What each platform's guest alone is asked; in words what the run lacks."""
    if isinstance(part, RouterNeed):
        return asked_of_router(analysis, ratios, part)
    reason = ""
    for workload, bounds in part.asked.items():
        cells = {bound: measured(ratios, workload, bound.figure.name, part.where) for bound in bounds}
        found = [
            Asked(bound.text, bound.limit, one.lower_is_better, one)
            for bound, own in cells.items()
            if not isinstance(own, str)
            for one in own
        ]
        for other in (asked_of_cores, asked_of_sizes):
            found = found or [one for bound in bounds for one in other(ratios, part, workload, bound)]
        if found:
            return found
        reason = reason or next((own for own in cells.values() if isinstance(own, str)), "")
    return reason


def _statement(
    analysis: Analysis, ratios: Ratios, platform: str, part: Part, asked: list[Asked] | str, family: int
) -> Statement:
    own = [] if isinstance(asked, str) else [one for one in asked if one.cell.platform == platform]
    if not own:
        workloads = (FORWARD, SEARCH) if isinstance(part, RouterNeed) else tuple(part.asked)
        reason = asked if isinstance(asked, str) else why_not_measured(analysis, platform, workloads)
        return Statement(platform, part.text, Answer.NOT_MEASURED, (), reason)
    findings = tuple(finding(analysis, ratios, one, family) for one in own)
    answer = of_any(findings) if isinstance(part, RouterNeed) else of_all(findings)
    if answer is Answer.MEETS and isinstance(part, FigureNeed) and _lacks(part, own):
        return Statement(platform, part.text, Answer.OPEN, findings, _lacks(part, own))
    return Statement(platform, part.text, answer, findings)


def _lacks(part: FigureNeed, own: Sequence[Asked]) -> str:
    """Which bound nothing was measured of, in words; empty where all were."""
    told = {one.bound for one in own}
    workload = own[0].cell.task.workload
    lacking = [bound.text for bound in part.asked[workload] if bound.text not in told]
    return f"nothing was measured of {', '.join(lacking)}" if lacking else ""


def _whole(alone: Sequence[Statement], beside: Sequence[Beside]) -> Answer:
    """What fails alone fails; what is met must be so side by side, where there are several parts."""
    answers = {one.answer for one in alone}
    if Answer.FAILS in answers:
        return Answer.FAILS
    if answers == {Answer.MEETS} and all(one.answer is Answer.MEETS for one in beside):
        return Answer.MEETS
    return Answer.NOT_MEASURED if answers == {Answer.NOT_MEASURED} else Answer.OPEN


def _missing(
    analysis: Analysis,
    parts: Sequence[Part],
    known: Known,
    found: Sequence[PlatformAdvice],
    guests: Mapping[Part, Sequence[Guests]],
) -> tuple[Missing, ...]:
    """The experiments that would tell what is not known, of the platforms of which it is not."""
    able = [one for one in found if one.caveat is None and one.answer is not Answer.FAILS]
    told: list[Missing] = []
    open_parts = [part for part in parts if any(_is_open(one, part) for one in able)]
    if open_parts and len(parts) == 1:
        which = [one.platform for one in able if any(_is_open(one, part) for part in open_parts)]
        findings = [each for one in able for own in one.alone for each in own.findings if each.answer is Answer.OPEN]
        more = [each.more_blocks for each in findings if each.more_blocks is not None]
        told.append(missing.alone(analysis, open_parts, known, which, max(more, default=None)))
    unlike = [one.platform for one in able if one.answer is not Answer.MEETS]
    if len(parts) > 1 and unlike:  # guests alone are measured there too
        told.append(missing.beside(analysis, parts, known, unlike))
    for part in parts:
        counted = {one.platform for one in guests[part] if one.at_least is not None}
        uncounted = [one.platform for one in able if one.platform not in counted]
        if uncounted:
            told.append(missing.at_once(analysis, part, known, uncounted))
    return tuple(told)


def _is_open(one: PlatformAdvice, part: Part) -> bool:
    return any(own.need == part.text and own.answer in (Answer.OPEN, Answer.NOT_MEASURED) for own in one.alone)
