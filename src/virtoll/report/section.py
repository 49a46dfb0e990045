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
    """`name`: of its folder, and of its values in the template. `title`: its line in the page's contents.

    `values`: what the template prints; None if the run has nothing of the kind, and the section is left out.
    `figures`: by name; each stands where the template puts it. `series`: those that a run needs several of.
    `within`: the section whose template includes this one's; None: the page does. `parts`: anchors of its own for the
    contents.
    """

    name: str
    title: str
    values: Callable[[ReportInput], Mapping[str, Any] | None]
    tables: tuple[Table[Any], ...] = ()
    figures: Mapping[str, FigureSpec] = field(default_factory=dict)
    series: Mapping[str, FigureSeries] = field(default_factory=dict)
    within: str | None = None
    parts: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Where its line in the contents leads."""
        return self.name.replace("_", "-")

    @property
    def templates(self) -> tuple[str, str]:
        """Its own below `sections/`; without one, its figures stand under its title."""
        return f"{self.name}/page.html.j2", "section.html.j2"

    def has_figure(self, name: str) -> bool:
        """Whether a figure of a report is one of its own, or a part of one of its series."""
        return name in self.figures or any(name.startswith(f"{series}-") for series in self.series)

    def csv_tables(self, source: ReportInput) -> Iterator[CsvTable]:
        """Its tables of a report, without those that have no rows there."""
        made = (table.csv(source) for table in self.tables)
        return (table for table in made if table is not None)
