"""`compared.csv`: a row for each comparison of the second run with the first."""

from dataclasses import dataclass
from typing import Final

from virtoll.report.csv_table import CsvTable
from virtoll.report.table import Table, count, family_of, joint_interval, number, of_comparison, of_task, shared, text
from virtoll.stats.between_runs import Between, Sample
from virtoll.stats.compare import Comparison, Pair


@dataclass(frozen=True)
class BothRuns:
    """A comparison with its pair of labels and what each run has of it."""

    comparison: Comparison
    pair: Pair
    first: Sample
    second: Sample


def _comparison(row: BothRuns) -> Comparison:
    return row.comparison


COMPARED: Final = Table[BothRuns](
    "compared",
    "a platform and task in the second run, against the first (`virtoll compare`)",
    None,
    (
        text("platform", "the platform's label in the second run", lambda row: row.pair.second),
        text("against", "the label in the first run that it is compared with", lambda row: row.pair.first),
        *of_task(lambda row: row.comparison.task),
        number(
            "first_value",
            "`unit`",
            "the first run's: by cost as in its own report, else what is compared; empty: no value",
            lambda row: row.first.value and row.first.value.value,
        ),
        number(
            "second_value",
            "`unit`",
            "the same in the second run",
            lambda row: row.second.value and row.second.value.value,
        ),
        count("first_blocks", "blocks of the first run that gave a value", lambda row: row.first.blocks),
        count("second_blocks", "blocks of the second run that gave a value", lambda row: row.second.blocks),
        number(
            "first_share",
            "share",
            "of the baseline's performance in the first run; empty: not compared by cost",
            lambda row: row.first.share,
        ),
        number("second_share", "share", "the same in the second run", lambda row: row.second.share),
        number(
            "share",
            "share",
            "the second's performance relative to the first's; by cost the ratio of both shares",
            lambda row: row.comparison.share,
        ),
        *of_comparison("low high", _comparison),
        *joint_interval(_comparison),
        *of_comparison("times_slower p_value p_adjusted", _comparison),
        shared("family", lambda row: family_of(row.comparison)),
        *of_comparison("verdict at_least margin smallest_detectable_factor reason caveat", _comparison),
    ),
)


def compared_table(between: Between) -> CsvTable:
    """The table of a comparison of two runs."""
    return COMPARED.of(
        BothRuns(comparison, between.pair(comparison.platform), *between.samples(comparison))
        for comparison in between.comparisons
    )
