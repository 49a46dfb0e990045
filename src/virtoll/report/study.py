"""The page's part on the study that a run repeats: published and own shares side by side, as text.

No numbers are computed here: they come from ``stats/study.py``. What the run says of claims is in ``claims``.
"""

from collections.abc import Iterable
from typing import Any

from virtoll import units
from virtoll.reference.published import PublishedShare, PublishedValue
from virtoll.report import words
from virtoll.report.csv_table import CsvTable, Row
from virtoll.report.rows import VERDICT_CLASS, Shown, TableRow
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import Comparison, Verdict
from virtoll.stats.study import StudyRow


def study_context(analysis: Analysis) -> dict[str, Any] | None:
    """What ``study.html.j2`` prints; None for a run that names no study."""
    found = analysis.study
    if found is None:
        return None
    return {
        "paper": found.study,
        "sizes": found.sizes,
        "rows": [_row(row) for row in found.rows],
        "other": list(_other_rows(found.study.values)),
        "here": _here(analysis),
        "virtual": analysis.data.manifest.testbed is None,
    }


def _here(analysis: Analysis) -> str:
    host = analysis.data.manifest.host
    return ", ".join(str(host[key]) for key in ("cpu_model", "kernel", "os") if host.get(key))


def _row(row: StudyRow) -> tuple[str, str, str, TableRow]:
    """The paper's name and version, ours, and two cells for each frame size."""
    cells: list[Shown] = []
    for cell in row.cells:
        cells += [_published(cell.published), _ours(cell.ours, row.label)]
    what = "its successor in kind" if row.successor else ""
    return row.platform.name, row.platform.version, what, TableRow(row.label or "–", tuple(cells))


def _published(share: PublishedShare | None) -> Shown:
    if share is None:
        return Shown("–", kind="missing", hint="in a drawing alone")
    if share.low is None or share.high is None:
        return Shown(share.words, hint=share.source)
    low, high = units.percent(share.low), units.percent(share.high)
    return Shown(low, " ".join(filter(None, ("" if low == high else f"to {high}", share.words))), hint=share.source)


def _ours(comparison: Comparison | None, label: str | None) -> Shown:
    if label is None:
        return Shown("–", "not in this run", "missing")
    if comparison is None or comparison.share is None:
        return Shown("–", str(Verdict.NOT_MEASURED), "missing", comparison.reason if comparison else "")
    interval = comparison.interval
    small = words.between(interval.low, interval.high) if interval else "one block"
    functional = comparison.verdict is Verdict.FUNCTIONAL
    return Shown(
        words.share(comparison.share),
        small,
        VERDICT_CLASS[comparison.verdict],
        comparison.reason,
        str(Verdict.FUNCTIONAL) if functional else "",
        words="" if functional else words.said(comparison).text,
    )


def _other_rows(values: Iterable[PublishedValue]) -> Iterable[TableRow]:
    """Every printed number, gathered by table and platform."""
    gathered: dict[tuple[str, str, str], list[str]] = {}
    for one in values:
        where = ", ".join(f"{key.replace('_', ' ')} {text}" for key, text in one.parameters.items())
        number = f"{units.significant(one.value)}{' %' if one.unit == 'percent' else ''}"
        gathered.setdefault((one.source, one.scenario, one.platform), []).append(
            f"{one.metric.replace('_', ' ')} {number}{'' if one.unit == 'percent' else f' {one.unit}'} ({where})"
        )
    for (source, scenario, platform), texts in gathered.items():
        yield TableRow(source, (Shown(scenario), Shown(platform), Shown("; ".join(texts))))


def study_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """The shares side by side as CSV; none for a run that names no study."""
    if analysis.study is None:
        return ()
    header = (
        "paper",
        "paper_platform",
        "platform",
        "successor",
        "frame_size_bytes",
        "paper_share_low",
        "paper_share_high",
        "paper_words",
        "paper_source",
        "share_of_baseline",
        "interval_low",
        "interval_high",
        "at_least",
        "verdict",
        "caveat",
    )
    rows: list[Row] = []
    for row in analysis.study.rows:
        for cell in row.cells:
            theirs, ours = cell.published, cell.ours
            interval = ours.interval if ours else None
            rows.append(
                (
                    analysis.study.study.name,
                    row.platform.key,
                    row.label,
                    int(row.successor),
                    cell.frame_size_bytes,
                    theirs.low if theirs else None,
                    theirs.high if theirs else None,
                    theirs.words if theirs else None,
                    theirs.source if theirs else None,
                    ours.share if ours else None,
                    interval.low if interval else None,
                    interval.high if interval else None,
                    ours.at_least if ours else None,
                    str(ours.verdict) if ours else None,
                    ours.caveat if ours else None,
                )
            )
    return (CsvTable("study", header, tuple(rows)),)
