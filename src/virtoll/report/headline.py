"""The result in words: one sentence a platform and workload that an engineer can use; `terminal.py` has the table.

Only verdicts that survived correction are stated as differences, each with its bound. What is not known always comes
with what the interval still allows: it is not the same as "no cost". The words of a verdict are in `words`.
"""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from virtoll import units
from virtoll.report import words
from virtoll.report.cpu_distance import distances_line
from virtoll.report.rows import grouped
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.analysis import Analysis
from virtoll.stats.cautions import Caution
from virtoll.stats.caveats import hosts_of
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.idle_programs import program_cautions
from virtoll.stats.states import TwoStates
from virtoll.stats.values import Task, title_of

CAVEAT_SIGN = "†"
CUT = " …"
# Of one metric so many sizes are told one by one, and more as a range: the table has each.
NOISE_COMMAND: Final = "virtoll doctor --noise"
_NAMED_SINGLY = 3
_STATES_NAMED = 4
# A run decides where its limits are no larger. It is where words go over from percent to factors: a run that misses
# half as much again tells a platform from its host only where nobody needs a run to see it.
DECIDES_WITHIN = 1.5


def headline_tasks(analysis: Analysis) -> tuple[Task, ...]:
    """Tasks short enough for a terminal: of each workload's first metric the first and the last of its sizes."""
    kept: list[Task] = []
    first: dict[str, str] = {}
    for task in analysis.tasks:
        first.setdefault(task.workload, task.metric.name)
    for workload, metric in first.items():
        tasks = [task for task in analysis.tasks if (task.workload, task.metric.name) == (workload, metric)]
        kept += tasks if len(tasks) <= 2 else [tasks[0], tasks[-1]]
    return tuple(kept)


def order_line(analysis: Analysis) -> str:
    """That trials ran platform after platform, and what that does to ratios; empty for randomised blocks."""
    if not analysis.in_paper_order:
        return ""
    return (
        f"The trials ran platform after platform, as papers did (order: paper), {_guests(analysis)}. What "
        "changed on the host meanwhile is in these ratios, as if the platform caused it. What varies from boot to "
        "boot is not in the intervals."
    )


def resemblance_line(analysis: Analysis) -> str:
    """That blocks resemble their neighbours, and what that does to verdicts; empty where it is not found."""
    tested = analysis.resemblance
    if tested is None or not tested.is_found:
        return ""
    return (
        f"Less sure than it looks: neighbouring blocks resemble each other (correlation {tested.correlation:.2f}, "
        f"p = {tested.p_value:.2g}), so that the {tested.blocks} blocks are not independent. More blocks do not cure "
        "it; a run on another day tells more."
    )


def _guests(analysis: Analysis) -> str:
    """In how many guests each platform ran."""
    anew = analysis.data.manifest.experiment.get("boot") == "each-workload"
    return "each workload in a guest that was booted for it" if anew else "each platform in one guest"


def control_line(analysis: Analysis) -> str:
    """The host against itself (the A/A control): the interval of all that verdicts of platforms are about together, the
    primary metrics, and what a difference there means.
    """
    control, baseline = analysis.data.manifest.control, analysis.data.manifest.baseline
    together = words.joint_ends(comparison for comparison in analysis.control if comparison.task.metric.primary)
    if control is None or together is None:
        return "There is no A/A control: the host was not compared with itself."
    line = f"The host against itself ({control} against {baseline}), all workloads together: {words.apart(*together)}."
    if not analysis.alarms:
        return line
    alarms = ", ".join(map(words.task_verdict, analysis.alarms))
    return (
        f"Do not trust this run: the host differs from itself in {alarms}. {control} and {baseline} are the same "
        "host, and chance alone does this in one run of a hundred. What disturbed it may have disturbed the platforms "
        f"as well. {line}"
    )


def detectable_line(analysis: Analysis) -> str:
    """What this run can detect of its primary metrics, by family of platforms and resource, and what 'not known' is
    not; empty where nothing was tested. The page's table has every metric.
    """
    by_family = _primary_limits(analysis)
    if not by_family:
        return ""
    limits = "; ".join(f"{family} platforms {_limits(by_resource)}" for family, by_resource in by_family.items())
    return (
        f"What this run can detect, as a factor (in four of five such runs): {limits}. "
        "Smaller differences are found less often. Not known does not mean no difference."
    )


def _primary_limits(analysis: Analysis) -> dict[str, dict[str, list[float]]]:
    """What can be detected of the primary metrics: factors by family of platforms and resource."""
    by_family: dict[str, dict[str, list[float]]] = {}
    for detectable in analysis.detectable:
        if detectable.metric.primary:
            by_resource = by_family.setdefault(detectable.family, {})
            by_resource.setdefault(detectable.metric.resource, []).append(detectable.factor)
    return by_family


def decides(analysis: Analysis) -> bool:
    """Whether the noise lets this run decide: the host does not differ from itself, and no limit is too large."""
    limits = _largest_limits(analysis)
    return bool(limits) and not analysis.alarms and max(limits) <= DECIDES_WITHIN


def decides_line(analysis: Analysis) -> str:
    """What the sizes of the limits mean, in one sentence; empty where nothing was tested."""
    limits = _largest_limits(analysis)
    above = sum(limit > DECIDES_WITHIN for limit in limits)
    if not limits:
        return ""
    if not above:
        return f"No limit is above a factor of {DECIDES_WITHIN:g}: this run decides larger differences."
    which = "Every limit is" if above == len(limits) else f"{above} of {len(limits)} limits are"
    which = f"1 of {len(limits)} limits is" if above == 1 < len(limits) else which
    return f"{which} above a factor of {DECIDES_WITHIN:g}: a difference below its limit is mostly missed."


def detects_words(analysis: Analysis) -> str:
    """All limits in a few words: 'differences above a factor of 1.17 to 31'; empty where nothing was tested."""
    limits = [detectable.factor for detectable in analysis.detectable if detectable.metric.primary]
    return f"differences above a factor of {words.smallest_between(limits)}" if limits else ""


def _largest_limits(analysis: Analysis) -> list[float]:
    return [max(factors) for by_resource in _primary_limits(analysis).values() for factors in by_resource.values()]


def _limits(factors: Mapping[str, Sequence[float]]) -> str:
    """'packet path 1.14, CPU 3.1 to 4.3' of factors by name."""
    return ", ".join(f"{name} {words.smallest_between(limits)}" for name, limits in factors.items())


def family_line(analysis: Analysis) -> str:
    """For how many comparisons the verdicts are corrected, by family; empty where nothing was tested."""
    if not analysis.family + analysis.second_family:
        return ""
    rest = f", and over {analysis.second_family} of the others" if analysis.second_family else ""
    return (
        f"{words.blocks_words(analysis)}. Verdicts are corrected (Holm) over "
        f"{words.counted(analysis.family, 'comparison')} of primary metrics{rest}. The chance that any "
        f"difference of a family is false is at most {words.amount(analysis.level)}."
    )


def unlike_line(analysis: Analysis) -> str:
    """Which platforms differ from the baseline in what should be equal; empty where none does."""
    if not analysis.unlike:
        return ""
    differences = "; ".join(f"{platform}: {', '.join(names)}" for platform, names in analysis.unlike.items())
    baseline = analysis.data.manifest.baseline
    return f"Not equal to {baseline} although it should be ({differences}): that is part of its results."


def overhead_line(analysis: Analysis) -> str:
    """What the instrument itself cost, and what its counters changed; empty where it was not read."""
    use = analysis.overhead or analysis.overhead_uncounted
    if use is None:
        return ""
    agents = "" if use.agents_share is None else f", its agents {units.percent(use.agents_share)}"
    line = (
        f"Overhead: while a guest was measured, the controller used {units.percent(use.share)} of a CPU (at most "
        f"{units.percent(use.largest_share)}){agents}; a trial took {units.nanoseconds(use.besides_ns)} longer "
        f"than what it measured (at most {units.nanoseconds(use.largest_besides_ns)})."
    )
    other = analysis.overhead_uncounted
    if other is not None and analysis.overhead is not None:
        line += f" Without counters {units.percent(other.share)} and {units.nanoseconds(other.besides_ns)}."
    effects = []
    for effect in analysis.overhead_effects:
        comparison = effect.comparison
        if comparison.share is not None:
            performance = words.share_and_interval(comparison.share, comparison.interval)
            effects.append(f"{effect.platform} {comparison.task.label} {performance}")
    return f"{line} Performance without counters, of that with them: {', '.join(effects)}." if effects else line


def unfit_line(analysis: Analysis) -> str:
    """That the host was unfit, and what helps; empty if it was not. `host_line` has the reasons."""
    if analysis.fitness.level is not FitnessLevel.UNFIT:
        return ""
    return (
        "The host was unfit for measurements: small differences are not found then, and costs may be those of its "
        f"load. End other work; '{NOISE_COMMAND}' and 'virtoll doctor' show what disturbs, and 'virtoll doctor --tune' "
        "makes the host quieter."
    )


def states_line(analysis: Analysis) -> str:
    """The tasks that the host ran at two speeds or disturbed, furthest apart first, and what follows; empty where there
    are none.

    Of many some are named: the methods have all.
    """
    sentences = []
    steady = [state for state in analysis.two_states if not state.disturbed]
    disturbed = [state for state in analysis.two_states if state.disturbed]
    if steady:
        widened = f"Intervals there hold for either speed{_same_speeds(steady)}."
        sentences.append(f"The host itself has two speeds in {_states(steady)}. {widened}")
    if disturbed:
        sentences.append(f"The host was disturbed in {_states(disturbed)}.")
    return " ".join(sentences)


def _states(states: Sequence[TwoStates]) -> str:
    named = [
        f"{state.task.label} ({words.share(state.share_slow)} of its trials are about "
        f"{words.slowdown(state.factor)} slower)"
        for state in sorted(states, key=lambda state: -state.factor)
    ]
    return words.first_of(named, _STATES_NAMED, last=", and")


def _same_speeds(states: Sequence[TwoStates]) -> str:
    """Which platforms are compared as they are, because their own trials show the same speeds."""
    same: set[str] = set()
    for state in states:
        same |= state.same
    if not same:
        return ""
    return f"; {', '.join(sorted(same))} had the same speeds and are compared as they are"


def bound_line(analysis: Analysis) -> str:
    """What is generator-bound, in one sentence; empty where nothing is."""
    caution = next((caution for caution in analysis.cautions if caution.caution is Caution.GENERATOR_BOUND), None)
    if caution is None:
        return ""
    return f"{caution.caution.title.capitalize()}: {caution.concerns}: {caution.caution.meaning}."


def programs_line(analysis: Analysis) -> str:
    """Which programs slept or have no rates, in a sentence each; empty if there are none."""
    data = analysis.data
    return " ".join(
        f"{warned.caution.title.capitalize()}: {warned.concerns}: {warned.caution.meaning}; {warned.caution.advice}."
        for warned in program_cautions(analysis.tasks, data.trials, data.fitness)
    )


def caveat_line(analysis: Analysis) -> str:
    """Which platforms' numbers are no results and why, in a sentence for each caveat; empty where there is none."""
    hosts = hosts_of(analysis.data.manifest)
    by_caveat: dict[str, list[str]] = {}
    for label, caveat in analysis.caveats.items():
        by_caveat.setdefault(caveat, []).append(f"{label} on {hosts[label]}" if label in hosts else label)
    return " ".join(
        f"{CAVEAT_SIGN} {caveat} ({', '.join(labels)}). This shows that it works; no number of it is a result, and no "
        "ratio to the bare host is a slowdown."
        for caveat, labels in by_caveat.items()
    )


def host_words(analysis: Analysis) -> str:
    """What the host is, as far as the run knows: 'AMD EPYC, 2 CPUs, Debian GNU/Linux 12 (bookworm), Linux 6.1.0'."""
    host = analysis.data.manifest.host
    cpus = host.get("cpus")
    kernel = str(host.get("kernel") or "").partition(" ")[0]
    hosts = len(analysis.across_hosts.hosts)
    facts = [host.get("cpu_model")]
    if cpus:
        facts.append(words.counted(cpus, "CPU"))
    facts.append(host.get("os"))
    if kernel:
        facts.append(f"Linux {kernel}")
    if hosts > 1:
        facts.append(f"{hosts} such hosts")
    return words.with_commas(*facts)


def host_line(analysis: Analysis) -> str:
    """The host's fitness with its reasons, and how far its CPUs are from each other."""
    reasons = "; ".join(analysis.fitness.reasons)
    tail = f": {reasons}." if reasons else "."
    distances = distances_line(analysis.cpu_distances, analysis.data.manifest.pinning)
    return f"Host: {analysis.fitness.level}{tail} {distances}".rstrip()


def left_out(analysis: Analysis) -> list[tuple[str, str]]:
    """(platform, reason) for those that have no ratio at all."""
    every = (*analysis.control, *analysis.comparisons)
    reasons = {comparison.platform: comparison.reason for comparison in reversed(every)}
    for entry in reversed(analysis.data.manifest.platforms):
        if not entry.available and entry.label in reasons:
            reasons[entry.label] = entry.reason or ""
    for comparison in every:
        if comparison.share is not None:
            reasons.pop(comparison.platform, None)
    return [(platform, reasons[platform]) for platform in analysis.platforms if platform in reasons]


def left_out_line(analysis: Analysis, most: int | None = None) -> str:
    """Why platforms have no value at all, those of one reason together; empty where none is left out.

    Of a reason with more than ``most`` letters only whole words of its beginning.
    """
    reasons = dict(left_out(analysis))
    if most is not None:
        reasons = {platform: textwrap.shorten(reason, most, placeholder=CUT) for platform, reason in reasons.items()}
    by_reason = grouped(reasons, lambda platform: reasons[platform])
    line = "; ".join(f"{', '.join(platforms)} ({reason})" for reason, platforms in by_reason.items())
    return f"Not measured: {line}." if line else ""


def platform_words(analysis: Analysis) -> dict[str, tuple[str, ...]]:
    """Each platform's result in words, a phrase for each workload; empty without a baseline."""
    if analysis.baseline is None:
        return {}
    skipped = {analysis.data.manifest.baseline, analysis.data.manifest.control}
    return {platform: _phrases(analysis, platform) for platform in analysis.platforms if platform not in skipped}


def _phrases(analysis: Analysis, platform: str) -> tuple[str, ...]:
    comparisons = [comparison for comparison in analysis.comparisons if comparison.platform == platform]
    by_verdict = grouped(comparisons, lambda comparison: comparison.verdict)
    if by_verdict.keys() == {Verdict.NOT_MEASURED}:
        return (f"not measured ({comparisons[0].reason})",)
    for comparison in by_verdict.get(Verdict.FUNCTIONAL, ())[:1]:
        return (_functional(analysis, platform, comparisons, comparison.caveat or ""),)
    phrases = []
    for group in grouped(comparisons, _metric).values():
        phrases += [_difference(group, verdict) for verdict in (Verdict.SLOWER, Verdict.FASTER)]
    phrases.append(_alike(by_verdict.get(Verdict.ALIKE, ())))
    of_caveat = grouped(by_verdict.get(Verdict.UNKNOWN, ()), lambda comparison: comparison.caveat)
    by_blocks = grouped(of_caveat.pop(None, ()), lambda comparison: comparison.simultaneous is None)
    phrases.append(_remainder("Not known", by_blocks.get(False, ())))
    one_block = "Not known, only one block has both values"
    phrases.append(_remainder(one_block, by_blocks.get(True, ()), most=_NAMED_SINGLY))
    phrases += [_remainder(f"No verdict, {caveat}", group) for caveat, group in of_caveat.items()]
    phrases.append(_remainder("Not measured", by_verdict.get(Verdict.NOT_MEASURED, ())))
    return tuple(filter(None, phrases))


def _metric(comparison: Comparison) -> MetricRecord:
    return comparison.task.metric


def _functional(analysis: Analysis, platform: str, comparisons: Sequence[Comparison], caveat: str) -> str:
    """What the run of a platform with a caveat shows: how many trials went well, and nothing about speed."""
    counts = analysis.statuses[platform]
    missing = [comparison.task.label for comparison in comparisons if comparison.verdict is Verdict.NOT_MEASURED]
    rest = f"; not measured: {', '.join(missing)}" if missing else ""
    return f"{caveat[0].upper()}{caveat[1:]} ({counts['ok']} of {sum(counts.values())} trials ok{rest})"


def _difference(group: Sequence[Comparison], verdict: Verdict) -> str:
    """One metric's comparisons of one verdict: 'IP forwarding 64 B, 1500 B: 25 to 31 times slower, at least 15'."""
    comparisons = [comparison for comparison in group if comparison.verdict is verdict]
    if not comparisons:
        return ""
    name = title_of(group[0].task.metric)
    if len(comparisons) < len(group):
        name = f"{name} {', '.join(comparison.task.size for comparison in comparisons)}"
    return f"{name}: {words.difference(comparisons).text}"


def _alike(alike: Sequence[Comparison]) -> str:
    """What is alike, gathered by the margin: 'Alike within 10 %: Super Pi, fork and wait'."""
    by_margin = grouped(alike, lambda comparison: comparison.margin or 0.0)
    phrases = [f"within {words.amount(margin)}: {', '.join(_names(by_margin[margin]))}" for margin in sorted(by_margin)]
    return f"Alike {'; '.join(phrases)}" if phrases else ""


def _names(some: Sequence[Comparison]) -> list[str]:
    """Each metric once: with its size, or with their number."""
    names = []
    for metric, group in grouped(some, _metric).items():
        size = group[0].task.size if len(group) == 1 else f"in {len(group)} sizes"
        names.append(f"{title_of(metric)} {size}".strip())
    return names


def _remainder(lead: str, alike: Sequence[Comparison], most: int | None = None) -> str:
    """What has no verdict, in one phrase; in brackets the interval, or the bare share where there is none.

    Of more than ``most`` names only their number and range are reported.
    """
    names: list[str] = []
    for group in grouped(alike, _metric).values():
        if len(group) <= _NAMED_SINGLY:
            names += [_named([comparison]) for comparison in group]
        else:
            names.append(_named(group))
    if most is not None and len(names) > most:
        shares = _shares(words.shares(alike))
        return f"{lead}: {len(alike)} comparisons ({shares}), one by one in the table of slowdowns"
    return f"{lead}: {', '.join(names)}" if names else ""


def _named(some: Sequence[Comparison]) -> str:
    """Comparisons of one metric, and behind it what is known of the share."""
    (name,) = _names(some)
    together = words.joint_ends(some)
    if together is None:
        return name
    return f"{name} ({words.apart(*together, words.directions(some[0]))})"


def _shares(values: Sequence[float]) -> str:
    return words.apart(min(values), max(values))


def level_class(level: FitnessLevel) -> str:
    """The level's name for a style sheet."""
    return {FitnessLevel.FIT: "good", FitnessLevel.DEGRADED: "warn", FitnessLevel.UNFIT: "bad"}[level]
