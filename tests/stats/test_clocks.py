"""The clock error of a platform is a slope over durations; what late marks add is the intercept."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from virtoll.stats.clocks import ClockError, ClockReading, clock_errors, theil_sen

MS = 1_000_000
SPREAD = [50 * MS, 200 * MS, 400 * MS, 1_000 * MS, 3_000 * MS]
LATE_NS = 2 * MS


def platform(durations: Sequence[int], fast: float = 0.0, late_ns: int = 0, noise_ns: int = 20_000) -> ClockError:
    """Trials whose guest's clock is ``fast``, and whose start marks were late: the outside clock then says less."""
    dice = random.Random(7)
    readings = []
    for number, true_ns in enumerate(durations):
        outside = true_ns - late_ns + round(dice.gauss(0, noise_ns))
        readings.append(
            ClockReading(
                trial=number,
                block=0,
                platform="guest",
                workload="superpi",
                method="icmp",
                outside_ns=outside,
                guest_ns=round(true_ns * (1 + fast)),
                error_estimate_ns=60_000,
            )
        )
    (found,) = clock_errors(readings, ["guest"])
    return found


def test_a_fast_clock_is_the_slope_and_late_marks_are_the_intercept() -> None:
    found = platform(SPREAD * 4, fast=0.01, late_ns=LATE_NS)
    assert found.slope is not None
    assert found.slope.low <= 0.01 <= found.slope.high
    assert found.slope.rate == pytest.approx(0.01, rel=0.01)
    assert found.slope.marks_ns == pytest.approx(LATE_NS, rel=0.05)
    assert (found.wrong, found.words) == (True, "the clock is wrong")


def test_late_marks_alone_are_no_clock_error() -> None:
    """Every single trial is far beyond its estimate, and the clock is right."""
    found = platform(SPREAD * 4, late_ns=LATE_NS)
    assert found.within == 0
    assert found.slope is not None
    assert found.slope.low <= 0 <= found.slope.high
    assert found.slope.marks_ns == pytest.approx(LATE_NS, rel=0.05)
    assert (found.wrong, found.words) == (False, "no clock error found")


def test_a_few_late_marks_do_not_move_the_slope() -> None:
    readings = list(platform(SPREAD * 4).readings)
    for number in (0, 7, 13):
        one = readings[number]
        readings[number] = replace(one, outside_ns=one.outside_ns - 5 * MS)
    (found,) = clock_errors(readings, ["guest"])
    assert found.slope is not None
    assert found.slope.low <= 0 <= found.slope.high
    assert abs(found.slope.rate) < 100e-6


@pytest.mark.parametrize(
    ("durations", "why"),
    [
        (SPREAD[:4], "4 trials; a slope needs 5"),
        ([300 * MS] * 9, "the durations are alike; a slope needs some that are 1.5 times as long as others"),
    ],
)
def test_without_a_slope_the_reason_is_told_and_single_trials_speak(durations: list[int], why: str) -> None:
    right, wrong = platform(durations), platform(durations, fast=0.05)
    assert (right.slope, right.why_no_slope) == (None, why)
    assert right.words == "within the error estimate"
    assert wrong.words == f"beyond the error estimate in {len(durations)} of {len(durations)} trials"


def test_many_readings_are_thinned_and_tell_the_same() -> None:
    found = platform(SPREAD * 500, fast=0.001)
    assert found.slope is not None
    assert found.slope.low <= 0.001 <= found.slope.high
    assert len(found.readings) == 2_500


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("kinds_of_x", [2, 5, 200])
@pytest.mark.parametrize("kinds_of_y", [1, 2, 7, 1000])
@pytest.mark.parametrize("count", [2, 3, 6, 41, 300])
def test_the_slope_is_that_of_scipy_to_the_last_digit(count: int, kinds_of_x: int, kinds_of_y: int) -> None:
    from scipy.stats import theilslopes

    dice = random.Random(f"{count} {kinds_of_x} {kinds_of_y}")
    x = [0.1, 7e9, *(dice.randrange(kinds_of_x) * 1.3e7 for _ in range(count - 2))]
    y = [dice.randrange(kinds_of_y) * 17.7 - 50 for _ in range(count)]
    expected = theilslopes(y, x, alpha=0.95, method="joint")
    assert theil_sen(y, x) == pytest.approx(tuple(map(float, expected)), rel=0, abs=0, nan_ok=True)
