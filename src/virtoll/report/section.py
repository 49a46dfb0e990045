"""A part of the report: what it prints on the page, its tables and its figures, in one folder of `sections/`.

Main type: `Section`; `sections.SECTIONS` lists all of them. A section's template is ``page.html.j2`` in its folder.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtoll.report.csv_table import CsvTable
from virtoll.report.figures.base import FigureSeries, FigureSpec
from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table


@dataclass(frozen=True)
class Section:
    """`name`: of its folder, and of its values in the template.

    `values`: what the template prints; None if the run has nothing of the kind, and the section is left out.
    `title`: its line in the page's contents; empty: another section's template includes this one's. `parts`: further
    anchors for the contents. `figures`: by name; each stands where the template puts it. `series`: those that a run
    needs several of.
    """

    name: str
    values: Callable[[ReportInput], Mapping[str, Any] | None]
    title: str = ""
    parts: tuple[str, ...] = ()
    tables: tuple[Table[Any], ...] = ()
    figures: Mapping[str, FigureSpec] = field(default_factory=dict)
    series: Mapping[str, FigureSeries] = field(default_factory=dict)

    @property
    def anchor(self) -> str:
        """Where its line in the contents leads."""
        return self.name.replace("_", "-")

    @property
    def templates(self) -> tuple[str, str]:
        """Its own below `sections/`; without one, its figures stand under its title."""
        return f"{self.name}/page.html.j2", "section.html.j2"

    def figures_of(self, source: ReportInput) -> dict[str, FigureSpec]:
        """Its figures of a report by name, drawn or not, and the parts of each series."""
        figures = dict(self.figures)
        for name, series in self.series.items():
            for part, spec in series.parts(source).items():
                figures[f"{name}-{part}"] = spec
        return figures

    def csv_tables(self, source: ReportInput) -> Iterator[CsvTable]:
        """Its tables of a report, without those that have no rows there."""
        for table in self.tables:
            made = table.csv(source)
            if made is not None:
                yield made
