"""Tables that a paper can take over: rows of text, made once, which `markup` writes as Markdown and as LaTeX.

Main types: `ExportTable`, `ExportGroup`. No numbers are computed here: they are the page's, with the words of `words`
and `units`. Must not: escape anything; that is the writers'.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from virtoll import units
from virtoll.report import headline, words
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.isolation.page import isolated_tasks
from virtoll.report.sections.paper.page import paper_values
from virtoll.report.sections.scale.page import together_words
from virtoll.report.table import Column, ValueKind, number, text
from virtoll.runfolder.conditions import ALONE
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

_NONE: Final = "–"


@dataclass(frozen=True)
class ExportRow:
    """A platform in a group: its name, values in words, and comparison; `reference`: what others are against."""

    platform: str
    values: tuple[str, ...]
    comparison: Comparison | None = None
    reference: bool = False


@dataclass(frozen=True)
class ExportGroup:
    """Rows that belong to one thing, which is the table's first column: a workload, or a workload beside others."""

    head: str
    rows: tuple[ExportRow, ...]


@dataclass(frozen=True)
class ExportTable:
    """A file name without its ending, the heads of the groups' and rows' columns, the groups, and notes below."""

    name: str
    caption: str
    head: str
    columns: tuple[Column[ExportRow], ...]
    groups: tuple[ExportGroup, ...]
    notes: tuple[str, ...]


def export_tables(analysis: Analysis) -> tuple[ExportTable, ...]:
    """Every such table of a run that has rows: cost, isolation, scale, a paper's summary."""
    made = (_cost(analysis), _isolation(analysis), _scale(analysis), _paper_summary(analysis))
    return tuple(table for table in made if table is not None and table.groups)


_PLATFORM: Final[Column[ExportRow]] = text("platform", "", lambda row: row.platform)


def _value(head: str, place: int) -> Column[ExportRow]:
    return number(head, "", "", lambda row: row.values[place])


def _compared(reference: str) -> tuple[Column[ExportRow], ...]:
    """A comparison's share with its own interval, and its verdict in words."""
    return (
        number(f"% of {reference} (95 % interval)", "", "", _share),
        Column("verdict", "", "", ValueKind.SENTENCE, _verdict),
    )


def _share(row: ExportRow) -> str:
    if row.reference:
        return "100 %"
    comparison = row.comparison
    if comparison is None or comparison.share is None:
        return _NONE
    return words.share_and_interval(comparison.share, comparison.interval)


def _verdict(row: ExportRow) -> str:
    if row.reference:
        return "baseline"
    if row.comparison is None or row.comparison.share is None:
        return "not measured"
    return words.said(row.comparison).text


def _cost(analysis: Analysis) -> ExportTable:
    """Each platform at each task: its value, its share of the baseline's performance, and the verdict."""
    every = (*analysis.comparisons, *analysis.control)
    compared = {(comparison.platform, comparison.task): comparison for comparison in every}
    named = {platform for platform, _ in (*analysis.cells, *compared)}
    baseline = analysis.baseline if words.shares(analysis.comparisons) else None
    groups = []
    for task in analysis.tasks:
        rows = []
        for platform in analysis.platforms:
            if platform in named:
                values, comparison = _of_cell(analysis, platform, task), compared.get((platform, task))
                rows.append(ExportRow(_name(analysis, platform), values, comparison, platform == baseline))
        if any((platform, task) in analysis.cells for platform in analysis.platforms):
            groups.append(ExportGroup(task.label, tuple(rows)))
    columns = (_value("interval of the median", 1),) if baseline is None else _compared(baseline)
    caption = f"What each platform costs, against {baseline}" if baseline else "Medians of each platform"
    notes = [_sample(analysis)]
    if baseline is not None:
        notes.append(f"A value is the median of {baseline} times the ratio of both; {baseline}'s is that median.")
        notes += _share_notes(analysis, baseline)
    if baseline is None:
        notes.append("There are no ratios and no verdicts, because nothing was compared with a baseline.")
    elif analysis.family + analysis.second_family:
        notes.append(headline.family_line(analysis).partition(". ")[2])
    columns = (_PLATFORM, _value("value" if baseline else "median", 0), *columns)
    return ExportTable("cost", caption, "workload", columns, tuple(groups), notes=_notes(analysis, notes))


def _of_cell(analysis: Analysis, platform: str, task: Task) -> tuple[str, str]:
    """The value and its interval."""
    estimate = analysis.estimates.get((platform, task))
    value = words.told_value(analysis, platform, task) or _NONE
    if analysis.generator_bound(platform, task):
        value = f"{value} (generator-bound)"
    spread = "" if estimate is None else words.spread(estimate, task.metric.unit)
    return value, spread or _NONE


def _name(analysis: Analysis, platform: str) -> str:
    sign = f" {headline.CAVEAT_SIGN}" if platform in analysis.caveats else ""
    return f"{platform}{sign}{' (A/A)' if platform == analysis.data.manifest.control else ''}"


def _isolation(analysis: Analysis) -> ExportTable | None:
    """Each guest under each condition against itself alone."""
    isolation, groups = analysis.isolation, []
    if not isolation.conditions:
        return None
    for task in isolated_tasks(analysis):
        for condition in isolation.conditions:
            rows = []
            for platform in analysis.platforms:
                comparison = isolation.comparison(platform, task, condition.label)
                alone = isolation.cells.get((platform, task, ALONE))
                if comparison is not None and comparison.share is not None and alone is not None:
                    median = words.estimate(alone.median, alone.interval, task.metric.unit)
                    rows.append(ExportRow(_name(analysis, platform), (median,), comparison))
            if rows:
                groups.append(ExportGroup(f"{task.label}, beside {condition.label}", tuple(rows)))
    columns = (_PLATFORM, _value("median alone", 0), *_compared("alone"))
    notes = [_sample(analysis), *_share_notes(analysis, "the same guest alone"), _corrected(isolation.family)]
    caption = "What guests beside a guest take from it, against the same guest alone"
    head = "workload and condition"
    return ExportTable("isolation", caption, head, columns, tuple(groups), notes=_notes(analysis, notes))


def _scale(analysis: Analysis) -> ExportTable:
    """Several guests at once: one of them, all together, and each platform against as many of the baseline's."""
    at_once, baseline, groups = analysis.at_once, analysis.baseline, []
    for task in at_once.tasks:
        for point in at_once.points:
            rows = []
            for platform in analysis.platforms:
                row = at_once.row(platform, task, point)
                if row is not None:
                    values = (units.value(row.each, task.metric.unit), together_words(row))
                    comparison = at_once.comparison(platform, task, point)
                    rows.append(ExportRow(_name(analysis, platform), values, comparison, platform == baseline))
            if rows:
                groups.append(ExportGroup(f"{task.label}, {at_once.words(point)}", tuple(rows)))
    columns = (_PLATFORM, _value("one guest", 0), _value("all together", 1), *_compared(baseline or "the baseline"))
    ratio = f"; of others than {baseline} its median times their ratio" if baseline else ""
    notes = [
        _sample(analysis),
        f"One guest: the median over trials of the guests' mean (of durations the harmonic one){ratio}.",
        *(_share_notes(analysis, f"as many guests of {baseline}") if baseline else ()),
        _corrected(at_once.family),
    ]
    caption = f"Several guests at once, against as many of {baseline}" if baseline else "Several guests at once"
    head = "workload and guests at once"
    return ExportTable("scale", caption, head, columns, tuple(groups), notes=_notes(analysis, notes))


def _paper_summary(analysis: Analysis) -> ExportTable | None:
    """The same values as a paper summed up."""
    values, method = paper_values(ReportInput(analysis)), analysis.paper_method
    if values is None or method is None:
        return None
    groups = []
    for row in values["rows"]:
        cells = zip(values["platforms"], row.cells, strict=True)
        rows = [ExportRow(_name(analysis, platform), (cell.main, cell.small, cell.but)) for platform, cell in cells]
        groups.append(ExportGroup(row.head, tuple(rows)))
    columns = (_PLATFORM, _value("value", 0), _value("spread", 1), _value("% of the baseline, values", 2))
    notes = (
        f"{method.title[:1].upper()}{method.title[1:]}; the spread is the {method.spread}. After {method.used_by}.",
        "No verdict rests on it: it neither pairs by block nor corrects for the number of comparisons.",
        _run(analysis),
    )
    caption = f"As the paper summarised: {method.title}"
    return ExportTable("paper_summary", caption, "workload", columns, tuple(groups), notes=notes)


def _share_notes(analysis: Analysis, of: str) -> Iterable[str]:
    """What a share, its interval and the verdicts are."""
    yield f"Performance in % of {of}: 100 % is as fast, 50 % takes twice as long or does half."
    if analysis.blocks < 2:
        yield "One block: there are no intervals and no verdicts."
        return
    margin, level = words.amount(analysis.margin), words.amount(analysis.level)
    yield "In brackets after it: the 95 % interval of that comparison alone."
    yield f"Slower, faster: p below {level} after Holm's correction. At least: a bound that holds for all together."
    yield f"Alike: two one-sided tests leave no larger difference; the margin is {margin}, and a smaller one is named."
    yield "Not known: anything in brackets there is possible."


def _corrected(family: int) -> str:
    """For how many comparisons, in a scenario with a family of its own."""
    return (
        f"Verdicts are corrected (Holm) over {words.counted(family, 'comparison')} of primary metrics."
        if family
        else ""
    )


def _sample(analysis: Analysis) -> str:
    return f"{words.blocks_words(analysis)}; medians over blocks." if analysis.blocks else ""


def _notes(analysis: Analysis, notes: Iterable[str]) -> tuple[str, ...]:
    """These notes, what else must be known of the numbers, and which run they are of."""
    alarm = headline.control_line(analysis) if analysis.alarms else ""
    lines = (alarm, headline.order_line(analysis), headline.caveat_line(analysis), headline.unlike_line(analysis))
    unfit = headline.host_line(analysis) if analysis.fitness.reasons else ""
    return tuple(filter(None, (*notes, *lines, unfit, _run(analysis))))


def _run(analysis: Analysis) -> str:
    manifest = analysis.data.manifest
    state = "" if analysis.data.state.state == "complete" else f", which is not complete ({analysis.data.state.state})"
    return f"Virtoll {manifest.virtoll}, run {manifest.run}{state}."
