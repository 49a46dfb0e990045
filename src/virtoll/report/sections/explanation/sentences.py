"""What observers counted, in words: a counter, its amount and its difference, and what was not counted."""

from collections.abc import Sequence

from virtoll import units
from virtoll.runfolder.explain_records import COUNTERS, counter
from virtoll.stats.explanation import Counted, Explanation

_ON_CPUS = "on the guest's CPUs"


def sentence(counted: Counted, explanation: Explanation, baseline: str | None) -> str:
    """A difference in words: "2.1 context switches a frame more than native (2.2 against 0.1)".

    One that is not certain with all counters in mind begins with "probably".
    """
    if counted.difference is None or counted.baseline is None:
        return alone_sentence(counted, explanation)
    name, value = counted.name, counted.difference.value
    which = "more" if value > 0 else "less"
    size = "" if counted.difference.interval is None else f"; {interval_words(counted)}"
    both = f"{amount(name, counted.each)} against {amount(name, counted.baseline)}{_ratio(counted)}{size}"
    lead = "probably " if counted.is_likely else ""
    more = f"{amount(name, abs(value))} {counter_words(name)} a {explanation.unit} {which} than {baseline}"
    return f"{lead}{more} ({both})"


def alone_sentence(counted: Counted, explanation: Explanation) -> str:
    """A counter that is compared with nothing: "35 translated blocks a job"."""
    return f"{amount(counted.name, counted.each)} {counter_words(counted.name)} a {explanation.unit}"


def interval_words(counted: Counted) -> str:
    """The interval of the difference, in the counter's unit; a dash if it has none."""
    interval = None if counted.difference is None else counted.difference.interval
    if interval is None:
        return "–"
    return f"{amount(counted.name, interval.low)} to {amount(counted.name, interval.high)}"


def _ratio(counted: Counted) -> str:
    if not counted.baseline or counted.each <= 0:
        return ""
    return f", {units.significant(counted.each / counted.baseline)}×"


def amount(name: str, value: float) -> str:
    """A counter's value with its unit."""
    match counter(name)[0].unit:
        case "ns":
            return units.nanoseconds(value)
        case "bytes":
            return f"{units.count(value)} bytes" if abs(value) < 1000 else f"{units.count(value)}B"
        case _:
            return units.count(value)


def counter_words(name: str) -> str:
    """A counter in the words that follow its value, with whose it is if it is not the guest's."""
    entry, kind = counter(name)
    return f"{entry.words(kind)} {_ON_CPUS}" if entry.whose == "CPUs" else entry.words(kind)


def uncounted_lines(explanations: Sequence[Explanation]) -> list[str]:
    """What could not be counted, of which platforms, and why, a line a reason."""
    by_reason: dict[str, tuple[dict[str, None], dict[str, None]]] = {}
    for explanation in explanations:
        for name, reason in explanation.uncounted.items():
            names, platforms = by_reason.setdefault(reason, ({}, {}))
            names[_uncounted_words(name)] = None
            platforms[explanation.platform] = None
    every = {explanation.platform for explanation in explanations}
    lines = []
    for reason, (names, platforms) in by_reason.items():
        of = "" if platforms.keys() == every else f" ({', '.join(platforms)})"
        lines.append(f"{', '.join(names)}{of}: {reason}")
    return lines


def _uncounted_words(name: str) -> str:
    """A counter in words, or all of an observer by its own name."""
    if name not in COUNTERS:
        return name
    entry = COUNTERS[name]
    return entry.plural.format(kind="").strip().removeprefix("of ")
