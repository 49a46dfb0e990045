"""The first screen: platforms ranked for each workload, and what it would cost to know the rest, in words.

Main functions: `ranked` (a row for each workload) and `cost_to_know_line`.
"""

from dataclasses import dataclass

from virtoll import units
from virtoll.report import words
from virtoll.report.headline import headline_tasks
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.ranking import Placed, Ranking, ranking
from virtoll.stats.remaining import MOST_BLOCKS, Remaining, block_seconds, remaining
from virtoll.stats.verdicts import Rules

_NAMED = 6  # comparisons that more blocks would decide


@dataclass(frozen=True)
class RankedPlatform:
    """One platform of a workload's row: its place ('1', '2 to 4'), what is said of it, and its class for the page."""

    place: str
    platform: str
    words: str
    kind: str


@dataclass(frozen=True)
class RankedTask:
    """One workload: its platforms, fastest first, then those without a place in one phrase each."""

    task: str
    platforms: tuple[RankedPlatform, ...]
    others: tuple[str, ...]


def ranked(analysis: Analysis) -> tuple[RankedTask, ...]:
    """Each workload's primary metric at its first and last size; none without a baseline, or of guests at once."""
    baseline = analysis.baseline
    if baseline is None:
        return ()
    tasks = [task for task in headline_tasks(analysis) if task.metric.primary]
    found = [ranking(task, analysis.comparisons, baseline, analysis.lower_bounds) for task in tasks]
    return tuple(_row(one) for one in found if one.placed[1:] or one.unplaced)


def _row(found: Ranking) -> RankedTask:
    reasons: dict[str, list[str]] = {}
    for one in found.unplaced:
        reasons.setdefault(_why(one), []).append(one.platform)
    others = tuple(f"{', '.join(platforms)}: {reason}" for reason, platforms in reasons.items())
    return RankedTask(found.task.label, tuple(_platform(one) for one in found.placed), others)


def _platform(one: Placed) -> RankedPlatform:
    place = str(one.first) if one.first == one.last else f"{one.first} to {one.last}"
    if one.comparison is None:
        return RankedPlatform(place, one.platform, "", "baseline")
    said = words.said(one.comparison)
    return RankedPlatform(place, one.platform, said.text, str(one.comparison.verdict).replace(" ", "-"))


def _why(one: Comparison) -> str:
    """Why a platform has no place, in a few words."""
    if one.verdict is Verdict.UNKNOWN and one.caveat is None:
        return "one block, no interval"
    if one.verdict is Verdict.UNKNOWN:
        return f"no verdict ({one.caveat})"
    return str(one.verdict)


def cost_to_know_line(analysis: Analysis) -> str:
    """How many blocks and minutes more would decide what is not known; empty where nothing is, or nothing can tell.

    Of tasks that the host ran in two states `headline.states_line` says what there is to say.
    """
    rules = Rules(analysis.margin, analysis.level, analysis.level)
    unsteady = {one.task for one in analysis.two_states}
    every = remaining(analysis.comparisons, analysis.control, rules)
    left = [one for one in every if one.comparison.task not in unsteady]
    if not left:
        return ""
    seconds = block_seconds(analysis.data.every_trial)
    can = [one for one in left if one.blocks is not None]
    told = ", ".join(_needs(one, seconds) for one in can[:_NAMED])
    more = f", and {len(can) - _NAMED} more" if len(can) > _NAMED else ""
    never = len(left) - len(can)
    rest = f" {never} lie so near to the margin that {MOST_BLOCKS} blocks would not tell." if never else ""
    lead = f"{len(left)} comparison{' is' if len(left) == 1 else 's are'} not known."
    if not can:
        return lead + rest
    return f"{lead} By this run's noise, so many blocks more would tell: {told}{more}.{rest}"


def _needs(one: Remaining, seconds: float | None) -> str:
    """'netns superpi 4 (12 min)'."""
    blocks = one.blocks or 0
    time = "" if seconds is None else f" ({units.nanoseconds(blocks * seconds * 1e9)})"
    return f"{one.comparison.platform} {one.comparison.task.short} {blocks}{time}"
