"""One part of a paper's figure or table with what all runs measured of it, and a measured value of it as a cell."""

from __future__ import annotations

import math
from dataclasses import dataclass

from virtoll import units
from virtoll.claims.paper_figures import Form, Mark, PaperFigure, Part, Printed
from virtoll.report import words
from virtoll.report.rows import Shown

OfRun = tuple[str, Mark]
"""A run's name, and a value of it."""


@dataclass(frozen=True)
class PartData:
    """One part with what all runs measured of it, each value by its run, and what the paper prints."""

    figure: PaperFigure
    part: Part
    marks: tuple[OfRun, ...]
    printed: tuple[Printed, ...]

    @property
    def form(self) -> Form:
        """How the paper draws it."""
        return self.part.form or self.figure.form

    @property
    def title(self) -> str:
        """'Figure 5(a): Super Pi, time'."""
        number = f"{self.figure.title_words}{f'({self.part.name})' if len(self.part.name) == 1 else ''}"
        return f"{number}: {self.part.shows}"


def value_of(part: Part, mark: Mark) -> Shown:
    """A measured value as a cell."""
    kind = "caveat" if mark.caveat else ""
    small = ""
    ends = words.ends_of(mark.low, mark.high)
    if part.change:
        return _change(mark, ends, kind)
    if part.share:
        main = units.percent_estimate(mark.value, ends if ends is not None and math.isfinite(ends[1]) else None)
        small = words.ends(*ends) if ends is not None else ""
    elif mark.offered is not None:
        main = f"{units.significant(mark.value)} {mark.unit}"
        small = f"of {units.significant(mark.offered)} offered"
    else:
        main = units.estimate(mark.value, ends, mark.unit)
        small = units.between(*ends, mark.unit) if ends is not None else ""
    return Shown(main, small or mark.reason, kind, mark.reason, mark.caveat or "")


def _change(mark: Mark, ends: tuple[float, float] | None, kind: str) -> Shown:
    """A share as a change, with its sign, as a paper prints it."""
    small = ""
    if ends is not None:
        small = f"{signed(ends[0] - 1)} to {signed(ends[1] - 1) if math.isfinite(ends[1]) else '?'}"
    return Shown(signed(mark.value - 1), small or mark.reason, kind, mark.reason, mark.caveat or "")


def signed(share: float) -> str:
    """A change as papers print it: '+4.20 %', '−18.2 %', '0 %'."""
    return f"+{units.percent(share)}" if share > 0 else units.percent(share)
