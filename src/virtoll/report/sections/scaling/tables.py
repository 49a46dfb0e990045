"""`scaling.csv`: a row a platform and size."""

from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.table import Table, WithCaveat, count, number, shared, text, with_caveats
from virtoll.stats.scaling import Step


def _steps(source: ReportInput) -> list[WithCaveat[Step]] | None:
    steps = [step for scaling in source.analysis.scalings for step in scaling.steps]
    return with_caveats(source.analysis, steps) if source.analysis.scalings else None


SIZES: Final = Table[WithCaveat[Step]](
    "scaling",
    "a platform and a size of what a router has to hold: routes, routers, transmitters",
    _steps,
    (
        shared("platform", lambda row: row.measured.platform),
        text("factor", "what has sizes", lambda row: row.measured.factor),
        count("size", "how many", lambda row: row.measured.size),
        shared("parameters", lambda row: row.measured.task.parameters),
        shared("blocks", lambda row: len(row.measured.rates)),
        number(
            "rate_frames_per_second",
            "frames/s",
            "the maximum forwarding rate: the median",
            lambda row: row.measured.rate,
        ),
        number("rate_low", "frames/s", "the smallest of the blocks", lambda row: min(row.measured.rates)),
        number("rate_high", "frames/s", "the largest of the blocks", lambda row: max(row.measured.rates)),
        number(
            "share_of_smallest", "share", "of the rate at the smallest size, by blocks", lambda row: row.measured.ratio
        ),
        number("share_low", "share", "the smallest of the blocks", lambda row: min(row.measured.ratios, default=None)),
        number("share_high", "share", "the largest of the blocks", lambda row: max(row.measured.ratios, default=None)),
        number(
            "load_ns",
            "ns",
            "how long loading the routes took, by the outside clock; empty: none",
            lambda row: row.measured.median_load_ns,
        ),
        shared("jain", lambda row: row.measured.jain),
        shared("caveat", lambda row: row.caveat),
    ),
)
