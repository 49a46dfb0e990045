"""`paper_summary.csv`: a row for each platform and task that the paper's summary gives a value of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Column, Table, Value, caveat, count, number, of_part, of_task, shared, text
from virtoll.runfolder.scale import ScalePoint
from virtoll.stats.papers import PaperRow


def _rows(source: ReportInput) -> Sequence[PaperRow] | None:
    return None if source.analysis.paper_method is None else source.analysis.paper.rows


def _summary(source: ReportInput) -> Value[PaperRow]:
    method = source.analysis.paper_method
    name = None if method is None else method.name
    return lambda _: name


_SIZE: Final[tuple[Column[ScalePoint], ...]] = (
    shared("guests", lambda point: point.guests),
    shared("vcpus", lambda point: point.vcpus),
    shared("memory_bytes", lambda point: point.memory_bytes),
)
"""Of several guests at once."""

PAPER_SUMMARY: Final = Table[PaperRow](
    "paper_summary",
    "a platform, task and number of guests at once, summed up as the paper did whose summary the experiment names",
    _rows,
    (
        shared("platform", lambda row: row.platform),
        *of_task(lambda row: row.task),
        *of_part(_SIZE, lambda row: row.point),
        replace(text("summary", "the summary's name", lambda _: None), of_report=_summary),
        count("values", "values that it is of", lambda row: row.summary.count),
        count("dropped", "values that it leaves out", lambda row: row.summary.dropped),
        number("centre", "`unit`", "the mean or median", lambda row: row.summary.centre),
        number("low", "`unit`", "the low end of its spread; empty: it has none", lambda row: row.summary.low),
        number("high", "`unit`", "the high end of it", lambda row: row.summary.high),
        number("share_of_baseline", "share", "of the baseline's performance", lambda row: row.share),
        number("share_low", "share", "the low end of the share", lambda row: row.share_low),
        number("share_high", "share", "the high end of it", lambda row: row.share_high),
        caveat(lambda row: row.platform),
    ),
)
