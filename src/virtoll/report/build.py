"""From a run folder to its report: read, analyse, draw, write.

It, `reproduction`, `compared_page` and the two modules of a history alone touch the disk, by `page_files` too.
"""

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from virtoll.advise.gate import Threshold, judge_gate
from virtoll.claims import Claim, Judged, judge_claims, published_claims, study_of, then_and_now
from virtoll.errors import RunFolderError, StorageError, UsageError
from virtoll.report import words
from virtoll.report.advice import AdviceView, Adviser
from virtoll.report.drawing import Drawer, Drawing
from virtoll.report.exports import export_texts, exports_of
from virtoll.report.figures import figures_of
from virtoll.report.figures.base import FigureSpec
from virtoll.report.gate import GateView, gate_view
from virtoll.report.page import render_page
from virtoll.report.page_files import write_page, write_tables
from virtoll.report.renewal import renewed
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import grouped
from virtoll.report.tables import csv_tables
from virtoll.runfolder.damage import damage_told
from virtoll.runfolder.looks import Looks
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.plain import refuse_unplain
from virtoll.runfolder.records import LookRecord, PlannedTrial, State, TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences, unchecked
from virtoll.stats.analysis import Analysis, RunData, analyse
from virtoll.stats.compare import LEVEL
from virtoll.stats.foreseen import foreseen
from virtoll.stats.looks import look
from virtoll.stats.ratios import Ratios


@dataclass(frozen=True)
class ReportResult:
    """Where the page is, the ledger of claims, and the analysis that all came from.

    `damage`: what of the run folder is not as it was when the run ended; None where it has no digests. `advice`: on
    the needs of a user, `gate`: on the run's thresholds; None where there are none.
    """

    path: Path
    ledger: tuple[Judged, ...]
    analysis: Analysis
    damage: tuple[str, ...] | None
    advice: AdviceView | None = None
    gate: GateView | None = None


def load(run_directory: Path) -> RunData:
    """Everything a run folder holds, partial or whole; RunFolderError where it cannot be read."""
    folder = RunFolder.open(run_directory)
    latest = folder.latest_trials()
    boots, groups = folder.boots(), folder.groups()
    _refuse_foreign(folder, latest)
    _refuse_unknown(folder, "boots.jsonl", [boot.platform for boot in boots])
    _refuse_unknown(folder, "groups.jsonl", [group.platform for group in groups])
    by_kind = grouped(latest, _kind)
    return RunData(
        manifest=folder.manifest,
        state=_state(folder),
        trials=tuple(by_kind.get("alone", ())),
        with_neighbours=tuple(by_kind.get("with neighbours", ())),
        at_once=tuple(by_kind.get("at once", ())),
        groups=groups,
        warm_ups=tuple(by_kind.get("warm-up", ())),
        boots=boots,
        commands=folder.commands(),
        fitness=folder.fitness(),
        calibrations=folder.calibrations(),
        footprints=folder.footprints(),
        consolidation=folder.consolidation(),
        looks=folder.looks(),
        observed=folder.explanations.observed(),
    )


def _kind(trial: TrialRecord) -> str:
    if trial.warm_up:
        return "warm-up"
    if trial.condition is not None:
        return "with neighbours"
    return "alone" if trial.scale is None else "at once"


def _state(folder: RunFolder) -> State:
    """The state; of a run that nobody writes any more, and that did not end, that it was killed."""
    if state_now(folder.path) == "killed":
        return State("interrupted", "it was killed")
    return folder.state()


def _refuse_foreign(folder: RunFolder, latest: Sequence[TrialRecord]) -> None:
    """RunFolderError for a trial that is not the one of its number in the plan: of another run, or damaged."""
    planned = {trial.trial: trial for trial in folder.manifest.plan.trials}
    for trial in latest:
        planned_trial = planned.get(trial.trial)
        if planned_trial is None or _what(planned_trial) != _what(trial):
            line = max(number for number, other in enumerate(folder.trials(), 1) if other.trial == trial.trial)
            what = "no such trial"
            if planned_trial is not None:
                what = f"{planned_trial.platform}, {planned_trial.workload} with 'block': {planned_trial.block} there"
            raise RunFolderError(
                f"{folder.path}/trials.jsonl, line {line}: trial {trial.trial} is of {trial.platform}, "
                f"{trial.workload} in 'block': {trial.block}, and the plan in manifest.json has {what}. One of them is "
                "of another run, or damaged: restore the folder."
            )


def _what(trial: PlannedTrial | TrialRecord) -> tuple[object, ...]:
    return trial.platform, trial.workload, trial.block, trial.parameters, trial.condition, trial.scale


def _refuse_unknown(folder: RunFolder, name: str, platforms: Sequence[str]) -> None:
    """RunFolderError for a line, one after the other, whose platform is not among the manifest's."""
    labels = {entry.label for entry in folder.manifest.platforms}
    for line, platform in enumerate(platforms, 1):
        if platform not in labels:
            raise RunFolderError(
                f"{folder.path}/{name}, line {line}: platform: {platform!r} is not among those of manifest.json. One "
                "of them is of another run, or damaged: restore the folder."
            )


def load_analysis(run_directory: Path) -> Analysis:
    """The analysis of a run folder, without a report; RunFolderError where it cannot be read."""
    with _garbage_left(), damage_told(run_directory):
        return analyse(load(run_directory))


@contextmanager
def _garbage_left() -> Iterator[None]:
    """Nothing is searched for garbage: of a million records none is, and searching took longer than reading them."""
    searched = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searched:
            gc.enable()


def look_at(folder: RunFolder, blocks: int) -> LookRecord:
    """What the results so far decide, after so many blocks."""
    return look(load_analysis(folder.path), blocks)


@dataclass(frozen=True)
class Foreseen:
    """Which differences so many blocks would show, by the noise of an earlier run: factors above 1, by task."""

    run: str
    blocks: int
    factors: dict[str, float]

    @property
    def line(self) -> str:
        """In one sentence."""
        limits = ", ".join(f"{task} {words.smallest(factor)}" for task, factor in self.factors.items())
        lead = f"by run {self.run} of this host, {self.blocks} blocks show in 8 of 10 runs a difference of a factor of"
        return f"{lead}: {limits}"


def foreseen_by(run_directory: Path, blocks: int, looks: Looks | None) -> Foreseen:
    """What a run of so many blocks, at the level of its looks, would show on the host of an earlier run."""
    earlier = load_analysis(run_directory)
    level = LEVEL if looks is None else looks.level_at(blocks)
    factors = foreseen(earlier.comparisons, earlier.control, blocks, level=level)
    return Foreseen(run_directory.name, blocks, {task.label: factor for task, factor in factors.items()})


def ledger_of(analysis: Analysis, claims: Sequence[Claim] = (), ratios: Ratios | None = None) -> tuple[Judged, ...]:
    """What a run says about claims of a user's own, and then about those of the studies if its experiment names one.

    `ratios`: the run's, where they are there already.
    UsageError where two claims have one identifier, or where a value's unit is not what was read.
    """
    every = (*claims, *(published_claims() if study_of(analysis) is not None else ()))
    ids = Counter(claim.id for claim in (*claims, *published_claims()))
    for name, count in ids.items():
        if count > 1:
            raise UsageError(f"claim {name} is there twice; give one of yours another id than the published ones have")
    return judge_claims(analysis, every, ratios)


def build_report(
    run_directory: Path,
    output: Path | None = None,
    claims: Sequence[Claim] = (),
    renewed_seconds: int | None = None,
    adviser: Adviser | None = None,
    *,
    thresholds: Sequence[Threshold] = (),
) -> ReportResult:
    """Make the page, `figures/`, `tables/` and the methods in `output` (default: the run folder's `report/`), anew.

    `claims`: of a user's own; those of the studies are judged if the experiment names a study. `renewed_seconds`: how
    often a browser is to read the page again, while the run goes on; None: not at all. `adviser`: who knows the user's
    needs; None: there are none.
    `thresholds`: by which the run is judged, if there are any. Raises RunFolderError (the run cannot be read, or its
    folder is not plain), DrawingError (a figure is not drawn) and StorageError (the report cannot be written); the old
    report is then as it was.
    """
    target = output if output is not None else run_directory / "report"
    if target.parent == run_directory:
        refuse_unplain(run_directory)
    with Drawer() as drawer:
        with _garbage_left(), damage_told(run_directory):
            analysis = analyse(load(run_directory))
            gc.freeze()  # what figures leave behind is searched for and freed; the records are no part of that search
        try:
            with damage_told(run_directory):
                return _built(
                    analysis,
                    run_directory,
                    target,
                    claims,
                    renewed_seconds,
                    adviser=adviser,
                    thresholds=thresholds,
                    drawer=drawer,
                )
        finally:
            gc.unfreeze()


def _built(
    analysis: Analysis,
    run_directory: Path,
    target: Path,
    claims: Sequence[Claim],
    renewed_seconds: int | None,
    *,
    adviser: Adviser | None,
    thresholds: Sequence[Threshold],
    drawer: Drawer,
) -> ReportResult:
    """What the process of `drawer` draws is asked for first, and waited for last."""
    source = ReportInput(analysis)
    figures = figures_of(source)
    drawings = _drawings(drawer, analysis, figures)
    ratios = Ratios(analysis)
    if study_of(analysis) is not None:
        source = replace(source, then_and_now=then_and_now(analysis, ratios))
    of_papers = {name: figure for name, figure in figures_of(source).items() if name not in figures}
    drawings |= _drawings(drawer, analysis, of_papers)
    advice = adviser(analysis) if adviser is not None else None
    source = replace(source, ledger=ledger_of(analysis, claims, ratios))
    del ratios  # its cells are of no use to the page
    damage, exports = differences(run_directory), exports_of(analysis)
    gate = gate_view(judge_gate(analysis, thresholds, damage or ())) if thresholds else None
    try:
        with renewed(target) as folder:
            page = render_page(
                source,
                drawings,
                damage=damage or (),
                unchecked=unchecked(run_directory) if analysis.data.state.state == "complete" else (),
                renewed_seconds=renewed_seconds,
                tables=write_tables(folder, csv_tables(source)),
                exports=exports,
                advice=advice,
                gate=gate,
            )
            write_page(folder, page, drawings.values())
            for name, text in export_texts(exports).items():
                (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise StorageError(f"cannot write the report to {target}: {reason}. Report a copy of the run.") from error
    return ReportResult(target / "index.html", tuple(source.ledger), analysis, damage, advice, gate)


def _drawings(drawer: Drawer, analysis: Analysis, specs: Mapping[str, FigureSpec]) -> dict[str, Drawing]:
    """Of those that have something to draw, by name."""
    return {name: drawer.render(name, spec, analysis) for name, spec in specs.items() if spec.why_not(analysis) is None}
