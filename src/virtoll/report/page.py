"""The report's page: rows of text for the template, made from the analysis; no numbers are computed here.

The templates hold the words; this module gives what is shared, and each section its own values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from virtoll import units
from virtoll.report import headline, words
from virtoll.report.advice import AdviceView
from virtoll.report.answer import PLACES, cost_to_know_line, extended_line, ranked
from virtoll.report.campaign_lines import campaign_lines
from virtoll.report.cpu_distance import far_line
from virtoll.report.drawing import Drawing
from virtoll.report.exports import Exports, exports_of
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
_OF_ANALYSIS: Final[tuple[Callable[[Analysis], Any], ...]] = (
    campaign_lines,
    cost_to_know_line,
    far_line,
    ranked,
    substitutes,
    words.blocks_words,
    headline.bound_line,
    headline.programs_line,
    headline.caveat_line,
    headline.control_line,
    headline.decides,
    headline.decides_line,
    headline.detectable_line,
    headline.detects_words,
    headline.family_line,
    headline.host_line,
    headline.host_words,
    headline.overhead_line,
    headline.order_line,
    headline.platform_words,
    headline.resemblance_line,
    headline.states_line,
    headline.unfit_line,
    headline.unlike_line,
)
"""The templates have what each says under its name."""


def render_page(
    source: ReportInput,
    drawings: Mapping[str, Drawing],
    *,
    damage: Sequence[str] = (),
    unchecked: Sequence[str] = (),
    renewed_seconds: int | None = None,
    tables: Sequence[str] | None = None,
    exports: Exports | None = None,
    advice: AdviceView | None = None,
    gate: GateView | None = None,
) -> str:
    """The whole page as HTML; `drawings`: the figures that show something.

    `damage`: what of the run folder is not as it was when the run ended; `unchecked`: what of it has no digests.
    `renewed_seconds`: how often a browser is to read the page again while the run continues. `tables`: the names of the
    report's, `exports`: what a paper takes over, if both are made already. `advice`: on a user's needs. `gate`: on the
    run's thresholds.
    """
    if tables is None:
        tables = [table.name for table in csv_tables(source)]
    exports = exports or exports_of(source.analysis)
    figures = list(_figures(source, drawings))
    context = _context(source, figures) | {
        "damage": damage,
        "unchecked": unchecked,
        "renewed_seconds": renewed_seconds,
        "tables": [name for name in tables if name != EXPLANATION.name],  # its own section links to it
        "export_tables": exports.tables,
        "methods_text": exports.methods.paragraphs,
        "advice": advice,
        "gate": gate,
    }
    return page_text("report.html.j2", context, figures)


def _figures(source: ReportInput, drawings: Mapping[str, Drawing]) -> Iterator[FigureView]:
    analysis = source.analysis
    for section in SECTIONS:
        for name, spec in section.figures_of(source).items():
            drawing = drawings.get(name)
            if drawing is not None:
                yield drawn_view(drawing, spec.title, section.name, spec.caption(analysis))
            else:
                yield FigureView(name, spec.title, section.name, "", None, spec.why_not(analysis))


def _context(source: ReportInput, figures: Sequence[FigureView]) -> dict[str, Any]:
    analysis, manifest = source.analysis, source.analysis.data.manifest
    values = {section.name: section.values(source) for section in SECTIONS}
    values |= {function.__name__: function(analysis) for function in _OF_ANALYSIS}
    return {
        **values,
        **browser_context(
            figures,
            manifest.run,
            analysis.platforms,
            (trial.workload for trial in manifest.plan.trials),
            outcomes=outcomes_shown(judged.outcome for judged in source.ledger),
            host=headline.host_words(analysis),
            workload_of={task.label: task.workload for task in analysis.tasks},
            caveats=analysis.caveats,
        ),
        "analysis": analysis,
        "manifest": manifest,
        "planned": sum(not trial.warm_up for trial in manifest.plan.trials),
        "created": units.moment(manifest.created_realtime_ns),
        "places": PLACES,
        "extended_line": extended_line(analysis) if analysis.extended_from is not None else "",
        "margin": words.amount(analysis.margin),
        "level": words.amount(analysis.level),
        "level_class": headline.level_class(analysis.fitness.level),
        "left_out": headline.left_out_line(analysis, _LONG_TEXT),
        "cut": headline.CUT,
        "figures": figures,
        "not_drawn": "; ".join(f"{view.title} ({view.why_not})" for view in figures if not view.svg),
        "sections": [section for section in SECTIONS if section.title and values[section.name] is not None],
        "most_lines": _MOST_LINES,
    }
