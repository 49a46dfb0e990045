"""How a run was measured, as paragraphs that a paper can take over: host, platforms, design, clock, statistics, doubts.

Each number is the record's. What the record does not have is left out, or called *not recorded* where a reader of a
paper asks for it. A sentence has at most 25 words, so lists are cut into several. Main function: `methods_of`. Pure.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from virtoll import units
from virtoll.report import words
from virtoll.report.headline import resemblance_line
from virtoll.report.markup import latex_text, markdown_text
from virtoll.report.methods_setting import (
    guests_sentences,
    host_sentences,
    joined,
    listed,
    platforms_sentences,
    workloads_sentences,
)
from virtoll.stats.analysis import Analysis
from virtoll.stats.cautions import Caution
from virtoll.stats.compare import DIFFERENT
from virtoll.system.printable import printable
from virtoll.version import __version__

AUTHORS: Final = "The Virtoll authors"


@dataclass(frozen=True)
class Methods:
    """Paragraphs in order, each with its topic and its sentences; `version`: of the Virtoll that measured."""

    paragraphs: tuple[tuple[str, tuple[str, ...]], ...]
    version: str

    @property
    def citation(self) -> str:
        """Virtoll itself as a BibTeX entry, as CITATION.cff has it."""
        fields = {
            "author": f"{{{AUTHORS}}}",
            "title": "Virtoll",
            "version": printable(" ".join(self.version.split())),
        }
        body = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items())
        return f"@software{{virtoll,\n{body}}}\n"

    def markdown(self) -> str:
        """A page of its own, a paragraph each topic."""
        parts = [f"**{topic}.** {markdown_text(' '.join(sentences))}" for topic, sentences in self.paragraphs]
        return "\n\n".join(["# Methods", *parts, f"```bibtex\n{self.citation}```"]) + "\n"

    def latex(self) -> str:
        """To be taken over by `\\input`; the section's heading is the paper's."""
        entry = "".join(f"% {line}\n" for line in self.citation.splitlines())
        head = f"% Made by 'virtoll report'; made anew each time. Virtoll for your bibliography:\n{entry}"
        return head + "\n".join(
            f"\\paragraph{{{latex_text(topic)}}}\n" + "\n".join(map(latex_text, sentences)) + "\n"
            for topic, sentences in self.paragraphs
        )


def methods_of(analysis: Analysis) -> Methods:
    """All that the run's record and its analysis say of how it was measured."""
    made = (
        ("Host", host_sentences(analysis)),
        ("Platforms", platforms_sentences(analysis)),
        ("Guests", guests_sentences(analysis)),
        ("Workloads", workloads_sentences(analysis)),
        ("Design", _design(analysis)),
        ("Clock and traffic", _clock(analysis)),
        ("Statistics", _statistics(analysis)),
        ("Deviations and doubts", _doubts(analysis)),
        ("Instrument", _instrument(analysis)),
    )
    paragraphs = [(topic, tuple(sentences)) for topic, sentences in made]
    shown = tuple(paragraph for paragraph in paragraphs if paragraph[1])
    return Methods(shown, analysis.data.manifest.virtoll)


def _design(analysis: Analysis) -> Iterator[str]:
    manifest, state = analysis.data.manifest, analysis.data.state
    planned = manifest.plan.trials
    if planned:
        if analysis.in_paper_order:
            yield "Trials ran platform after platform, all repetitions of a workload in a row, as papers did."
        else:
            yield "Trials ran in randomised complete blocks, one of each platform, workload and size in each round."
            if manifest.experiment.get("boot", "block") == "block":
                yield "Each platform's guests were started afresh for each block."
            else:
                yield "Each workload had guests that were started afresh for it in each block."
        yield f"The order was drawn with seed {manifest.plan.seed}."
        blocks = len({trial.block for trial in planned})
        rounds = max(trial.round for trial in planned) + 1
        each = f" of up to {rounds} rounds" if rounds > 1 else ""
        yield f"The plan had {words.counted(blocks, 'block')}{each}; {_trials_of_plan(analysis)}."
        if any(trial.shortened for trial in analysis.data.trials):
            yield (
                "Of a sweep from flat out, later rounds of a block repeated the point that forwarded the most in its "
                "first round, and nothing else."
            )
            yield from _turns(analysis)
        if analysis.host_of:
            yield f"The blocks were shared among {len(analysis.across_hosts.hosts)} hosts of one class."
    yield from _ends(analysis)
    yield from listed(
        "Idle guests were started one after the other, at the end",
        [f"{consolidation.guests} of {consolidation.platform}" for consolidation in analysis.consolidations],
    )
    if state.state != "complete":
        yield f"The run is not complete ({state.state}); the numbers rest on what was measured until then."


def _turns(analysis: Analysis) -> Iterator[str]:
    """How guests took turns, if some did."""
    points = (point for trial in analysis.data.trials for point in trial.points or ())
    turns = [point.in_turn for point in points if point.in_turn is not None]
    if turns:
        in_turn = max(turns, key=lambda taken: taken.guests)
        yield (
            f"There, up to {in_turn.guests} guests took turns: frames were sent flat out through each for "
            f"{in_turn.burst_ns / 1e6:.3g} ms, {in_turn.bursts} times over, with {in_turn.pause_ns / 1e6:.3g} ms of "
            "silence after each burst (duet benchmarking, Bulej et al. 2020)."
        )


def _trials_of_plan(analysis: Analysis) -> str:
    planned = analysis.data.manifest.plan.trials
    warm = sum(trial.warm_up for trial in planned)
    rest = f", and {warm} to warm up, which enter no summary" if warm else ""
    return f"{len(planned) - warm} trials{rest}"


def _ends(analysis: Analysis) -> Iterator[str]:
    """How the trials ended, and what of each platform was not as it should be."""
    total: Counter[str] = Counter()
    for counts in analysis.statuses.values():
        total.update(counts)
    if not total.total():
        return
    bad = [f"{count} {status}" for status, count in total.items() if status != "ok" and count]
    measured = words.counted(analysis.blocks, "block")
    yield f"Trials in {measured} gave values; {total['ok']} trials were ok{f', {joined(bad)}' if bad else ''}."
    for status in ("invalid", "failed", "skipped", "not run"):
        platforms = []
        for platform, counts in analysis.statuses.items():
            if counts.get(status):
                platforms.append(f"{counts[status]} of {platform}")
        yield from listed(f"{status.capitalize()}:", platforms, f"{status.capitalize()} as well:")
    added = [str(extension.blocks) for extension in analysis.data.manifest.extensions]
    yield from listed("Blocks were added, at a level of each number's own, after blocks", added)
    looks = [str(look.blocks) for look in analysis.data.looks]
    yield from listed("The results were looked at, at a level of each look's own, after blocks", looks)


def _clock(analysis: Analysis) -> Iterator[str]:
    readings = [reading for clock in analysis.clocks for reading in clock.readings]
    if readings:
        yield "Durations are between two timestamps, of start and end, that a kernel made outside the guest."
        yield "The guest's own clock was not used for them."
        counts = Counter(reading.method for reading in readings)
        paths = {"icmp": "ICMP", "channel": "the guest's control channel"}
        yield from listed(
            "Timestamps came by", [f"{paths.get(name, name)} ({number} trials)" for name, number in counts.items()]
        )
        estimates = sorted(reading.error_estimate_ns for reading in readings)
        middle = units.nanoseconds(estimates[len(estimates) // 2])
        most = units.nanoseconds(estimates[-1])
        yield f"The estimated error of a duration was {middle} in the median trial, {most} at most."
    if analysis.points:
        yield "A forwarding rate is the frames that arrived at the sink less one, by the time from first to last."
        lengths = sorted({point.duration_ns for point in analysis.points})
        yield from listed("Each point of a sweep lasted", list(map(units.nanoseconds, lengths)), "Others lasted")
        yield "Frame sizes include the FCS (RFC 2544)."


def _statistics(analysis: Analysis) -> Iterator[str]:
    beside = analysis.isolation.comparisons
    if analysis.baseline is None and not beside:
        if analysis.observations:
            yield "Nothing was compared with a baseline, so there are medians over blocks and no verdicts."
        return
    if analysis.baseline is not None:
        yield f"Performance is given in % of {analysis.baseline}'s, paired by block and round."
    if beside:
        yield "Beside other guests a guest is compared with itself alone, in the same block and round."
    yield "A block counts once, with the median over its rounds; the ratio is the geometric mean over blocks."
    yield "A platform's value is that ratio of the baseline's, which is its median over blocks."
    if analysis.blocks < 2:
        yield "Only one block was measured, so there are no intervals, no tests and no verdicts."
        return
    sizes = {
        "of primary metrics": analysis.family,
        "of other metrics": analysis.second_family,
        "beside other guests": analysis.isolation.family,
        "of guests at once": analysis.at_once.family,
    }
    families = [f"{size} {which}" for which, size in sizes.items() if size]
    if not families:
        yield "No comparison could be tested, so there are no verdicts."
        return
    yield from _tests(analysis, families)
    if analysis.paper_method is not None and analysis.paper.rows:
        yield f"Values are also summed up as a paper did: {analysis.paper_method.title}."


def _tests(analysis: Analysis, families: Sequence[str]) -> Iterator[str]:
    """How verdicts are found, of so many comparisons of each family."""
    every = (*analysis.comparisons, *analysis.isolation.comparisons, *analysis.at_once.comparisons)
    methods = sorted({comparison.interval.method for comparison in every if comparison.interval})
    yield from listed("Tests and 95 % intervals share one standard error:", methods)
    if any("moderated" in method for method in methods):
        yield "Its variance is moderated towards that of the run's other comparisons (Smyth 2004)."
    if analysis.host_of:
        yield "A host counted once in each comparison, with the mean over its blocks."
    level = words.amount(analysis.level)
    yield from listed(f"Holm's correction at {level} was over these families of comparisons:", families)
    yield "Bounds (at least) are simultaneous over a family (Bonferroni), and end at 1 where Holm proves the side."
    margin = words.amount(analysis.margin)
    yield f"Alike means that two one-sided tests (Schuirmann 1987) leave no larger difference; the margin was {margin}."
    yield "What is neither is called not known, which does not mean that there is no difference."


def _doubts(analysis: Analysis) -> Iterator[str]:
    """What speaks against the numbers: the host's fitness, the control, caveats, bounds."""
    yield f"By its state between trials the host was {analysis.fitness.level} for measuring."
    yield from (f"{reason[:1].upper()}{reason[1:]}." for reason in analysis.fitness.reasons)
    yield from _control(analysis)
    yield from _doubts_of_hosts(analysis)
    caveats = _texts_by_name((caveat, label) for label, caveat in analysis.caveats.items())
    for caveat, labels in caveats.items():
        yield from listed(f"No result ({caveat}) is any number of", labels)
    for platform, names in analysis.unlike.items():
        yield from listed(f"Of {platform} not equal to the baseline's, although they should be:", names)
    bound = dict.fromkeys(key[0] for key, headroom in analysis.headrooms.items() if headroom.generator_bound)
    yield from listed(f"{Caution.GENERATOR_BOUND.title.capitalize()}, and so lower limits, were rates of", list(bound))
    unsteady = [state.task.label for state in analysis.two_states if not state.disturbed]
    yield from listed("The host had two speeds, for either of which intervals hold, in", unsteady)
    disturbed = [state.task.label for state in analysis.two_states if state.disturbed]
    yield from listed("Disturbed was the host in", disturbed)
    if resemblance_line(analysis):
        yield resemblance_line(analysis)
    if analysis.in_paper_order:
        yield "What changed on the host while the platforms ran one after the other is in these ratios."
    mismatches = ((platform, text.replace(": ", " ")) for platform, text in analysis.equivalence.mismatches)
    for platform, texts in _texts_by_name(mismatches).items():
        yield from listed(f"Not as asked for was {platform}:", texts)


def _doubts_of_hosts(analysis: Analysis) -> Iterator[str]:
    """In a run that was merged of parts."""
    flagged = _texts_by_name((flag.host, flag.task.label) for flag in analysis.across_hosts.flagged)
    for host, tasks in flagged.items():
        yield from listed(f"Unlike the other hosts was {host} in", tasks)
    merged = analysis.data.manifest.merged
    if merged is not None and merged.left_out:
        yield f"Left out when the run was merged of parts were {len(merged.left_out)} parts, blocks or hosts."
    if merged is not None and merged.doubts:
        yield f"Of {len(merged.doubts)} parts the host's clock was wrong."


def _texts_by_name(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The texts of each name, each once, in the order of the pairs."""
    by_name: dict[str, dict[str, None]] = {}
    for name, text in pairs:
        by_name.setdefault(name, {})[text] = None
    return {name: list(texts) for name, texts in by_name.items()}


def _control(analysis: Analysis) -> Iterator[str]:
    manifest = analysis.data.manifest
    control = (*analysis.control, *analysis.at_once.control)
    together = words.joint_ends(control)
    if manifest.baseline is None:
        return
    if manifest.control is None or together is None:
        yield "The host was not compared with itself (A/A)."
        return
    between = words.between(*together)
    yield f"As a control the host was compared with itself (A/A, {manifest.control}): {between}, all of it together."
    different = [comparison.task.label for comparison in control if comparison.verdict in DIFFERENT]
    yield from listed("There it differed from itself in", different)


def _instrument(analysis: Analysis) -> Iterator[str]:
    manifest = analysis.data.manifest
    yield f"We measured with Virtoll (cite as: {AUTHORS}, Virtoll, version {manifest.virtoll})."
    agent = manifest.agent or {}
    if agent.get("version"):
        yield f"Its agent in each guest was version {agent['version']}, build {agent.get('build')}."
    use = analysis.overhead
    if use is not None:
        yield f"Its controller used {units.percent(use.share)} of a CPU while a guest was measured (median of trials)."
    yield f"The experiment was {manifest.experiment.get('name')}, the run {manifest.run}."
    yield f"This text was made from its record by Virtoll {__version__}."
