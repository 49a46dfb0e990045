"""Tables that a paper can take over: rows of text, made once, which `markup` writes as Markdown and as LaTeX.

Main types: `ExportTable`, `ExportGroup`. No numbers are computed here: they are the page's, with the words of `words`
and `units`. Must not: escape anything; that is the writers'.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.report import headline, words
from virtoll.report.report_input import ReportInput
from virtoll.report.sections.isolation.page import isolated_tasks
from virtoll.report.sections.paper.page import paper_values
from virtoll.report.sections.scale.page import together_words
from virtoll.runfolder.conditions import ALONE
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison
from virtoll.stats.values import Task

_NONE, _SHARE = "–", "% of {} (95 % interval)"


@dataclass(frozen=True)
class Column:
    """One column: its head; `number`: its cells are set to the right; `wide`: they may take several lines."""

    head: str
    number: bool = False
    wide: bool = False


@dataclass(frozen=True)
class ExportGroup:
    """Rows that belong to one thing, which is the table's first column: a workload, or a workload beside others."""

    head: str
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class ExportTable:
    """A file name without its ending, the columns (the first is of the groups' heads), the groups, and notes below."""

    name: str
    caption: str
    columns: tuple[Column, ...]
    groups: tuple[ExportGroup, ...]
    notes: tuple[str, ...]


def export_tables(analysis: Analysis) -> tuple[ExportTable, ...]:
    """Every such table of a run that has rows: cost, isolation, scale, a paper's summary."""
    made = (_cost(analysis), _isolation(analysis), _scale(analysis), _paper_summary(analysis))
    return tuple(table for table in made if table.groups)


def _cost(analysis: Analysis) -> ExportTable:
    """Each platform at each task: its median, its share of the baseline's performance, and the verdict."""
    baseline = analysis.baseline if any(comparison.share is not None for comparison in analysis.comparisons) else None
    columns: tuple[Column, ...] = (Column("workload", wide=True), Column("platform"), Column("median", number=True))
    if baseline is None:
        columns = (*columns, Column("interval of the median", number=True))
    else:
        columns = (*columns, Column(_SHARE.format(baseline), number=True), Column("verdict", wide=True))
    compared = {
        (comparison.platform, comparison.task): comparison for comparison in (*analysis.comparisons, *analysis.control)
    }
    named = {platform for platform, _ in (*analysis.cells, *compared)}
    there = [platform for platform in analysis.platforms if platform in named]
    groups = []
    for task in analysis.tasks:
        rows = tuple(
            _cost_row(analysis, platform, task, baseline, compared.get((platform, task))) for platform in there
        )
        if any((platform, task) in analysis.cells for platform in analysis.platforms):
            groups.append(ExportGroup(task.label, rows))
    caption = f"What each platform costs, against {baseline}" if baseline else "Medians of each platform"
    notes = [_sample(analysis), *(_share_notes(analysis, baseline) if baseline else ())]
    if baseline is None:
        notes.append("There are no ratios and no verdicts, because nothing was compared with a baseline.")
    elif analysis.family + analysis.second_family:
        notes.append(headline.family_line(analysis).partition(". ")[2])
    return ExportTable("cost", caption, columns, tuple(groups), (*filter(None, notes), *_doubts(analysis)))


def _cost_row(
    analysis: Analysis, platform: str, task: Task, baseline: str | None, compared: Comparison | None
) -> tuple[str, ...]:
    cell, unit = analysis.cells.get((platform, task)), task.metric.unit
    median = _NONE if cell is None else words.estimate(cell.median, cell.interval, unit)
    if analysis.generator_bound(platform, task):
        median = f"{median} (generator-bound)"
    name = _name(analysis, platform)
    if baseline is None:
        spread = cell.interval if cell is not None else None
        return name, median, units.between(spread.low, spread.high, unit) if spread else _NONE
    if platform == baseline:
        return name, median, "100 %", "baseline"
    return (name, median, *_compared(compared))


def _name(analysis: Analysis, platform: str) -> str:
    sign = f" {headline.CAVEAT_SIGN}" if platform in analysis.caveats else ""
    return f"{platform}{sign}{' (A/A)' if platform == analysis.data.manifest.control else ''}"


def _compared(comparison: Comparison | None) -> tuple[str, str]:
    """A comparison's share with its own interval, and its verdict in words."""
    if comparison is None or comparison.share is None:
        return _NONE, "not measured"
    return words.share_and_interval(comparison.share, comparison.interval), words.said(comparison).text


def _isolation(analysis: Analysis) -> ExportTable:
    """Each guest under each condition against itself alone."""
    isolation, groups = analysis.isolation, []
    for task in isolated_tasks(analysis) if isolation.conditions else ():
        for condition in isolation.conditions:
            rows = []
            for platform in analysis.platforms:
                comparison = isolation.comparison(platform, task, condition.label)
                alone = isolation.cells.get((platform, task, ALONE))
                if comparison is not None and comparison.share is not None and alone is not None:
                    median = words.estimate(alone.median, alone.interval, task.metric.unit)
                    rows.append((_name(analysis, platform), median, *_compared(comparison)))
            if rows:
                groups.append(ExportGroup(f"{task.label}, beside {condition.label}", tuple(rows)))
    columns = (
        Column("workload and condition", wide=True),
        Column("platform"),
        Column("median alone", number=True),
        Column(_SHARE.format("alone"), number=True),
        Column("verdict", wide=True),
    )
    notes = (
        _sample(analysis),
        *_share_notes(analysis, "the same guest alone"),
        _corrected(isolation.family),
    )
    caption = "What guests beside a guest take from it, against the same guest alone"
    return ExportTable("isolation", caption, columns, tuple(groups), (*filter(None, notes), *_doubts(analysis)))


def _scale(analysis: Analysis) -> ExportTable:
    """Several guests at once: one of them, all together, and each platform against as many of the baseline's."""
    at_once, baseline, groups = analysis.at_once, analysis.baseline, []
    for task in at_once.tasks:
        for point in at_once.points:
            rows = []
            for platform in analysis.platforms:
                row = at_once.row(platform, task, point)
                if row is not None:
                    against = ("100 %", "baseline") if platform == baseline else ()
                    against = against or _compared(at_once.comparison(platform, task, point))
                    each = units.value(row.each, task.metric.unit)
                    rows.append((_name(analysis, platform), each, together_words(row), *against))
            if rows:
                groups.append(ExportGroup(f"{task.label}, {at_once.words(point)}", tuple(rows)))
    columns = (
        Column("workload and guests at once", wide=True),
        Column("platform"),
        Column("one guest", number=True),
        Column("all together", number=True),
        Column(_SHARE.format(baseline or "the baseline"), number=True),
        Column("verdict", wide=True),
    )
    notes = (
        _sample(analysis),
        "One guest: the median over trials of the guests' mean (of durations the harmonic one).",
        *(_share_notes(analysis, f"as many guests of {baseline}") if baseline else ()),
        _corrected(at_once.family),
    )
    caption = f"Several guests at once, against as many of {baseline}" if baseline else "Several guests at once"
    return ExportTable("scale", caption, columns, tuple(groups), (*filter(None, notes), *_doubts(analysis)))


def _paper_summary(analysis: Analysis) -> ExportTable:
    """The same values as a paper summed up."""
    values, method = paper_values(ReportInput(analysis)), analysis.paper_method
    if values is None or method is None:
        return ExportTable("paper_summary", "", (), (), ())
    groups = []
    for row in values["rows"]:
        cells = zip(values["platforms"], row.cells, strict=True)
        rows = tuple((_name(analysis, platform), cell.main, cell.small, cell.but) for platform, cell in cells)
        groups.append(ExportGroup(row.head, rows))
    columns = (
        Column("workload", wide=True),
        Column("platform"),
        Column("value", number=True),
        Column("spread", number=True),
        Column("% of the baseline, values", number=True),
    )
    notes = (
        f"{method.title[:1].upper()}{method.title[1:]}; the spread is the {method.spread}. After {method.used_by}.",
        "No verdict rests on it: it neither pairs by block nor corrects for the number of comparisons.",
        _run(analysis),
    )
    return ExportTable("paper_summary", f"As the paper summarised: {method.title}", columns, tuple(groups), notes)


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
        f"Verdicts are corrected (Holm) over {family} comparison{'' if family == 1 else 's'} of primary metrics."
        if family
        else ""
    )


def _sample(analysis: Analysis) -> str:
    return f"{words.blocks_words(analysis)}; medians over blocks." if analysis.blocks else ""


def _doubts(analysis: Analysis) -> Sequence[str]:
    """What must be known of these numbers, and which run they are of."""
    alarm = headline.control_line(analysis) if analysis.alarms else ""
    lines = (alarm, headline.order_line(analysis), headline.caveat_line(analysis), headline.unlike_line(analysis))
    unfit = headline.host_line(analysis) if analysis.fitness.reasons else ""
    return tuple(filter(None, (*lines, unfit, _run(analysis))))


def _run(analysis: Analysis) -> str:
    manifest = analysis.data.manifest
    state = "" if analysis.data.state.state == "complete" else f", which is not complete ({analysis.data.state.state})"
    return f"Virtoll {manifest.virtoll}, run {manifest.run}{state}."
