"""What the page says of each comparison: ranking, sentences by platform, table of slowdowns, values, and the A/A line.

`of_page` lists what of it does not agree with the comparisons, or with the terminal, in words.
"""

import re
from collections.abc import Iterator, Sequence
from xml.etree.ElementTree import Element

from tests.support.report_page import Page, read_page, rows_of, text_of

from virtoll.report import words
from virtoll.report.page import render_page
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import VERDICT_CLASS
from virtoll.report.terminal import ranked_rows
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict

_UNDECIDED = ("Not known", "Alike", "No verdict", "Not measured")


def of_page(analysis: Analysis) -> Iterator[str]:
    """Each contradiction."""
    page = read_page(render_page(ReportInput(analysis), {}, tables=[]))
    yield from _of_ranking(analysis, page)
    yield from _of_slowdowns(analysis, page)
    yield from _of_values(analysis, page)
    yield from _of_sentences(analysis, page)
    yield from _of_the_host(analysis, page)
    yield from _of_what_is_open(analysis, page)


def _of_ranking(analysis: Analysis, page: Page) -> Iterator[str]:
    """Place, value, verdict and colour of each platform; the terminal has the same."""
    (table,) = page.of_class("ranking")
    shown = {}
    for row in table.iter("tr"):
        head = row.find("th")
        for one in page_spans(row):
            shown[text_of(head) if head is not None else "", one.get("data-platform")] = one
    for task in ranked_rows(analysis):
        for entry in task.platforms:
            one = shown.pop((task.task, entry.platform))
            kind = one.get("class", "").removeprefix("place ")
            words_shown = "" if kind == "baseline" else entry.words
            expected = " ".join(f"{entry.place} {entry.platform} {entry.value}, {words_shown}".split()).rstrip(",")
            if text_of(one).replace(" ,", ",") != expected or kind != entry.kind:
                yield f"the page ranks '{text_of(one)}' ({kind}), and the terminal '{expected}' ({entry.kind})"
            comparison = next((one for one in _of(analysis, entry.platform) if one.task.label == task.task), None)
            if comparison is not None and kind != str(comparison.verdict).replace(" ", "-"):
                yield f"{entry.platform}, {words.task_verdict(comparison)}: the page ranks it as {kind}"
            if comparison is not None and words.said(comparison).text not in text_of(one):
                yield f"{entry.platform}, {words.task_verdict(comparison)}: the page ranks it as '{text_of(one)}'"
    if shown:
        yield f"the page ranks {sorted(shown)} as well"


def page_spans(row: Element) -> Iterator[Element]:
    """The platforms of a row of the ranking."""
    return (one for one in row.iter("span") if one.get("class", "").startswith("place "))


def _of(analysis: Analysis, platform: str) -> list[Comparison]:
    return [comparison for comparison in analysis.comparisons if comparison.platform == platform]


def _of_slowdowns(analysis: Analysis, page: Page) -> Iterator[str]:
    """The table of slowdowns: each cell's colour, verdict, share and interval; the A/A control among them."""
    (table,) = page.of_class("cost")
    heads, *rows = rows_of(table)
    cells = [[cell for cell in row if cell.tag == "td"] for row in table.iter("tr")][1:]
    labels = [head.split()[0] for head in heads[2:]]
    for row, of_row in zip(rows, cells, strict=True):
        for label, cell in zip(labels, of_row[1:], strict=True):
            task = next(task for task in analysis.tasks if task.label == row[0])
            comparison = analysis.comparison(label, task)
            assert comparison is not None
            text, sentence = text_of(cell), words.said(comparison)
            if cell.get("class") != VERDICT_CLASS[comparison.verdict]:
                yield f"{label}, {words.task_verdict(comparison)}: its cell is {cell.get('class')}"
            if not text.startswith(f"{sentence.head} {sentence.tail}".rstrip()):
                yield f"{label}, {words.task_verdict(comparison)}: its cell says '{text}'"
            assert comparison.share is not None
            share = words.share(comparison.share, comparison.interval)
            if comparison.verdict is not Verdict.UNKNOWN:
                share = words.share_and_interval(comparison.share, comparison.interval)
            if share not in text:
                yield f"{label}, {words.task_verdict(comparison)}: its cell says '{text}', and its share is {share}"


def _of_values(analysis: Analysis, page: Page) -> Iterator[str]:
    """Each value is one beside the slowdowns, in the ranking and in the table of values."""
    tables = list(page.part("cost").iter("table"))
    slowdowns, values = tables[0], tables[-1]
    beside = {row[0]: row[1] for row in rows_of(slowdowns)[1:]}
    heads, *rows = rows_of(values)
    told = {(row[0], label): text for row in rows for label, text in zip(heads[1:], row[1:], strict=True)}
    for task in analysis.tasks:
        for platform in analysis.platforms:
            value = words.told_value(analysis, platform, task)
            shown = [told[task.label, platform]]
            if platform == analysis.baseline:
                shown.append(beside[task.label])
            if not all(f"{text} ".startswith(f"{value} ") for text in shown):
                yield f"{platform}, {task.label}: {value} is told, and the page's tables have {shown}"


def _of_sentences(analysis: Analysis, page: Page) -> Iterator[str]:
    """What is said of each platform in words: which sizes are slower or faster, and what is open."""
    phrases: dict[str, list[str]] = {}
    for one in page.of_class("verdicts")[0]:
        if one.tag == "dt":
            phrases[text_of(one)] = []
        else:
            phrases[list(phrases)[-1]] += [text_of(phrase) for phrase in one]
    for platform, sentences in phrases.items():
        for verdict in (Verdict.SLOWER, Verdict.FASTER, Verdict.ALIKE, Verdict.UNKNOWN):
            lead = {Verdict.ALIKE: "Alike", Verdict.UNKNOWN: "Not known"}.get(verdict)
            these = [text for text in sentences if text.startswith(lead or "") and (lead or _says(text, verdict))]
            own = [comparison for comparison in _of(analysis, platform) if comparison.verdict is verdict]
            if bool(own) != bool(these):
                yield f"{platform}: {len(own)} are {verdict}, and the page says {sentences}"
            elif own and verdict in DIFFERENT and not _is_bound(these[0], own):
                yield f"{platform}: the page says {these[0]}, of {', '.join(map(words.task_verdict, own))}"


def _is_bound(phrase: str, own: Sequence[Comparison]) -> bool:
    """Whether a phrase's bound is the smallest of its comparisons', rounded down."""
    least = min(comparison.at_least or 1.0 for comparison in own)
    found = re.search(r"at least (\d+(?:\.\d+)?)( %)?", phrase)
    if found is None:
        return least < 1.001
    bound = 1 + float(found[1]) / 100 if found[2] else float(found[1])
    return bound <= least * (1 + 1e-9) < bound * 1.1


def _says(text: str, verdict: Verdict) -> bool:
    return not text.startswith(_UNDECIDED) and str(verdict) in text


def _of_the_host(analysis: Analysis, page: Page) -> Iterator[str]:
    """The A/A sentence: an alarm where one of the control's comparisons is, and a range that holds all of theirs."""
    alarmed = any(text_of(one).startswith("Do not trust this run") for one in page.of_class("alarm"))
    if alarmed != bool(analysis.alarms):
        yield f"{len(analysis.alarms)} A/A comparisons differ, and the page {'has' if alarmed else 'has no'} alarm"
    primary = [comparison for comparison in analysis.control if comparison.task.metric.primary]
    lows = [comparison.simultaneous.low for comparison in primary if comparison.simultaneous is not None]
    highs = [comparison.simultaneous.high for comparison in primary if comparison.simultaneous is not None]
    if words.apart(min(lows), max(highs)) not in page.text_at("verdict"):
        yield f"the A/A line has another range than {min(lows)} to {max(highs)}"
    good = "good" in page.part("noise").get("class", "").split()
    if good and analysis.alarms:
        yield "the page says that the run decides, and that the host differs from itself"


def _of_what_is_open(analysis: Analysis, page: Page) -> Iterator[str]:
    """As many comparisons are not known as the page says."""
    number = sum(comparison.verdict is Verdict.UNKNOWN for comparison in analysis.comparisons)
    text = page.text_at("verdict")
    lead = "1 comparison is not known" if number == 1 else f"{number} comparisons are not known"
    if number and lead not in text:
        yield f"{number} are not known, and the page says otherwise"
    if not number and "not known:" in text.replace("is not known:", "not known:"):
        yield "nothing is open, and the page says that something is"
