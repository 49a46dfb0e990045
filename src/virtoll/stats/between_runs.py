"""Two runs compared, or two platforms of one run that ran side by side: is the second slower than the first?

*Paired*: both are of one run, and ran in the same rounds. A pair is a block's ratio of both, as with the host
(`compare`). *Unpaired*: two runs, at two times. Their blocks are two samples (`verdicts.judge_two`); of a run that was
merged of several hosts the hosts are. By *cost*, what is compared is the share of the baseline's performance, a ratio
made inside each block: what became slower with the whole host between both runs is in both of its parts, and falls
out. By *values*, a platform's own values are compared, and such a change of the host is in the result.

Everything is as in a report: shares of the first's performance, 1 = the same, below 1 = slower; one family for primary
metrics and one for the rest; the A/A control beside each. Main function: `between_runs`, `side_by_side` within a run.
Pure.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from virtoll.runfolder.records import Manifest
from virtoll.stats.against_baseline import observations_in
from virtoll.stats.analysis import Analysis
from virtoll.stats.arrays import np
from virtoll.stats.bounds_of_two import CAVEATS, caveat_of_two, hidden_of_two, width_of_pairs, within_bounds_of_two
from virtoll.stats.comparability import Identity, why_incomparable
from virtoll.stats.compare import DIFFERENT, Comparison, Pair, Verdict, compare, logs_of, means_by_host
from virtoll.stats.estimates import beside, has_result
from virtoll.stats.fitness import FitnessLevel
from virtoll.stats.intervals import Estimate, student
from virtoll.stats.states import TwoStates
from virtoll.stats.summaries import block_values
from virtoll.stats.values import Task
from virtoll.stats.verdicts import Rules, decide_families, judge_two, places, told_by

if TYPE_CHECKING:
    from virtoll.stats.noise import Array

By = Literal["cost", "values"]
Unlike = Literal["host", "agent", "unit"]
FIRST = "the first"
Logs = Mapping[int | str, float]
"""By block the log share or value; by host, in a run that was merged of several: hosts are what scatters there."""
_LogsOf = Callable[[Analysis, str, Task], Logs]


@dataclass(frozen=True)
class Sample:
    """A side of a comparison: its value in the metric's unit, by cost with its share of the baseline's performance, and
    its blocks. None where there is no value, and no share.
    """

    value: Estimate | None
    share: float | None
    blocks: int


@dataclass(frozen=True)
class Between:
    """A comparison of two analyses, which are one and the same where it is `paired`.

    `comparisons`: of `pairs`, each on each task that either run has; `platform` is the pair's name, and the share is of
    the first's performance. `control`: the same of the A/A controls, which are alike in truth. `host`: of the
    baselines' own values; empty where paired, or by values, or without a baseline. `level`: the chance of any false
    difference in a family. `whole`: all that both runs have in common is compared, and not what was chosen of it.
    """

    first: Analysis
    second: Analysis
    paired: bool
    by: By
    pairs: tuple[Pair, ...]
    comparisons: tuple[Comparison, ...]
    control: tuple[Comparison, ...]
    host: tuple[Comparison, ...]
    level: float
    whole: bool = False

    @property
    def tasks(self) -> tuple[Task, ...]:
        """Each task that is compared, in the order of the second run."""
        return tuple(dict.fromkeys(comparison.task for comparison in self.comparisons))

    @property
    def alarms(self) -> tuple[Comparison, ...]:
        """Where the A/A controls differ, which are alike in truth."""
        return tuple(comparison for comparison in self.control if comparison.verdict in DIFFERENT)

    @property
    def unfit(self) -> tuple[Analysis, ...]:
        """Of two runs those whose host was unfit; none where paired: what the host did then met both sides."""
        runs = () if self.paired else (self.first, self.second)
        return tuple(run for run in runs if run.fitness.level is FitnessLevel.UNFIT)

    def pair(self, name: str) -> Pair:
        """The pair of this name."""
        return next(pair for pair in self.pairs if pair.name == name)

    def samples(self, comparison: Comparison) -> tuple[Sample, Sample]:
        """Both sides of a comparison of `comparisons`, whose values and shares fit its share.

        By cost the shares do, and each value fits its own. By values the values do: those of two runs are the means
        that are compared, and of two platforms of one run the second is the first times their ratio.
        """
        pair, task = self.pair(comparison.platform), comparison.task
        of = _by_value if self.by == "values" and not self.paired else _reported
        first, second = of(self.first, pair.first, task), of(self.second, pair.second, task)
        if not self.paired:
            return first, second
        first, second = replace(first, share=None), replace(second, share=None)
        if first.value is None or not has_result(comparison):
            return first, second
        measure = first.value.value
        return replace(first, value=Estimate(measure, None)), replace(second, value=beside(measure, comparison))

    def is_new(self, task: Task) -> bool:
        """Whether the second run alone has a task."""
        return self.first.own_task(task) is None

    @property
    def alone_in_first(self) -> tuple[str, ...]:
        """Labels that the second run has not; the A/A control is never named."""
        return _alone(self.first, self.second)

    @property
    def alone_in_second(self) -> tuple[str, ...]:
        """Labels that the first run has not."""
        return _alone(self.second, self.first)


def _alone(analysis: Analysis, other: Analysis) -> tuple[str, ...]:
    return tuple(
        label for label in analysis.platforms if label not in (*other.platforms, analysis.data.manifest.control)
    )


def _reported(analysis: Analysis, label: str, task: Task) -> Sample:
    """As the run's own report has it."""
    counterpart = analysis.own_task(task)
    estimate = None if counterpart is None else analysis.estimates.get((label, counterpart))
    if counterpart is None or estimate is None:
        return Sample(None, None, 0)
    compared = analysis.comparison(label, counterpart)
    return Sample(estimate, compared.share if compared is not None else None, estimate.blocks)


def _by_value(analysis: Analysis, label: str, task: Task) -> Sample:
    """The geometric mean over blocks, or over hosts, which is what is compared."""
    counterpart = analysis.own_task(task)
    logs = {} if counterpart is None else _log_values(analysis, label, counterpart)
    if counterpart is None or not logs:
        return Sample(None, None, 0)
    mean = student([counterpart.sign * log for log in logs.values()])
    interval = mean.interval
    if interval is not None:
        interval = replace(interval, low=math.exp(interval.low), high=math.exp(interval.high))
    blocks = analysis.cells[label, counterpart].blocks
    return Sample(Estimate(math.exp(mean.value), interval), None, blocks)


def unlike_runs(first: Analysis, second: Analysis) -> dict[Unlike, str]:
    """Why two runs must not be compared unless one says so: each kind of difference with its reason in words."""
    mine, theirs = first.data.manifest, second.data.manifest
    agents = [(manifest.agent or {}).get("sha256") for manifest in (mine, theirs)]
    reasons: dict[Unlike, str | None] = {
        "host": _other_host(mine, theirs),
        "agent": why_incomparable(Identity(None, agents[0], None), Identity(None, agents[1], None)),
    }
    for task in second.tasks:
        counterpart = first.own_task(task)
        why = _other_unit(counterpart, task) if counterpart is not None else None
        if why is not None:
            reasons.setdefault("unit", f"{task.label}: {why}")
    return {kind: reason for kind, reason in reasons.items() if reason is not None}


def _other_host(mine: Manifest, theirs: Manifest) -> str | None:
    """Why they are of unlike hosts; runs that were merged of several must be of the same ones."""
    hosts, other = _fingerprints(mine), _fingerprints(theirs)
    if not mine.hosts and not theirs.hosts:
        (fingerprint,), (another,) = hosts, other
        return why_incomparable(Identity(fingerprint, None, None), Identity(another, None, None))
    if hosts == other:
        return None
    return (
        f"not comparable: other hosts ({len(hosts)} against {len(other)}, of which {len(hosts & other)} are the same)"
    )


def _fingerprints(manifest: Manifest) -> set[str | None]:
    """Of the hosts that a run was merged of, or of its one host."""
    hosts = [part.host for part in manifest.hosts] or [manifest.host]
    return {host.get("fingerprint") for host in hosts}


def _other_unit(task: Task, other: Task) -> str | None:
    mine, theirs = task.metric, other.metric
    if mine.better != theirs.better:
        return f"not comparable: better is {mine.better} in one and {theirs.better} in the other"
    return why_incomparable(Identity(None, None, mine.unit), Identity(None, None, theirs.unit))


def common_pairs(first: Analysis, second: Analysis, by: By) -> tuple[Pair, ...]:
    """The labels that both runs have, in the second's order; by cost without the baseline, which is the measure."""
    aside = {first.data.manifest.control, second.data.manifest.control}
    if by == "cost":
        aside |= {first.data.manifest.baseline, second.data.manifest.baseline}
    return tuple(Pair(label, label) for label in second.platforms if label in first.platforms and label not in aside)


def why_no_cost(first: Analysis, second: Analysis) -> str | None:
    """Why two runs cannot be compared by cost; None where they can."""
    names = [analysis.baseline for analysis in (first, second)]
    if None in names:
        return "a run has no baseline, or nothing of it was measured"
    return None if names[0] == names[1] else f"their baselines differ: {names[0]} and {names[1]}"


def between_runs(
    first: Analysis,
    second: Analysis,
    pairs: Sequence[Pair],
    by: By,
    shared: int = 1,
    *,
    workloads: Collection[str] = (),
) -> Between:
    """Two runs, unpaired; `shared`: how many such comparisons are told together, among which the levels are shared.

    `workloads`: which are compared; none: all. By cost, both must have the same baseline (`why_no_cost`).
    """
    rules = _rules(first, second, shared)
    tasks = [both for both in _tasks(first, second) if not workloads or both.task.workload in workloads]
    logs = _log_shares if by == "cost" else _log_values
    hosts = _by_cost(first.baseline, second.baseline, by)
    controls = _by_cost(first.data.manifest.control, second.data.manifest.control, by)

    def untested(compared: Sequence[Pair], logs: _LogsOf, bases: Sequence[Pair]) -> list[_Unpaired]:
        return [
            replace(_compared(first, second, pair, both, logs, bases), gap=_gap(first, second, pair, both))
            for pair in compared
            for both in tasks
        ]

    def bounded(
        compared: Sequence[Pair], comparisons: Sequence[Comparison], bases: Sequence[Pair]
    ) -> tuple[Comparison, ...]:
        margin = rules.margin
        return tuple(
            within_bounds_of_two(first, second, compared, comparison, bases, margin) for comparison in comparisons
        )

    beyond = [pair for pair in pairs if by == "values" or first.baseline not in (pair.first, pair.second)]
    alike = [replace(unpaired, gap=0.0) for unpaired in untested(controls, logs, hosts)]
    decided, of_control = _decide_families(untested(beyond, logs, hosts), alike, rules)
    bare, _ = _decide_families(untested(hosts, _log_values, ()), [], rules)
    return Between(
        first=first,
        second=second,
        paired=False,
        by=by,
        pairs=tuple(pairs),
        comparisons=bounded(pairs, decided, hosts),
        control=bounded(controls, of_control, hosts),
        host=bounded(hosts, bare, ()),
        level=rules.level,
    )


def _gap(first: Analysis, second: Analysis, pair: Pair, both: _Sides) -> float:
    """By how much two speeds of both hosts together widen the intervals, as a logarithm; each as in its own run."""
    sides = (first, pair.first, both.first), (second, pair.second, both.second)
    return sum(analysis.gap(label, task) for analysis, label, task in sides if task is not None)


def side_by_side(
    analysis: Analysis, pairs: Sequence[Pair], shared: int = 1, *, workloads: Collection[str] = ()
) -> Between:
    """Platforms of one run, paired by block and round; `shared` and `workloads` as in `between_runs`."""
    rules = replace(_rules(analysis, analysis, shared), host_of=analysis.host_of)
    compared = [
        _without_result(
            compare(
                task,
                pair.name,
                observations_in(analysis.cells, pair.second, task),
                observations_in(analysis.cells, pair.first, task),
                _why_missing(analysis, analysis, pair, task, task),
            ),
            caveat_of_two(analysis, analysis, pair, task, ()),
        )
        for pair in pairs
        for task in analysis.tasks
        if not workloads or task.workload in workloads
    ]
    decided, _ = decide_families(compared, (), rules, _states_of(analysis, pairs), width_of_pairs(analysis, pairs))
    return Between(
        first=analysis,
        second=analysis,
        paired=True,
        by="values",
        pairs=tuple(pairs),
        comparisons=tuple(
            within_bounds_of_two(analysis, analysis, pairs, comparison, (), rules.margin) for comparison in decided
        ),
        control=analysis.control,
        host=(),
        level=rules.level,
    )


def _states_of(analysis: Analysis, pairs: Sequence[Pair]) -> list[TwoStates]:
    """The host's two speeds: a pair has the same if both of it have, as the host itself has."""
    host = {analysis.data.manifest.baseline, analysis.data.manifest.control}
    states = []
    for state in analysis.two_states:
        same = (pair.name for pair in pairs if {pair.first, pair.second} <= state.same | host)
        states.append(replace(state, same=frozenset(same)))
    return states


def _by_cost(first: str | None, second: str | None, by: By) -> list[Pair]:
    """The pair of what stands beside all others by cost, baselines or controls; none where a run has none."""
    return [Pair(first, second)] if by == "cost" and first is not None and second is not None else []


def _rules(first: Analysis, second: Analysis, shared: int) -> Rules:
    level = min(first.level, second.level) / shared
    return Rules(min(first.margin, second.margin), level, level)


@dataclass(frozen=True)
class _Sides:
    """A task as either run has it; None: it has not. One of them is there."""

    first: Task | None
    second: Task | None

    @property
    def task(self) -> Task:
        task = self.second or self.first
        assert task is not None
        return task


@dataclass(frozen=True)
class _Unpaired:
    """A comparison before its test, and the log shares of each block of either run.

    `gap`: by how much two speeds widen it, as a logarithm; the A/A control, which is the host, has none.
    `hidden`: how far apart the bounds of searches are between which those of either run lie.
    """

    comparison: Comparison
    first: Logs
    second: Logs
    gap: float = 0.0
    hidden: tuple[float, float] = (0.0, 0.0)

    @property
    def testable(self) -> bool:
        return self.comparison.caveat is None and min(len(self.first), len(self.second)) >= 2


def _tasks(first: Analysis, second: Analysis) -> list[_Sides]:
    mine = {task.key: task for task in first.tasks}
    theirs = {task.key: task for task in second.tasks}
    return [_Sides(mine.get(key), theirs.get(key)) for key in dict.fromkeys((*theirs, *mine))]


def _compared(
    first: Analysis,
    second: Analysis,
    pair: Pair,
    both: _Sides,
    logs: _LogsOf,
    bases: Sequence[Pair],
) -> _Unpaired:
    """One comparison before its test, of what `logs` gives. `bases`: of whose performance those are shares, if any."""
    nothing = Comparison(pair.name, both.task, Verdict.NOT_MEASURED, against=FIRST)
    if both.first is None or both.second is None:
        which = "the second" if both.first is None else "the first"
        return _Unpaired(replace(nothing, reason=f"only {which} run has this"), {}, {})
    refused = _other_unit(both.first, both.second)
    if refused is not None:
        return _Unpaired(replace(nothing, reason=refused), {}, {})
    mine, theirs = logs(first, pair.first, both.first), logs(second, pair.second, both.second)
    if not mine or not theirs:
        reason = _why_missing(first, second, pair, both.first, both.second)
        return _Unpaired(replace(nothing, reason=reason), {}, {})
    share = math.exp(sum(theirs.values()) / len(theirs) - sum(mine.values()) / len(mine))
    comparison = replace(nothing, verdict=Verdict.UNKNOWN, share=share)
    if min(len(mine), len(theirs)) == 1:
        reason = "a run has it in one block, or on one host, alone: no interval, no verdict"
        comparison = replace(comparison, reason=reason)
    caveat = caveat_of_two(first, second, pair, both.second, bases)
    hidden = hidden_of_two(first, second, pair, both.second, bases)
    return _Unpaired(_without_result(comparison, caveat), mine, theirs, hidden=hidden)


def _without_result(comparison: Comparison, caveat: str | None) -> Comparison:
    """The comparison before its test, with its caveat; it is then never tested."""
    untested = replace(comparison, caveat=caveat, against=FIRST)
    if caveat is None or comparison.verdict is Verdict.NOT_MEASURED:
        return untested
    if caveat in CAVEATS:
        return replace(untested, reason=CAVEATS[caveat])
    reason = f"{caveat}: it shows that this works; the ratio is no result"
    return replace(untested, verdict=Verdict.FUNCTIONAL, reason=reason)


def _log_shares(analysis: Analysis, label: str, task: Task) -> Logs:
    """By block: the log of the share of the baseline's performance."""
    compared = analysis.comparison(label, task)
    return _by_host(analysis, logs_of(compared.pairs)) if compared is not None else {}


def _log_values(analysis: Analysis, label: str, task: Task) -> Logs:
    """By block: the log of the performance itself."""
    values = block_values(observations_in(analysis.cells, label, task))
    return _by_host(analysis, {block: task.sign * math.log(value) for block, value in values.items()})


def _by_host(analysis: Analysis, logs: Mapping[int, float]) -> Logs:
    """Each host's mean in a run of several, else the blocks'."""
    means = means_by_host(logs, analysis.host_of) if analysis.host_of else logs
    return dict(means.items())


def _why_missing(first: Analysis, second: Analysis, pair: Pair, mine: Task, theirs: Task) -> str:
    """Which side has no value, with the reason that its own run gives."""
    for name, each, label, task in (("first", first, pair.first, mine), ("second", second, pair.second, theirs)):
        if (label, task) not in each.cells:
            compared = each.comparison(label, task)
            reason = f": {compared.reason}" if compared is not None and compared.reason else ""
            where = "" if first is second else f" in the {name} run"
            return f"no value of {label}{where}{reason}"
    return "no block has both values"


def _decide_families(
    compared: Sequence[_Unpaired], control: Sequence[_Unpaired], rules: Rules
) -> tuple[list[Comparison], list[Comparison]]:
    """Both with their verdicts: the primary metrics are one family, the others a second; the A/A is beside each."""
    entries = [(False, unpaired) for unpaired in compared] + [(True, unpaired) for unpaired in control]
    decided: dict[tuple[bool, str, Task], Comparison] = {}
    for primary in (True, False):
        family = [entry for entry in entries if entry[1].comparison.task.metric.primary is primary]
        decided |= _decide(family, rules)
    verdicts = [decided[of_control, entry.comparison.platform, entry.comparison.task] for of_control, entry in entries]
    return verdicts[: len(compared)], verdicts[len(compared) :]


def _decide(family: Sequence[tuple[bool, _Unpaired]], rules: Rules) -> dict[tuple[bool, str, Task], Comparison]:
    """The verdicts of one family and of the A/A control (True) beside it."""
    decided = {}
    for of_control, unpaired in family:
        decided[of_control, unpaired.comparison.platform, unpaired.comparison.task] = unpaired.comparison
    tested = [(of_control, unpaired) for of_control, unpaired in family if unpaired.testable]
    if not tested:
        return decided
    tasks = places(unpaired.comparison.task for _, unpaired in tested)
    columns = places((of_control, unpaired.comparison.platform) for of_control, unpaired in tested)
    logs = _log_tables(tested, tasks, columns)
    apart, hidden = np.zeros((len(tasks), len(columns))), np.zeros((2, len(tasks), len(columns)))
    for of_control, unpaired in tested:
        place = tasks[unpaired.comparison.task], columns[of_control, unpaired.comparison.platform]
        apart[place] = unpaired.gap
        hidden[:, place[0], place[1]] = unpaired.hidden
    judged = judge_two(*logs, rules, np.array([of_control for of_control, _ in columns]), apart, hidden)
    sizes = Counter(of_control for of_control, _ in tested)
    for of_control, unpaired in tested:
        key = of_control, unpaired.comparison.platform, unpaired.comparison.task
        place = tasks[key[2]], columns[of_control, key[1]]
        decided[key] = told_by(unpaired.comparison, judged, place, rules, sizes[of_control])
    return decided


def _log_tables(
    tested: Sequence[tuple[bool, _Unpaired]], tasks: Mapping[Task, int], columns: Mapping[tuple[bool, str], int]
) -> tuple[Array, Array]:
    """The logs of either run by task, column and block; NaN where a run has no value."""
    blocks = places(block for _, unpaired in tested for block in (*unpaired.first, *unpaired.second))
    first = np.full((len(tasks), len(columns), len(blocks)), np.nan)
    second = np.full_like(first, np.nan)
    for of_control, unpaired in tested:
        row, column = tasks[unpaired.comparison.task], columns[of_control, unpaired.comparison.platform]
        for block, value in unpaired.first.items():
            first[row, column, blocks[block]] = value
        for block, value in unpaired.second.items():
            second[row, column, blocks[block]] = value
    return first, second
