"""What the page, the terminal and the report's document say of a user's needs.

Main types: `AdviceView` and `Adviser`, who makes one of an analysis. That is the command line: it alone knows the
workloads that a need may name, and plans the experiments that would tell. No numbers are computed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from virtoll.report.rows import TableRow
from virtoll.stats.analysis import Analysis


@dataclass(frozen=True)
class AdviceView:
    """A need in words: a row for each platform, those that meet it first.

    `parts`: of the need. Each row's first cell is of the whole need, one follows for each part, and the last is of how
    many guests. `beside`: (platforms, lines) of guests side by side. `experiments`: (what it would tell, the text of
    its file, None: there is none). `document`: all of it for a program.
    """

    parts: tuple[str, ...]
    family_line: str
    rows: tuple[TableRow, ...]
    beside: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    cautions: tuple[str, ...]
    experiments: tuple[tuple[str, str | None], ...]
    document: Mapping[str, Any]

    @property
    def need(self) -> str:
        """The whole of it."""
        return " + ".join(self.parts)


Adviser = Callable[[Analysis], AdviceView]


def advice_lines(view: AdviceView) -> list[str]:
    """The answer in short: which platforms meet the need, which do not, and of which it is not known."""
    by_answer: dict[str, list[str]] = {}
    for row in view.rows:
        by_answer.setdefault(row.cells[0].main, []).append(row.head)
    return [f"need: {view.need}", *(f"  {answer}: {', '.join(platforms)}" for answer, platforms in by_answer.items())]
