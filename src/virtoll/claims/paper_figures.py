"""The papers' figures and tables of results, and the same of a run: values with intervals, beside what is printed.

`reference/figures.yaml` says of each what a run measures of it, or why nothing does. The papers' hosts are gone, so
that shares of performance stand beside each other; where a paper draws values alone, a run's have an axis of their own.
Pure. Main types: `PaperFigure` with its `Part`s, `Mark` (one measured value) and `Printed` (one of the paper's).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Literal, Self

import yaml
from pydantic import Field, TypeAdapter, model_validator

from virtoll.claims.published_rows import Question, Selected, questions
from virtoll.reference.published import PublishedValue, load_study, published_values
from virtoll.stats.analysis import Analysis
from virtoll.stats.clocks import ClockError
from virtoll.stats.compared import Compared, Each, Range, Scalar, Strict
from virtoll.stats.intervals import ends
from virtoll.stats.ratios import Ratio, Ratios
from virtoll.stats.readings import Cell
from virtoll.stats.sides import matches

Form = Literal["bars", "lines"]
MBIT = "Mbit/s"


class Part(Strict):
    """One drawing of a figure: `now` is compared, and drawn over the parameter `x`, a panel for each of `panel`.

    `name`: the paper's, such as `a`. `over`: `rates`, the list of rates that were offered, or `neighbour`, what the
    guest beside was sent and forwarded. `form`: where it is not the figure's. `change`: a share is printed as a change
    of it. `rows`: the published numbers that stand beside it.
    """

    name: str = ""
    shows: str
    form: Form | None = None
    over: Literal["rates", "neighbour"] | None = None
    x: str | None = None
    panel: list[str] = Field(default_factory=list)
    change: bool = False
    now: Compared
    rows: list[Selected] = Field(default_factory=list)

    @property
    def share(self) -> bool:
        """Whether it shows shares, of performance or of frames; else values in a unit of their own."""
        if self.over is not None:
            return False
        return self.now.against is not None or self.now.reading in ("delivered", "neighbour-delivered", "least-share")


class PaperFigure(Strict):
    """One figure or table of a paper; `why_not`: why nothing gives it again, empty where something does.

    `platforms`: which of the paper's it shows; none: all of them.
    """

    paper: str
    kind: Literal["figure", "table"]
    number: str
    title: str
    note: str = ""
    form: Form
    platforms: list[str] = Field(default_factory=list)
    parts: list[Part] = Field(default_factory=list)
    why_not: str = ""

    @model_validator(mode="after")
    def _parts_or_a_reason(self) -> Self:
        if bool(self.parts) == bool(self.why_not):
            raise ValueError(f"{self.paper}, {self.kind} {self.number}: give 'parts', or 'why_not' it has none")
        return self

    @property
    def anchor(self) -> str:
        """Its name in a link or a file: 'figure-9b'."""
        return f"{self.kind}-{self.number}".replace("(", "").replace(")", "")

    @property
    def title_words(self) -> str:
        """'Figure 4', 'Table 1'."""
        return f"{self.kind.capitalize()} {self.number}"


@dataclass(frozen=True)
class Mark:
    """One measured value of a part. `x`: None where the platforms stand side by side; `unit`: empty for a share.

    `low` and `high`: its 95 % interval, None without one; `reason`: why there is none, or what limits it.
    `of_baseline`: whether it is the bare host's. `offered`: what was sent, where the value is what of it came through.
    """

    panel: tuple[Scalar | None, ...]
    platform: str
    x: Scalar | None
    task: str
    value: float
    low: float | None
    high: float | None
    unit: str
    blocks: int
    workload: str
    reason: str = ""
    caveat: str | None = None
    of_baseline: bool = False
    lower_is_better: bool = False
    offered: float | None = None


@dataclass(frozen=True)
class Printed:
    """What a paper prints of a part, at one place of it; its share is in the question."""

    panel: tuple[Scalar | None, ...]
    platform: str
    x: Scalar | None
    question: Question


@cache
def paper_figures() -> tuple[PaperFigure, ...]:
    """What `reference/figures.yaml` says."""
    text = files("virtoll").joinpath("reference", "figures.yaml").read_text(encoding="utf-8")
    return tuple(TypeAdapter(list[PaperFigure]).validate_python(yaml.safe_load(text)))


def figures_of_study(study: str) -> tuple[PaperFigure, ...]:
    """Those of one paper, figures before tables."""
    return tuple(figure for figure in paper_figures() if figure.paper == study)


def rows_of(figure: PaperFigure, part: Part) -> list[PublishedValue]:
    """The published numbers that belong to a part."""
    rows = [row for row in published_values() if row.paper == figure.paper]
    return [row for row in rows if any(selection.holds(row) for selection in part.rows)]


def marks_of(figure: PaperFigure, analysis: Analysis) -> tuple[tuple[Mark, ...], ...]:
    """What a run measured of each part; a part of which it measured nothing is empty."""
    ratios = Ratios(analysis)

    def of_part(part: Part) -> tuple[Mark, ...]:
        if part.over == "rates":
            return tuple(_rates(part, analysis))
        if part.over == "neighbour":
            return tuple(_of_neighbours(part, analysis))
        baseline = analysis.data.manifest.baseline
        return tuple(replace(mark, of_baseline=mark.platform == baseline) for mark in _marks(part, ratios))

    return tuple(map(of_part, figure.parts))


def printed_of(figure: PaperFigure, part: Part, marks: Sequence[Mark]) -> tuple[Printed, ...]:
    """What the paper prints of a part: at each place that was measured and that a number is about.

    A number about nothing that was measured stands where it says itself, or without a place.
    """
    study, ids = load_study(figure.paper), {id(row) for row in rows_of(figure, part)}
    printed = []
    for question in questions():
        if question.then.low is None or not any(id(value) in ids for value, _ in question.then.values):
            continue
        is_baseline = question.platform == study.baseline
        name = "the bare host" if is_baseline else study.platform(question.platform).name
        places = dict.fromkeys((mark.panel, mark.x) for mark in marks if _is_about(question, part, mark))
        if not places:
            places = {(tuple(_said(question, parameter) for parameter in part.panel), _said(question, part.x)): None}
        printed += [Printed(panel, name, x, question) for panel, x in places]
    return tuple(printed)


def _is_about(question: Question, part: Part, mark: Mark) -> bool:
    """Whether a measured value stands where a number says that it is about."""
    names = [*part.panel, *([part.x] if part.x else [])]
    values = [*mark.panel, *([mark.x] if part.x else [])]
    where = question.now.where
    return all(name not in where or matches(value, where[name]) for name, value in zip(names, values, strict=True))


def _said(question: Question, name: str | None) -> Scalar | None:
    """What a number itself says of a parameter: the first of several, None where it is a range or nothing."""
    value = None if name is None else question.now.where.get(name)
    if isinstance(value, list):
        return value[0]
    return None if isinstance(value, Range | Each) else value


def _marks(part: Part, ratios: Ratios) -> Iterator[Mark]:
    compared = [part.now]
    if part.now.against is None and part.now.platforms != "baseline":
        # A filter never takes the baseline, which has a value of its own where nothing is a share of it.
        compared = [part.now.model_copy(update={"platforms": "baseline"}), part.now]
    for comparison in compared:
        measured = ratios.sides(comparison)
        if isinstance(measured, str):
            continue
        for side in measured:
            if isinstance(side, ClockError):
                continue
            ratio = ratios.ratio(comparison, side, 1, value=comparison.against is None)
            if ratio.estimate is not None:
                yield _mark(part, side[0], ratio, ratio.estimate)


def _mark(part: Part, cell: Cell, ratio: Ratio, estimate: float) -> Mark:
    low, high = ends(ratio.interval)
    return Mark(
        panel=tuple(cell.attributes.get(parameter) for parameter in part.panel),
        platform=ratio.platform,
        x=None if part.x is None else cell.attributes.get(part.x),
        task=_task_words(cell, ratio),
        value=estimate,
        low=low,
        high=high,
        unit="" if part.share else ratio.unit,
        blocks=ratio.blocks,
        workload=cell.task.workload,
        reason=ratio.reason,
        caveat=ratio.caveat,
        lower_is_better=cell.lower_is_better,
    )


def _task_words(cell: Cell, ratio: Ratio) -> str:
    """What was run, with the size of its frames, which a run of one size does not tell."""
    size = f"{cell.attributes.get('frame_size_bytes')} B"
    of_size = size if cell.task.shape is not None and size not in ratio.task else ""
    return ", ".join(filter(None, (ratio.task, of_size, ratio.under)))


def _rates(part: Part, analysis: Analysis) -> Iterator[Mark]:
    """Sweeps over a list of rates: what was forwarded over what was offered, both means over the blocks."""
    for curve in analysis.listed_rates.curves:
        parameters = {**json.loads(curve.task.parameters), "sources": curve.shape.sources}
        is_control = curve.platform == analysis.data.manifest.control
        if is_control or parameters["sources"] != 1 or curve.task.workload != part.now.workload:
            continue
        listed = [point.target_mbit_per_second for point in curve.points if point.target_mbit_per_second is not None]
        reach = max(listed, default=0.0) * curve.shape.streams
        for point in curve.points:
            if point.target_mbit_per_second is None and point.offered.value > reach:
                continue  # flat out, beyond the list: no paper could offer so much
            low, high = ends(point.forwarded.interval)
            yield Mark(
                panel=tuple(parameters.get(parameter) for parameter in part.panel),
                platform=curve.platform,
                x=point.offered.value,
                task=curve.task.label,
                value=point.forwarded.value,
                low=low,
                high=high,
                unit=MBIT,
                blocks=point.blocks,
                workload=curve.task.workload,
                caveat=analysis.caveats.get(curve.platform),
                offered=point.offered.value,
            )


def _of_neighbours(part: Part, analysis: Analysis) -> Iterator[Mark]:
    """What the guest beside forwarded of what it was sent, means over the blocks, by the size of the first's frames."""
    where = part.now.where
    for router in analysis.neighbour_routers:
        sent, through, condition = router.into_other, router.out_of_other, router.condition
        is_of = matches(condition.load, where["neighbour_load"])
        if sent is None or through is None or not is_of or condition.rate_share != where["neighbour_rate_share"]:
            continue
        low, high = ends(through.interval)
        yield Mark(
            panel=(condition.affinity,),
            platform=router.platform,
            x=router.shape.frame_size_bytes,
            task=router.task.label,
            value=through.value,
            low=low,
            high=high,
            unit=MBIT,
            blocks=router.blocks,
            workload=router.task.workload,
            caveat=analysis.caveats.get(router.platform),
            of_baseline=router.platform == analysis.data.manifest.baseline,
            offered=sent.value,
        )


def placed_text(value: Scalar | None) -> str:
    """A place on an axis in words: numbers of many digits in groups of three."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, str):
        return value
    return f"{value:,.10g}".replace(",", " ") if abs(value) >= 10_000 else f"{value:.10g}"
