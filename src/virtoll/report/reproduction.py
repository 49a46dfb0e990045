"""A study reproduced: one page, and tables as CSV, of all runs that repeat one of the four papers.

Each run is read, analysed and judged by itself; outcomes are joined (`claims/joined.py`), and values never. Like
`build`, this module touches the disk.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path

from virtoll.claims import judge_claims, published_claims, then_and_now
from virtoll.claims.joined import Ledger, join_ledgers
from virtoll.claims.paper_figures import figures_of_study, marks_of
from virtoll.claims.paper_levels import levels_of, sizes_of
from virtoll.claims.then_and_now import standing_for
from virtoll.errors import UsageError
from virtoll.reference.published import Study, load_study, study_names
from virtoll.report import headline, words
from virtoll.report.build import load_analysis
from virtoll.report.drawing import Drawer
from virtoll.report.page_files import write_folder
from virtoll.report.paper_words import short_name
from virtoll.report.reproduction_page import drawings_of, render_reproduction
from virtoll.report.reproduction_runs import PaperSize, Reproduction, RunOf
from virtoll.report.reproduction_tables import reproduction_tables
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences
from virtoll.stats.analysis import Analysis
from virtoll.stats.values import title_of


def build_reproduction(
    study: str, folders: Sequence[Path], target: Path, paper: Mapping[str, PaperSize] | None = None
) -> Reproduction:
    """Make the page `index.html`, `figures/` and `tables/` in `target`, anew, from runs that are there.

    `paper`: the study's experiments as the paper ran them, by name; None: no size is compared.

    UsageError where the study is not known or a run is there twice, RunFolderError where a run cannot be read,
    DrawingError where a figure is not drawn, StorageError where the page cannot be written.
    """
    known = _known(study)
    named_folders = named(folders)
    _refuse_copies(named_folders.values())
    with Drawer() as drawer:
        runs = [_read(name, folder, known) for name, folder in named_folders.items()]
        reproduction = together(known, runs, target, paper)
        drawings = drawings_of(reproduction, drawer.rendered)
        page = partial(render_reproduction, reproduction, drawings)
        write_folder(target, reproduction_tables(reproduction), page, drawings.values())
    return reproduction


def study_presets(study: str) -> tuple[str, ...]:
    """The experiments that repeat a study, by name; UsageError where it is not known."""
    return _known(study).presets


def _known(study: str) -> Study:
    if study not in study_names():
        raise UsageError(f"study {study!r} is not known; choose one of: {', '.join(study_names())}")
    return load_study(study)


def named(folders: Sequence[Path]) -> dict[str, Path]:
    """Runs by the shortest end of their path that tells them apart: `schlosser2011`, or `one/schlosser2011`."""
    resolved = list(dict.fromkeys(folder.resolve() for folder in folders))
    return {_short_name(folder, resolved): folder for folder in resolved}


def _short_name(folder: Path, folders: Sequence[Path]) -> str:
    for depth in range(1, len(folder.parts)):
        end = "/".join(folder.parts[-depth:])
        if [other for other in folders if str(other).endswith(f"/{end}")] == [folder]:
            return end
    return str(folder)


def _refuse_copies(folders: Iterable[Path]) -> None:
    """A copy says nothing that the run itself does not, and would count as another run."""
    seen: dict[tuple[str, int], Path] = {}
    for folder in folders:
        manifest = RunFolder.open(folder).manifest
        begun = str(manifest.host["fingerprint"]), manifest.created_realtime_ns
        if begun in seen:
            raise UsageError(f"{seen[begun]} and {folder} are the same run; leave one of them out")
        seen[begun] = folder


def _read(name: str, folder: Path, study: Study) -> RunOf:
    """One run; its records are let go, so that many runs take no more memory than one."""
    return run_of(name, folder, load_analysis(folder), study, damage=tuple(differences(folder) or ()))


def run_of(name: str, folder: Path, analysis: Analysis, study: Study, *, damage: tuple[str, ...] = ()) -> RunOf:
    """What is told of one run: judged by the study's claims, and beside its numbers."""
    counts: Counter[str] = Counter()
    for statuses in analysis.statuses.values():
        counts.update(statuses)
    manifest, figures = analysis.data.manifest, figures_of_study(study.name)
    measured = [trial for trial in analysis.data.every_trial if trial.status == "ok"]
    claims = [claim for claim in published_claims() if claim.paper == study.name]
    return RunOf(
        name=name,
        folder=folder,
        manifest=analysis.data.manifest,
        state=analysis.data.state,
        blocks=words.blocks_words(analysis),
        counts=tuple((+counts).items()),
        damage=damage,
        ledger=judge_claims(analysis, claims),
        then_and_now=then_and_now(analysis),
        figures=tuple(marks_of(figure, analysis) for figure in figures),
        fitness=headline.host_line(analysis),
        level=analysis.fitness.level,
        control=headline.control_line(analysis),
        levels=tuple(tuple(levels_of(part, measured) for part in figure.parts) for figure in figures),
        sizes=sizes_of(measured),
        titles={task.workload: title_of(task.metric) for task in reversed(analysis.tasks) if task.metric.primary},
        stands_for=_stands_for(analysis),
        standing={platform.key: standing_for(platform, manifest) for platform in study.platforms},
    )


def _stands_for(analysis: Analysis) -> dict[str, str]:
    """By label what of the paper a platform is in the place of, in short."""
    names = {}
    for entry in analysis.data.manifest.platforms:
        if entry.stands_for:
            names[entry.label] = short_name(entry.stands_for)
    return names


def together(
    study: Study, runs: Sequence[RunOf], target: Path, paper: Mapping[str, PaperSize] | None = None
) -> Reproduction:
    """The runs with what they say together."""
    joined = join_ledgers([Ledger(run.name, run.host, run.ledger) for run in runs])
    return Reproduction(study, tuple(runs), joined, target, paper or {})
