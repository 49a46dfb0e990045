"""`explanation.csv`: a row a counter of each workload and platform, also those whose difference may be zero."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from virtoll.report.report_input import ReportInput
from virtoll.report.sections.explanation.page import explained
from virtoll.report.table import Table, caveat, number, of_estimate, shared, text
from virtoll.runfolder.explain_records import Counter, counter
from virtoll.stats.explanation import Counted, Explanation


@dataclass(frozen=True)
class CounterRow:
    """A counter of what was observed."""

    explanation: Explanation
    counted: Counted

    @property
    def counter(self) -> Counter:
        """The counter's entry."""
        return counter(self.counted.name)[0]

    @property
    def words(self) -> str:
        """The counter in words."""
        return self.counter.words(counter(self.counted.name)[1])


def _rows(source: ReportInput) -> Iterable[CounterRow] | None:
    every = explained(source.analysis)
    return _counter_rows(every) if every else None


def _counter_rows(every: Iterable[Explanation]) -> Iterator[CounterRow]:
    for explanation in every:
        for counted in _all_of(explanation):
            yield CounterRow(explanation, counted)


def _all_of(explanation: Explanation) -> Iterator[Counted]:
    yield from (*explanation.different, *explanation.likely)
    yield from (*explanation.single, *explanation.open, *explanation.only_here)


COUNTERS: Final = Table[CounterRow](
    "explanation",
    "a counter of an observed workload on a platform",
    _rows,
    (
        shared("platform", lambda row: row.explanation.platform),
        shared("workload", lambda row: row.explanation.workload),
        shared("parameters", lambda row: row.explanation.parameters),
        text("counter", "what was counted, in words", lambda row: row.words),
        text("whose", "of which processes or CPUs", lambda row: row.counter.whose),
        shared("unit", lambda row: row.counter.unit or "events"),
        text("per", "job or frame: what every value is of", lambda row: row.explanation.unit),
        number("value", "`unit`", "of the platform, a job or frame", lambda row: row.counted.each),
        number("baseline_value", "`unit`", "of the baseline", lambda row: row.counted.baseline),
        *of_estimate(
            ("difference_mean", "difference_low", "difference_high"),
            "`unit`",
            ("what the platform has more", "the low end of its interval; empty: one trial"),
            lambda row: row.counted.difference,
        ),
        number(
            "p_adjusted",
            "",
            "of the difference, by Holm over the counters of the platform and workload; certain below 0.05",
            lambda row: row.counted.p_adjusted,
        ),
        shared("trials", lambda row: row.counted.trials),
        caveat(lambda row: row.explanation.platform),
    ),
)
