"""Which runs of some folders make a history, and their values. Like `build` and `reproduction` it touches the disk.

Main type: `Gathered`; main function: `gather`. A run counts when it is complete and as it was when it ended: half a
night would stand among whole ones, and its blocks are not those of a plan.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import RunFolderError, UsageError, VirtollError
from virtoll.report import words
from virtoll.report.build import load_analysis
from virtoll.report.rows import grouped
from virtoll.runfolder.overview import Head, head
from virtoll.runfolder.sums import differences
from virtoll.stats.comparability import machine_of
from virtoll.stats.history import RunOfHistory, run_of_history

RunAndHead = tuple[Path, Head]
_STATES = {"running": "goes on", "killed": "was killed", "interrupted": "was interrupted"}


@dataclass(frozen=True)
class Gathered:
    """The runs of one experiment on one host, oldest first, with their folders; and a sentence for each left out."""

    experiment: str
    runs: tuple[RunOfHistory, ...]
    folders: tuple[Path, ...]
    left_out: tuple[str, ...]


def gather(
    folders: Sequence[Path],
    experiment: str | None = None,
    last: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Gathered:
    """The runs of the experiment, and of the host, of the newest complete run among them.

    `experiment`: of this name alone. `last`: so many of the newest. `tell`: is told how far it is, run by run. Runs of
    other experiments are left out without a word where one is asked for. UsageError where no run is left.
    """
    left_out: list[str] = []
    heads = sorted(_heads(folders, left_out), key=lambda entry: (entry[1].created_ns, entry[0].name))
    by_experiment = grouped(heads, lambda entry: entry[1].experiment)
    if experiment is not None and heads:
        if experiment not in by_experiment:
            known = ", ".join(sorted(by_experiment))
            raise UsageError(f"--experiment {experiment}: none of the {len(heads)} runs is of it; there are: {known}")
        heads = by_experiment[experiment]
    complete = list(_complete(heads, left_out))
    if not complete:
        raise UsageError(
            f"a history needs complete runs, and there is none{_because(left_out)}; 'virtoll run' makes one"
        )
    newest = complete[-1][1]
    here = _of_one_host(_of_one_experiment(complete, left_out), left_out)
    kept = dict(_read(here[-last:] if last is not None else here, left_out, tell))
    if not kept:
        raise UsageError(f"a history needs runs that can be read, and there is none{_because(left_out)}")
    return Gathered(newest.experiment, tuple(kept.values()), tuple(kept), tuple(left_out))


def _of_one_experiment(runs: Sequence[RunAndHead], left_out: list[str]) -> list[RunAndHead]:
    """Those of the newest run's experiment."""
    by_experiment = grouped(runs, lambda entry: entry[1].experiment)
    kept = by_experiment.pop(runs[-1][1].experiment)
    if by_experiment:
        count = words.counted(len(runs) - len(kept), "run")
        others = ", ".join(sorted(by_experiment))
        left_out.append(f"{count} of other experiments ({others}): --experiment takes one")
    return kept


def _of_one_host(runs: Sequence[RunAndHead], left_out: list[str]) -> list[RunAndHead]:
    """Those of the newest run's host."""
    by_machine = grouped(runs, lambda entry: machine_of(entry[1].host))
    kept = by_machine.pop(machine_of(runs[-1][1].host))
    if by_machine:
        count = words.counted(len(runs) - len(kept), "run")
        hosts = words.counted(len(by_machine), "other host")
        left_out.append(f"{count} of {hosts}: values of two hosts are never in one series")
    return kept


def _heads(folders: Iterable[Path], left_out: list[str]) -> Iterable[RunAndHead]:
    for folder in dict.fromkeys(folder.resolve() for folder in folders):
        try:
            yield folder, head(folder)
        except RunFolderError as error:
            left_out.append(str(error))


def _complete(heads: Iterable[RunAndHead], left_out: list[str]) -> Iterable[RunAndHead]:
    """Those that ended, each once: a copy says nothing that the run itself does not."""
    seen: dict[tuple[str, int], Path] = {}
    for folder, run_head in heads:
        begun = str(run_head.host["fingerprint"]), run_head.created_ns
        if run_head.state != "complete":
            left_out.append(f"{folder} {_STATES.get(run_head.state, run_head.state)}, and only a complete run counts")
        elif begun in seen:
            left_out.append(f"{folder} is the same run as {seen[begun]}")
        else:
            seen[begun] = folder
            yield folder, run_head


def _read(
    runs: Sequence[RunAndHead], left_out: list[str], tell: Callable[[str], None]
) -> Iterable[tuple[Path, RunOfHistory]]:
    """The values of each; its records are let go, so that many runs take no more memory than one."""
    for number, (folder, _) in enumerate(runs, 1):
        tell(f"reading run {number} of {len(runs)} ...")
        damage = differences(folder)
        if damage:
            left_out.append(f"{folder} is not as it was when its run ended: {'; '.join(damage)}")
            continue
        try:
            run = run_of_history(load_analysis(folder))
        except VirtollError as error:
            left_out.append(str(error))
            continue
        if run.values:
            yield folder, run
        else:
            left_out.append(f"{folder} has no value of a guest alone")


def _because(left_out: Sequence[str]) -> str:
    """What was found instead, where there is something."""
    return f" ({left_out[-1].rstrip('.')})" if left_out else ""
