"""The first screen: platforms ranked for each workload, and what it would cost to know the rest, in words.

Main functions: `rankings` (each workload's), `ranked` (the same in words), `notes` (what must be read first) and
`cost_to_know_line`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.report import words
from virtoll.report.campaign_lines import campaign_lines
from virtoll.report.headline import (
    NOISE_COMMAND,
    control_line,
    headline_tasks,
    order_line,
    resemblance_line,
    unfit_line,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import LEVEL, Comparison, Verdict
from virtoll.stats.ranking import Placed, Ranking, ranking
from virtoll.stats.remaining import MOST_BLOCKS, Remaining, block_seconds, remaining
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Rules

_NAMED = 4  # comparisons that more blocks would decide
PLACES = "A place such as 2 to 4: the intervals of these meet, so that their order is not known."


@dataclass(frozen=True)
class RankedPlatform:
    """One platform of a workload's row: its place ('1', '2 to 4'), its value, what is said of it.

    `kind` is its class on the page. The value is empty where there is none.
    """

    place: str
    platform: str
    value: str
    words: str
    kind: str


@dataclass(frozen=True)
class RankedTask:
    """One workload: its platforms, fastest first, then those without a place in one phrase each."""

    task: str
    platforms: tuple[RankedPlatform, ...]
    others: tuple[str, ...]


def rankings(analysis: Analysis) -> tuple[Ranking, ...]:
    """Each workload's primary metric at its first and last size; none without a baseline, or of guests at once."""
    baseline = analysis.baseline
    if baseline is None:
        return ()
    tasks = [task for task in headline_tasks(analysis) if task.metric.primary]
    task_rankings = [ranking(task, analysis.comparisons, baseline, analysis.lower_bounds) for task in tasks]
    return tuple(task_ranking for task_ranking in task_rankings if task_ranking.placed[1:] or task_ranking.unplaced)


def ranked(analysis: Analysis) -> tuple[RankedTask, ...]:
    """The rankings in words."""
    return tuple(_row(analysis, task_ranking) for task_ranking in rankings(analysis))


def places_line(rows: Iterable[RankedTask]) -> str:
    """What a range of places means; empty where there is none."""
    shared = any(" to " in entry.place for row in rows for entry in row.platforms)
    return PLACES if shared else ""


def title_line(analysis: Analysis) -> str:
    """What was asked: 'quick: What does each platform cost?'."""
    experiment = analysis.data.manifest.experiment
    size = f", size {experiment['size']}" if experiment.get("size") else ""
    name = experiment.get("name", analysis.data.manifest.run)
    return f"{name}{size}: {experiment.get('question', '')}".removesuffix(": ")


def extent_line(analysis: Analysis) -> str:
    """How much of the plan there is: '237 values from 192 of 192 planned trials in 3 blocks', and the baseline."""
    manifest = analysis.data.manifest
    values = (*analysis.observations, *analysis.isolation.observations, *analysis.at_once.observations)
    planned = sum(not trial.warm_up for trial in manifest.plan.trials)
    return (
        f"Run {manifest.run}: {len(values)} values from {len(analysis.data.every_trial)} of {planned} planned trials "
        f"in {words.blocks_words(analysis)}. Baseline: {manifest.baseline or 'none'}."
    )


def damage_line(damage: Sequence[str]) -> str:
    """What of the run folder is not as it was when the run ended."""
    return f"This run folder is not as it was when the run ended: {'; '.join(damage)}. Take a copy that is whole."


def extended_line(analysis: Analysis) -> str:
    """That blocks were added after the run had reported its verdicts, and what is then still promised."""
    times = [str(extension.blocks) for extension in analysis.data.manifest.extensions]
    return (
        f"This run was extended after {' and '.join(times)} blocks, when its verdicts had been seen. They were "
        f"tested at {words.amount(LEVEL)}, and those of {analysis.blocks} blocks are tested at "
        f"{words.amount(analysis.level)}. So the chance that a family has a false difference, at any number of blocks, "
        f"is at most {words.amount(2 * LEVEL)}."
    )


def how_to_end(analysis: Analysis) -> str:
    """What brings the rest of a run that did not end, as a sentence's end."""
    if analysis.data.manifest.merged is None:
        return "'virtoll resume' takes the rest."
    return "'virtoll campaign block' measures the rest, and 'virtoll campaign merge' takes it in."


def notes(analysis: Analysis, damage: Sequence[str] = ()) -> tuple[str, ...]:
    """What must be read before any number, a sentence or two each; `damage`: what of the folder is not as it was."""
    data, manifest = analysis.data, analysis.data.manifest
    reason = f": {data.state.reason}" if data.state.reason else ""
    sentences = []
    if data.state.state != "complete":
        sentences.append(
            f"This run is not complete ({data.state.state}{reason}). What follows rests on what was measured so far; "
            f"{how_to_end(analysis)}"
        )
    sentences += filter(None, (unfit_line(analysis), *campaign_lines(analysis)))
    if damage:
        sentences.append(damage_line(damage))
    if analysis.extended_from is not None:
        sentences.append(extended_line(analysis))
    if analysis.alarms:
        sentences.append(control_line(analysis))
    if analysis.consolidations and not manifest.plan.trials:
        sentences.append("This run counts idle guests and has no trials.")
    elif not analysis.observations and not analysis.at_once.observations:
        sentences.append("No trial gave a value, so there is nothing to compare.")
    elif not manifest.baseline:
        sentences.append("This run has no baseline, so there are no ratios and no verdicts: only medians.")
    elif not analysis.baseline:
        sentences.append(
            f"Nothing of the baseline {manifest.baseline} could be measured, so there are no ratios and no verdicts: "
            "only medians."
        )
    elif analysis.blocks == 1:
        sentences.append("Only one block was measured: there are ratios, but no intervals and so no verdicts.")
    sentences += filter(None, (resemblance_line(analysis),))
    if order_line(analysis):
        sentences.append(f"{order_line(analysis)} Randomised blocks keep both apart.")
    return tuple(sentences)


def _row(analysis: Analysis, task_ranking: Ranking) -> RankedTask:
    reasons: dict[str, list[str]] = {}
    for comparison in task_ranking.unplaced:
        value = (
            words.told_value(analysis, comparison.platform, task_ranking.task) if _is_of_one_block(comparison) else ""
        )
        platform = f"{comparison.platform} ({value})" if value else comparison.platform
        reasons.setdefault(_why(comparison), []).append(platform)
    others = tuple(f"{', '.join(platforms)}: {reason}" for reason, platforms in reasons.items())
    with_places = tuple(_platform(analysis, placed, task_ranking.task) for placed in task_ranking.placed)
    return RankedTask(task_ranking.task.label, with_places, others)


def _platform(analysis: Analysis, placed: Placed, task: Task) -> RankedPlatform:
    place = str(placed.first) if placed.first == placed.last else f"{placed.first} to {placed.last}"
    value = words.told_value(analysis, placed.platform, task)
    if placed.comparison is None:
        return RankedPlatform(place, placed.platform, value, "", "baseline")
    sentence = words.said(placed.comparison)
    verdict = str(placed.comparison.verdict).replace(" ", "-")
    return RankedPlatform(place, placed.platform, value, sentence.text, verdict)


def _why(comparison: Comparison) -> str:
    """Why a platform has no place, in a few words."""
    if _is_of_one_block(comparison):
        return "one block, no interval"
    if comparison.verdict is Verdict.UNKNOWN:
        return f"no verdict ({comparison.caveat})"
    return str(comparison.verdict)


def _is_of_one_block(comparison: Comparison) -> bool:
    return comparison.verdict is Verdict.UNKNOWN and comparison.caveat is None


def not_known(analysis: Analysis) -> tuple[Remaining, ...]:
    """What of the primary comparisons is not known, and how many blocks more would tell, fewest first."""
    rules = Rules(analysis.margin, analysis.level, analysis.level, host_of=analysis.host_of)
    return remaining(analysis.comparisons, analysis.control, rules, analysis.level_after)


def cost_to_know_line(analysis: Analysis) -> str:
    """How many blocks and minutes more would decide what is not known; empty where nothing is.

    A forecast far beyond the run's own blocks is no advice.
    """
    left = not_known(analysis)
    if not left:
        return ""
    seconds = None if analysis.host_of else block_seconds(analysis.data.every_trial, analysis.data.fitness)
    unit = "host" if analysis.host_of else "block"
    near = [undecided for undecided in left if undecided.near]
    rest = _far(left, unit)
    lead = f"{len(left)} comparisons are not known."
    if len(left) == 1:
        lead = f"1 comparison is not known: {_named(left[0])}."
    if not near:
        return lead + rest
    most, what = near[-1].blocks or 0, _decided(len(near), len(left))
    lead = f"{lead} By this run's noise, {_more(most, seconds, unit)} would decide {what}"
    if analysis.extendable:
        rest += f" To measure them: virtoll extend {analysis.data.manifest.run} --blocks +{most}."
    if len(near) == 1:
        return f"{lead}.{rest}"
    examples = ", ".join(
        f"{_named(undecided)} after {_more(undecided.blocks or 0, seconds, unit)}" for undecided in near[:_NAMED]
    )
    others = len(near) - _NAMED
    return f"{lead}; {'first ' if others > 0 else ''}{examples}.{rest}"


def _far(left: Sequence[Remaining], unit: str) -> str:
    """What no number of blocks would decide that is advice, and why, in a sentence for each reason."""
    endless = [undecided for undecided in left if undecided.blocks is None]
    widened = sum(undecided.comparison.gap > 1 for undecided in endless)
    far = sum(undecided.blocks is not None and not undecided.near for undecided in left)
    reasons = (
        (far, "needs", "need", f"more than twice as many {unit}s as this run has: less noise helps ({NOISE_COMMAND})"),
        (widened, "is", "are", f"left open by the host's two speeds or its steps, which no {unit} cures"),
        (
            len(endless) - widened,
            "lies",
            "lie",
            f"so near to the margin that not even {MOST_BLOCKS} {unit}s would decide",
        ),
    )
    text = ""
    for number, singular, plural, what in reasons:
        if number:
            subject = "It" if len(left) == 1 else str(number)
            text += f" {subject} {singular if number == 1 else plural} {what}."
    return text


def _decided(number: int, of: int) -> str:
    if number == of:
        return "it" if of == 1 else "all of them"
    return "one" if number == 1 else f"{number} of them"


def _named(undecided: Remaining) -> str:
    return f"{undecided.comparison.platform} in {undecided.comparison.task.label}"


def _more(blocks: int, seconds: float | None, unit: str) -> str:
    """'4 more blocks (12 min)', '1 more host'."""
    time = "" if seconds is None else f" ({units.time_to_come(blocks * seconds)})"
    return f"{words.counted(blocks, f'more {unit}')}{time}"
