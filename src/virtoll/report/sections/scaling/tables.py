"""`scaling.csv`: a row a platform and size."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, count, number, shared, text
from virtoll.stats.scaling import Step


@dataclass(frozen=True)
class StepRow:
    """A platform at a size, and why its numbers are no measurements of speed; None: they are."""

    step: Step
    caveat: str | None


def _rows(source: ReportInput) -> Iterator[StepRow]:
    caveats = source.analysis.caveats
    for scaling in source.analysis.scalings:
        for step in scaling.steps:
            yield StepRow(step, caveats.get(scaling.platform))


SIZES: Final = Table[StepRow](
    "scaling",
    "a platform and a size of what a router has to hold: routes, routers, transmitters",
    lambda source: _rows(source) if source.analysis.scalings else None,
    (
        shared("platform", lambda row: row.step.platform),
        text("factor", "what has sizes", lambda row: row.step.factor),
        count("size", "how many", lambda row: row.step.size),
        shared("parameters", lambda row: row.step.task.parameters),
        shared("blocks", lambda row: len(row.step.rates)),
        number(
            "rate_frames_per_second",
            "frames/s",
            "the maximum forwarding rate: the median",
            lambda row: row.step.rate,
        ),
        number("rate_low", "frames/s", "the smallest of the blocks", lambda row: min(row.step.rates)),
        number("rate_high", "frames/s", "the largest of the blocks", lambda row: max(row.step.rates)),
        number("share_of_smallest", "share", "of the rate at the smallest size, by blocks", lambda row: row.step.ratio),
        number("share_low", "share", "the smallest of the blocks", lambda row: min(row.step.ratios, default=None)),
        number("share_high", "share", "the largest of the blocks", lambda row: max(row.step.ratios, default=None)),
        number(
            "load_ns",
            "ns",
            "how long loading the routes took, by the outside clock; empty: none",
            lambda row: row.step.median_load_ns,
        ),
        shared("jain", lambda row: row.step.jain),
        shared("caveat", lambda row: row.caveat),
    ),
)
