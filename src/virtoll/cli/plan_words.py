"""What ``virtoll plan`` says of a plan in words: a table of its cells, what is skipped and why, and its warnings."""

from __future__ import annotations

import os
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from virtoll import units
from virtoll.cli.output import MOST_COLUMNS
from virtoll.experiment.model import Experiment, PlatformChoice
from virtoll.experiment.plan import Plan
from virtoll.host.readings import memory_bytes
from virtoll.pipeline.preview import whole_seconds

_FEWEST_BLOCKS = 3
Cell = tuple[str, str]


def table_lines(experiment: Experiment, plan: Plan, reasons: Mapping[int, str | None]) -> Iterator[str]:
    """Trials and time of each platform (row) and workload (column), in as many tables as the terminal's width asks.

    ``reasons``: why a trial, by its number, will be skipped; None: it will not.
    """
    counts: Counter[Cell] = Counter()
    seconds: defaultdict[Cell, float] = defaultdict(float)
    skipped: Counter[Cell] = Counter()
    for trial in plan.trials:
        cell = (trial.platform.label, trial.workload.workload)
        if reasons[trial.number] is not None:
            skipped[cell] += 1
            continue
        counts[cell] += 1
        seconds[cell] += whole_seconds(trial)
    there = {label for label, _ in (*counts, *skipped)}
    labels = [choice.label for choice in experiment.platforms if choice.label in there]
    workloads = dict.fromkeys(choice.workload for choice in experiment.workloads)
    if not labels:
        return
    columns = []
    for workload in workloads:
        cells = ((label, workload) for label in labels)
        columns.append([workload, *(_cell(counts[cell], seconds[cell], skipped[cell]) for cell in cells)])
    head = ["trials, time", *labels]
    width = min(shutil.get_terminal_size((80, 24)).columns, MOST_COLUMNS)  # without rich
    for part in _fitting(head, columns, width):
        widths = [max(map(len, column)) for column in part]
        for row in zip(*part, strict=True):
            yield "  ".join(text.ljust(wide) for text, wide in zip(row, widths, strict=True)).rstrip()


def _fitting(head: list[str], columns: Sequence[list[str]], width: int) -> Iterator[list[list[str]]]:
    """The columns in groups that are no wider than ``width`` with the head; one at least in each."""
    group = [head]
    for column in columns:
        wide = sum(max(map(len, cells)) + 2 for cells in [*group, column])
        if len(group) > 1 and wide - 2 > width:
            yield group
            group = [head]
        group.append(column)
    yield group


def _cell(count: int, seconds: float, skipped: int) -> str:
    if not count:
        return "skipped" if skipped else "-"
    time = units.time_to_come(seconds) if seconds >= 1 else "<1 s"
    return f"{count}, {time}" + (f" ({skipped} skipped)" if skipped else "")


def against_lines(experiment: Experiment) -> Iterator[str]:
    """What is measured against what, in one sentence, and in another which platforms are left out because of it."""
    if not experiment.pairs:
        return
    labels = ", ".join(first for first, _ in experiment.pairs)
    yield f"{labels} (A) against the same with {' and '.join(experiment.against)} (B), side by side in each round"
    if experiment.unconcerned:
        yield f"left out, as that does not concern them: {', '.join(experiment.unconcerned)}"


def skipped_lines(plan: Plan, reasons: Mapping[int, str | None]) -> Iterator[str]:
    """Each reason once for a platform and a workload, with how many trials it is about."""
    counts = Counter(
        (trial.platform.label, trial.workload.workload, reason)
        for trial in plan.trials
        if (reason := reasons[trial.number]) is not None
    )
    for (label, workload, reason), count in counts.items():
        yield f"skipped: {workload} on {label}, {count} trial{'s' if count > 1 else ''}: {reason}"


def memory_line(experiment: Experiment, sizes: Counter[int], total: int, guests: int) -> str:
    """How many guests are up at once, and the most that any of them take together.

    ``sizes``: how many of how many bytes take the most; ``guests``: how many there are at most, which may be more.
    """
    number = "1 guest" if guests == 1 else f"up to {guests} guests at once"
    each = f", {units.size(next(iter(sizes)))} each" if len(sizes) == 1 else ""
    if guests != sizes.total():
        each = f"; the most memory is that of {sizes.total()}{each}"
    has = _host_memory(experiment)
    of = f" of {units.size(has)}" if has is not None else ""
    return f"memory: {number}{each} ({units.size(total)}{of})"


def warnings_of(experiment: Experiment, total: int) -> list[str]:
    """What the result would lack, or the host has not; ``total``: bytes of the memory of all guests at once."""
    sentences: list[str] = []
    if experiment.scenario == "consolidation":
        return sentences
    if experiment.baseline is not None and experiment.control is None:
        baseline = next(choice for choice in experiment.platforms if choice.label == experiment.baseline)
        sentences.append(
            f"no A/A control, so the report cannot say how much {baseline.label} differs from itself; "
            f"{_control_for(baseline)}"
        )
    if experiment.baseline is not None and experiment.order != "paper" and experiment.blocks < _FEWEST_BLOCKS:
        blocks = "1 block decides" if experiment.blocks == 1 else f"{experiment.blocks} blocks decide"
        sentences.append(
            f"{blocks} next to nothing, because a verdict compares blocks; give 'blocks: {_FEWEST_BLOCKS}' or more"
        )
    has = _host_memory(experiment)
    if has is not None and total > has:
        sentences.append(
            f"guests at once are given {units.size(total)}, and this host has {units.size(has)}; "
            "lower 'guest.memory', or choose fewer platforms"
        )
    cpus = os.cpu_count()
    if has is not None and cpus is not None and experiment.most_vcpus > cpus:
        sentences.append(
            f"a guest has {experiment.most_vcpus} virtual CPUs, and this host has {cpus} CPUs; lower 'guest.vcpus'"
        )
    return sentences


def _control_for(baseline: PlatformChoice) -> str:
    """How to add an A/A control of the baseline."""
    if baseline.platform == "native":
        return "add native-again to 'platforms'"
    if baseline.parameters.pre_provisioned:
        return "add a second guest that was made alike to 'platforms', and name it as 'control'"
    return f"add a second entry of {baseline.platform} with a 'label' to 'platforms', and name it as 'control'"


def _host_memory(experiment: Experiment) -> int | None:
    """Bytes of this host's memory; None where guests are elsewhere, or it is not told."""
    if any(choice.host is not None or choice.parameters.pre_provisioned for choice in experiment.platforms):
        return None
    return memory_bytes(Path("/"), "MemTotal")


def duration_words(seconds: float) -> str:
    """How long a plan takes, as far as it is known before: 'about 4.6 min'."""
    return "less than a minute" if seconds < 60 else f"about {units.time_to_come(seconds)}"
