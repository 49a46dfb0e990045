"""The clock error of a platform is a slope over durations; what late marks add is the intercept."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from tests.support.facts import assert_facts
from tests.support.synthetic_run import REALISTIC, Truth, run_data

from virtoll.runfolder.records import Clock, GuestClock, Marks, Status
from virtoll.stats.clocks import ClockError, ClockReading, clock_errors, clock_readings, theil_sen

MS = 1_000_000
SPREAD = [50 * MS, 200 * MS, 400 * MS, 1_000 * MS, 3_000 * MS]
LATE_NS = 2 * MS


def reading(number: int, outside_ns: int, guest_ns: int, label: str = "p", estimate_ns: int = 100) -> ClockReading:
    own = {"outside_ns": outside_ns, "guest_ns": guest_ns, "error_estimate_ns": estimate_ns}
    return ClockReading(number, 0, label, "superpi", "icmp", **own)


def platform(durations: Sequence[int], fast: float = 0.0, late_ns: int = 0, noise_ns: int = 20_000) -> ClockError:
    """Trials whose guest's clock is ``fast``, and whose start marks were late: the outside clock then says less."""
    dice = random.Random(7)
    readings = [
        reading(number, ns - late_ns + round(dice.gauss(0, noise_ns)), round(ns * (1 + fast)), estimate_ns=60_000)
        for number, ns in enumerate(durations)
    ]
    (found,) = clock_errors(readings, ["p"])
    return found


def test_a_fast_clock_is_the_slope_and_late_marks_are_the_intercept() -> None:
    found = platform(SPREAD * 4, fast=0.01, late_ns=LATE_NS)
    assert found.slope is not None
    assert found.slope.low <= 0.01 <= found.slope.high
    assert found.slope.rate == pytest.approx(0.01, rel=0.01)
    assert found.slope.marks_ns == pytest.approx(LATE_NS, rel=0.05)
    assert found.wrong


def test_late_marks_alone_are_no_clock_error() -> None:
    """Every single trial is far beyond its estimate, and the clock is right."""
    found = platform(SPREAD * 4, late_ns=LATE_NS)
    assert found.within == 0
    assert found.slope is not None
    assert found.slope.low <= 0 <= found.slope.high
    assert found.slope.marks_ns == pytest.approx(LATE_NS, rel=0.05)
    assert not found.wrong


def test_a_few_late_marks_do_not_move_the_slope() -> None:
    readings = list(platform(SPREAD * 4).readings)
    for number in (0, 7, 13):
        one = readings[number]
        readings[number] = replace(one, outside_ns=one.outside_ns - 5 * MS)
    (found,) = clock_errors(readings, ["p"])
    assert found.slope is not None
    assert found.slope.low <= 0 <= found.slope.high
    assert abs(found.slope.rate) < 100e-6


@pytest.mark.parametrize(("durations", "why"), [(SPREAD[:4], ("4 trials", 5)), ([300 * MS] * 9, ("durations", 1.5))])
def test_without_a_slope_the_reason_is_told_and_single_trials_speak(
    durations: list[int], why: tuple[str | float, ...]
) -> None:
    right, wrong = platform(durations), platform(durations, fast=0.05)
    assert right.slope is None
    assert_facts(right.why_no_slope, *why)
    assert (right.within, right.wrong) == (len(durations), False)
    assert (wrong.within, wrong.wrong) == (0, True)


def test_many_readings_are_thinned_and_tell_the_same() -> None:
    found = platform(SPREAD * 500, fast=0.001)
    assert found.slope is not None
    assert found.slope.low <= 0.001 <= found.slope.high
    assert len(found.readings) == 2_500


def test_a_clock_that_is_one_percent_fast_by_hand() -> None:
    """Outside 100, 200 ... 500 µs; the guest's clock tells 1.01 times as much, and 2 µs that a late mark adds."""
    own = [reading(number, 100_000 * number, 101_000 * number + 2_000) for number in range(1, 6)]
    found, other = clock_errors([*own, reading(9, 100, 150, "q")], ["q", "none", "p"])[::-1]
    assert (found.platform, other.platform) == ("p", "q")
    assert found.readings == tuple(own)
    assert found.slope is not None
    assert (found.slope.rate, found.slope.low, found.slope.high) == pytest.approx((0.01, 0.01, 0.01))
    assert found.slope.marks_ns == pytest.approx(2000 - 0.01 / 1.01 * 2000)
    assert found.why_no_slope == ""
    assert (found.median, found.low, found.high) == pytest.approx((0.01 + 2 / 300, 0.01 + 2 / 500, 0.01 + 2 / 100))
    assert found.estimate == pytest.approx(100 / 300_000)
    assert (found.within, found.wrong) == (0, True)
    assert (other.median, other.low, other.high, other.estimate, other.within) == (0.5, 0.5, 0.5, 1.0, 1)


def test_a_slope_whose_interval_meets_zero_finds_nothing() -> None:
    own = [reading(number, ns, ns) for number, ns in enumerate((100_000, 110_000, 120_000, 130_000, 150_000))]
    (found,) = clock_errors(own, ["p"])
    assert found.slope is not None
    assert (found.slope.rate, found.slope.low, found.slope.high) == (0, 0, 0)
    assert not found.slope.finds_an_error
    assert (found.wrong, found.within) == (False, 5)


@pytest.mark.parametrize(("beyond", "told"), [(0, ()), (1, (3, 4)), (2, (2, 4)), (3, (3, 4))])
def test_without_a_slope_most_trials_decide(beyond: int, told: tuple[int, ...]) -> None:
    """Just as far as its estimate is within it, one nanosecond more is not, on either side."""
    own = [reading(number, 1000, 1000 + (101 if number < beyond else 100) * (-1) ** number) for number in range(4)]
    (found,) = clock_errors(own, ["p"])
    assert (found.within, found.wrong) == (4 - beyond, beyond == 3)
    assert_facts(found.words, "beyond" if beyond == 3 else "within", *told)


@pytest.mark.parametrize(
    "guests",
    [
        [10**17 if number % 2 else 1 for number in range(20)],  # years within a second, then nothing
        [SPREAD[0]] * 20,
    ],
)
def test_a_clock_that_goes_together_with_nothing_has_no_slope(guests: list[int]) -> None:
    outside = [SPREAD[number % len(SPREAD)] for number in range(20)]
    (found,) = clock_errors([reading(*one) for one in zip(range(20), outside, guests, strict=True)], ["p"])
    assert found.slope is None
    assert found.why_no_slope


def test_which_trials_have_a_reading() -> None:
    """Believable ones with marks, a guest's reading and an estimate; the step of the outside clock comes off."""
    trial = next(one for one in run_data(Truth(REALISTIC, blocks=2)).trials if one.clock is not None)
    guest = GuestClock(50, 450, 0, 0, user_cpu_ns=0, system_cpu_ns=0, pause_ns=50)
    clock = Clock("channel", Marks(100, 600), None, 100, (), (), error_estimate_ns=7, guest=guest)

    def told(changed: Clock | None = clock, status: Status = "ok") -> tuple[ClockReading, ...]:
        return clock_readings([trial.replace(clock=changed, status=status)])

    own = {"outside_ns": 400, "guest_ns": 400, "error_estimate_ns": 7}
    expected = ClockReading(trial.trial, trial.block, trial.platform, trial.workload, "channel", **own)
    assert told() == (expected,)
    assert told(clock.replace(marks=Marks(100, 201))) == (replace(expected, outside_ns=1),)
    for nothing in (
        None,
        clock.replace(guest=None),
        clock.replace(error_estimate_ns=None),
        clock.replace(marks=None),
        clock.replace(marks=Marks(100, 200)),
    ):
        assert told(nothing) == ()
    assert told(status="invalid") == ()
    several = [
        trial.replace(clock=None),
        trial.replace(clock=clock.replace(marks=None)),
        trial.replace(clock=clock),
    ]
    assert clock_readings(several) == (expected,)


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
