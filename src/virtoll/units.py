"""Numbers for people: times, sizes, rates and shares; and text that may stand in a terminal. Pure text in and out."""

import math
from collections.abc import Collection
from datetime import UTC, datetime, timedelta

_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZE = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_FINEST_PERCENT = 1e-3
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COUNT = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent below a million: 0.0123, 12.3, 1230."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - exponent)
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(digits - 1 - exponent, 0)}f}"


def nanoseconds(value: float, digits: int = 3) -> str:
    """A duration given in ns, with three significant digits: '1.23 ms'; a minute and more as '2 min 5 s'."""
    if abs(value) >= 60e9:
        minutes, seconds = divmod(round(value / 1e9), 60)
        return f"{minutes} min {seconds} s"
    for scale, unit in _TIME:
        if abs(value) >= scale * 0.9995:
            return f"{significant(value / scale, digits)} {unit}"
    return f"{significant(value, digits)} ns"


def utc(realtime_ns: int) -> datetime:
    """A time of CLOCK_REALTIME, to the microsecond; OverflowError after the year 9999."""
    return _EPOCH + timedelta(microseconds=realtime_ns // 1000)


def moment(realtime_ns: int) -> str:
    """A time of CLOCK_REALTIME: '2026-11-27 16:05 UTC'."""
    return f"{utc(realtime_ns):%Y-%m-%d %H:%M} UTC"


def timestamp(realtime_ns: int) -> str:
    """A time of CLOCK_REALTIME as ISO 8601 has it, in UTC: '2026-11-27T16:05:59'."""
    return f"{utc(realtime_ns):%Y-%m-%dT%H:%M:%S}"


def block_ranges(blocks: Collection[int]) -> list[str]:
    """Blocks as a person counts them, from 1, those that follow each other as a range: '1 to 4', '7'."""
    runs: list[tuple[int, int]] = []
    for block in sorted(blocks):
        if runs and runs[-1][1] == block - 1:
            runs[-1] = runs[-1][0], block
        else:
            runs.append((block, block))
    return [str(first + 1) if first == last else f"{first + 1} to {last + 1}" for first, last in runs]


def time_to_come(seconds: float) -> str:
    """A time to come, given in s, which nobody knows to the second: '40 s', '12 min', '7.5 h', '67 days'."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 10 * 60:
        return f"{seconds / 60:.1f} min"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{significant(seconds / 3600, 2)} h"
    return f"{significant(seconds / 86400, 2)} days"


def size(value: int, digits: int = 3) -> str:
    """A size in bytes: '256 MiB'; exact bytes below 1 KiB."""
    for scale, unit in _SIZE:
        if value >= scale:
            exact = value % scale == 0 and digits >= 3
            return f"{value // scale if exact else significant(value / scale, digits)} {unit}"
    return f"{value} B"


def count(value: float, digits: int = 3) -> str:
    """A count or rate with a decimal prefix: '412 k', '1.20 M'."""
    for scale, prefix in _COUNT:
        if abs(value) >= scale * 0.9995:
            return f"{significant(value / scale, digits)} {prefix}".rstrip()
    return significant(value, digits)


def frame_rate(value: float) -> str:
    """A rate given in frames/s: '412 kframes/s'."""
    return rate(value, "frames/s")


def metric_words(name: str) -> str:
    """A metric's name in words: 'maximum forwarding rate', 'CPU per frame'."""
    if name in ("ndr", "pdr"):
        return name.upper()
    return name.removesuffix("_ns").replace("_", " ").replace("cpu", "CPU")


def percent(share: float) -> str:
    """A share (1.0 = all) as a percentage with three digits: '4.12 %', '98.7 %', '104 %'."""
    value = share * 100
    if 0 < abs(value) < 0.01:
        return "<0.01 %" if value > 0 else ">−0.01 %"
    return f"{significant(value)} %".replace("-", "−")


def parts_per_million(relative: float) -> str:
    """A signed relative error in ppm, or in percent from 1 % on: '+12 ppm', '−3.2 %'."""
    sign = "+" if relative > 0 else ""
    if abs(relative) >= 0.01:
        return f"{sign}{significant(relative * 100)} %".replace("-", "−")
    value = relative * 1e6
    return f"{sign}{significant(value, 2 if abs(value) < 100 else 3)} ppm".replace("-", "−")


# How rates are written that take a decimal prefix; a word of a unit takes none: 'ktransactions/s' is none.
_PREFIXED = {"frames/s": "frames/s", "bytes/s": "B/s", "B/s": "B/s", "bits/s": "bit/s", "bit/s": "bit/s"}


def rate(number: float, unit: str, digits: int = 3) -> str:
    """A rate: '412 kframes/s', '9.31 MB/s', '95.1 Mbit/s'; counted in words, '1230 transactions/s', '1.20 M rows/s'."""
    if unit == "Mbit/s":
        return rate(number * 1e6, "bit/s", digits)
    if unit not in _PREFIXED:
        text = count(number, digits) if abs(number) >= 999_500 else significant(number, digits)
        return f"{text} {'per s' if unit == '1/s' else unit}"
    text = count(number, digits)
    return f"{text}{_PREFIXED[unit]}" if text[-1:].isalpha() else f"{text} {_PREFIXED[unit]}"


def axis_unit(largest: float, unit: str) -> tuple[float, str]:
    """For an axis that reaches to `largest`: by how much its values are divided, and the unit that they then have.

    (1e6, 'ms') of a few 1e6 ns, (1e9, 'GB/s') of a few 1e9 bytes/s; what takes no prefix keeps its unit.
    """
    if unit == "Mbit/s":
        scale, named = axis_unit(largest * 1e6, "bit/s")
        return scale / 1e6, named
    if unit == "ns":
        return next(((scale, name) for scale, name in _TIME if largest >= scale * 0.9995), _TIME[-1])
    if unit not in _PREFIXED:
        return 1.0, "per s" if unit == "1/s" else unit
    scale, prefix = next(((scale, prefix) for scale, prefix in _COUNT if largest >= scale * 0.9995), _COUNT[-1])
    return scale, f"{prefix}{_PREFIXED[unit]}"


def value(number: float, unit: str, digits: int = 3) -> str:
    """A metric's value in its own unit: ns, bytes and rates as above, every other unit is printed after the number."""
    if unit == "ns":
        return nanoseconds(number, digits)
    if unit == "bytes":
        return size(round(number), digits)
    if unit == "x":
        return f"{significant(number, digits)}x"
    return rate(number, unit, digits) if unit.endswith("/s") else f"{significant(number, digits)} {unit}".rstrip()


def rounded(number: float, digits: int, *, up: bool) -> float:
    """The nearest number of so many digits that is not below, or not above."""
    if number == 0 or not math.isfinite(number):
        return number
    step = 10.0 ** (math.floor(math.log10(abs(number))) - digits + 1)
    return (math.ceil(number / step - 1e-9) if up else math.floor(number / step + 1e-9)) * step


def digits_within(number: float, low: float, high: float) -> int:
    """How many digits of a number are worth writing beside its interval: two where these reach a quarter of its width,
    else three.
    """
    if number == 0 or not math.isfinite(high - low):
        return 3
    return 2 if 10.0 ** (math.floor(math.log10(abs(number))) - 1) <= (high - low) / 4 else 3


def estimate(number: float, ends: tuple[float, float] | None, unit: str) -> str:
    """A value with the digits that its interval leaves: '30 ms' of 29.8 ms where that is anything from 15 to 59 ms."""
    return value(number, unit, digits_within(number, *ends) if ends is not None else 3)


def between(low: float, high: float, unit: str) -> str:
    """An interval of a metric, its ends rounded outward: '466 to 476 kframes/s', '950 ns to 1.20 µs'."""
    lower, upper = (_end(number, (low, high), unit, up=up) for number, up in ((low, False), (high, True)))
    if unit == "x":
        return f"{lower.removesuffix('x')} to {upper}"
    number, _, tail = lower.partition(" ")
    shared = tail and tail == upper.partition(" ")[2] and not tail.startswith("min")
    return f"{number if shared else lower} to {upper}"


def _end(number: float, ends: tuple[float, float], unit: str, *, up: bool) -> str:
    if unit == "ns" and abs(number) >= 60e9:
        return nanoseconds((math.ceil if up else math.floor)(number / 1e9) * 1e9)
    digits = digits_within(number, *ends)
    scale = next((float(scale) for scale, _ in _SIZE if number >= scale), 1.0) if unit == "bytes" else 1.0
    return value(rounded(number / scale, digits, up=up) * scale, unit, digits)


def percent_estimate(share: float, ends: tuple[float, float] | None = None) -> str:
    """A share of the baseline's performance: '87 %', '3.8 %', '104 %'; of a narrow interval '99.97 %'."""
    percent = 100 * share
    if percent < 0.01:
        return "0 %" if percent == 0 else "<0.01 %"
    step = _percent_step(percent, 100 * (ends[1] - ends[0]) if ends is not None else 0)
    return _percent_text(round(percent / step) * step, step)


def percent_between(low: float, high: float) -> str:
    """An interval of shares, its ends rounded outward, and never to the other side of 100 %: '66 to 114 %'."""
    lower, upper = (_percent_end(100 * share, 100 * (high - low), up=up) for share, up in ((low, False), (high, True)))
    return lower if lower == upper else f"{lower.removesuffix(' %')} to {upper}"


def _percent_end(percent: float, width: float, *, up: bool) -> str:
    if not 0.01 <= percent < 1e6:
        if percent >= 1e6:
            return ">1e12 %" if up and percent > 1e12 else f"{significant(percent)} %"
        return "<0.01 %" if up and 0 < percent < 1 else "0 %"
    step = _percent_step(percent, width)
    while step >= _FINEST_PERCENT:
        end = (math.ceil(percent / step - 1e-9) if up else math.floor(percent / step + 1e-9)) * step
        if percent == 100 or (round(end, 6) < 100 if percent < 100 else round(end, 6) > 100):
            return _percent_text(end, step)
        step /= 10
    return "<100 %" if percent < 100 else ">100 %"


def _percent_step(percent: float, width: float) -> float:
    """The last digit that is written: ones, or the second digit of less, and finer for an interval that is narrow."""
    step = 1.0 if percent >= 9.95 else 10.0 ** (math.floor(math.log10(percent)) - 1)
    while 0 < width < 4 * step and step > 10 * _FINEST_PERCENT:
        step /= 10
    return step


def _percent_text(percent: float, step: float) -> str:
    return f"{percent:.{max(round(-math.log10(step)), 0)}f} %"
