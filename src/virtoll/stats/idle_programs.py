"""Programs that did little of what their values seem to say: that slept, or that were over before they told a rate.

A program slept if it took several times as long as it used the CPU, although it waited for nothing. Looked at are
programs that are known by their duration, and of which only a disk is waited for: those that stress CPU, memory or
disk. The CPU time is the guest's own, of the program and its children. The disk is waited for as long as any task of
the host was stalled for input or output (its pressure), in all of the trial: rather too much than too little. A busy
host lets a program wait for a CPU, but not in all of its trials: the least idle one counts.

A program has no rates if it reports rates and has none in any of its trials. Pure.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from virtoll.runfolder.records import FitnessRecord, TrialRecord, duration_ns
from virtoll.stats.cautions import Caution, Warned
from virtoll.stats.values import Task, TasksOf

MOST_IDLE: Final = 3.0
"""How many times as long as it works a program may take."""
WAITS_FOR_DISKS: Final = frozenset({"CPU", "memory", "disk"})
"""Resources of whose programs nothing but a disk keeps waiting: neither another host nor a server beside them."""

_Cell = tuple[str, Task]


def program_cautions(
    tasks: Sequence[Task], trials: Sequence[TrialRecord], fitness: Sequence[FitnessRecord]
) -> tuple[Warned, ...]:
    """Those of a run's programs, with the platforms that they concern."""
    stalled_ns = _stalled_ns(fitness)
    idle, without = list[_Cell](), list[_Cell]()
    for cell, programs in _programs(tasks, trials).items():
        if _is_idle(cell[1], programs, stalled_ns):
            idle.append(cell)
        if _has_no_rate(programs):
            without.append(cell)
    cells = {Caution.IDLE_PROGRAM: idle, Caution.NO_RATES: without}
    return tuple(Warned(caution, _words(concerned)) for caution, concerned in cells.items() if concerned)


def _programs(tasks: Sequence[Task], trials: Sequence[TrialRecord]) -> dict[_Cell, list[TrialRecord]]:
    """The believed trials of programs, by platform and primary task."""
    tasks_of = TasksOf(tasks)
    programs: dict[_Cell, list[TrialRecord]] = {}
    for trial in trials:
        if trial.status == "ok" and "argv" in (trial.result or {}):
            for task in tasks_of(trial):
                if task.metric.primary:
                    programs.setdefault((trial.platform, task), []).append(trial)
    return programs


def _is_idle(task: Task, programs: Sequence[TrialRecord], stalled_ns: Mapping[int, int]) -> bool:
    if task.metric.source != "marks" or task.metric.resource not in WAITS_FOR_DISKS:
        return False
    least = None
    for trial in programs:
        times = _idleness(trial, stalled_ns)
        if times is not None and (least is None or times < least):
            least = times
    return least is not None and least > MOST_IDLE


def _idleness(trial: TrialRecord, stalled_ns: Mapping[int, int]) -> float | None:
    """How many times as long as it worked or waited a program took; None where one of these was not read."""
    if trial.clock is None or trial.clock.guest is None or trial.trial not in stalled_ns:
        return None
    took_ns, guest = duration_ns(trial.clock), trial.clock.guest
    busy_ns = guest.user_cpu_ns + guest.system_cpu_ns + stalled_ns[trial.trial]
    return took_ns / busy_ns if took_ns and busy_ns > 0 else None


def _stalled_ns(fitness: Sequence[FitnessRecord]) -> dict[int, int]:
    """By trial, how long tasks of the host were stalled for a disk since the trial before; none without pressure."""
    stalled: dict[int, int] = {}
    before: int | None = None
    for record in fitness:
        now = record.pressure.io_some_us if record.pressure is not None else None
        if now is not None and before is not None and record.after_trial is not None:
            stalled[record.after_trial] = 1000 * (now - before)
        before = now
    return stalled


def _has_no_rate(programs: Sequence[TrialRecord]) -> bool:
    """Whether they report rates, and none of them in any trial."""
    reports = False
    for trial in programs:
        for name, value in ((trial.result or {}).get("figures") or {}).items():
            if name.endswith("_per_second"):
                reports = True
                if value is not None:
                    return False
    return reports


def _words(cells: Sequence[_Cell]) -> str:
    """'bonnie++ 16 MiB (native, runc)'."""
    platforms: dict[str, list[str]] = {}
    for platform, task in cells:
        platforms.setdefault(task.work, []).append(platform)
    return "; ".join(f"{work} ({', '.join(labels)})" for work, labels in platforms.items())
