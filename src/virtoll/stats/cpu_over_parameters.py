"""How many of the host's CPUs a guest takes while a workload runs, as one more metric of that workload. Pure.

Main type: `CpuCells`. The values stand beside the workload's own over a parameter (`over_parameters.py`): over requests
a second, threads, jobs. No verdict rests on them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.records import TrialRecord
from virtoll.stats.guests import cpus_used
from virtoll.stats.summaries import CellSummary, summarise
from virtoll.stats.values import Observation, Task, canonical

NAME, UNIT = "host_cpu_use", "CPUs"


@dataclass(frozen=True)
class CpuCells:
    """The tasks of that metric, and their values by platform, task and condition."""

    tasks: tuple[Task, ...]
    cells: Mapping[tuple[str, Task, str], CellSummary]


def cpu_cells(tasks: Sequence[Task], trials: Iterable[TrialRecord]) -> CpuCells:
    """Of `ok` trials that were read around what they measure; frames have their CPU time apart.

    `trials`: those of the guest alone, and of the guest beside others.
    """
    cpu_tasks: dict[tuple[str, str], Task] = {}
    for task in tasks:
        if task.shape is None:
            metric = task.metric.replace(name=NAME, unit=UNIT, better="lower", source="host_cpu", primary=False)
            cpu_tasks.setdefault((task.workload, task.parameters), replace(task, metric=metric))
    groups: dict[tuple[str, Task, str], list[Observation]] = {}
    for position, trial in enumerate(trials):
        cpu_task = cpu_tasks.get((trial.workload, canonical(trial.parameters)))
        used = cpus_used(trial.host_cpu)
        if cpu_task is None or trial.status != "ok" or not used:
            continue
        condition = trial.condition.label if trial.condition is not None else ALONE
        value = Observation(cpu_task, trial.platform, trial.trial, trial.block, position, used, round=trial.round)
        groups.setdefault((trial.platform, cpu_task, condition), []).append(value)
    cells = {key: summarise(group) for key, group in groups.items()}
    return CpuCells(tuple(cpu_tasks.values()), cells)
