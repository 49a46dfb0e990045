"""How many blocks tell how much: against a textbook's example and a plain search, and how long a block takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from tests.support.by_hand import SECOND, job, task
from tests.support.facts import refused
from tests.support.synthetic_records import fitness

from virtoll.runfolder.records import FitnessRecord, TrialRecord
from virtoll.runfolder.store import parse_record
from virtoll.stats.compare import Comparison, Verdict, compare
from virtoll.stats.foreseen import foreseen
from virtoll.stats.remaining import block_seconds, remaining
from virtoll.stats.values import Observation, Task
from virtoll.stats.verdicts import Rules, decide

JOB = task("job", "marks")
FIGURE = task("job", "figures", name="ops", better="higher", primary=False)


def observed(mean: float, deviation: float, blocks: int = 10, *, platform: str = "p", own: Task = JOB) -> Comparison:
    """Log shares of an even number of blocks, half of them above their mean and half below it."""
    away = deviation * math.sqrt((blocks - 1) / blocks) if blocks > 1 else 0.0
    logs = [mean + (away if block % 2 else -away) for block in range(blocks)]
    sign = 1 if own.metric.better == "higher" else -1
    values = [Observation(own, platform, block, block, block, math.exp(sign * one)) for block, one in enumerate(logs)]
    return compare(own, platform, values, [one._replace(platform="base", value=1.0) for one in values], None)


def left(*comparisons: Comparison, rules: Rules | None = None, **more: Any) -> list[tuple[str, int | None]]:
    """Of comparisons of one family, which are not decided, and how many blocks more they need."""
    rules = rules or Rules()
    decided, _ = decide(comparisons, (), rules)
    return [(one.comparison.platform, one.blocks) for one in remaining(decided, (), rules, **more)]


def plainly(mean: float, deviation: float, blocks: int, quantile: float, margin: float | None = None) -> int:
    """The first number of blocks at which Student's t at that level and at 80 % power is within reach."""
    totals = np.arange(blocks + 1, 1001)
    of_both = scipy.stats.t.ppf(quantile, totals - 1) + scipy.stats.t.ppf(0.8, totals - 1)
    needed = of_both * deviation / np.sqrt(totals)
    enough = abs(mean) >= needed if margin is None else abs(mean) + needed < math.log1p(margin)
    assert enough.any()
    return int(totals[enough.argmax()]) - blocks


@pytest.mark.parametrize("sign", [1, -1])
def test_half_a_standard_deviation_takes_34_pairs(sign: int) -> None:
    """Cohen 1988 and G*Power: two-sided paired t at 5 % and 80 % power, d = 0.5. Ten blocks are there."""
    assert left(observed(sign * 0.5, 1.0)) == [("p", 24)]


@pytest.mark.parametrize(
    ("rules", "quantile"), [(Rules(), 0.975), (Rules(level=0.01), 0.995), (Rules(level=0.1, alike_level=0.01), 0.95)]
)
@pytest.mark.parametrize("blocks", [2, 4, 10])
def test_a_difference_takes_what_a_plain_search_finds(rules: Rules, quantile: float, blocks: int) -> None:
    expected = plainly(0.11, 0.25, blocks, quantile)
    assert left(observed(0.11, 0.25, blocks), rules=rules) == [("p", expected)]


def test_degrees_of_freedom_grow_with_the_blocks() -> None:
    """Of two blocks: at eight (2.365 + 0.896) x 0.86 / sqrt(8) = 0.99 is below 1; at seven 1.09 is not."""
    assert left(observed(1.0, 0.86, 2)) == [("p", 6)]


@pytest.mark.parametrize(
    ("rules", "quantile", "margin"),
    [(Rules(), 0.95, 0.1), (Rules(alike_level=0.01), 0.99, 0.1), (Rules(margin=0.05, level=1e-9), 0.95, 0.05)],
)
def test_no_difference_takes_what_a_plain_search_finds(rules: Rules, quantile: float, margin: float) -> None:
    expected = plainly(0.01, 0.25, 10, quantile, margin)
    assert left(observed(0.01, 0.25), rules=rules) == [("p", expected)]


def test_each_of_a_family_has_its_part_of_the_level() -> None:
    """Of three; one block has no test, and is in no family. A mean at the margin itself is never shown alike."""
    edge = math.log1p(0.1)
    family = [
        observed(edge * 0.99, 9.0, platform="never"),
        observed(0.3, 0.5, platform="later"),
        observed(0.4, 0.5, platform="sooner"),
        observed(9.0, 1.0, 1, platform="one block"),
    ]
    part = 1 - 0.05 / 2 / 3
    assert left(*family) == [
        ("sooner", plainly(0.4, 0.5, 10, part)),
        ("later", plainly(0.3, 0.5, 10, part)),
        ("never", None),
    ]
    known = observed(5.0, 0.1, platform="known")
    assert left(known, observed(0.5, 1.0)) == [("p", plainly(0.5, 1.0, 10, 1 - 0.05 / 2 / 2))]


def test_neither_other_metrics_nor_the_control_are_waited_for() -> None:
    primary, second = observed(0.5, 1.0), observed(0.5, 1.0, own=FIGURE)
    control = [observed(0.0, 1.0, platform="again"), observed(0.0, 1.0, platform="again", own=FIGURE)]
    found = remaining([second, primary], control, Rules())
    assert [(one.comparison, one.blocks) for one in found] == [(primary, 24)]
    assert {one.verdict for one in (primary, second)} == {Verdict.UNKNOWN}


@pytest.mark.parametrize(
    ("level_after", "quantile"), [(lambda _: 0.01, 0.995), (lambda more: 0.05 if more > 30 else 1e-9, None)]
)
def test_the_level_is_that_after_so_many_more(level_after: Callable[[int], float], quantile: float | None) -> None:
    expected = 31 if quantile is None else plainly(0.5, 1.0, 10, quantile)
    assert left(observed(0.5, 1.0), level_after=level_after) == [("p", expected)]
    alike = left(observed(0.0, 0.2), level_after=lambda _: 0.001)
    assert alike == [("p", plainly(0.0, 0.2, 10, 0.999, 0.1))], "also of what is alike"


def test_beyond_a_thousand_blocks_none_is_told() -> None:
    """An effect of 0.0887 standard deviations takes a thousand: (1.9623 + 0.8420)^2 / 0.0887^2 = 999.6."""
    assert left(observed(0.0887, 1.0)) == [("p", 990)]
    assert left(observed(0.0886, 1.0)) == [("p", None)]


def detectable(deviation: float, blocks: int, quantile: float) -> float:
    """Textbook: a difference that 80 % of paired t-tests of so many pairs tell from none."""
    return float(sum(scipy.stats.t.ppf([quantile, 0.8], blocks - 1)) * deviation / math.sqrt(blocks))


@pytest.mark.parametrize("blocks", [2, 5, 34])
def test_what_a_plan_would_detect_is_the_textbooks(blocks: int) -> None:
    """By platforms of 0.1, 0.2 and 0.4 the middle one's, at a third of the level; other metrics are a family of one."""
    earlier = [observed(0.0, one, 4, platform=name) for one, name in ((0.4, "r"), (0.1, "p"), (0.2, "q"))]
    beside = [observed(0.0, 0.7, 4, platform="again"), observed(0.0, 0.6, 4, platform="again", own=FIGURE)]
    other = observed(0.0, 0.3, 4, own=FIGURE)
    single = observed(0.0, 0.3, 1, platform="single")
    found = foreseen([*earlier, other, single], beside, blocks)
    assert {own: math.log(factor) for own, factor in found.items()} == pytest.approx(
        {JOB: detectable(0.2, blocks, 1 - 0.05 / 6), FIGURE: detectable(0.3, blocks, 0.975)}
    )
    asked = foreseen([other], [], blocks, family=10, level=0.01)
    assert math.log(asked[FIGURE]) == pytest.approx(detectable(0.3, blocks, 1 - 0.01 / 20))


def test_half_a_standard_deviation_is_what_34_pairs_detect() -> None:
    """Cohen 1988, G*Power: d = 0.5 at 34 pairs, two-sided 5 %, 80 % power; d = 0.4952 by their smallest."""
    (factor,) = foreseen([observed(0.0, 1.0)], [], 34).values()
    assert math.log(factor) == pytest.approx(0.4952, abs=1e-4)


def test_an_endless_noise_is_a_large_number_and_one_block_is_too_few() -> None:
    (factor,) = foreseen([observed(0.0, 300.0, 4)], [], 2).values()
    assert factor == math.exp(700)
    with refused(1, "block", 2, error=ValueError):
        foreseen([observed(0.0, 1.0, 4)], [], 1)
    assert foreseen([observed(0.0, 1.0, 1)], [], 5) == {}


def test_each_kind_of_metric_is_a_family_with_its_own_control() -> None:
    """At as many blocks as there are it is what each family, judged alone with its control, could detect."""
    second = task("other", "marks")
    platforms = [("p", 0.1), ("q", 0.2), ("r", 0.4)]
    primary = [observed(0.0, one, 4, platform=name, own=own) for name, one in platforms for own in (JOB, second)]
    control = [observed(0.0, 0.15, 4, platform="again", own=own) for own in (JOB, second)]
    figures = [replace(FIGURE, parameters=f'{{"a": {number}}}') for number in range(3)]
    others = [observed(0.0, 2 * one, 4, platform=name, own=own) for name, one in platforms for own in figures]
    noisy = [observed(0.0, 30.0, 4, platform="again", own=own) for own in figures]
    both = foreseen([*primary, *others], [*control, *noisy], 4)
    told = {
        family: statistics.median(math.log(one.smallest or 0) for one in decided if one.task == family)
        for own, beside in ((primary, control), (others, noisy))
        for decided in [decide(own, beside, Rules())[0]]
        for family in dict.fromkeys(one.task for one in own)
    }
    assert {family: math.log(factor) for family, factor in both.items()} == pytest.approx(told)
    assert len(told) == 5


def ran(number: int, block: int, began: float | None, ended: float | None) -> TrialRecord:
    moments = [None if one is None else round(one * SECOND) for one in (began, ended)]
    return job(number, 1, block=block, started_realtime_ns=moments[0], ended_realtime_ns=moments[1])


def test_a_block_takes_from_its_first_trial_to_its_last() -> None:
    """10, 30 and 14 s, in whatever order; a trial that did not run says nothing."""
    trials = [
        ran(1, 0, 102, 110),
        ran(2, 0, 100, 101),
        ran(3, 1, 200, 230),
        ran(4, 2, 300, 314),
        ran(5, 2, None, 999),
        ran(6, 2, 0, None),
    ]
    assert block_seconds(trials) == 14
    assert block_seconds(trials[:3]) == 20
    assert block_seconds(trials[4:]) is None


def state(after: int | None, monotonic: float, realtime: float) -> FitnessRecord:
    sample = parse_record(FitnessRecord, fitness(0))
    moments = {"monotonic_ns": round(monotonic * SECOND), "realtime_ns": round(realtime * SECOND)}
    return sample.replace(after_trial=after, **moments)


@pytest.mark.parametrize(
    ("samples", "seconds"),
    [
        ([state(None, 0, 50), state(1, 10, 60), state(2, 20, 70.9)], 20),
        ([state(None, 0, 50), state(1, 10, 60), state(2, 20, 71)], 30),
        ([state(None, 0, 50), state(1, 10, 60), state(2, 20, 69)], 30),
        ([state(1, 0, 50), state(2, 10, 61), state(3, 20, 75)], None),
        ([state(1, 10, 60), state(None, 0, 200), state(2, 10, 210)], 20),
        ([state(9, 10, 60), state(9, 10, 99)], 20),
        ([], 20),
    ],
    ids=["less than a second", "forward", "back", "in each block", "between parts", "another trial", "not recorded"],
)
def test_a_block_in_which_the_clock_was_set_tells_nothing(
    samples: Sequence[FitnessRecord], seconds: float | None
) -> None:
    """Blocks of 10 and 30 s: the first has trial 2, the second trial 3."""
    trials = [ran(2, 0, 0, 10), ran(3, 1, 0, 30), ran(4, 1, 10, 20)]
    assert block_seconds(trials, samples) == seconds
    unknown = ran(9, 5, None, None)
    assert block_seconds([*trials, unknown], [state(8, 0, 50), state(9, 10, 90)]) == 20, "of a block without times"
