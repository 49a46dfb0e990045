"""The report's page: rows of text for the template, made from the analysis; no numbers are computed here.

The template (`templates/report.html.j2`) holds the words and the order; this module turns values into text.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report import headline, words
from virtoll.report.advice import AdviceView
from virtoll.report.answer import PLACES, cost_to_know_line, extended_line, ranked
from virtoll.report.claims import claims_context
from virtoll.report.drawing import Drawing
from virtoll.report.exports import Exports, exports_of
from virtoll.report.figures import figures_of
from virtoll.report.figures.base import HEADINGS, FigureSpec
from virtoll.report.gate import GateView
from virtoll.report.guests import guests_context
from virtoll.report.hosts import campaign_lines, hosts_context
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.papers import paper_context, substitutes
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow
from virtoll.report.sections import SECTIONS
from virtoll.report.sections.explanation import EXPLANATION
from virtoll.report.tables import csv_tables
from virtoll.report.then_and_now import then_and_now_context
from virtoll.stats.analysis import Analysis
from virtoll.stats.equivalence import Equivalence

_MOST_LINES = 200  # of the plan and of command lines; all of them are in plan.csv and commands.csv
# Characters of a reason in the answer, which is whole under Trials, and of a fact in a table, whose cell opens.
_LONG_TEXT = 90


def render_page(
    analysis: Analysis,
    drawings: Mapping[str, Drawing],
    ledger: Sequence[Judged] = (),
    beside: ThenAndNow = NO_PAPER,
    *,
    damage: Sequence[str] = (),
    unchecked: Sequence[str] = (),
    renewed_seconds: int | None = None,
    tables: Sequence[str] | None = None,
    exports: Exports | None = None,
    advice: AdviceView | None = None,
    gate: GateView | None = None,
) -> str:
    """The whole page as HTML; `drawings`: the figures that show something; `ledger`: what the run says about claims.

    `beside`: what the papers have beside the run. `damage`: what of the run folder is not as it was when the run
    ended; `unchecked`: what of it has no digests. `renewed_seconds`: how often a browser is to read the page again, of
    a run that goes on. `tables`: the names of the report's; `exports`: its own. Both where they were made already.
    `advice`: on a user's needs. `gate`: on the run's thresholds.
    """
    names = [one.name for one in csv_tables(analysis, ledger, beside)] if tables is None else tables
    context = _context(analysis, drawings, ledger, beside, names) | _exported(exports or exports_of(analysis))
    own = {"damage": damage, "unchecked": unchecked, "renewed_seconds": renewed_seconds}
    return page_text("report.html.j2", context | own | {"advice": advice, "gate": gate}, context["figures"])


def _context(
    analysis: Analysis,
    drawings: Mapping[str, Drawing],
    ledger: Sequence[Judged],
    beside: ThenAndNow,
    tables: Sequence[str],
) -> dict[str, Any]:
    manifest = analysis.data.manifest
    source = ReportInput(analysis, ledger, beside)
    specs = figures_of(analysis, beside)
    figures = [_figure(analysis, name, spec, drawings.get(name)) for name, spec in specs.items()]
    claims = claims_context(ledger)
    headings = HEADINGS.union(section.name for section in SECTIONS)
    return {
        "analysis": analysis,
        "manifest": manifest,
        "state": analysis.data.state,
        "planned": sum(not one.warm_up for one in manifest.plan.trials),
        "created": units.moment(manifest.created_realtime_ns),
        "ranked": ranked(analysis),
        "places": PLACES,
        "cost_to_know": cost_to_know_line(analysis),
        "extended_line": extended_line(analysis) if analysis.extended_from is not None else "",
        "words": headline.platform_words(analysis),
        "order_line": headline.order_line(analysis),
        "control_line": headline.control_line(analysis),
        "states_line": headline.states_line(analysis),
        "detectable_line": headline.detectable_line(analysis),
        "decides": headline.decides(analysis),
        "detects_words": headline.detects_words(analysis),
        "decides_line": headline.decides_line(analysis),
        "family_line": headline.family_line(analysis),
        "blocks_words": words.blocks_words(analysis),
        "margin": words.amount(analysis.margin),
        "level": words.amount(analysis.level),
        "host_line": headline.host_line(analysis),
        "host_words": headline.host_words(analysis),
        "unlike_line": headline.unlike_line(analysis),
        "observer_line": headline.observer_line(analysis),
        "bound_line": headline.bound_line(analysis),
        "caveat_line": headline.caveat_line(analysis),
        "caveats": analysis.caveats,
        "level_class": headline.level_class(analysis.fitness.level),
        "left_out": headline.left_out_line(analysis, _LONG_TEXT),
        "cut": headline.CUT,
        "not_drawn": "; ".join(f"{view.title} ({view.why_not})" for view in figures if not view.svg),
        "figures": figures,
        **browser_context(
            figures,
            manifest.run,
            analysis.platforms,
            list(dict.fromkeys(trial.workload for trial in manifest.plan.trials)),
            outcomes=claims["outcomes"],
            host=headline.host_words(analysis),
        ),
        "platform_names": set(analysis.platforms),
        "workload_of": {task.label: task.workload for task in analysis.tasks},
        "own_sections": list(dict.fromkeys(spec.section for spec in specs.values() if spec.section not in headings)),
        "clocks": [_clock_row(analysis, index) for index in range(len(analysis.clocks))],
        "pair_matrix": _pair_matrix(analysis.equivalence),
        "fact_groups": _fact_groups(analysis.equivalence),
        "different_facts": _different_facts(analysis.equivalence),
        "equal_facts": [row for row in analysis.equivalence.rows if row.equal],
        **{section.name: section.values(source) for section in SECTIONS},
        "hosts": hosts_context(analysis),
        "campaign_lines": campaign_lines(analysis),
        "guests": guests_context(analysis),
        "beside": then_and_now_context(analysis, beside),
        "claims": claims,
        "paper": paper_context(analysis),
        "substitutes": substitutes(analysis),
        "tables": [name for name in tables if name != EXPLANATION.name],  # its own section links to it
        "most_lines": _MOST_LINES,
    }


def _exported(exports: Exports) -> dict[str, Any]:
    return {
        "export_tables": [table.name for table in exports.tables],
        "methods_text": exports.methods.paragraphs,
    }


def _figure(analysis: Analysis, name: str, spec: FigureSpec, drawing: Drawing | None) -> FigureView:
    if drawing is None:
        return FigureView(name, spec.title, spec.section, "", None, spec.why_not(analysis))
    return drawn_view(drawing, spec.title, spec.section, spec.caption(analysis))


def _fact_groups(report: Equivalence) -> list[tuple[str, ...]]:
    """Platforms whose facts are all the same, gathered: the columns of the table of differences."""
    groups: dict[tuple[str | None, ...], list[str]] = {}
    for platform in report.platforms:
        groups.setdefault(tuple(row.values[platform] for row in report.rows), []).append(platform)
    return [tuple(group) for group in groups.values()]


def _different_facts(report: Equivalence) -> list[TableRow]:
    """Facts that differ, by group of platforms; neighbours that agree share one cell (`span`)."""
    groups, rows = _fact_groups(report), []
    for row in report.rows:
        if row.equal:
            continue
        values = [row.values[group[0]] for group in groups]
        reference = next((value for value in values if value is not None), None)
        cells = []
        for value, run in itertools.groupby(values):
            kind = "missing" if value is None else "" if value == reference else "differs"
            text = "not known" if value is None else value
            short = text if len(text) <= _LONG_TEXT else text[: _LONG_TEXT - 1] + "…"
            cells.append(Shown(short, kind=kind, hint=text if short != text else "", span=len(list(run))))
        rows.append(TableRow(row.name, tuple(cells)))
    return rows


def _clock_row(analysis: Analysis, index: int) -> TableRow:
    clock = analysis.clocks[index]
    ppm = units.parts_per_million
    methods = ", ".join(sorted({reading.method for reading in clock.readings}))
    slope = clock.slope
    if slope is None:
        rate, marks = Shown("–", hint=clock.why_no_slope), Shown("–")
    else:
        between = f"{ppm(slope.low)} to {ppm(slope.high)}"
        rate = Shown(ppm(slope.rate), between, "slower" if clock.wrong else "same")
        marks = Shown(units.nanoseconds(slope.marks_ns).replace("-", "−"))
    return TableRow(
        clock.platform,
        (
            rate,
            marks,
            Shown(clock.words, clock.why_no_slope),
            Shown(ppm(clock.median)),
            Shown(f"{ppm(clock.low)} to {ppm(clock.high)}"),
            Shown("±" + ppm(clock.estimate).lstrip("+")),
            Shown(str(len(clock.readings))),
            Shown(methods),
        ),
    )


def _pair_matrix(report: Equivalence) -> list[TableRow]:
    """How many facts differ, for each pair; the diagonal is empty."""
    rows = []
    for one in report.platforms:
        cells = []
        for other in report.platforms:
            pair = report.pair(one, other)
            if one == other or pair is None:
                cells.append(Shown("", "", "diagonal"))
            else:
                kind = "same" if not pair.different else "differs"
                cells.append(Shown(str(len(pair.different)), f"of {pair.compared}", kind, ", ".join(pair.different)))
        rows.append(TableRow(one, tuple(cells)))
    return rows
