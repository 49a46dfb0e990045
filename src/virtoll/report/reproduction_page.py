"""The page of a reproduced study as text: runs, joined ledger, then and now. No numbers are computed here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from virtoll import units
from virtoll.claims import Outcome
from virtoll.claims.joined import Joined
from virtoll.claims.published_rows import questions, why_not_comparable
from virtoll.claims.then_and_now import Beside
from virtoll.report.drawing import Drawing
from virtoll.report.figures.papers_again import again_figures, caption, labels, titles
from virtoll.report.figures.style import Specification, Width
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.paper_figures import figure_views
from virtoll.report.reproduction_runs import Reproduction, RunOf
from virtoll.report.reproduction_tables import reproduction_tables
from virtoll.report.sections.claims.page import OUTCOME_CLASS, OUTCOMES, outcomes_line, outcomes_shown, view
from virtoll.report.sections.claims.tables import claims_document
from virtoll.report.sections.then_and_now.figure import of_run
from virtoll.report.sections.then_and_now.page import BesideView, beside_view, place
from virtoll.version import __version__

RULE = (
    "Each run is judged by itself, and outcomes are joined, never values. On one host, a test is refuted where any run "
    "refutes it, and supported where at least one run supports it and none refutes it; a claim follows from its tests "
    "as in a single run. Hosts are joined by the same rule, claim by claim. A single run is wrong about a claim with a "
    "chance of at most 5 %, so several are with at most as many times 5 % as runs measured the claim (Bonferroni)."
)


@dataclass(frozen=True)
class RunView:
    """One run as a row: `link` to its own page, None where it has none; `notes`: what a reader must know of it."""

    name: str
    link: str | None
    experiment: str
    state: str
    trials: str
    version: str
    host: str
    outcomes: str
    notes: tuple[str, ...]


@dataclass(frozen=True)
class JoinedView:
    """One claim of the joined ledger: `runs` are (run, its outcome, its tests); `error`: the chance to be wrong."""

    id: str
    says: str
    source: str
    quotation: str
    note: str
    outcome: str
    kind: str
    error: str
    workloads: tuple[str, ...]
    runs: tuple[tuple[str, str, tuple[tuple[str, str, tuple[str, ...]], ...]], ...]


def drawings_of(
    found: Reproduction, rendered: Callable[[str, Callable[[Width], Specification]], Drawing]
) -> dict[str, Drawing]:
    """Every figure of the page by name: the paper's again, and then and now, of each run by itself.

    `rendered`: has it drawn (`drawing.Drawer`).
    """
    again = {name: rendered(name, draw) for name, (_, draw) in again_figures(found).items()}
    return again | {name: rendered(name, draw) for name, (_, draw, _) in _then_and_now(found).items()}


def _then_and_now(found: Reproduction) -> dict[str, tuple[RunOf, Callable[[Width], Specification], str]]:
    """By name a run of which enough stands beside the paper's numbers, what draws it, and its caption."""
    made: dict[str, tuple[RunOf, Callable[[Width], Specification], str]] = {}
    for number, run in enumerate(found.runs, 1):
        rows = run.beside.of(found.study.name)
        own = of_run(rows, labels(found), run.blocks)
        if own is not None:
            made[f"then-and-now-{number}"] = (run, *own)
    return made


def render_reproduction(found: Reproduction, drawings: Mapping[str, Drawing]) -> str:
    """The whole page as HTML; `drawings`: those of `drawings_of` that are shown."""
    context = _context(found, drawings)
    return page_text("reproduction.html.j2", context, (*context["drawn"].values(), *context["beside_drawn"]))


def _context(found: Reproduction, drawings: Mapping[str, Drawing]) -> dict[str, Any]:
    told = [one for one in found.joined if one.outcome is not Outcome.NOT_MEASURED]
    drawn, beside_drawn = _figures_again(found, drawings), _figures_beside(found, drawings)
    runs = ", ".join(one.manifest.run for one in found.runs)
    return {
        **browser_context(
            (*drawn.values(), *beside_drawn),
            f"{found.study.name}: {runs}",
            labels(found),
            list(dict.fromkeys(one.workload for run in found.runs for one in run.manifest.plan.trials)),
            outcomes=outcomes_shown(joined.outcome for joined in found.joined),
        ),
        "platform_names": set(labels(found)),
        "workload_of": {},
        "caveats": {},
        "study": found.study,
        "cautions": cautions(found),
        "runs": [_run_view(found, one) for one in found.runs],
        "rule": RULE,
        "claims_line": outcomes_line([one.outcome for one in found.joined]),
        "told": [_joined_view(one) for one in sorted(told, key=lambda one: OUTCOMES.index(one.outcome))],
        "untold": [(one.claim.id, one.claim.says, _lacking(one)) for one in found.joined if one not in told],
        "figures": figure_views(found),
        "drawn": drawn,
        "beside_drawn": beside_drawn,
        "sources": list(_sources(found)),
        "unanswered": list(_unanswered(found)),
        "counts": _counts(found),
        "tables": [one.name for one in reproduction_tables(found)],
    }


def _figures_again(found: Reproduction, drawings: Mapping[str, Drawing]) -> dict[str, FigureView]:
    """The paper's figures again by name."""
    return {
        name: drawn_view(drawings[name], titles(parts), "figures", caption(parts))
        for name, (parts, _) in again_figures(found).items()
        if name in drawings
    }


def _figures_beside(found: Reproduction, drawings: Mapping[str, Drawing]) -> list[FigureView]:
    """Then and now, a figure for each run."""
    return [
        drawn_view(drawings[name], f"Then and now, run {run.name}", "then and now", text)
        for name, (run, _, text) in _then_and_now(found).items()
        if name in drawings
    ]


def cautions(found: Reproduction) -> list[str]:
    """What of the runs does not fit together, or is not there; each one sentence."""
    told = []
    hosts = list(dict.fromkeys(one.host for one in found.runs))
    if len(hosts) > 1:
        own = "; ".join(
            f"host {number}: {', '.join(one.name for one in found.runs if one.host == host)}"
            for number, host in enumerate(hosts, 1)
        )
        told.append(
            f"These runs are of {len(hosts)} hosts ({own}). Their values are never put together, and a claim that one "
            "host supports may be false on another."
        )
    versions = list(dict.fromkeys(one.manifest.virtoll for one in found.runs))
    if versions not in ([], [__version__]):
        own = ", ".join(f"{one.name} by {one.manifest.virtoll}" for one in found.runs)
        told.append(f"This page is by Virtoll {__version__}, and runs are by others: {own}.")
    sizes = list(dict.fromkeys(_size(one) for one in found.runs))
    if len(sizes) > 1:
        own = ", ".join(f"{one.name} {_size(one)}" for one in found.runs)
        told.append(f"These runs are of different sizes: {own}.")
    for one in found.runs:
        told += [f"{one.name}: {text}" for text in _notes(found, one)]
    for name in found.missing:
        told.append(f"No run is of {name}: what it alone measures stands below as not measured.")
    return told


def _size(run: RunOf) -> str:
    return str(run.manifest.experiment.get("size") or "without a size")


def _notes(found: Reproduction, run: RunOf) -> Iterator[str]:
    study = run.manifest.experiment.get("study")
    if study != found.study.name:
        yield f"its experiment names {f'the study {study}, not {found.study.name}' if study else 'no study'}."
    models = [one.label for one in run.manifest.platforms if one.family == "model"]
    if models:
        yield f"{', '.join(models)}: a model, of which nothing was measured; take this run out to judge the paper by."
    if run.state.state == "running":
        yield "it goes on, or was killed (running); then 'virtoll resume' takes the rest."
    elif run.state.state != "complete":
        reason = f": {run.state.reason}" if run.state.reason else ""
        yield f"it is not complete ({run.state.state}{reason}); 'virtoll resume' takes the rest."
    if run.damage:
        yield f"its folder is not as it was when the run ended: {'; '.join(run.damage)}."


def _run_view(found: Reproduction, run: RunOf) -> RunView:
    host = run.manifest.host
    own_page = run.folder / "report" / "index.html"
    words = [str(host[key]) for key in ("cpu_model", "kernel", "os") if host.get(key)]
    words += [units.size(host["memory_bytes"])] if isinstance(host.get("memory_bytes"), int) else []
    return RunView(
        name=run.name,
        link=os.path.relpath(own_page, found.target.resolve()) if own_page.is_file() else None,
        experiment=f"{run.experiment}, {_size(run)}",
        state=run.state.state,
        trials=f"{', '.join(f'{count} {status}' for status, count in run.counts)}; {run.blocks}",
        version=run.manifest.virtoll,
        host=f"{', '.join(words)} ({run.host[:8]})",
        outcomes=outcomes_line([one.outcome for one in run.ledger]),
        notes=tuple(_notes(found, run)),
    )


def _joined_view(joined: Joined) -> JoinedView:
    first = view(joined.measured[0][1])
    return JoinedView(
        id=first.id,
        says=first.says,
        source=first.source,
        quotation=first.quotation,
        note=first.note,
        outcome=str(joined.outcome),
        kind=OUTCOME_CLASS[joined.outcome],
        workloads=first.workloads,
        error=f"wrong by chance: at most {100 * joined.error:.0f} %" if joined.decided else "",
        runs=tuple((run, str(one.outcome), view(one).tests) for run, one in joined.measured),
    )


def _lacking(joined: Joined) -> str:
    """What the runs lack for a claim that none of them measured."""
    reasons = dict.fromkeys(test.missing for _, one in joined.runs for test in one.tests)
    return "; ".join(reasons)


def _answers(found: Reproduction) -> Iterator[list[tuple[str, Beside]]]:
    """Of each question of the study's numbers what each run answers, by its name; without those that none does."""
    by_run = [(run.name, {id(one.question): one for one in run.beside.of(found.study.name)}) for run in found.runs]
    for question in questions():
        own = [(name, rows[id(question)]) for name, rows in by_run if id(question) in rows]
        if own:
            yield own


def _sources(found: Reproduction) -> Iterator[tuple[str, list[BesideView]]]:
    """The rows by table or figure of the paper; of several runs each answer has its run's name."""
    sources: dict[str, list[BesideView]] = {}
    several = len(found.runs) > 1
    seen: set[tuple[str, str]] = set()
    for answers in _answers(found):
        first = answers[0][1]
        known = (first.question.source, place(first)) in seen
        seen.add((first.question.source, place(first)))
        nows = [
            (label, ", ".join(filter(None, (standing, f"run {name}" if several else ""))), cell)
            for name, one in answers
            for label, standing, cell in beside_view(one, known=known).nows
        ]
        sources.setdefault(first.question.source, []).append(replace(beside_view(first, known=known), nows=tuple(nows)))
    yield from sources.items()


def _unanswered(found: Reproduction) -> Iterator[tuple[str, str]]:
    """Source, and what of it no run has a value of."""
    answered = {id(answers[0][1].question) for answers in _answers(found)}
    left: dict[str, dict[str, None]] = {}
    for one in questions():
        if one.paper == found.study.name and id(one) not in answered:
            name = "the bare host" if one.platform == found.study.baseline else found.study.platform(one.platform).name
            left.setdefault(one.source, {})[f"{one.what} ({name})"] = None
    for source, texts in left.items():
        yield source, "; ".join(texts)


def _counts(found: Reproduction) -> str:
    """How many of the printed numbers stand beside something."""
    values = found.study.values
    without = sum(why_not_comparable(one) is not None for one in values)
    beside = sum(len(answers[0][1].question.then.values) for answers in _answers(found))
    return (
        f"Of {len(values)} printed numbers {beside} have a value measured here, {without} can be compared "
        f"with nothing, and {len(values) - without - beside} were not measured."
    )


def reproduction_document(found: Reproduction) -> dict[str, Any]:
    """The same for a program."""
    return {
        "study": found.study.name,
        "title": found.study.title,
        "question": found.study.question,
        "report": str(found.page),
        "rule": RULE,
        "cautions": cautions(found),
        "missing": list(found.missing),
        "runs": [
            {
                "run": one.name,
                "folder": str(one.folder),
                "experiment": one.experiment,
                "study": one.manifest.experiment.get("study"),
                "size": one.manifest.experiment.get("size"),
                "state": one.state.state,
                "virtoll": one.manifest.virtoll,
                "host": {key: one.manifest.host.get(key) for key in ("fingerprint", "cpu_model", "kernel", "os")},
            }
            for one in found.runs
        ],
        "claims": [
            {
                "claim": one.claim.id,
                "says": one.claim.says,
                "outcome": str(one.outcome),
                "error_at_most": one.error,
                "runs": dict(_documents(one)),
            }
            for one in found.joined
        ],
        "then_and_now": _rows_document(found, "then_and_now"),
        "figures": _rows_document(found, "paper_figures"),
    }


def _documents(joined: Joined) -> Iterator[tuple[str, Any]]:
    for run, judged in joined.runs:
        (document,) = claims_document([judged])
        yield run, {key: document[key] for key in ("outcome", "tests")}


def _rows_document(found: Reproduction, name: str) -> list[dict[str, Any]]:
    """The rows of a table; an open end is null."""
    tables = [one for one in reproduction_tables(found) if one.name == name]
    rows = [dict(zip(one.header, row, strict=True)) for one in tables for row in one.rows]
    return [
        {
            key: None if isinstance(value, float) and value in (float("inf"), float("-inf")) else value
            for key, value in row.items()
        }
        for row in rows
    ]


def reproduction_lines(found: Reproduction) -> list[str]:
    """The same for the terminal: cautions, the claims that the runs say something about, and where the page is."""
    lines = [found.study.question, *cautions(found)]
    for one in sorted(found.joined, key=lambda one: OUTCOMES.index(one.outcome)):
        if one.outcome is not Outcome.NOT_MEASURED:
            own = "; ".join(f"{run}: {judged.outcome}" for run, judged in one.measured)
            lines.append(
                f"{one.claim.id} {one.outcome}: {one.claim.says}" + (f" ({own})" if len(found.runs) > 1 else "")
            )
    return [*lines, outcomes_line([one.outcome for one in found.joined]), _counts(found)]
