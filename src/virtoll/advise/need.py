"""What a user needs, from text: `router 64B 200kpps loss<0.1% + oltp p99<20ms`. The grammar is in docs/advise.md.

Main types: `RouterNeed` and `FigureNeed` (a part of a need), `Known` (the workloads that a part may name, handed in).
Anything wrong is a `ValueError` of one sentence, which says what is known. Nothing here has seen a run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from virtoll.advise.quantities import BITS, FRAMES, NANOSECONDS, NUMBER, QUANTITY, SCALES, quantity, scales_of

AND = " + "
ROUTER = "router"
# Names that are no workload's: what was measured of the first of these in a run is what counts.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "oltp": ("mariadb-oltp", "mariadb-oltp-outside"),
    "tcp": ("tcp-stream", "netperf-tcp-stream"),
    "udp": ("iperf-udp",),
    "web": ("nginx", "nginx-httperf"),
    "disk": ("fio",),
    "cpu": ("sysbench-cpu",),
    "memory": ("stream",),
}
_OF_GUESTS: Final = frozenset({"vcpus", "memory_bytes"})  # what a guest is given: named as a parameter is
_LEAST_BYTES, _MOST_BYTES = 64, 1518
BOUND = re.compile(r"([a-z][\w-]*)(<=|>=|<|>|=)(\S*)")
_LINE = re.compile(rf"{NUMBER}%of{NUMBER}([kMG]?bit/s)")


@dataclass(frozen=True)
class Figure:
    """A metric of a workload: `unit` as it is stored, `better`: lower or higher."""

    name: str
    unit: str
    better: str


@dataclass(frozen=True)
class KnownWorkload:
    """What may be asked of a workload: its figures, and its parameters by name with what they are where not given.

    `resource`: what it stresses. `checked`: a parameter's or its guest's value as records have it, from its name and
    what was given; a `ValueError` says why there is no such value.
    """

    figures: tuple[Figure, ...]
    parameters: Mapping[str, Any]
    resource: str
    checked: Callable[[str, Any], Any]


@dataclass(frozen=True)
class Known:
    """The workloads by name; `frames_per_second`: of plain frames of a size in bytes, by Mbit/s on the wire.

    `platforms`: by name what a platform's parameters are where they are not given.
    """

    workloads: Mapping[str, KnownWorkload]
    platforms: Mapping[str, Mapping[str, Any]]
    frames_per_second: Callable[[int, float], float]


@dataclass(frozen=True)
class Bound:
    """A figure that must not be above (lower is better) or below its `limit`, in the figure's own unit; as written."""

    figure: Figure
    limit: float
    text: str


@dataclass(frozen=True)
class FigureNeed:
    """Bounds of a workload's figures; `asked`: by workload, of which the first that was measured counts.

    `where`: its parameters, and what its guest is given.
    """

    text: str
    asked: Mapping[str, tuple[Bound, ...]] = field(hash=False)
    where: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RouterNeed:
    """So many frames/s of a size in bytes, with FCS, are forwarded; `loss`: at most this share of them lost.

    `loss` None: whatever is lost. `p50_ns`, `p99_ns`: of the one-way delay at that rate; None: any.
    """

    text: str
    frame_size_bytes: int
    rate: float
    loss: float | None = None
    p50_ns: float | None = None
    p99_ns: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def plain(self) -> bool:
        """Whether neither loss nor delay are bounded."""
        return self.loss is None and self.p50_ns is None and self.p99_ns is None


Part = FigureNeed | RouterNeed


def parse_needs(texts: Sequence[str], known: Known) -> tuple[Part, ...]:
    """The parts of needs in order, each once; several needs are as one with all their parts."""
    parts: dict[str, Part] = {}
    for text in texts:
        for piece in f" {text} ".split(AND):
            words = words_of(piece)
            if not words:
                raise ValueError(f"need '{text}': a part is empty; write it as 'router 64B 200kpps + oltp p99<20ms'")
            part = _router(words, known) if words[0] == ROUTER else _figures(words, known)
            parts.setdefault(part.text, part)
    return tuple(parts.values())


def words_of(piece: str) -> list[str]:
    """The words of a part: no space around a sign, between a number and its unit, nor in 'percent of'."""
    text = re.sub(r"\s*(<=|>=|<|>|=)\s*", r"\1", piece.strip())
    text = re.sub(r"%\s*of\s*", "%of", text)
    units = {"B", "%", "iops", "tps", *(unit for scales in SCALES.values() for unit in scales if unit)}
    words: list[str] = []
    for word in text.split():
        is_unit = word in units or (word.endswith("/s") and not re.search(r"[\d<>=]", word))
        if words and is_unit and re.search(rf"(^|[<>=f]){NUMBER}$", words[-1]):
            words[-1] += word
        else:
            words.append(word)
    return words


def _router(words: Sequence[str], known: Known) -> RouterNeed:
    text = " ".join(words).replace("%of", "% of ")
    frame, example = known.workloads["forward"], "write it as 'router 64B 200kpps loss<0.1% p99<500us'"
    sizes: list[int] = []
    rates: list[str] = []
    where: dict[str, Any] = {}
    bounds: dict[str, float] = {}
    for word in words[1:]:
        named = BOUND.fullmatch(word)
        if named is None and re.fullmatch(r"\d+B", word):
            sizes.append(int(word[:-1]))
        elif named is None:
            rates.append(word)
        elif named[2] == "=":
            put_parameter(text, where, named, {ROUTER: frame}, but="frame_size_bytes")
        else:
            name, limit = _router_bound(text, named)
            if name in bounds:
                raise ValueError(f"need '{text}': {name} is bounded twice; leave one out")
            bounds[name] = limit
    if len(sizes) != 1:
        raise ValueError(f"need '{text}': a router needs one frame size in bytes; {example}")
    if not _LEAST_BYTES <= sizes[0] <= _MOST_BYTES:
        raise ValueError(
            f"need '{text}': a frame has {_LEAST_BYTES} to {_MOST_BYTES} bytes with its check sequence, "
            f"got {sizes[0]}; give such a size"
        )
    if len(rates) != 1:
        problem = f"'{rates[1]}' is not understood" if len(rates) > 1 else "there is no rate"
        raise ValueError(f"need '{text}': {problem}; {example}, with one rate in kpps, Mbit/s or as '50% of 1Gbit/s'")
    rate = _rate(text, rates[0], sizes[0], known)
    return RouterNeed(
        text, sizes[0], rate, bounds.get("loss"), p50_ns=bounds.get("p50"), p99_ns=bounds.get("p99"), where=where
    )


def _rate(text: str, word: str, size: int, known: Known) -> float:
    """Frames/s of what is written as frames/s, as bits/s on the wire, or as a part of a line's."""
    line = _LINE.fullmatch(word)
    matched = QUANTITY.fullmatch(word)
    if line is not None:
        rate = known.frames_per_second(size, float(line[1]) / 100 * float(line[2]) * BITS[line[3]])
    elif matched is not None and matched[2] in FRAMES:
        rate = float(matched[1]) * FRAMES[matched[2]]
    elif matched is not None and matched[2] in BITS:
        rate = known.frames_per_second(size, float(matched[1]) * BITS[matched[2]])
    else:
        raise ValueError(
            f"need '{text}': '{word}' is no rate of a router; give one in {', '.join((*FRAMES, *BITS))}, "
            "or as '50% of 1Gbit/s'"
        )
    if rate <= 0:
        raise ValueError(f"need '{text}': a rate is above 0, got '{word}'; give what must be forwarded")
    return rate


def _router_bound(text: str, named: re.Match[str]) -> tuple[str, float]:
    name, sign, written = named.groups()
    if name not in ("loss", "p50", "p99"):
        raise ValueError(f"need '{text}': '{name}' is no bound of a router; known are loss, p50 and p99")
    if sign not in ("<", "<="):
        raise ValueError(f"need '{text}': less {name} is better; write '{name}<{written}'")
    if name != "loss":
        return name, quantity(text, name, written, NANOSECONDS)
    loss = quantity(text, name, "0%" if written == "0" else written, SCALES[""], zero=sign == "<=")
    if loss >= 1:
        raise ValueError(f"need '{text}': a loss is below 100 %, got '{written}'; give one such as 0.1%")
    return name, loss


def _figures(words: Sequence[str], known: Known) -> FigureNeed:
    text, name = " ".join(words), words[0]
    names = ALIASES.get(name, (name,))
    unknown = [workload for workload in names if workload not in known.workloads]
    if unknown:
        every = ", ".join((ROUTER, *ALIASES, *known.workloads))
        raise ValueError(f"need '{text}': the workload '{name}' is not known; known are {every}")
    where: dict[str, Any] = {}
    bounds: list[re.Match[str]] = []
    for word in words[1:]:
        named = BOUND.fullmatch(word)
        if named is None:
            raise ValueError(
                f"need '{text}': '{word}' is not understood; write bounds as 'figure<number unit' and parameters as "
                "'name=value'"
            )
        if named[2] == "=":
            put_parameter(text, where, named, {workload: known.workloads[workload] for workload in names})
        else:
            bounds.append(named)
    if not bounds:
        raise ValueError(f"need '{text}': there is no bound; add one of {_named(names, known)}, such as 'p99<20ms'")
    figures = [bound[1] for bound in bounds]
    by_workload = {}
    for workload in names:
        if _has(known.workloads[workload], figures, where):
            by_workload[workload] = tuple(_bound(text, bound, known.workloads[workload].figures) for bound in bounds)
    if not by_workload:
        _refuse_unknown_figures(text, names, figures, known)
        raise ValueError(f"need '{text}': no workload of {name} has all that is named; ask of {' or '.join(names)}")
    return FigureNeed(text, by_workload, where)


def _has(workload: KnownWorkload, figures: Iterable[str], where: Mapping[str, Any]) -> bool:
    """Whether a workload has all that a need names."""
    has_figures = all(figure_of(figure, workload.figures) for figure in figures)
    return has_figures and where.keys() <= workload.parameters.keys() | _OF_GUESTS


def _refuse_unknown_figures(text: str, workloads: Sequence[str], figures: Iterable[str], known: Known) -> None:
    for figure in figures:
        if not any(figure_of(figure, known.workloads[workload].figures) for workload in workloads):
            name, names = text.split(maxsplit=1)[0], _named(workloads, known)
            raise ValueError(f"need '{text}': '{figure}' is no figure of {name}; known are {names}")


def _named(names: Iterable[str], known: Known) -> str:
    return ", ".join(dict.fromkeys(figure.name for workload in names for figure in known.workloads[workload].figures))


def figure_of(name: str, figures: Sequence[Figure]) -> Figure | None:
    """The figure of that name, or of one that leaves out what all such names have: `p99` of `latency_p99_ns`."""
    key = name.replace("-", "_")
    exact = [figure for figure in figures if key == figure.name]
    matching = exact or [figure for figure in figures if key in _short(figure.name)]
    return matching[0] if len(matching) == 1 else None


def _short(name: str) -> tuple[str, ...]:
    without = name.removesuffix("_ns")
    return (
        without,
        without.removeprefix("latency_"),
        without.removesuffix("_per_second"),
        without.removesuffix("_rate"),
    )


def _bound(text: str, named: re.Match[str], figures: Sequence[Figure]) -> Bound:
    name, sign, written = named.groups()
    figure = figure_of(name, figures)
    if figure is None:
        raise ValueError(f"need '{text}': '{name}' is no figure of it")
    right = "<" if figure.better == "lower" else ">"
    if not sign.startswith(right):
        more = "less" if right == "<" else "more"
        raise ValueError(f"need '{text}': {more} {figure.name} is better; write '{name}{right}{written}'")
    return Bound(figure, quantity(text, figure.name, written, scales_of(figure.unit)), f"{name}{sign}{written}")


def put_parameter(
    text: str,
    where: dict[str, Any],
    named: re.Match[str],
    workloads: Mapping[str, KnownWorkload],
    but: str | None = None,
) -> None:
    """A parameter into `where`, checked by the first of the workloads that has it; `but`: none that may be given."""
    name, _, written = named.groups()
    allowed = sorted({key for workload in workloads.values() for key in workload.parameters if key != but} | _OF_GUESTS)
    if name not in allowed:
        raise ValueError(f"need '{text}': '{name}' is no parameter of it; known are {', '.join(allowed)}")
    if name in where:
        raise ValueError(f"need '{text}': '{name}' is given twice; leave one out")
    try:
        value = json.loads(written)
    except ValueError:
        value = written
    if value is None or value == "":
        raise ValueError(f"need '{text}': '{name}={written}' has no value; give one, or leave it out")
    if isinstance(value, list | dict):
        raise ValueError(f"need '{text}': '{name}' is one value; ask of each in a need of its own")
    of = next(workload for workload in workloads.values() if name in _OF_GUESTS or name in workload.parameters)
    try:
        where[name] = of.checked(name, value)
    except ValueError as error:
        raise ValueError(f"need '{text}': '{name}={written}' cannot be: {error}; correct it") from error
