"""The facts of the guests for the page: how many differ for each pair, which differ, and which are equal."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow, grouped
from virtoll.stats.equivalence import Equivalence

_LONG_TEXT = 90  # characters of a fact in a cell, which opens


def equivalence_values(source: ReportInput) -> dict[str, Any]:
    """What the template prints; no matrix if no guest reported its facts."""
    facts = source.analysis.equivalence
    groups = _groups(facts)
    matrix = []
    for platform in facts.platforms:
        cells = (_pair_cell(facts, platform, other) for other in facts.platforms)
        matrix.append(TableRow(platform, tuple(cells)))
    return {
        "facts": facts,
        "matrix": matrix,
        "groups": groups,
        "different": list(_different(facts, groups)),
        "equal": [row for row in facts.rows if row.equal],
    }


def _pair_cell(facts: Equivalence, platform: str, other: str) -> Shown:
    """How many facts differ; the diagonal is empty."""
    pair = facts.pair(platform, other)
    if platform == other or pair is None:
        return Shown("", "", "diagonal")
    kind = "differs" if pair.different else "same"
    return Shown(str(len(pair.different)), f"of {pair.compared}", kind, ", ".join(pair.different))


def _groups(facts: Equivalence) -> list[list[str]]:
    """Platforms whose facts are all the same, gathered: the columns of the table of differences."""
    groups = grouped(facts.platforms, lambda platform: tuple(row.values[platform] for row in facts.rows))
    return list(groups.values())


def _different(facts: Equivalence, groups: Sequence[Sequence[str]]) -> Iterator[TableRow]:
    """Facts that differ, by group of platforms; groups side by side that agree share one cell (`span`)."""
    for row in facts.rows:
        if row.equal:
            continue
        values = [row.values[group[0]] for group in groups]
        reference = next((value for value in values if value is not None), None)
        cells = [_fact_cell(value, reference, len(list(alike))) for value, alike in itertools.groupby(values)]
        yield TableRow(row.name, tuple(cells))


def _fact_cell(value: str | None, reference: str | None, span: int) -> Shown:
    if value is None:
        return Shown("not known", kind="missing", span=span)
    kind = "" if value == reference else "differs"
    if len(value) <= _LONG_TEXT:
        return Shown(value, kind=kind, span=span)
    return Shown(value[: _LONG_TEXT - 1] + "…", kind=kind, hint=value, span=span)
