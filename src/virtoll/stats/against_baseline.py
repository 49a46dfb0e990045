"""Every platform against the host, and the control against the baseline's own entries; not tested yet. Pure.

Main functions: `compare_all`, `host_labels`, `host_values` (what the host itself is measured as) and `host_states`.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from virtoll.stats.caveats import hosts_of, why_other_host
from virtoll.stats.comparability import agents_by_platform, why_platform_incomparable
from virtoll.stats.compare import Comparison, compare
from virtoll.stats.like_with_like import near_ones
from virtoll.stats.run_data import RunData
from virtoll.stats.states import TwoStates, two_states
from virtoll.stats.summaries import CellSummary
from virtoll.stats.values import Observation, Task, canonical, grouped


def compare_all(
    data: RunData,
    platforms: Sequence[str],
    tasks: Sequence[Task],
    observations: Sequence[Observation],
    caveats: Mapping[str, str],
    host: Mapping[Task, Sequence[Observation]],
) -> tuple[list[Comparison], list[Comparison]]:
    """Every platform against the host, and the control against the baseline's own entries; both untested.

    Empty without a baseline.
    """
    baseline, control = data.manifest.baseline, data.manifest.control
    if baseline is None:
        return [], []
    agents, hosts = agents_by_platform(data.boots), hosts_of(data.manifest)
    troubles = _Troubles(data)
    by_cell = grouped(observations, lambda observation: (observation.platform, observation.task))
    compared: list[Comparison] = []
    alike: list[Comparison] = []
    for platform in platforms:
        if platform == baseline:
            continue
        caveat = caveats.get(platform) or caveats.get(baseline)
        elsewhere = None if caveat else why_other_host(hosts, platform, baseline)
        refused = why_platform_incomparable(agents, platform, baseline) or elsewhere
        for task in tasks:
            entries = () if refused else by_cell.get((platform, task), ())
            why = refused or troubles.of(platform, task) or troubles.of(baseline, task)
            if platform == control:
                others = by_cell.get((baseline, task), ())
                alike.append(compare(task, platform, entries, others, why, caveat))
            else:
                compared.append(compare(task, platform, entries, host.get(task, ()), why, caveat))
    return compared, alike


def observations_in(
    cells: Mapping[tuple[str, Task], CellSummary], platform: str, task: Task
) -> tuple[Observation, ...]:
    """The values of a cell; empty where it has none."""
    cell = cells.get((platform, task))
    return cell.observations if cell is not None else ()


def host_labels(data: RunData, caveats: Mapping[str, str]) -> frozenset[str]:
    """The baseline, and its control where that ran on the same host without a caveat; none without a baseline."""
    baseline, control = data.manifest.baseline, data.manifest.control
    if baseline is None:
        return frozenset()
    if control is None or control in caveats or why_other_host(hosts_of(data.manifest), control, baseline) is not None:
        return frozenset((baseline,))
    refused = why_platform_incomparable(agents_by_platform(data.boots), control, baseline)
    return frozenset((baseline, control) if refused is None else (baseline,))


def host_values(
    baseline: str | None, observations: Sequence[Observation], labels: Collection[str]
) -> dict[Task, list[Observation]]:
    """The values of the host, which is measured as `labels`, by task.

    Empty where nothing of the baseline itself was measured: the control alone is no baseline.
    """
    tasks = {observation.task for observation in observations if observation.platform == baseline}
    by_task: dict[Task, list[Observation]] = {}
    for observation in observations:
        if observation.platform in labels and observation.task in tasks:
            by_task.setdefault(observation.task, []).append(observation)
    return by_task


def host_states(
    data: RunData,
    platforms: Sequence[str],
    tasks: Sequence[Task],
    cells: Mapping[tuple[str, Task], CellSummary],
    host: Mapping[Task, Sequence[Observation]],
) -> tuple[TwoStates, ...]:
    """The tasks that the host ran at two speeds, whatever its CPUs' distance, and which platforms show the same."""
    compared = [label for label in platforms if label not in (data.manifest.baseline, data.manifest.control)]
    states = []
    for task in tasks:
        values = {label: observations_in(cells, label, task) for label in compared}
        state = two_states(task, near_ones(host.get(task, ())), values)
        if state is not None:
            states.append(state)
    return tuple(states)


class _Troubles:
    """Why cells have no value."""

    def __init__(self, data: RunData) -> None:
        unavailable = [entry for entry in reversed(data.manifest.platforms) if not entry.available]
        self._unavailable = {entry.label: entry.reason for entry in unavailable}
        self._reasons: dict[tuple[str, str, str], Counter[str]] = {}
        for trial in data.trials:
            if trial.status != "ok":
                where = trial.platform, trial.workload, canonical(trial.parameters)
                self._reasons.setdefault(where, Counter())[f"{trial.status}: {trial.reason}"] += 1

    def of(self, platform: str, task: Task) -> str:
        """The most frequent reason; empty where none is known."""
        if platform in self._unavailable:
            return f"{platform} is not available: {self._unavailable[platform]}"
        reasons = self._reasons.get((platform, task.workload, task.parameters))
        return f"{platform} {reasons.most_common(1)[0][0]}" if reasons else ""
