"""The report's page: rows of text for the template, made from the analysis; no numbers are computed here.

The templates hold the words; this module gives what is shared, and each section its own values.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from virtoll import units
from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report import headline, words
from virtoll.report.advice import AdviceView
from virtoll.report.answer import PLACES, cost_to_know_line, extended_line, ranked
from virtoll.report.campaign_lines import campaign_lines
from virtoll.report.drawing import Drawing
from virtoll.report.exports import Exports, exports_of
from virtoll.report.figures import figures_of
from virtoll.report.figures.base import FigureSpec
from virtoll.report.gate import GateView
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.report_input import ReportInput
from virtoll.report.sections import SECTIONS
from virtoll.report.sections.claims.page import outcomes_shown
from virtoll.report.sections.explanation import EXPLANATION
from virtoll.report.sections.paper.page import substitutes
from virtoll.report.tables import csv_tables
from virtoll.stats.analysis import Analysis

_MOST_LINES = 200  # of the plan and of command lines; all of them are in plan.csv and commands.csv
_LONG_TEXT = 90  # characters of a reason in the answer; it is whole under Trials


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
    names = [table.name for table in csv_tables(analysis, ledger, beside)] if tables is None else tables
    context = _context(analysis, drawings, ledger, beside, names) | _exported(exports or exports_of(analysis))
    folder_state = {"damage": damage, "unchecked": unchecked, "renewed_seconds": renewed_seconds}
    return page_text("report.html.j2", context | folder_state | {"advice": advice, "gate": gate}, context["figures"])


def _context(
    analysis: Analysis,
    drawings: Mapping[str, Drawing],
    ledger: Sequence[Judged],
    beside: ThenAndNow,
    tables: Sequence[str],
) -> dict[str, Any]:
    manifest = analysis.data.manifest
    source = ReportInput(analysis, ledger, beside)
    values = {section.name: section.values(source) for section in SECTIONS}
    specs = figures_of(analysis, beside)
    figures = [_figure(analysis, name, spec, drawings.get(name)) for name, spec in specs.items()]
    return {
        "analysis": analysis,
        "manifest": manifest,
        "state": analysis.data.state,
        "planned": sum(not trial.warm_up for trial in manifest.plan.trials),
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
            outcomes=outcomes_shown(judged.outcome for judged in ledger),
            host=headline.host_words(analysis),
        ),
        "platform_names": set(analysis.platforms),
        "workload_of": {task.label: task.workload for task in analysis.tasks},
        "sections": SECTIONS,
        "section_values": values,
        **values,
        "campaign_lines": campaign_lines(analysis),
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
    section = next(section.name for section in SECTIONS if section.has_figure(name))
    if drawing is None:
        return FigureView(name, spec.title, section, "", None, spec.why_not(analysis))
    return drawn_view(drawing, spec.title, section, spec.caption(analysis))
