"""The report's page: rows of text for the template, made from the analysis; no numbers are computed here.

The template (`templates/report.html.j2`) holds the words and the order; this module turns values into text.
"""

import itertools
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from virtoll import units
from virtoll.claims import NO_PAPER, Judged, ThenAndNow
from virtoll.report import headline, words
from virtoll.report.advice import AdviceView
from virtoll.report.answer import PLACES, cost_to_know_line, extended_line, ranked
from virtoll.report.conditional_throughput import throughput_context
from virtoll.report.drawing import Drawing
from virtoll.report.explanation import TABLE as EXPLANATION
from virtoll.report.explanation import explanation_context
from virtoll.report.exports import Exports, exports_of
from virtoll.report.figures import figures_of
from virtoll.report.figures.base import HEADINGS, FigureSpec
from virtoll.report.gate import GateView
from virtoll.report.guests import guests_context
from virtoll.report.guests_at_once import at_once_context
from virtoll.report.hosts import campaign_lines, hosts_context
from virtoll.report.page_parts import FigureView, browser_context, drawn_view, page_text
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, comparison_cell, reasons
from virtoll.report.scaling import scaling_context
from virtoll.report.sections import SECTIONS
from virtoll.report.sections.claims.page import outcomes_shown
from virtoll.report.sections.paper.page import substitutes
from virtoll.report.tables import csv_tables
from virtoll.report.wire import wire_context
from virtoll.stats.analysis import Analysis
from virtoll.stats.detectable import Detectable
from virtoll.stats.equivalence import Equivalence
from virtoll.stats.sweeps import CurvePoint, PointValue, Spread
from virtoll.stats.values import Task, title_of

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
    compared = _compared(analysis)
    specs = figures_of(analysis, beside)
    headings = HEADINGS | {section.name for section in SECTIONS}
    figures = [_figure(analysis, name, spec, drawings.get(name)) for name, spec in specs.items()]
    cost = [_cost_row(analysis, task, compared) for task in analysis.tasks]
    blocks = {len(one.pairs) for one in (*analysis.control, *analysis.comparisons) if one.pairs}
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
        "compared": compared,
        "left_out": headline.left_out_line(analysis, _LONG_TEXT),
        "cut": headline.CUT,
        "not_drawn": "; ".join(f"{view.title} ({view.why_not})" for view in figures if not view.svg),
        "same_blocks": blocks.pop() if len(blocks) == 1 else None,
        "cost": cost,
        "cost_reasons": reasons(cost, compared),
        "medians": [_median_row(analysis, task) for task in analysis.tasks],
        "detectable": [_detectable_row(one) for one in analysis.detectable],
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
        "own_sections": list(dict.fromkeys(spec.section for spec in specs.values() if spec.section not in headings)),
        "troubles": _troubles(analysis),
        "losses": list(_loss_rows(analysis)),
        "clocks": [_clock_row(analysis, index) for index in range(len(analysis.clocks))],
        "pair_matrix": _pair_matrix(analysis.equivalence),
        "fact_groups": _fact_groups(analysis.equivalence),
        "different_facts": _different_facts(analysis.equivalence),
        "equal_facts": [row for row in analysis.equivalence.rows if row.equal],
        "findings": [_finding_row(analysis, index) for index in range(len(analysis.fitness.findings))],
        "host": _flat(manifest.host),
        "versions": _versions(analysis),
        "point_lengths": " and ".join(
            units.nanoseconds(one) for one in sorted({p.duration_ns for p in analysis.points})
        ),
        "wire": wire_context(analysis),
        "scaling": scaling_context(analysis),
        **{section.name: section.values(source) for section in SECTIONS},
        "at_once": at_once_context(analysis),
        "hosts": hosts_context(analysis),
        "campaign_lines": campaign_lines(analysis),
        "throughput": throughput_context(analysis),
        "guests": guests_context(analysis),
        "explanation": explanation_context(analysis),
        "substitutes": substitutes(analysis),
        "tables": [name for name in tables if name != EXPLANATION],  # its own section links to it
        "most_lines": _MOST_LINES,
        "coverages": _coverages(analysis),
        "methods": sorted({one.interval.method for one in analysis.comparisons if one.interval}),
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


def _compared(analysis: Analysis) -> list[str]:
    """Platforms that have at least one ratio: the columns of the table of slowdowns. The A/A control is the last."""
    control = analysis.data.manifest.control
    having = {one.platform for one in (*analysis.control, *analysis.comparisons) if one.share is not None}
    return sorted((one for one in analysis.platforms if one in having), key=lambda one: one == control)


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


def _cost_row(analysis: Analysis, task: Task, compared: Sequence[str]) -> TableRow:
    base = analysis.cells.get((analysis.baseline or "", task))
    first = (
        Shown(units.value(base.median, task.metric.unit), _blocks(base.blocks)) if base else Shown("–", "not measured")
    )
    if analysis.generator_bound(analysis.baseline or "", task):
        first = replace(first, small=f"{first.small}, generator-bound")
    cells = (comparison_cell(analysis.comparison(one, task), _but(analysis, one, task)) for one in compared)
    return TableRow(task.label, (first, *cells))


def _but(analysis: Analysis, platform: str, task: Task) -> str:
    """What limits a comparison, in short."""
    unlike = [f"other {name}" for name in analysis.unlike.get(platform, ())]
    return ", ".join((["generator-bound"] if analysis.generator_bound(platform, task) else []) + unlike)


def _median_row(analysis: Analysis, task: Task) -> TableRow:
    cells = []
    for platform in analysis.platforms:
        cell = analysis.cells.get((platform, task))
        if cell is None:
            cells.append(Shown("–", "not measured", "missing"))
            continue
        show = cell.interval
        unit = task.metric.unit
        spread = units.between(show.low, show.high, unit) if show else "one block"
        flagged = f", {len(cell.outliers)} flagged" if cell.outliers else ""
        small = f"{spread}, n = {cell.blocks}{flagged}"
        caveat = analysis.caveats.get(platform)
        cells.append(
            Shown(words.estimate(cell.median, show, unit), small, "caveat" if caveat else "", but=caveat or "")
        )
    return TableRow(task.label, tuple(cells))


def _detectable_row(one: Detectable) -> TableRow:
    return TableRow(
        title_of(one.metric),
        (
            Shown(one.family),
            Shown(one.metric.resource),
            Shown("primary" if one.metric.primary else "second"),
            Shown(words.smallest(one.factor)),
            Shown(words.joined(words.smallest(one.low), words.smallest(one.high))),
            Shown(str(one.count)),
        ),
    )


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


def _loss_rows(analysis: Analysis) -> Iterable[TableRow]:
    sizes = {task.parameters: task.size for task in analysis.tasks}
    measured: dict[tuple[str, str, float | None], list[PointValue]] = {}
    for one in analysis.points:
        measured.setdefault((one.platform, one.parameters, one.intended_rate), []).append(one)
    for curve, point in ((one, point) for one in analysis.curves for point in one.points):
        own = measured[curve.platform, curve.parameters, point.intended_rate]
        yield TableRow(
            curve.platform,
            (
                Shown(sizes.get(curve.parameters, f"{curve.frame_size_bytes} B")),
                Shown(_rate_name(point)),
                Shown(_spread(point.offered)),
                Shown(_spread(point.forwarded)),
                Shown(units.percent(point.loss.median), f"{_between(point.loss.low, point.loss.high)}"),
                Shown(str(sum(one.unsent_frames for one in own))),
                Shown(str(sum(one.duplicate_frames + one.reordered_frames for one in own))),
                Shown(str(sum(one.foreign_frames + one.late_trial_frames for one in own))),
                Shown(_known_sum([one.forged_frames for one in own])),
                Shown(str(point.blocks)),
            ),
        )


def _known_sum(counts: Sequence[int | None]) -> str:
    known = [count for count in counts if count is not None]
    return str(sum(known)) if known else "–"


def _rate_name(point: CurvePoint) -> str:
    return "flat out" if point.intended_rate is None else units.count(point.intended_rate)


def _spread(spread: Spread) -> str:
    return units.count(spread.median)


def _troubles(analysis: Analysis) -> list[TableRow]:
    """Trials that are not `ok` (or hold no value), gathered by platform, status and reason."""
    gathered: dict[tuple[str, str, str], list[str]] = {}
    for trial in analysis.data.every_trial:
        if trial.status != "ok":
            key = (trial.platform, trial.status, trial.reason or "no reason was stored")
            gathered.setdefault(key, []).append(f"{trial.trial} ({trial.workload})")
    by_number = {trial.trial: trial for trial in analysis.data.every_trial}
    for gap in (*analysis.gaps, *analysis.isolation.gaps, *analysis.at_once.gaps):
        trial = by_number[gap.trial]
        gathered.setdefault((trial.platform, "no value", gap.reason), []).append(f"{gap.trial} ({trial.workload})")
    return [
        TableRow(platform, (Shown(status), Shown(str(len(trials))), Shown(reason), Shown(_some(trials))))
        for (platform, status, reason), trials in gathered.items()
    ]


def _some(names: Sequence[str], limit: int = 8) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


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


def _finding_row(analysis: Analysis, index: int) -> TableRow:
    finding = analysis.fitness.findings[index]
    limit = finding.threshold
    value = "not recorded" if finding.value is None else limit.show(finding.value)
    spoils = "–" if limit.unfit is None else limit.show(limit.unfit)
    kind = "missing" if finding.level is None else headline.level_class(finding.level)
    words = "–" if finding.level is None else str(finding.level)
    return TableRow(
        limit.name,
        (Shown(limit.meaning), Shown(value), Shown(limit.show(limit.degraded)), Shown(spoils), Shown(words, "", kind)),
    )


def _coverages(analysis: Analysis) -> str:
    found = sorted({(cell.blocks, cell.interval.coverage) for cell in analysis.cells.values() if cell.interval})
    return "; ".join(f"{units.percent(coverage)} at n = {blocks}" for blocks, coverage in found)


def _versions(analysis: Analysis) -> list[tuple[str, str]]:
    manifest = analysis.data.manifest
    image, agent = _flat(_shortened(manifest.image or {})), _flat(manifest.agent or {})
    rows = [
        ("run", manifest.run),
        ("virtoll", manifest.virtoll),
        ("run folder format", str(manifest.format)),
        ("command", shlex.join(manifest.command)),
        ("seed", str(manifest.plan.seed)),
        ("trials planned", str(len(manifest.plan.trials))),
    ]
    if manifest.anonymised is not None:
        how = "names of hosts, users and places are stand-ins, evidence is left out"
        rows.append(("anonymous", f"by Virtoll {manifest.anonymised.virtoll}: {how}"))
    rows += [(f"agent {name}", value) for name, value in agent]
    rows += [(f"image {name}", value) for name, value in image]
    return rows + [(f"pinning {name}", value) for name, value in _flat(manifest.pinning or {})]


def _shortened(image: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of an image with tools the packages that were asked for; the manifest has all others, and the licences."""
    tools = image.get("tools")
    if tools is None:
        return image
    versions = {name: tools["packages"].get(name) for name in tools["wanted"]}
    kept = {name: value for name, value in tools.items() if name not in ("packages", "licences", "wanted")}
    return {**image, "tools": {**kept, "packages": len(tools["packages"]), "package": versions}}


def _flat(block: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested JSON as (name, text) pairs, in order; sizes get their unit."""
    rows: list[tuple[str, str]] = []
    for key, value in block.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _flat(value, f"{name} ")
        elif key.endswith("bytes") and isinstance(value, int):
            rows.append((name.removesuffix(" bytes") or "size", f"{units.size(value)}"))
        elif value is not None:
            rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows


def _between(low: float, high: float) -> str:
    return f"{units.percent(low)} to {units.percent(high)}"


def _blocks(count: int) -> str:
    return f"n = {count}" if count > 1 else "one block"
