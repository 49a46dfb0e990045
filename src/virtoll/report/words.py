"""What is said of a comparison, in one place: on the page, in the terminal, in figures and tables alike.

A difference is a factor: "2.3 times slower" takes 2.3 times as long, or does 1/2.3 as much in the same time. Below 1.5
it is given as what is above one: "12 % slower" takes 1.12 times as long. Bounds ("at least") are rounded down. What is
not known lies between two such factors. A share of the baseline is in percent: 50 % takes twice as long. Main function:
`said`. Must not: decide anything.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from virtoll import units
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict

_IN_PERCENT_BELOW = 1.5
_SHARES_BELOW = 3.0  # above, a share is a factor of the baseline: '0.2 to 40 times'
_MOST_TIMES = 100
_MOST_SHOWN = 1000  # of an interval's ends: beyond it nothing is known
_NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class Said:
    """A verdict in two parts: `head` ('26 times slower') and `tail` ('at least 18'), which may be empty.

    `short_head` and `short_tail` are the same for a narrow column: '26× slower', '≥18×'.
    """

    head: str
    tail: str = ""
    short_head: str = ""
    short_tail: str = ""
    joint: str = ", "

    @property
    def text(self) -> str:
        """All of it: '26 times slower, at least 18', 'alike within 10 %', 'not known (9 % slower to 14 % faster)'."""
        if not self.tail:
            return self.head
        return f"{self.head} ({self.tail})" if self.joint == "(" else f"{self.head}{self.joint}{self.tail}"


def said(comparison: Comparison) -> Said:
    """What may be said of a comparison."""
    verdict = comparison.verdict
    if verdict in DIFFERENT and comparison.share is not None:
        return difference([comparison])
    if verdict is Verdict.ALIKE and comparison.margin is not None:
        margin = amount(comparison.margin)
        return Said("alike", f"within {margin}", "alike", f"within {_narrow(margin)}", " ")
    if verdict is Verdict.UNKNOWN and comparison.caveat is not None:
        return Said(_NO_VERDICT, comparison.caveat, _NO_VERDICT, "", "(")
    if verdict is Verdict.UNKNOWN:
        known = _known(comparison)
        return Said(str(verdict), known, str(verdict), _narrow(known), "(")
    return Said(str(verdict), "", "–" if verdict is Verdict.NOT_MEASURED else str(verdict))


def difference(group: Sequence[Comparison]) -> Said:
    """Comparisons of one metric, all slower or all faster, with the smallest bound of them: '25 to 31 times slower'."""
    factors = [max(one.share, 1 / one.share) for one in group if one.share is not None]
    direction, low, high = _direction(group[0]), min(factors), max(factors)
    least = min(one.at_least or 1.0 for one in group)
    if high < _IN_PERCENT_BELOW:
        size = joined(amount(low - 1), amount(high - 1))
        bound = amount(least - 1, down=True)
        narrow, short_bound = f"{_narrow(size)} {direction}", _narrow(bound)
        head = f"{size} {direction}"
    else:
        size = joined(_times(low), _times(high))
        bound = _times(least, down=True)
        narrow, short_bound = f"{_narrow(size)}× {direction}", f"{bound}×"
        head = f"{size} times {direction}"
    if bound in ("0 %", "1", "1.0"):  # the test leaves no doubt that there is a difference, and none is too small
        return Said(head, "at least a little", narrow, "")
    return Said(head, f"at least {bound}", narrow, f"≥{short_bound}")


def times(share_of: float, low: float, high: float) -> str:
    """A share with its interval as a factor: '2.6 times slower, at least 2.4'; empty where the interval holds 1."""
    if low <= 1 <= high:
        return ""
    direction, factor = ("slower", 1 / share_of) if high < 1 else ("faster", share_of)
    least = 1 / high if high < 1 else low
    if factor < _IN_PERCENT_BELOW:
        return f"{amount(factor - 1)} {direction}, at least {amount(least - 1, down=True)}"
    return f"{_times(factor)} times {direction}, at least {_times(least, down=True)}"


def _directions(comparison: Comparison) -> tuple[str, str]:
    """'slower' and 'faster'; of CPU time that a frame costs 'more' and 'less'."""
    return ("more", "less") if comparison.task.metric.source == "cpu_points" else ("slower", "faster")


def _direction(comparison: Comparison) -> str:
    slower, faster = _directions(comparison)
    return slower if comparison.verdict is Verdict.SLOWER else faster


def _known(comparison: Comparison) -> str:
    directions = _directions(comparison)
    if comparison.simultaneous is not None:
        return apart(comparison.simultaneous.low, comparison.simultaneous.high, directions)
    return "one block" if comparison.share is None else f"{_factor(comparison.share, directions)} in one block"


def apart(low: float, high: float, directions: tuple[str, str] = ("slower", "faster")) -> str:
    """From one share to another, as factors: '1.5 times slower to 14 % faster'."""
    return " to ".join(dict.fromkeys((_factor(low, directions), _factor(high, directions))))


def _factor(of_baseline: float, directions: tuple[str, str]) -> str:
    """A share as a factor: '1.5 times slower', '14 % faster', 'over 1000 times slower'."""
    slower, faster = directions
    factor, direction = (of_baseline, faster) if of_baseline >= 1 else (1 / max(of_baseline, 1e-300), slower)
    if factor > _MOST_SHOWN:
        return f"over {_MOST_SHOWN} times {direction}"
    size = amount(factor - 1) if factor < _IN_PERCENT_BELOW else f"{_times(factor)} times"
    return "the same" if size == "0 %" else f"{size} {direction}"


def between(low: float, high: float) -> str:
    """An interval of shares: '66 to 114 %', and where it reaches far above the baseline '0.2 to 40 times'."""
    if high < _SHARES_BELOW:
        return joined(share(low), share(high))
    lowest = _times(low) if low > 1 / _MOST_SHOWN else f"under {1 / _MOST_SHOWN:g}"
    highest = _times(high) if high < _MOST_SHOWN else f"over {_MOST_SHOWN}"
    return f"{joined(lowest, highest)} times"


def ends(low: float, high: float) -> str:
    """An interval of which one end may be open, where a rate is a lower bound: '85 to 89 %', 'at least 85 %'."""
    if math.isinf(high):
        return f"at least {share(low)}" if low > 0 else "anything"
    return f"at most {share(high)}" if low <= 0 else between(low, high)


def figure(value: float, unit: str) -> str:
    """A value in its unit, or a factor: '20.0 ms', '2.00x' with the unit 'x'."""
    return f"{units.significant(value)}x" if unit == "x" else units.value(value, unit)


def outward(low: float, high: float, unit: str) -> str:
    """An interval of figures, its ends rounded outward; one of them may be open: '1.98 to 2.03x', 'at least 1.98x'."""
    if math.isinf(high):
        return f"at least {figure(_three_digits(low, up=False), unit)}" if low > 0 else "anything"
    most = _three_digits(high, up=True)
    if low <= 0:
        return f"at most {figure(most, unit)}"
    least = _three_digits(low, up=False)
    return f"{units.significant(least)} to {figure(most, unit)}" if unit == "x" else units.between(least, most, unit)


def _three_digits(value: float, *, up: bool) -> float:
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return (math.ceil(value / step - 1e-9) if up else math.floor(value / step + 1e-9)) * step


def share(value: float) -> str:
    """A share of the baseline's performance: '87 %', '3.8 %', '104 %'."""
    if value >= 0.0995:
        return f"{100 * value:.0f} %"
    return f"{units.significant(100 * value, 2)} %" if value >= 0.0001 else units.percent(value)


def precise(value: float) -> str:
    """A share near the whole: '99.8 %'."""
    return f"{100 * value:.1f} %"


def joined(low: str, high: str) -> str:
    """'66 to 114 %' of '66 %' and '114 %'; one of them where both are the same."""
    if low == high:
        return low
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} to {high}"


def amount(part: float, *, down: bool = False) -> str:
    """A difference as a part of the baseline's: '12 %', '0.8 %'; ``down``: never more than it is."""
    value = 100 * part
    if value >= 10:
        return f"{math.floor(value + 1e-9) if down else round(value)} %"
    value = (math.floor(value * 10 + 1e-9) if down else round(value * 10)) / 10
    return f"{value:g} %"


def smallest(factor: float) -> str:
    """A smallest detectable difference, given as a factor: '7 %', '2.6 times', 'more than 100 times'."""
    if factor > _MOST_TIMES:
        return f"more than {_MOST_TIMES} times"
    return amount(factor - 1) if factor < 2 else f"{_times(factor)} times"


def _times(factor: float, *, down: bool = False) -> str:
    """Two digits: '1.9', '26', '130'."""
    if factor <= 0 or not math.isfinite(factor):
        return str(factor)
    step = 10.0 ** (math.floor(math.log10(factor)) - 1)
    value = (math.floor(factor / step + 1e-9) if down else round(factor / step)) * step
    return f"{value:.0f}" if value >= 9.95 else units.significant(value, 2)


def _narrow(text: str) -> str:
    """For a narrow column: '66–114%'."""
    return text.replace(" to ", "–").replace(" %", "%").replace(" times", "×")


def control_line(control: Sequence[Comparison], subject: str, doubt: str) -> str:
    """An A/A control: the shares that `subject` reached, after a `doubt` where one differs; empty without any."""
    measured = [one for one in control if one.share is not None and one.caveat is None]
    shares = [one.share for one in measured if one.share is not None]
    if not shares:
        return ""
    line = f"{subject}: {between(min(shares), max(shares))}."
    alarms = [one for one in measured if one.verdict in DIFFERENT]
    if not alarms:
        return line
    named = ", ".join(f"{one.platform} {one.task.short} ({said(one).text})" for one in alarms)
    return f"{doubt} {named}. {line}"


def parameter_axis(key: str) -> str:
    """A parameter as the title of an axis: 'threads', 'requests/s', 'link rate, bit/s', 'working set'."""
    named = key.replace("_", " ")
    if key.endswith("_bits_per_second"):
        return f"{named.removesuffix(' bits per second')}, bit/s"
    if key.endswith("_per_second"):
        return f"{named.removesuffix(' per second').removeprefix('rate ')}/s"
    return named.removesuffix(" bytes").removesuffix(" ns")


def parameter_place(key: str, value: float) -> str:
    """One of its values there: '8', '16 KiB', '1.6 k'."""
    if key.endswith("_bytes"):
        return units.size(round(value))
    if key.endswith("_ns"):
        return units.nanoseconds(value)
    for scale, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(scale, 1e4):
            return f"{value / scale:g} {prefix}"
    return f"{value:g}"


def blocks_words(analysis: Analysis) -> str:
    """How much was measured: '3 blocks', '3 blocks of 5 rounds', '3 blocks of up to 5 rounds'."""
    counts = analysis.rounds
    text = f"{analysis.blocks} block{'' if analysis.blocks == 1 else 's'}"
    if max(counts, default=1) == 1:
        return text
    return f"{text} of {'' if len(counts) == 1 else 'up to '}{max(counts)} rounds"
