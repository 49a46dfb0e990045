"""`scaling.csv`: a row a platform and size."""

from typing import Final

from virtoll.report.table import Table, caveat, count, number, shared, text
from virtoll.stats.scaling import Step

SIZES: Final = Table[Step](
    "scaling",
    "a platform and a size of what a router has to hold: routes, routers, transmitters",
    lambda source: [step for scaling in source.analysis.scalings for step in scaling.steps],
    (
        shared("platform", lambda row: row.platform),
        text("factor", "what has sizes", lambda row: row.factor),
        count("size", "how many", lambda row: row.size),
        shared("parameters", lambda row: row.task.parameters),
        shared("blocks", lambda row: len(row.rates)),
        number(
            "rate_frames_per_second",
            "frames/s",
            "the maximum forwarding rate: the median",
            lambda row: row.rate,
        ),
        number("rate_low", "frames/s", "the smallest of the blocks", lambda row: min(row.rates)),
        number("rate_high", "frames/s", "the largest of the blocks", lambda row: max(row.rates)),
        number("share_of_smallest", "share", "of the rate at the smallest size, by blocks", lambda row: row.ratio),
        number("share_low", "share", "the smallest of the blocks", lambda row: min(row.ratios, default=None)),
        number("share_high", "share", "the largest of the blocks", lambda row: max(row.ratios, default=None)),
        number(
            "load_ns",
            "ns",
            "how long loading the routes took, by the outside clock; empty: none",
            lambda row: row.median_load_ns,
        ),
        shared("jain", lambda row: row.jain),
        caveat(lambda row: row.platform),
    ),
    optional=True,
)
