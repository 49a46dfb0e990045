"""What the instrument itself costs: its CPU time while guests are measured, its time besides, and what it changes.

Main types: `OverheadUse` and `OverheadEffect`. A platform that is there twice, once without counters, shows what they
change: both are compared round by round, as platforms are with the host. Pure.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from virtoll.runfolder.overhead_records import OverheadSpan
from virtoll.runfolder.records import Manifest, PlatformEntry, TrialRecord
from virtoll.stats.compare import Comparison, compare
from virtoll.stats.summaries import known, median_of_known
from virtoll.stats.values import Observation, Task, grouped
from virtoll.stats.verdicts import Rules, decide


@dataclass(frozen=True)
class OverheadUse:
    """Over `trials` trials that were read, medians and largest values.

    `share`: CPU time per wall time (1 = one CPU) of the controller and its ended children, from request to answer: it
    contains the marks. `agents_share`: the same of the instrument's agents, of trials without traffic (they generate
    it); None where there is none. `besides_ns`: the trial's wall time outside these requests.
    """

    trials: int
    share: float
    largest_share: float
    agents_share: float | None
    besides_ns: float
    largest_besides_ns: float


@dataclass(frozen=True)
class OverheadEffect:
    """The results without counters as a share of those with them, of `platform` (its label with counters)."""

    platform: str
    comparison: Comparison


def overhead_uses(trials: Sequence[TrialRecord], *, counters: bool = True) -> OverheadUse | None:
    """Of `ok` trials with readings, with counters or without them; None where there are none."""
    shares, agents, besides = [], [], []
    for trial in trials:
        cost = trial.overhead
        if trial.status != "ok" or cost is None or cost.counters is not counters:
            continue
        passed = sum(map(_passed_ns, cost.measured))
        if passed <= 0:
            continue
        shares.append(sum(map(_controller_ns, cost.measured)) / passed)
        besides.append(_passed_ns(cost.trial) - passed)
        used = known(map(_agents_ns, cost.measured))
        if trial.points is None and len(used) == len(cost.measured):
            agents.append(sum(used) / passed)
    if not shares:
        return None
    return OverheadUse(
        trials=len(shares),
        share=statistics.median(shares),
        largest_share=max(shares),
        agents_share=median_of_known(agents),
        besides_ns=statistics.median(besides),
        largest_besides_ns=max(besides),
    )


def overhead_effects(
    manifest: Manifest,
    tasks: Sequence[Task],
    observations: Sequence[Observation],
    host: Mapping[Task, Sequence[Observation]],
    rules: Rules,
) -> tuple[OverheadEffect, ...]:
    """Every platform that is there with and without counters, by task; a family of its own.

    `host`: the baseline's values with those of its control, as platforms are compared with.
    """
    values = grouped(observations, lambda observation: (observation.platform, observation.task))
    twins = {entry.label: twin for entry in manifest.platforms if (twin := _twin(entry, manifest)) is not None}
    compared = []
    for label, twin in twins.items():
        for task in tasks:
            counted = host.get(task, ()) if twin == manifest.baseline else values.get((twin, task), ())
            compared.append(compare(task, label, values.get((label, task), ()), counted, None))
    decided, _ = decide([comparison for comparison in compared if comparison.pairs], [], rules)
    return tuple(OverheadEffect(twins[comparison.platform], comparison) for comparison in decided)


def _twin(entry: PlatformEntry, manifest: Manifest) -> str | None:
    """The same platform with counters."""
    if entry.counters:
        return None
    what = (entry.platform, entry.parameters, entry.host)
    others = [other for other in manifest.platforms if other.counters]
    return next((other.label for other in others if (other.platform, other.parameters, other.host) == what), None)


def _passed_ns(span: OverheadSpan) -> int:
    return span.after.monotonic_ns - span.before.monotonic_ns


def _controller_ns(span: OverheadSpan) -> int:
    controller_ns = span.after.controller_cpu_ns - span.before.controller_cpu_ns
    return controller_ns + span.after.children_cpu_ns - span.before.children_cpu_ns


def _agents_ns(span: OverheadSpan) -> int | None:
    """None where there are no agents, or one of them could not be read."""
    used = []
    for role, after in span.after.agents_cpu_ns.items():
        before = span.before.agents_cpu_ns.get(role)
        if before is None or after is None:
            return None
        used.append(after - before)
    return sum(used) if used else None
