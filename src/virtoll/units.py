"""Numbers for people: times, sizes, rates and shares; and text that may stand in a terminal. Pure text in and out."""

import math
import unicodedata

_TIME = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_SIZE = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
_COUNT = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits and no exponent below a million: 0.0123, 12.3, 1230."""
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    exponent = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - exponent)
    exponent = math.floor(math.log10(abs(rounded)))
    return f"{rounded:.{max(digits - 1 - exponent, 0)}f}"


def nanoseconds(value: float) -> str:
    """A duration given in ns, with three significant digits: '1.23 ms'; a minute and more as '2 min 5 s'."""
    if abs(value) >= 60e9:
        minutes, seconds = divmod(round(value / 1e9), 60)
        return f"{minutes} min {seconds} s"
    for scale, unit in _TIME:
        if abs(value) >= scale * 0.9995:
            return f"{significant(value / scale)} {unit}"
    return f"{significant(value)} ns"


def size(value: int) -> str:
    """A size in bytes: '256 MiB'; exact bytes below 1 KiB."""
    for scale, unit in _SIZE:
        if value >= scale:
            return f"{significant(value / scale) if value % scale else value // scale} {unit}"
    return f"{value} B"


def count(value: float) -> str:
    """A count or rate with a decimal prefix: '412 k', '1.20 M'."""
    for scale, prefix in _COUNT:
        if abs(value) >= scale * 0.9995:
            return f"{significant(value / scale)} {prefix}".rstrip()
    return significant(value)


def frame_rate(value: float) -> str:
    """A rate given in frames/s: '412 kframes/s'."""
    return rate(value, "frames/s")


def metric_words(name: str) -> str:
    """A metric's name in words: 'maximum forwarding rate', 'CPU per frame'."""
    return name.replace("_", " ").replace("cpu", "CPU")


def percent(share: float) -> str:
    """A share (1.0 = all) as a percentage with three digits: '4.12 %', '98.7 %', '104 %'."""
    value = share * 100
    if 0 < abs(value) < 0.01:
        return "<0.01 %" if value > 0 else ">−0.01 %"
    return f"{significant(value)} %".replace("-", "−")


def times(factor: float) -> str:
    """A factor: '12.3 ×'."""
    return f"{significant(factor)} ×"


def parts_per_million(relative: float) -> str:
    """A signed relative error in ppm, or in percent from 1 % on: '+12 ppm', '−3.2 %'."""
    sign = "+" if relative > 0 else ""
    if abs(relative) >= 0.01:
        return f"{sign}{significant(relative * 100)} %".replace("-", "−")
    value = relative * 1e6
    return f"{sign}{significant(value, 2 if abs(value) < 100 else 3)} ppm".replace("-", "−")


# How rates are written that take a decimal prefix; a word of a unit takes none: 'ktransactions/s' is none.
_PREFIXED = {"frames/s": "frames/s", "bytes/s": "B/s", "B/s": "B/s", "bits/s": "bit/s", "bit/s": "bit/s"}


def rate(number: float, unit: str) -> str:
    """A rate: '412 kframes/s', '9.31 MB/s', '95.1 Mbit/s'; counted in words, '1230 transactions/s', '1.20 M rows/s'."""
    if unit == "Mbit/s":
        return rate(number * 1e6, "bit/s")
    if unit not in _PREFIXED:
        text = count(number) if abs(number) >= 999_500 else significant(number)
        return f"{text} {'per s' if unit == '1/s' else unit}"
    text = count(number)
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


def value(number: float, unit: str) -> str:
    """A metric's value in its own unit: ns, bytes and rates as above, every other unit is printed after the number."""
    if unit == "ns":
        return nanoseconds(number)
    if unit == "bytes":
        return size(round(number))
    return rate(number, unit) if unit.endswith("/s") else f"{significant(number)} {unit}".rstrip()


def between(low: float, high: float, unit: str) -> str:
    """Two values of a metric, their unit once where both have the same: '466 to 476 kframes/s', '950 ns to 1.20 µs'."""
    one, other = value(low, unit), value(high, unit)
    number, _, tail = one.partition(" ")
    shared = tail and tail == other.partition(" ")[2] and not tail.startswith("min")
    return f"{number if shared else one} to {other}"


def printable(text: str) -> str:
    """A text as a terminal may get it: letters that would steer one are written out ('\\x1b'); lines stay lines."""
    return "".join(
        one if one == "\n" or unicodedata.category(one)[0] != "C" else one.encode("unicode_escape").decode()
        for one in text
    )
