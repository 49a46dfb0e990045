"""A verdict in words: its numbers are rounded to the safe side, and its direction is the metric's."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.support.facts import assert_facts
from tests.support.report_runs import analysis_of
from tests.support.verdicts import SOME, VERDICTS, judged

from virtoll.report import words
from virtoll.report.headline import platform_words
from virtoll.report.report_input import ReportInput
from virtoll.report.tables import csv_tables
from virtoll.stats.compare import Verdict
from virtoll.stats.intervals import Interval


@pytest.mark.parametrize(
    ("name", "text", "short"),
    [
        ("slower", ("26", "slower", "18"), ("26×", "≥18×")),
        ("little slower", ("2.3", "slower", "1.9"), ("2.3×", "≥1.9×")),
        ("far slower", ("130", "slower", "100"), ("130×", "≥100×")),
        ("slower in percent", ("12 %", "slower", "4.8 %"), ("12%", "≥4.8%")),
        ("faster in percent", ("12 %", "faster"), ("12%", "≥12%")),
        ("slower without a bound", ("20 %", "slower"), ("20%",)),
        ("alike", ("alike", "10 %"), ("alike", "10%")),
        ("not known", ("not known", "1.6", "15 %", "faster"), ("1.6×", "15%")),
        ("not known, far", ("not known", "4.8", "41"), ("4.8×", "41×")),
        ("not known, beyond words", ("not known", "1000", "1 %"), ("1000×", "1%")),
        ("one block", ("not known", "11 %", "slower"), ("not known", "11%")),
        ("two lower bounds", ("no verdict", "two lower bounds"), ("no verdict",)),
        ("not measured", ("not measured",), ("–",)),
        ("functional", ("functional only",), ("functional only",)),
    ],
)
def test_a_verdict_has_its_numbers(name: str, text: tuple[str, ...], short: tuple[str, ...]) -> None:
    verdict = words.said(VERDICTS[name])
    assert_facts(verdict.text, *text)
    assert_facts(f"{verdict.short_head} {verdict.short_tail}", *short)


def test_cpu_time_is_more_or_less_and_not_slower() -> None:
    task = replace(SOME.task, metric=SOME.task.metric.replace(source="cpu_points"))
    more, less = (replace(VERDICTS[name], task=task) for name in ("slower", "faster in percent"))
    assert_facts(words.said(more).text, "26", "more", "18")
    assert_facts(words.said(less).text, "12 %", "less")


def test_a_bound_is_never_more_than_what_was_shown() -> None:
    """Whatever is printed as a bound is rounded down, and never away: below 1.1 it is in percent."""
    for number in range(1, 400):
        least = 1.013**number
        bound = words.said(judged(Verdict.SLOWER, 1 / (least * 1.6), at_least=least)).short_tail.strip("≥×")
        factor = 1 + float(bound.removesuffix("%")) / 100 if bound.endswith("%") else float(bound)
        assert factor <= least + 1e-9 < factor * 1.11


def test_a_detectable_difference_is_a_factor_or_beyond_words() -> None:
    numbers = [words.smallest(one) for one in (1.004, 1.274, 1.99, 3.52, 48.0)]
    assert numbers == ["1.01", "1.27", "2.0", "3.5", "48"]
    assert_facts(words.smallest(16_200.0), 100)


def test_a_share_whose_interval_leaves_out_one_is_a_factor() -> None:
    assert_facts(words.times(0.4, 0.35, 0.45), "2.5", "slower", "2.2")
    assert_facts(words.times(1.2, 1.1, 1.3), "20 %", "faster", "10 %")
    assert words.times(0.9, 0.8, 1.01) == ""
    assert_facts(words.times(0.2, 0.0, 0.25), "5.0", "slower", "4.0")  # open at one end


def test_what_is_not_known_comes_with_what_is_possible() -> None:
    own, together = Interval(0.15, 0.25, 0.95, "t"), Interval(0.03, 1.25, 0.95, "t")
    some = judged(Verdict.UNKNOWN, 0.2, interval=own, simultaneous=together)
    found = replace(analysis_of("whole"), comparisons=(some,))
    (phrase,) = platform_words(found)[some.platform]
    assert_facts(phrase, some.task.metric.title, some.task.size, "34", "25 %")
    (table,) = (one for one in csv_tables(ReportInput(found)) if one.name == "comparisons")
    *_, row = table.records()
    assert (row["verdict"], row["share"], row["low"], row["high"]) == ("not known", 0.2, 0.15, 0.25)
    assert (row["family"], row["at_least"], row["margin"]) == ("primary", None, None)
    assert next(iter(table.records()))["family"] == "A/A"


def test_of_cpu_time_what_is_possible_is_more_and_less() -> None:
    task = replace(SOME.task, metric=SOME.task.metric.replace(source="cpu_points"))
    wide = judged(Verdict.UNKNOWN, 0.9, simultaneous=Interval(0.5, 1.5, 0.95, "t"))
    found = replace(analysis_of("whole"), comparisons=(replace(wide, task=task),))
    (phrase,) = platform_words(found)[SOME.platform]
    assert_facts(phrase, "2.0", "more", "1.5", "less")
