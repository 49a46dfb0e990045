"""The page of a reproduced study as text: runs, joined ledger, then and now. No numbers are computed here."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from virtoll.claims import Outcome
from virtoll.claims.joined import Joined
from virtoll.claims.published_rows import questions, why_not_comparable
from virtoll.claims.then_and_now import PublishedAnswer
from virtoll.report import words
from virtoll.report.drawing import Drawing
from virtoll.report.figures.papers_again import again_figures, caption, labels, titles
from virtoll.report.figures.style import Specification, Width
from virtoll.report.headline import level_class
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.paper_figures import figure_views
from virtoll.report.paper_sizes import size_rows
from virtoll.report.paper_words import as_the_paper_counts
from virtoll.report.reproduction_runs import Reproduction, RunOf
from virtoll.report.reproduction_tables import reproduction_tables
from virtoll.report.rows import grouped
from virtoll.report.sections.claims.page import OUTCOME_CLASS, OUTCOMES, ClaimView, outcomes_line, outcomes_shown, view
from virtoll.report.sections.claims.tables import claims_document
from virtoll.report.sections.then_and_now.figure import of_run
from virtoll.report.sections.then_and_now.page import PublishedView, place, published_view
from virtoll.version import __version__

RULE = (
    "Each run is judged by itself, and outcomes are joined, never values. On one host, a test is refuted where any run "
    "refutes it, and supported where at least one run supports it and none refutes it; a claim follows from its tests "
    "as in a single run. Hosts are joined by the same rule, claim by claim. A single run is wrong about a claim with a "
    "chance of at most 5 %, so several are with at most as many times 5 % as runs measured the claim (Bonferroni)."
)


@dataclass(frozen=True)
class RunView:
    """One run as a row: `link` to its own page, None if it has none; `notes`: what a reader must know of it."""

    run: RunOf
    size: str
    link: str | None
    host: str
    outcomes: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class PlatformRow:
    """One of the paper's platforms (or what else is stood for), and those here that stand for it, each with how."""

    name: str
    version: str
    here: tuple[tuple[str, str], ...]


def platform_rows(reproduction: Reproduction) -> list[PlatformRow]:
    """The paper's platforms with those here, and last those that stand for nothing of the paper."""
    texts: dict[str, str] = {}
    others: dict[str, None] = {}
    for run in reproduction.runs:
        for entry in run.manifest.platforms:
            texts[entry.label] = entry.stands_for or texts.get(entry.label, "")
            if entry.label not in (run.manifest.baseline, run.manifest.control):
                others[entry.label] = None
    rows = []
    for platform in reproduction.study.platforms:
        standing: dict[str, str] = {}
        for run in reproduction.runs:
            standing |= {label: str(how) for label, how in run.standing[platform.key].items()}
        rows.append(PlatformRow(platform.name, platform.version, tuple(standing.items())))
        for label in standing:
            others.pop(label, None)
    if others:
        named = [(label, texts[label] and f"for {texts[label]}") for label in others]
        rows.append(PlatformRow("none of these", "", tuple(named)))
    return rows


def drawings_of(
    reproduction: Reproduction, rendered: Callable[[str, Callable[[Width], Specification]], Drawing]
) -> dict[str, Drawing]:
    """Every figure of the page by name: the paper's again, and then and now, of each run by itself.

    `rendered`: has it drawn (`drawing.Drawer`).
    """
    again = {name: rendered(name, draw) for name, (_, draw) in again_figures(reproduction).items()}
    return again | {name: rendered(name, draw) for name, (_, draw, _) in _then_and_now(reproduction).items()}


def _then_and_now(reproduction: Reproduction) -> dict[str, tuple[RunOf, Callable[[Width], Specification], str]]:
    """By name a run of which enough stands beside the paper's numbers, what draws it, and its caption."""
    made: dict[str, tuple[RunOf, Callable[[Width], Specification], str]] = {}
    for number, run in enumerate(reproduction.runs, 1):
        rows = run.then_and_now.of(reproduction.study.name)
        figure = of_run(rows, labels(reproduction), run.blocks)
        if figure is not None:
            made[f"then-and-now-{number}"] = (run, *figure)
    return made


def render_reproduction(reproduction: Reproduction, drawings: Mapping[str, Drawing], tables: Sequence[str]) -> str:
    """The whole page as HTML; `drawings`: those of `drawings_of` that are shown; `tables`: the names of the tables."""
    context = _context(reproduction, drawings) | {"tables": tables}
    return page_text("reproduction.html.j2", context, (*context["drawn"].values(), *context["beside_drawn"]))


def _context(reproduction: Reproduction, drawings: Mapping[str, Drawing]) -> dict[str, Any]:
    by_outcome = grouped(reproduction.joined, lambda joined: joined.outcome)
    missing = by_outcome.pop(Outcome.NOT_MEASURED, [])
    measured = [joined for outcome in OUTCOMES for joined in by_outcome.get(outcome, ())]
    drawn, figures_drawn = _figures_again(reproduction, drawings), _study_figures(reproduction, drawings)
    runs = ", ".join(run.manifest.run for run in reproduction.runs)
    outcomes = [joined.outcome for joined in reproduction.joined]
    return {
        **browser_context(
            (*drawn.values(), *figures_drawn),
            f"{reproduction.study.name}: {runs}",
            labels(reproduction),
            (trial.workload for run in reproduction.runs for trial in run.manifest.plan.trials),
            outcomes=outcomes_shown(outcomes),
        ),
        "study": reproduction.study,
        "cautions": cautions(reproduction),
        "runs": list(map(partial(_run_view, reproduction), reproduction.runs)),
        "rule": RULE,
        "claims_line": outcomes_line(outcomes),
        "measured": list(map(_joined_view, measured)),
        "missing": [(joined.claim.id, joined.claim.says, _lacking(joined)) for joined in missing],
        "figures": figure_views(reproduction),
        "platforms": platform_rows(reproduction),
        "levels": {run.name: level_class(run.level) for run in reproduction.runs},
        "sizes": size_rows(reproduction),
        "drawn": drawn,
        "beside_drawn": figures_drawn,
        "sources": list(_sources(reproduction)),
        "unanswered": list(_unanswered(reproduction)),
        "counts": _counts(reproduction),
    }


def _figures_again(reproduction: Reproduction, drawings: Mapping[str, Drawing]) -> dict[str, FigureView]:
    """The paper's figures again by name."""
    return {
        name: drawn_view(drawings[name], titles(parts), "figures", caption(parts))
        for name, (parts, _) in again_figures(reproduction).items()
        if name in drawings
    }


def _study_figures(reproduction: Reproduction, drawings: Mapping[str, Drawing]) -> list[FigureView]:
    """Then and now, a figure for each run."""
    return [
        drawn_view(drawings[name], f"Then and now, run {run.name}", "then and now", text)
        for name, (run, _, text) in _then_and_now(reproduction).items()
        if name in drawings
    ]


def cautions(reproduction: Reproduction) -> list[str]:
    """What of the runs does not fit together, or is not there; each one sentence."""
    sentences = []
    by_host: dict[str, list[str]] = {}
    for run in reproduction.runs:
        by_host.setdefault(run.host, []).append(run.name)
    if len(by_host) > 1:
        listing = "; ".join(f"host {number}: {', '.join(names)}" for number, names in enumerate(by_host.values(), 1))
        sentences.append(
            f"These runs are of {len(by_host)} hosts ({listing}). Their values are never put together, and a claim "
            "that one host supports may be false on another."
        )
    if any(run.manifest.virtoll != __version__ for run in reproduction.runs):
        listing = ", ".join(f"{run.name} by {run.manifest.virtoll}" for run in reproduction.runs)
        sentences.append(f"This page is by Virtoll {__version__}, and runs are by others: {listing}.")
    if len(set(map(_size, reproduction.runs))) > 1:
        listing = ", ".join(f"{run.name} {_size(run)}" for run in reproduction.runs)
        sentences.append(f"These runs are of different sizes: {listing}.")
    for run in reproduction.runs:
        sentences += [f"{run.name}: {text}" for text in _notes(reproduction, run)]
    for name in reproduction.missing:
        sentences.append(f"No run is of {name}: what it alone measures stands below as not measured.")
    return sentences


def _size(run: RunOf) -> str:
    return str(run.manifest.experiment.get("size") or "without a size")


def _notes(reproduction: Reproduction, run: RunOf) -> Iterator[str]:
    study = run.manifest.experiment.get("study")
    if study != reproduction.study.name:
        named = f"the study {study}, not {reproduction.study.name}" if study else "no study"
        yield f"its experiment names {named}."
    models = [platform.label for platform in run.manifest.platforms if platform.family == "model"]
    if models:
        yield f"{', '.join(models)}: a model, of which nothing was measured; take this run out to judge the paper by."
    if run.state.state == "running":
        yield "it goes on, or was killed (running); then 'virtoll resume' takes the rest."
    elif run.state.state != "complete":
        reason = f": {run.state.reason}" if run.state.reason else ""
        yield f"it is not complete ({run.state.state}{reason}); 'virtoll resume' takes the rest."
    if run.damage:
        yield f"its folder is not as it was when the run ended: {'; '.join(run.damage)}."


def _run_view(reproduction: Reproduction, run: RunOf) -> RunView:
    host = run.manifest.host
    own_page, link = run.folder / "report" / "index.html", None
    if own_page.is_file():
        link = os.path.relpath(own_page, reproduction.target.resolve())
    return RunView(
        run,
        _size(run),
        link=link,
        host=f"{words.machine(host, 'cpu_model', 'kernel', 'os')} ({run.host[:8]})",
        outcomes=outcomes_line([judged.outcome for judged in run.ledger]),
        notes=tuple(_notes(reproduction, run)),
    )


def _joined_view(joined: Joined) -> ClaimView:
    views = [(run, _counted(view(judged))) for run, judged in joined.measured]
    return replace(
        views[0][1],
        outcome=joined.outcome,
        kind=OUTCOME_CLASS[joined.outcome],
        error=f"wrong by chance: at most {100 * joined.error:.0f} %" if joined.decided else "",
        runs=tuple((run, of_run.outcome, of_run.tests) for run, of_run in views),
    )


def _counted(claim: ClaimView) -> ClaimView:
    """A claim's tests with sizes of frames as the paper counts them."""
    tests = []
    for outcome, says, findings in claim.tests:
        tests.append((outcome, says, tuple(map(as_the_paper_counts, findings))))
    return replace(claim, tests=tuple(tests))


def _lacking(joined: Joined) -> str:
    """What the runs lack for a claim that none of them measured."""
    return "; ".join(dict.fromkeys(test.missing for _, judged in joined.runs for test in judged.tests))


def _answers(reproduction: Reproduction) -> Iterator[list[tuple[str, PublishedAnswer]]]:
    """Of each question of the study's numbers what each run answers, by its name; without those that none does."""
    by_question: dict[int, list[tuple[str, PublishedAnswer]]] = {}
    for run in reproduction.runs:
        for answer in run.then_and_now.of(reproduction.study.name):
            by_question.setdefault(id(answer.question), []).append((run.name, answer))
    for question in questions():
        if id(question) in by_question:
            yield by_question[id(question)]


def _sources(reproduction: Reproduction) -> Iterator[tuple[str, list[PublishedView]]]:
    """The rows by table or figure of the paper; of several runs each answer has its run's name."""
    sources: dict[str, list[PublishedView]] = {}
    several = len(reproduction.runs) > 1
    seen: set[tuple[str, str]] = set()
    for answers in _answers(reproduction):
        first = answers[0][1]
        known = (first.question.source, place(first)) in seen
        seen.add((first.question.source, place(first)))
        nows = []
        for name, answer in answers:
            run = f"run {name}" if several else ""
            for label, standing, cell in published_view(answer, known=known).nows:
                nows.append((label, words.with_commas(as_the_paper_counts(standing), run), cell))
        sources.setdefault(first.question.source, []).append(
            replace(published_view(first, known=known), nows=tuple(nows))
        )
    yield from sources.items()


def _unanswered(reproduction: Reproduction) -> Iterator[tuple[str, str]]:
    """Source, and what of it no run has a value of."""
    answered = {id(answers[0][1].question) for answers in _answers(reproduction)}
    left: dict[str, dict[str, None]] = {}
    study = reproduction.study
    for question in questions():
        if question.paper == study.name and id(question) not in answered:
            name = "the bare host" if question.platform == study.baseline else study.platform(question.platform).name
            left.setdefault(question.source, {})[f"{question.what} ({name})"] = None
    for source, texts in left.items():
        yield source, "; ".join(texts)


def _counts(reproduction: Reproduction) -> str:
    """How many of the printed numbers stand beside something."""
    values = reproduction.study.values
    without = sum(why_not_comparable(value) is not None for value in values)
    beside = sum(len(answers[0][1].question.then.values) for answers in _answers(reproduction))
    return (
        f"Of {len(values)} printed numbers {beside} have a value measured here, {without} can be compared "
        f"with nothing, and {len(values) - without - beside} were not measured."
    )


def reproduction_document(reproduction: Reproduction) -> dict[str, Any]:
    """The same for a program."""
    return {
        "study": reproduction.study.name,
        "title": reproduction.study.title,
        "question": reproduction.study.question,
        "report": str(reproduction.page),
        "rule": RULE,
        "cautions": cautions(reproduction),
        "missing": list(reproduction.missing),
        "runs": list(map(_run_document, reproduction.runs)),
        "claims": list(map(_claim_document, reproduction.joined)),
        "then_and_now": _rows_document(reproduction, "then_and_now"),
        "figures": _rows_document(reproduction, "paper_figures"),
        "replayed": {figure.figure.title_words: figure.state for figure in figure_views(reproduction)},
        "sizes": _rows_document(reproduction, "sizes"),
    }


def _run_document(run: RunOf) -> dict[str, object]:
    return {
        "run": run.name,
        "folder": str(run.folder),
        "experiment": run.experiment,
        "study": run.manifest.experiment.get("study"),
        "size": run.manifest.experiment.get("size"),
        "state": run.state.state,
        "virtoll": run.manifest.virtoll,
        "host": {key: run.manifest.host.get(key) for key in ("fingerprint", "cpu_model", "kernel", "os")},
        "fitness": {"level": str(run.level), "words": run.fitness},
        "control": run.control,
        "stands_for": dict(run.stands_for),
    }


def _claim_document(joined: Joined) -> dict[str, object]:
    by_run = {}
    for run, judged in joined.runs:
        (document,) = claims_document([judged])
        by_run[run] = {key: document[key] for key in ("outcome", "tests")}
    return {
        "claim": joined.claim.id,
        "says": joined.claim.says,
        "outcome": str(joined.outcome),
        "error_at_most": joined.error,
        "runs": by_run,
    }


def _rows_document(reproduction: Reproduction, name: str) -> list[dict[str, Any]]:
    """The rows of a table; an open end is null."""
    rows = []
    for table in reproduction_tables(reproduction):
        if table.name == name:
            rows += [dict(zip(table.header, map(_finite, row), strict=True)) for row in table.rows]
    return rows


def _finite(value: object) -> object:
    return None if isinstance(value, float) and math.isinf(value) else value


def reproduction_lines(reproduction: Reproduction) -> list[str]:
    """The same for the terminal: cautions, the claims that the runs say something about, and where the page is."""
    lines = [reproduction.study.question]
    for run in reproduction.runs:
        named = f"{run.name}: " if len(reproduction.runs) > 1 else ""
        lines += [f"{named}{run.fitness}", f"{named}{run.control}"]
    lines += cautions(reproduction)
    for joined in sorted(reproduction.joined, key=lambda joined: OUTCOMES.index(joined.outcome)):
        if joined.outcome is not Outcome.NOT_MEASURED:
            outcomes = "; ".join(f"{run}: {judged.outcome}" for run, judged in joined.measured)
            lines.append(
                f"{joined.claim.id} {joined.outcome}: {joined.claim.says}"
                + (f" ({outcomes})" if len(reproduction.runs) > 1 else "")
            )
    return [*lines, outcomes_line([joined.outcome for joined in reproduction.joined]), _counts(reproduction)]
