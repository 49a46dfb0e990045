"""The sizes of a study's runs beside the paper's, in words: one table of both, and what of each figure is absent.

No numbers are computed here: they come from `claims/paper_levels.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import filterfalse

from virtoll import units
from virtoll.claims.paper_figures import PaperFigure
from virtoll.claims.paper_levels import SEARCH, Lacking, Levels, lacking_of, levels_of, sizes_of
from virtoll.report import words
from virtoll.report.paper_words import NOUNS, level_text, parameter_words
from virtoll.report.reproduction_runs import PaperSize, Reproduction, RunOf
from virtoll.runfolder.records import PlannedTrial
from virtoll.stats.compared import Scalar


@dataclass(frozen=True)
class SizeRow:
    """One size of a run and the paper's; `what`: of which workload, empty where it is of all."""

    run: str
    what: str
    parameter: str
    here: str
    paper: str


def size_rows(reproduction: Reproduction) -> list[SizeRow]:
    """What differs between each run and its experiment as the paper ran it."""
    rows: list[SizeRow] = []
    for run in reproduction.runs:
        paper = reproduction.paper.get(run.experiment)
        if paper is not None:
            rows += _of_run(run, paper)
    return rows


def _of_run(run: RunOf, paper: PaperSize) -> Iterator[SizeRow]:
    guest = run.manifest.experiment.get("guest") or {}
    blocks = max((trial.block + 1 for trial in run.manifest.plan.trials), default=0)
    plain = [("repetitions", str(blocks), str(paper.blocks))]
    if paper.memory_bytes is not None and guest.get("memory_bytes"):
        plain.append(("memory of a guest", units.size(guest["memory_bytes"]), units.size(paper.memory_bytes)))
    if paper.vcpus is not None and guest.get("vcpus"):
        plain.append(("virtual CPUs of a guest", str(guest["vcpus"]), str(paper.vcpus)))
    for parameter, here, there in plain:
        if here != there:
            yield SizeRow(run.name, "", parameter, here, there)
    of_paper = sizes_of(paper.trials)
    for workload, levels in run.sizes.items():
        for lacking in _differing(levels, of_paper.get(workload, {})):
            yield SizeRow(
                run.name,
                run.titles.get(workload, workload),
                parameter_words(lacking.parameter),
                _listed(lacking.parameter, lacking.here),
                _listed(lacking.parameter, lacking.paper),
            )


def _differing(here: Levels, paper: Levels) -> Iterator[Lacking]:
    for name, values in paper.items():
        if name not in SEARCH and name in here and set(here[name]) != set(values):
            yield Lacking(name, here[name], values)


def _listed(name: str, values: Sequence[Scalar]) -> str:
    """Values with commas, what they count once: '200, 600 Mbit/s'."""
    texts = list(map(partial(level_text, name), values))
    bare = list(map(partial(_without_noun, name), texts))
    if len(texts) == 1 or set(texts) & set(bare):
        return words.with_commas(*texts)
    return f"{words.with_commas(*bare)} {NOUNS[name]}"


def _without_noun(name: str, text: str) -> str:
    """A value in words without what it counts; as it is where it counts nothing."""
    noun = NOUNS.get(name, "")
    return text.removesuffix(f" {noun}").removesuffix(f" {noun.removesuffix('s')}")


def lacking_words(reproduction: Reproduction, place: int, figure: PaperFigure) -> list[str]:
    """What of the paper's figure no run has, each in a few words; none where all was measured."""
    trials: list[PlannedTrial] = []
    for paper in reproduction.paper.values():
        trials += paper.trials
    texts: dict[str, None] = {}
    for number, part in enumerate(figure.parts):
        here = _together(run.levels[place][number] for run in reproduction.runs)
        if here:
            for lacking in lacking_of(here, levels_of(part, trials)):
                texts[_words(lacking)] = None
    absent = list(_absent_platforms(reproduction, place, figure))
    if absent:
        texts[f"nothing in the place of {words.with_commas(*absent)}"] = None
    return list(texts)


def _together(levels: Iterable[Levels]) -> Levels:
    values: dict[str, dict[Scalar, None]] = {}
    for of_run in levels:
        for name, some in of_run.items():
            values.setdefault(name, {}).update(dict.fromkeys(some))
    return {name: tuple(some) for name, some in values.items()}


def _absent_platforms(reproduction: Reproduction, place: int, figure: PaperFigure) -> Iterator[str]:
    """The paper's platforms in a figure that nothing stands for which was measured there."""
    standing: set[str] = set()
    for run in reproduction.runs:
        measured: set[str] = set()
        for marks in run.figures[place]:
            measured.update(mark.platform for mark in marks)
        for key, labels in run.standing.items():
            if measured.intersection(labels):
                standing.add(key)
    for platform in reproduction.study.platforms:
        if platform.key not in standing and (not figure.platforms or platform.key in figure.platforms):
            yield platform.name.replace(", ", " ")


def _words(lacking: Lacking) -> str:
    """'2 of 4 senders', '20 of 130 kpackets/s', 'without 504 B'."""
    name, here, paper = lacking.parameter, lacking.here, lacking.paper
    numbers = _numbers(here), _numbers(paper)
    if numbers[0] and numbers[1] and max(numbers[0]) < max(numbers[1]):
        return _part_of(name, max(numbers[0]), max(numbers[1]))
    missing = tuple(filterfalse(here.__contains__, paper))
    if not set(here) & set(paper):
        return f"{parameter_words(name)} {_listed(name, here)} in place of {_listed(name, paper)}"
    return f"{parameter_words(name)} without {_listed(name, missing)}"


def _numbers(values: Iterable[Scalar]) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _part_of(name: str, here: float, paper: float) -> str:
    if name in NOUNS:
        return f"{_without_noun(name, level_text(name, here))} of {level_text(name, paper)}"
    return f"{parameter_words(name)} {level_text(name, here)} of {level_text(name, paper)}"


def stands_in(reproduction: Reproduction) -> Mapping[str, str]:
    """By label what of the paper a platform is in the place of, in words; of those that are in any's place."""
    stands: dict[str, str] = {}
    for run in reproduction.runs:
        stands |= run.stands_for
    return stands
