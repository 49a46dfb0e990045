"""A run folder as an object: `load` finds it, `Run` hands out its records, its analysis and its report."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from virtoll.api.folders import FoundRun, found_run
from virtoll.api.frames import Rows, frame_of
from virtoll.api.tables import Runs, TableName, Tables, load_all
from virtoll.runfolder.records import Manifest, TrialRecord

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from virtoll.report import Analysis, CellSummary, Comparison, Task


@overload
def load(run: str | Path = "latest") -> Run: ...
@overload
def load(run: str | Path, *others: str | Path) -> Runs: ...
def load(run: str | Path = "latest", *others: str | Path) -> Run | Runs:
    """A run by its folder, its name, its packed file, or ``latest``; of several, what ``load_all`` gives.

    Nothing of it is read before it is asked for. Raises ``UsageError`` where there is no such run, or the file is none
    or damaged; reading raises ``RunFolderError`` with file and line.
    """
    if others:
        return load_all(run, *others)
    location = found_run(str(run))
    return Run(location.folder, location)


class Run(Tables):
    """One run: what was measured, and what the analysis says of it. Each part is read or computed once."""

    def __init__(self, folder: Path, location: FoundRun | None = None) -> None:
        """``folder``: the run's; ``location``: how ``load`` found it."""
        self.folder = folder
        self._found = location or FoundRun(folder)

    def __repr__(self) -> str:
        """The run as it can be loaded again."""
        return f"virtoll.load({str(self._found.given)!r})"

    @cached_property
    def analysis(self) -> Analysis:
        """All that tables, figures and the page are made of."""
        from virtoll.report import load_analysis

        return load_analysis(self.folder)

    @property
    def manifest(self) -> Manifest:
        """What was to be measured, and on what: experiment, plan, host, image."""
        return self.analysis.data.manifest

    @property
    def state(self) -> str:
        """``complete``, ``running``, ``interrupted`` or ``failed``."""
        return self.analysis.data.state.state

    @property
    def trials(self) -> tuple[TrialRecord, ...]:
        """Every trial that has ended, as it was stored, in the run's order; warm-ups too."""
        return tuple(sorted(self.analysis.data.every_trial, key=lambda record: record.trial))

    @property
    def medians(self) -> Mapping[tuple[str, Task], CellSummary]:
        """The median and interval of each platform's label and task that has values."""
        return self.analysis.cells

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """Each platform's share of the baseline's performance, with interval and verdict, a task each."""
        return self.analysis.comparisons

    def rows(self, of: Rows = "medians") -> list[dict[str, Any]]:
        """Plain rows, all with the same keys, for ``pandas.DataFrame`` and its like.

        ``medians`` and ``comparisons`` are those of ``virtoll report --json`` (docs/report-json.md). ``trials`` has a
        row for each trial: its place in the plan, how it ended and why. What is missing is None, and never zero.
        """
        from virtoll.report.row_tables import ROW_TABLES, TRIALS, records_of

        return TRIALS.of(self.trials).records() if of == "trials" else records_of(ROW_TABLES[of], self.analysis)

    def frame(self, of: Rows = "medians") -> pd.DataFrame:
        """The same rows as a table of pandas, with typed columns; ``parameters`` is a text in each (docs/python.md).

        What is missing is NA. Raises ``UsageError`` where pandas is not installed: it is the extra ``data``.
        """
        rows = self.rows(of)
        if of == "trials":
            from virtoll.runfolder.parameters import canonical_text

            rows = [{**row, "parameters": canonical_text(row["parameters"])} for row in rows]
        return frame_of(rows, of, self.folder.name)

    def _arrow(self, name: TableName) -> pa.Table:
        from virtoll.report.build import load as load_data
        from virtoll.report.dataset.arrow import arrow_tables
        from virtoll.runfolder.damage import damage_told

        with damage_told(self.folder):
            return arrow_tables(load_data(self.folder))[name]

    def report(self) -> Path:
        """Write the report anew, as ``virtoll report`` does, and return its page."""
        from virtoll.api.needs import adviser_of
        from virtoll.report import build_report

        built = build_report(self.folder, self._found.report, adviser=adviser_of(self.folder, []))
        self.__dict__.setdefault("analysis", built.analysis)  # it was computed: not a second time
        return built.path

    def figures(self) -> dict[str, Path]:
        """The figures of the report that is there, as SVG, by their file's name; none before ``report``."""
        return {path.stem: path for path in sorted((self._found.report / "figures").glob("*.svg"))}
