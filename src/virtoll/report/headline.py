"""The result in words: one sentence a platform and workload that an engineer can use; `terminal.py` has the table.

Only verdicts that survived correction are stated as differences; "no difference detectable" always comes with what the
interval still allows. It is not the same as "no cost".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.stats.analysis import Analysis
from virtoll.stats.cautions import Caution
from virtoll.stats.caveats import hosts_of
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.values import Task

DECIDED = (Verdict.SLOWER, Verdict.FASTER)
CAVEAT_SIGN = "†"
# Of one metric so many sizes are told one by one, and more as a range: the table has each.
_NAMED_SINGLY = 3
_MOST_PERCENT, _MOST_TIMES = 300, 100
OPEN = "Not shown by this run, for correction or A/A noise, though each interval by itself leaves out 100 %"


@dataclass(frozen=True)
class HeadlineCell:
    """One task of one platform: the share of the baseline's performance (None: not known) and the verdict's words.

    `generator_bound`: it, or the baseline, came within 10 % of the instrument's own ceiling. `caveat`: the number is no
    result, for this reason. `is_open`: no difference is said to be there, though the interval by itself has one.
    """

    task: str
    share: float | None
    words: str
    generator_bound: bool = False
    caveat: str | None = None
    is_open: bool = False

    @property
    def share_text(self) -> str:
        """The share as a percentage; a dash where there is none."""
        return "–" if self.share is None else units.percent(self.share)


@dataclass(frozen=True)
class HeadlineRow:
    """One platform of the headline table; without a baseline `share` is None and `words` the platform's own median."""

    platform: str
    cells: tuple[HeadlineCell, ...]
    caveat: str | None = None


@dataclass(frozen=True)
class PlatformWords:
    """One platform's result: a phrase for each workload."""

    platform: str
    phrases: tuple[str, ...]


def headline_tasks(analysis: Analysis) -> tuple[Task, ...]:
    """Tasks short enough for a terminal: of each workload's first metric the first and the last of its sizes."""
    kept: list[Task] = []
    first: dict[str, str] = {}
    for task in analysis.tasks:
        first.setdefault(task.workload, task.metric.name)
    for workload, metric in first.items():
        own = [task for task in analysis.tasks if (task.workload, task.metric.name) == (workload, metric)]
        kept += own if len(own) <= 2 else [own[0], own[-1]]
    return tuple(kept)


def headline_rows(analysis: Analysis) -> tuple[HeadlineRow, ...]:
    """One row a platform other than the baseline; every platform where there is no baseline."""
    tasks = headline_tasks(analysis)
    shown = [platform for platform in analysis.platforms if platform != analysis.baseline]
    return tuple(
        HeadlineRow(
            platform, tuple(_cell(analysis, platform, task) for task in tasks), caveat=analysis.caveats.get(platform)
        )
        for platform in shown
    )


def _cell(analysis: Analysis, platform: str, task: Task) -> HeadlineCell:
    comparison = analysis.comparison(platform, task)
    bound = any(analysis.generator_bound(one, task) for one in (platform, analysis.baseline or platform))
    if comparison is not None and (comparison.share is not None or analysis.baseline is not None):
        words, is_open = str(comparison.verdict), comparison.is_open
        return HeadlineCell(task.short, comparison.share, words, bound, comparison.caveat, is_open)
    cell = analysis.cells.get((platform, task))
    words = str(Verdict.NOT_MEASURED) if cell is None else units.value(cell.median, task.metric.unit)
    return HeadlineCell(task.short, None, words, bound, analysis.caveats.get(platform))


def order_line(analysis: Analysis) -> str:
    """That trials ran platform after platform, and what that does to ratios; empty for randomised blocks."""
    if not analysis.in_paper_order:
        return ""
    return (
        "The trials ran platform after platform, as papers did (order: paper), each platform in one guest. What "
        "changed on the host meanwhile is in these ratios, as if it were the platform's cost. What varies from boot to "
        "boot is not in the intervals."
    )


def control_line(analysis: Analysis) -> str:
    """The A/A control and the smallest difference that the run can see, in one or two sentences."""
    control, baseline = analysis.data.manifest.control, analysis.data.manifest.baseline
    measured = [one for one in analysis.control if one.share is not None]
    if control is None or not measured:
        return "There is no A/A control: how small a difference this run can see is not known."
    shares = [one.share for one in measured if one.share is not None]
    decided = sum(one.interval is not None for one in measured)
    if not analysis.detectable:
        return f"A/A: {control} reaches {_range(shares)} of {baseline}; with one block it is not known what is noise."
    limits = ", ".join(f"{resource} {_range(factors, limit_words)}" for resource, factors in _limits(analysis).items())
    if analysis.rejected_controls:
        found = ", ".join(f"{one.task.short} ({units.percent(one.share or 0.0)})" for one in analysis.rejected_controls)
        return (
            f"A/A FAILED: {control} differs from {baseline}, which is the same thing: {found}. Do not trust this run."
        )
    return (
        f"A/A: {control} reaches {_range(shares)} of {baseline}, no difference detectable in {decided} "
        f"comparisons. Smallest difference that this run can see: {limits}."
    )


def _limits(analysis: Analysis) -> dict[str, list[float]]:
    """The smallest detectable differences of each resource's metrics, as factors."""
    found: dict[str, list[float]] = {}
    for metric, limit in analysis.detectable.items():
        found.setdefault(metric.resource, []).append(limit.factor)
    return found


def limit_words(factor: float) -> str:
    """A smallest detectable difference; where it is many times, as a factor, and where it is absurd, only that."""
    if factor > _MOST_TIMES:
        return f"more than {_MOST_TIMES} ×"
    return units.times(factor) if factor > _MOST_PERCENT / 100 else units.percent(factor - 1)


def bound_line(analysis: Analysis) -> str:
    """What is generator-bound, in one sentence; empty where nothing is."""
    found = next((one for one in analysis.cautions if one.caution is Caution.GENERATOR_BOUND), None)
    if found is None:
        return ""
    return f"{found.caution.title.capitalize()}: {found.concerns}: {found.caution.meaning}."


def caveat_line(analysis: Analysis) -> str:
    """Which platforms' numbers are no results and why, in a sentence for each caveat; empty where there is none."""
    hosts = hosts_of(analysis.data.manifest)
    sentences = []
    for caveat in dict.fromkeys(analysis.caveats.values()):
        own = [label for label, its in analysis.caveats.items() if its == caveat]
        named = ", ".join(f"{label} on {hosts[label]}" if label in hosts else label for label in own)
        sentences.append(
            f"{CAVEAT_SIGN} {caveat} ({named}). This shows that it works; no number of it is a result, and no ratio "
            "to the bare host is a cost."
        )
    return " ".join(sentences)


def host_line(analysis: Analysis) -> str:
    """The host's fitness with its reasons."""
    reasons = "; ".join(analysis.fitness.reasons)
    tail = f": {reasons}." if reasons else "."
    return f"Host: {analysis.fitness.level}{tail}"


def platform_words(analysis: Analysis) -> tuple[PlatformWords, ...]:
    """Each platform's result in words, workload by workload; empty without a baseline."""
    if analysis.baseline is None:
        return ()
    skipped = {analysis.data.manifest.baseline, analysis.data.manifest.control}
    return tuple(
        PlatformWords(platform, _phrases(analysis, platform))
        for platform in analysis.platforms
        if platform not in skipped
    )


def _phrases(analysis: Analysis, platform: str) -> tuple[str, ...]:
    own = [one for one in analysis.comparisons if one.platform == platform]
    if own and all(one.verdict is Verdict.NOT_MEASURED for one in own):
        return (f"not measured ({own[0].reason})",)
    caveat = next((one.caveat for one in own if one.caveat), None)
    if caveat is not None:
        return (_functional(analysis, platform, own, caveat),)
    baseline = analysis.baseline or ""
    groups = [
        [one for one in own if one.task.metric == metric] for metric in dict.fromkeys(one.task.metric for one in own)
    ]
    found = [_difference(group, verdict, baseline) for group in groups for verdict in DECIDED]
    alike = [one for one in own if one.verdict is Verdict.NONE]
    rest = [
        _remainder(OPEN, [one for one in alike if one.is_open]),
        _remainder(
            "No difference detectable, with what the interval allows", [one for one in alike if not one.is_open]
        ),
        _remainder(
            "Not decided, only one block has both values",
            [one for one in own if one.verdict is Verdict.UNDECIDED],
            most=_NAMED_SINGLY,
        ),
        _remainder("Not measured", [one for one in own if one.verdict is Verdict.NOT_MEASURED]),
    ]
    return tuple(phrase for phrase in (*found, *rest) if phrase)


def _functional(analysis: Analysis, platform: str, own: Sequence[Comparison], caveat: str) -> str:
    """What the run of a platform with a caveat shows: how many trials went well, and nothing about speed."""
    counts = analysis.statuses[platform]
    missing = [one.task.short for one in own if one.verdict is Verdict.NOT_MEASURED]
    rest = f"; not measured: {', '.join(missing)}" if missing else ""
    return f"{caveat[0].upper()}{caveat[1:]} ({counts['ok']} of {sum(counts.values())} trials ok{rest})"


def _difference(group: Sequence[Comparison], verdict: Verdict, baseline: str) -> str:
    """One workload's comparisons of one verdict: 'IP forwarding reaches 81 % to 85 % of native's rate at 64 B'."""
    own = [one for one in group if one.verdict is verdict and one.share is not None]
    if not own:
        return ""
    sizes = "" if len(own) == len(group) else " at " + ", ".join(one.task.size for one in own)
    shares = [one.share for one in own if one.share is not None]
    metric = group[0].task.metric
    if metric.better == "higher":
        rate = " rate" if metric.unit.endswith("/s") else ""
        return f"{metric.title} reaches {_range(shares)} of {baseline}'s{rate}{sizes}"
    factors = _range([1 / share for share in shares], units.times)
    return (
        f"{metric.title} takes {factors} as long{sizes}"
        if metric.unit == "ns"
        else f"{metric.title} is {factors} {baseline}'s{sizes}"
    )


def _remainder(lead: str, alike: Sequence[Comparison], most: int | None = None) -> str:
    """What has no verdict, in one phrase; in brackets the interval, or the bare share where there is none.

    Of more than ``most`` names only their number and range are reported.
    """
    names = []
    for metric in dict.fromkeys(one.task.metric for one in alike):
        group = [one for one in alike if one.task.metric == metric]
        reported = [[one] for one in group] if len(group) <= _NAMED_SINGLY else [group]
        names += [_named(some) for some in reported]
    if most is not None and len(names) > most:
        shares = _range([one.share for one in alike if one.share is not None])
        return f"{lead}: {len(alike)} comparisons ({shares}), one by one in the table of cost"
    return f"{lead}: {', '.join(names)}" if names else ""


def _named(alike: Sequence[Comparison]) -> str:
    """Comparisons of one metric: one with its size, several with their number; behind it what is known of the share."""
    metric, size = alike[0].task.metric, alike[0].task.size
    name = f"{metric.title} {size}".strip() if len(alike) == 1 else f"{metric.title} in {len(alike)} sizes"
    ends = [end for one in alike for end in ((one.interval.low, one.interval.high) if one.interval else (one.share,))]
    known = [end for end in ends if end is not None]
    return f"{name} ({_range(known)})" if known else name


def _range(values: Sequence[float], show: Callable[[float], str] = units.percent) -> str:
    low, high = show(min(values)), show(max(values))
    return low if low == high else f"{low} to {high}"


def level_class(level: FitnessLevel) -> str:
    """The level's name for a style sheet."""
    return {FitnessLevel.FIT: "good", FitnessLevel.DEGRADED: "warn", FitnessLevel.UNFIT: "bad"}[level]
