"""What is said of a comparison, in one place: on the page, in the terminal, in figures and tables alike.

A difference is a factor: "2.3 times slower" takes 2.3 times as long, or does 1/2.3 as much in the same time. Below 1.5
it is given as what is above one: "12 % slower" takes 1.12 times as long. Bounds ("at least") are rounded down. What is
not known lies between two such factors. A share of the baseline is in percent: 50 % takes twice as long. Main function:
`said`. Must not: decide anything.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtoll import units
from virtoll.stats.analysis import Analysis
from virtoll.stats.compare import DIFFERENT, Comparison, Verdict
from virtoll.stats.intervals import Estimate, Interval
from virtoll.stats.values import Task

_IN_PERCENT_BELOW = 1.5
_SHARES_BELOW = 3.0  # above, a share is a factor of the baseline: '0.2 to 40 times'
_MOST_TIMES = 100
_WIDE_PERCENT = 4  # of an interval: its ends are then whole percent
_MOST_SHOWN = 1000  # of an interval's ends: beyond it nothing is known
_NO_VERDICT = "no verdict"


@dataclass(frozen=True)
class VerdictWords:
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


def said(comparison: Comparison) -> VerdictWords:
    """What may be said of a comparison."""
    verdict = comparison.verdict
    if verdict in DIFFERENT and comparison.share is not None:
        return difference([comparison])
    if verdict is Verdict.ALIKE and comparison.margin is not None:
        margin = amount(comparison.margin)
        return VerdictWords("alike", f"within {margin}", "alike", f"within {_narrow(margin)}", " ")
    if verdict is Verdict.UNKNOWN and comparison.caveat is not None:
        return VerdictWords(_NO_VERDICT, comparison.caveat, _NO_VERDICT, "", "(")
    if verdict is Verdict.UNKNOWN:
        known = _known(comparison)
        return VerdictWords(str(verdict), known, str(verdict), _narrow(known), "(")
    return VerdictWords(str(verdict), "", "–" if verdict is Verdict.NOT_MEASURED else str(verdict))


def task_verdict(comparison: Comparison) -> str:
    """'Super Pi 4096 digits (12 % slower, at least 8 %)'."""
    return f"{comparison.task.label} ({said(comparison).text})"


def shares(comparisons: Iterable[Comparison]) -> list[float]:
    """The shares of those that were measured."""
    return [comparison.share for comparison in comparisons if comparison.share is not None]


def difference(group: Sequence[Comparison]) -> VerdictWords:
    """Comparisons of one metric, all slower or all faster, with the smallest bound of them: '25 to 31 times slower'."""
    factors = [max(share_of, 1 / share_of) for share_of in shares(group)]
    direction, low, high = _direction(group[0]), min(factors), max(factors)
    least = min(comparison.at_least or 1.0 for comparison in group)
    if high < _IN_PERCENT_BELOW:
        size = joined(amount(low - 1), amount(high - 1))
        bound = _bound(least, in_times=False)
        narrow = f"{_narrow(size)} {direction}"
        head = f"{size} {direction}"
    else:
        size = joined(_times(low), _times(high))
        bound = _bound(least, in_times=True)
        narrow = f"{_narrow(size)}× {direction}"
        head = f"{size} times {direction}"
    if not bound:  # the test leaves no doubt that there is a difference, and no size of it is sure
        return VerdictWords(head, "", narrow, "")
    short_bound = _narrow(bound) if bound.endswith("%") else f"{bound}×"
    return VerdictWords(head, f"at least {bound}", narrow, f"≥{short_bound}")


def _bound(least: float, *, in_times: bool) -> str:
    """What a difference is at least, rounded down: '1.9', and below 1.1 '9.1 %'; empty where nothing is left of it."""
    bound = _times(least, up=False) if in_times else ""
    if bound in ("", "1", "1.0"):
        bound = amount(least - 1, down=True)
    return "" if bound == "0 %" else bound


def times(share_of: float, low: float, high: float) -> str:
    """A share with its interval as a factor: '2.6 times slower, at least 2.4'; empty where the interval holds 1."""
    if low <= 1 <= high:
        return ""
    direction, factor = ("slower", 1 / share_of) if high < 1 else ("faster", share_of)
    in_times = factor >= _IN_PERCENT_BELOW
    size = f"{_times(factor)} times" if in_times else amount(factor - 1)
    bound = _bound(1 / high if high < 1 else low, in_times=in_times)
    return f"{size} {direction}, at least {bound}" if bound else f"{size} {direction}"


def directions(comparison: Comparison) -> tuple[str, str]:
    """'slower' and 'faster'; of CPU time that a frame costs 'more' and 'less'."""
    return ("more", "less") if comparison.task.metric.source == "cpu_points" else ("slower", "faster")


def _direction(comparison: Comparison) -> str:
    slower, faster = directions(comparison)
    return slower if comparison.verdict is Verdict.SLOWER else faster


def _known(comparison: Comparison) -> str:
    either = directions(comparison)
    if comparison.simultaneous is not None:
        return apart(comparison.simultaneous.low, comparison.simultaneous.high, either)
    return "one block" if comparison.share is None else f"{_factor(comparison.share, either)} in one block"


def apart(low: float, high: float, either: tuple[str, str] = ("slower", "faster")) -> str:
    """From one share to another, as factors that are rounded outward: '1.5 times slower to 14 % faster', 'anything'."""
    if low < 1 / _MOST_SHOWN and high > _MOST_SHOWN:
        return "anything"
    if low <= 0:
        return f"at most {_factor(high, either, up=high > 1)}"
    wide = 100 * (high / max(low, 1e-300) - 1) >= _WIDE_PERCENT
    ends = (_factor(low, either, up=low < 1, whole=wide), _factor(high, either, up=high > 1, whole=wide))
    return " to ".join(dict.fromkeys(ends))


def factor(share_of: float) -> str:
    """A share as a factor, to the nearest: '5.1 % slower', '2.3 times faster', 'the same'."""
    return _factor(share_of, ("slower", "faster"))


def _factor(of_baseline: float, either: tuple[str, str], *, up: bool | None = None, whole: bool = False) -> str:
    """A share as a factor: '1.5 times slower', '14 % faster', 'over 1000 times slower'.

    `up`: never less than it is, or never more; None: the nearest. `whole`: in whole percent where there is one.
    """
    slower, faster = either
    factor, direction = (of_baseline, faster) if of_baseline >= 1 else (1 / max(of_baseline, 1e-300), slower)
    if factor > _MOST_SHOWN:
        return f"over {_MOST_SHOWN} times {direction}"
    if factor < _IN_PERCENT_BELOW:
        percent = 100 * (factor - 1)
        size = f"{_rounded(percent, 1.0 if whole and (up or percent >= 1) else _step(percent), up):g} %"
    else:
        size = f"{_times(factor, up)} times"
    return "the same" if size == "0 %" else f"{size} {direction}"


def between(low: float, high: float) -> str:
    """An interval of shares: '66 to 114 %', and where it reaches far above the baseline '0.2 to 40 times'."""
    if high < _SHARES_BELOW:
        return units.percent_between(low, high)
    lowest = _times(low, up=False) if low > 1 / _MOST_SHOWN else f"under {1 / _MOST_SHOWN:g}"
    highest = _times(high, up=True) if high < _MOST_SHOWN else f"over {_MOST_SHOWN}"
    return f"{joined(lowest, highest)} times"


def ends(low: float, high: float) -> str:
    """An interval of which one end may be open, where a rate is a lower bound: '85 to 89 %', 'at least 85 %'."""
    if math.isinf(high):
        return f"at least {between(low, low)}" if low > 0 else "anything"
    return f"at most {between(high, high)}" if low <= 0 else between(low, high)


def ends_of(low: float | None, high: float | None) -> tuple[float, float] | None:
    """Both ends of an interval; None if one is not known."""
    return None if low is None or high is None else (low, high)


def outward(low: float, high: float, unit: str) -> str:
    """An interval of figures, its ends rounded outward; one of them may be open: '1.98 to 2.03x', 'at least 1.98x'."""
    if math.isinf(high):
        return f"at least {units.value(units.rounded(low, 3, up=False), unit)}" if low > 0 else "anything"
    if low <= 0:
        return f"at most {units.value(units.rounded(high, 3, up=True), unit)}"
    return units.between(low, high, unit)


def share(value: float, interval: Interval | None = None) -> str:
    """A share of the baseline's performance, with the digits that its interval leaves: '87 %', '3.8 %', '104 %'."""
    return units.percent_estimate(value, _finite(interval))


def estimate(value: float, interval: Interval | None, unit: str) -> str:
    """A value in its own unit, with the digits that its interval leaves: '30 ms'."""
    return units.estimate(value, _finite(interval), unit)


def spread(cell: Estimate, unit: str) -> str:
    """Between which values a value is: '466 to 476 kframes/s'; empty where there is no interval."""
    return "" if cell.interval is None else outward(cell.interval.low, cell.interval.high, unit)


def told_value(analysis: Analysis, platform: str, task: Task) -> str:
    """A platform's value with the digits that its interval leaves: '498 kframes/s'; empty where there is none.

    The baseline's, of which all others are shares, has three.
    """
    cell = analysis.estimates.get((platform, task))
    if cell is None:
        return ""
    return estimate(cell.value, None if platform == analysis.baseline else cell.interval, task.metric.unit)


def share_and_interval(value: float, interval: Interval | None) -> str:
    """'87 % (84 to 90 %)'; the share alone where there is no interval."""
    return f"{share(value, interval)} ({between(interval.low, interval.high)})" if interval else share(value)


def _finite(interval: Interval | None) -> tuple[float, float] | None:
    if interval is None or not math.isfinite(interval.high - interval.low):
        return None
    return interval.low, interval.high


def joined(low: str, high: str) -> str:
    """'66 to 114 %' of '66 %' and '114 %'; one of them where both are the same."""
    if low == high:
        return low
    number, _, unit = low.rpartition(" ")
    return f"{number if number and high.endswith(f' {unit}') else low} to {high}"


def amount(part: float, *, down: bool = False) -> str:
    """A difference as a part of the baseline's: '12 %', '0.8 %', '0.03 %'; ``down``: never more than it is."""
    value = 100 * part
    if down:
        return f"{_rounded(value, 1.0 if value >= 10 else 0.1, up=False):g} %"
    return f"{_rounded(value, _step(value)):g} %"


def _step(percent: float) -> float:
    """The last digit of a difference that is written: ones, tenths below 10 %, and one digit of what is smaller."""
    if percent >= 10:
        return 1.0
    return 0.1 if percent >= 0.1 or percent < 0.001 else 10.0 ** math.floor(math.log10(percent))


def _rounded(value: float, step: float, up: bool | None = None) -> float:
    """To whole steps: up, down, or to the nearest; free of what binary fractions add."""
    if up is None:
        return round(round(value / step) * step, 6)
    return round((math.ceil(value / step - 1e-9) if up else math.floor(value / step + 1e-9)) * step, 6)


def smallest_between(factors: Collection[float]) -> str:
    """The smallest and the largest of some: '1.07 to 2.6'."""
    return joined(smallest(min(factors)), smallest(max(factors)))


def smallest(factor: float) -> str:
    """A smallest detectable difference as a factor: '1.07', '2.6', 'more than 100'."""
    if factor > _MOST_TIMES:
        return f"more than {_MOST_TIMES}"
    return f"{max(factor, 1.01):.2f}" if factor < _IN_PERCENT_BELOW else _times(factor)


def slowdown(factor: float) -> str:
    """How much slower, of a factor: '45 %', '2.6 times', 'more than 100 times'."""
    return amount(factor - 1) if factor < _IN_PERCENT_BELOW else f"{smallest(factor)} times"


def _times(factor: float, up: bool | None = None) -> str:
    """Two digits: '1.9', '26', '130'."""
    if factor <= 0 or not math.isfinite(factor):
        return str(factor)
    step = 10.0 ** (math.floor(math.log10(factor)) - 1)
    value = _rounded(factor, step, up)
    return f"{value:.0f}" if value >= 9.95 else units.significant(value, 2)


def _narrow(text: str) -> str:
    """For a narrow column: '66–114%'."""
    return text.replace(" to ", "–").replace(" %", "%").replace(" times", "×")


def joint_ends(comparisons: Iterable[Comparison]) -> tuple[float, float] | None:
    """The ends of what holds the shares of all comparisons together; of one block its shares. None without any."""
    limits: list[float] = []
    for comparison in comparisons:
        if comparison.simultaneous is not None:
            limits += (comparison.simultaneous.low, comparison.simultaneous.high)
        elif comparison.share is not None:
            limits.append(comparison.share)
    if not limits:
        return None
    return min(limits), max(limits)


def control_line(control: Sequence[Comparison], subject: str, doubt: str) -> str:
    """An A/A control: between which shares `subject` is, after a `doubt` where one differs; empty without any."""
    measured = [comparison for comparison in control if comparison.caveat is None]
    together = joint_ends(measured)
    if together is None:
        return ""
    line = f"{subject}: {between(*together)}, all of them together."
    alarms = [comparison for comparison in measured if comparison.verdict in DIFFERENT]
    if not alarms:
        return line
    return f"{doubt} {', '.join(f'{alarm.platform} {task_verdict(alarm)}' for alarm in alarms)}. {line}"


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


def machine(host: Mapping[str, Any], *keys: str) -> str:
    """A host by these of its facts, and its memory."""
    facts = [str(host[key]) for key in keys if host.get(key)]
    if isinstance(host.get("memory_bytes"), int):
        facts.append(units.size(host["memory_bytes"]))
    return ", ".join(facts)


def with_commas(*texts: str | None) -> str:
    """Those of the texts that say something: 'netns, 64 B'."""
    return ", ".join(filter(None, texts))


def with_semicolons(*texts: str | None) -> str:
    """The same, apart by semicolons."""
    return "; ".join(filter(None, texts))


def bracketed(text: str | None) -> str:
    """' (text)' as the end of a longer text; nothing if it says nothing."""
    return f" ({text})" if text else ""


def first_of(names: Sequence[str], most: int, joint: str = ", ", last: str = " and") -> str:
    """So many of the names, and how many more there are: 'a, b and 3 more'."""
    more = f"{last} {len(names) - most} more" if len(names) > most else ""
    return f"{joint.join(names[:most])}{more}"


def counted(number: int, noun: str) -> str:
    """'1 block', '5 blocks'."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def blocks_words(analysis: Analysis) -> str:
    """How much was measured: '3 blocks', '3 blocks of 5 rounds', '3 blocks of up to 5 rounds'."""
    counts = analysis.rounds
    text = counted(analysis.blocks, "block")
    if max(counts, default=1) == 1:
        return text
    return f"{text} of {'' if len(counts) == 1 else 'up to '}{max(counts)} rounds"
