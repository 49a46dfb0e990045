"""Advice in words for the page and the terminal, and as a document for a program. No numbers are computed here.

Main types: `AdviceView` and `Adviser`, who makes one of an analysis. That is `api.needs`: it knows the workloads that a
need may name, and plans the experiments that would tell. A line is as long as what it says, and set in by what it
belongs to: whoever prints it folds it (`say_in_columns`).
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from typing import Any

from virtoll import units
from virtoll.advise import (
    Advice,
    Answer,
    Factor,
    Finding,
    Fit,
    Guests,
    Margin,
    PlatformAdvice,
    Statement,
    WithNeighbours,
)
from virtoll.advise.meets import tightest_of
from virtoll.report import words
from virtoll.report.rows import UNKNOWN, Shown, TableRow, grouped
from virtoll.runfolder.yaml_file import dump_yaml
from virtoll.stats.analysis import Analysis
from virtoll.stats.remaining import MOST_TIMES
from virtoll.system.printable import printable

_NOTHING, _MANY = 0.01, 100  # times what is needed: beyond, it is said to be less or more than that
_COLUMNS, _FOLDED, _EARLY = 80, 60, 30  # of an experiment's text, and from which YAML folds it
_CAUTION = 150  # characters of a caution; the report has all of it
_KINDS = {Answer.MEETS: "good", Answer.FAILS: "bad", Answer.OPEN: "warn", Answer.NOT_MEASURED: "missing"}
_SEVERAL = (
    "'+' asks for guests side by side on this host, one for each part, all of one platform; each must meet its part "
    "while the others work."
)


@dataclass(frozen=True)
class AdviceView:
    """A need in words: a row for each platform, those that meet it first.

    `parts`: of the need. Each row's first cell is of the whole need, one follows for each part, and the last is of how
    many guests. `with_neighbours`: (platforms, lines) of guests side by side. `experiments`: (what it would tell, the
    text of its file, None: there is none). `document`: all of it for a program.
    """

    parts: tuple[str, ...]
    family_line: str
    rows: tuple[TableRow, ...]
    with_neighbours: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
    cautions: tuple[str, ...]
    experiments: tuple[tuple[str, str | None], ...]
    document: Mapping[str, Any]

    @property
    def need(self) -> str:
        """The whole of it."""
        return " + ".join(self.parts)


Adviser = Callable[[Analysis], AdviceView]


@dataclass(frozen=True)
class AnsweringExperiment:
    """An experiment that would answer: its file's text and its seconds; None: there is none, for what `note` says."""

    tells: str
    text: str | None
    seconds: float | None
    note: str


def all_advice_lines(advice: Advice) -> list[str]:
    """The advice for the terminal: each platform, those that meet the need first."""
    lines = [f"need: {' + '.join(advice.needs)}"]
    if len(advice.needs) > 1:
        lines.append(_SEVERAL)
    lines.append(_family(advice))
    alike: dict[tuple[str, ...], list[str]] = {}
    for platform in advice.platforms:
        name = f"{platform.platform} (the baseline)" if platform.platform == advice.baseline else platform.platform
        alike.setdefault(tuple(_platform(platform, several=len(advice.needs) > 1)), []).append(name)
    for (answer, *rest), platforms in alike.items():
        lines += ["", f"{', '.join(platforms)}: {answer}", *rest]
    if advice.cautions:
        lines += ["", "cautions of this run:"]
    for caution in advice.cautions:
        lines.append(f"  {textwrap.shorten(caution, _CAUTION, placeholder=' ...')}")
    return lines


def _family(advice: Advice) -> str:
    intervals, blocks = words.counted(advice.family, "interval"), words.counted(advice.blocks, "block")
    return f"{intervals} of 95 % taken together; {blocks} in the run"


def advice_view(advice: Advice, experiments: Sequence[AnsweringExperiment]) -> AdviceView:
    """The advice as the report prints it."""
    named = len(advice.needs) > 1
    return AdviceView(
        parts=advice.needs,
        family_line=_family(advice),
        rows=tuple(map(partial(_row, named=named), advice.platforms)),
        with_neighbours=_gathered(advice),
        cautions=advice.cautions,
        experiments=tuple((experiment_line(each).removesuffix(":"), each.text) for each in experiments),
        document=advice_document(advice, experiments),
    )


def _gathered(advice: Advice) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """What is said of guests side by side, with all platforms that it is said of."""
    by_lines: dict[tuple[str, ...], tuple[str, ...]] = {}
    for platform in advice.platforms:
        lines = tuple(line.strip() for each in platform.with_neighbours for line in _neighbour_lines(each))
        if lines:
            by_lines[lines] = (*by_lines.get(lines, ()), platform.platform)
    return tuple((platforms, lines) for lines, platforms in by_lines.items())


def _row(platform: PlatformAdvice, *, named: bool) -> TableRow:
    """A platform: the whole need, each part alone with the margin that it is sorted by, and how many guests."""
    cells = [Shown(_answer(platform.answer), _caveat(platform), _KINDS[platform.answer])]
    cells += [_part_cell(statement, platform.caveat, named=named) for statement in platform.alone]
    many = list(map(_guests, platform.guests))
    if named:
        many = [f"{guests.need}: {text}" for guests, text in zip(platform.guests, many, strict=True)]
    most = max((guests.at_least or 0 for guests in platform.guests), default=None)
    cells.append(Shown("; ".join(many), value=most) if many else UNKNOWN)
    return TableRow(platform.platform, tuple(cells))


def _caveat(platform: PlatformAdvice) -> str:
    return f"{platform.caveat}: it decides nothing" if platform.caveat else ""


def _part_cell(statement: Statement, caveat: str | None, *, named: bool) -> Shown:
    answer, tightest = _answer(statement.answer), statement.tightest
    if tightest is None:
        return Shown(answer, statement.reason)
    head = words.with_semicolons(answer if named else "", _margin(tightest)) or answer
    small = "\n".join(filter(None, (_evidence(tightest, caveat), statement.reason)))
    return Shown(head, small, value=tightest.margin.times if tightest.margin is not None else None)


def experiment_line(experiment: AnsweringExperiment) -> str:
    """What an experiment would answer; its text is to follow as it is."""
    if experiment.text is None:
        return f"not measured: {experiment.tells}; no experiment of this Virtoll can answer it: {experiment.note}"
    time = "" if experiment.seconds is None else f", about {units.time_to_come(max(experiment.seconds, 1.0))}"
    text = f"not measured or not decided: {experiment.tells}; this experiment would answer it{time}"
    return f"{text}{words.bracketed(experiment.note)}:"


def _platform(platform: PlatformAdvice, *, several: bool) -> list[str]:
    """The answer, and lines of what it rests on."""
    lines = [f"{_answer(platform.answer)}{words.bracketed(_caveat(platform))}"]
    for statement in platform.alone:
        lines += _statement(statement, platform.caveat, named=several)
    for with_neighbours in platform.with_neighbours:
        lines += _neighbour_lines(with_neighbours)
    for guests in platform.guests:
        lines.append(f"  {words.with_commas('how many', guests.need if several else '')}: {_guests(guests)}")
    return lines


def _answer(answer: Answer) -> str:
    return "does not meet it" if answer is Answer.FAILS else str(answer)


def _statement(statement: Statement, caveat: str | None, *, named: bool) -> list[str]:
    head = f"{statement.need}: {_answer(statement.answer)}" if named else ""
    tightest = statement.tightest
    if tightest is None:
        return [f"  {head}: {statement.reason}" if head else f"  {statement.reason}"]
    head = words.with_commas(head, _margin(tightest))
    lines = [f"  {head}"] if head else []
    lines.append(f"    {_evidence(tightest, caveat)}")
    if statement.reason:
        lines.append(f"    {statement.reason}")
    if len(statement.findings) > 1:
        lines.append(f"    the tightest of {len(statement.findings)} measured values; --json has all")
    return lines


def _margin(finding: Finding) -> str:
    """'2.8 times what is needed, at least 2.6': the end that speaks against the answer."""
    margin = finding.margin
    if margin is None:
        return ""
    text = f"{'less than ' if finding.too_much else ''}{_times(margin.times)} times what is needed"
    if finding.answer is Answer.MEETS:
        return text if margin.at_least >= _MANY else f"{text}, at least {_times(margin.at_least)}"
    if finding.answer is Answer.FAILS:
        return f"{text}, at most {_times(margin.at_most)}"
    return f"{text} ({_between(margin)})"


def _between(margin: Margin) -> str:
    if math.isinf(margin.at_most):
        return f"at least {_times(margin.at_least)}" if margin.at_least >= _NOTHING else "anything may be"
    return f"anything from {_times(margin.at_least)} to {_times(margin.at_most)}"


def _times(number: float) -> str:
    if 0 < number < _NOTHING:
        return f"less than {_NOTHING}"
    return units.significant(number, 2) if number < _MANY else f"more than {_MANY}"


def _evidence(finding: Finding, caveat: str | None) -> str:
    """'568 kframes/s of IP forwarding 64 B; 3 blocks, 15 trials', and what limits it."""
    bounded = finding.bound.startswith("router") and "<" in finding.bound
    relation = "within the bounds, of" if bounded else "of"
    if finding.too_much:
        relation = "at most, of"
    value = "" if finding.value is None else f"{_value(finding.value, finding.unit)} {relation} "
    bound = "" if finding.bound.startswith("router") else f" ({finding.bound})"
    blocks = words.counted(finding.blocks, "block") if finding.blocks else ""
    rests_on = words.with_commas(blocks, words.counted(finding.trials, "trial"))
    text = f"{words.with_commas(f'{value}{finding.task}{bound}', finding.under)}; {rests_on}"
    fit = _fit(finding.fit) if finding.fit is not None else ""
    more = [finding.note, *((fit, finding.reason) if finding.value is not None else (finding.reason, fit))]
    if finding.caveat and finding.caveat != caveat:
        more.append(finding.caveat)
    if finding.more_blocks is not None and finding.more_blocks <= MOST_TIMES * finding.blocks:
        more.append(f"{words.counted(finding.more_blocks, 'block')} more would decide it, were the estimate the truth")
    return words.with_semicolons(text, *more)


def _value(number: float, unit: str) -> str:
    return units.percent(number) if not unit else units.value(number, unit)


def _fit(fit: Fit) -> str:
    """A model with its error; one that does not fit is said not to."""
    name = f"the model '{fit.model.words}'"
    if fit.held_out is None:
        return f"{name} {fit.why_not}"
    error = f"error on what it has not seen up to {units.percent(fit.held_out)}"
    if not fit.fits:
        return f"{name} does not fit ({error})"
    residual = "" if fit.residual is None else f", residuals up to {units.percent(fit.residual)}"
    return f"{name} ({error}{residual}; {len(fit.sizes)} sizes)"


def _neighbour_lines(statement: WithNeighbours) -> list[str]:
    loads = " and ".join(statement.loads)
    text = f"{statement.need}, beside the load '{loads}' in the others' place: {_answer(statement.answer)}"
    tightest = tightest_of(statement.findings)
    reason = statement.reason
    if tightest is not None:
        text = words.with_semicolons(text, _margin(tightest), _evidence(tightest, None))
        reason = "" if reason == tightest.reason else reason
    return [
        f"  {words.with_semicolons(text, reason)}",
        *(f"    {_factor(factor)}" for factor in statement.factors),
    ]


def _factor(factor: Factor) -> str:
    if factor.share is None:
        return f"{factor.condition}: {factor.why_not}"
    ends = words.ends_of(factor.low, factor.high)
    between = words.bracketed(ends and words.ends(*ends))
    text = f"{factor.condition}: keeps {words.share(factor.share)} of what it does alone{between}"
    if factor.held_out is not None:
        text += f"; blocks differ from the others' by up to {units.percent(factor.held_out)}"
    if factor.why_not:
        text += f"; as a factor it is not used: {factor.why_not}"
    return text


def _guests(guests: Guests) -> str:
    measured = f"measured with {_listed(str(step.guests) for step in guests.steps)}"
    parts = []
    if guests.at_least is not None:
        parts.append(f"at least {words.counted(guests.at_least, 'guest')} at once, each of them")
    if guests.not_with is not None:
        parts.append(f"not {words.counted(guests.not_with, 'guest')}")
    if guests.by_model is not None:
        where = ", which is beyond what was measured" if guests.beyond else ""
        parts.append(f"{guests.by_model} by the model{where}")
    if not parts:
        first = guests.steps[0].findings[0]
        parts.append(f"cannot be said{words.bracketed(guests.caveat or first.reason)}")
    parts.append(measured)
    if guests.taken_bytes:
        parts.append(f"each takes {units.size(round(guests.taken_bytes))} of the host's memory")
    if guests.fit is not None:
        parts.append(_fit(guests.fit))
    return "; ".join(parts)


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def advice_document(advice: Advice, experiments: Sequence[AnsweringExperiment]) -> dict[str, Any]:
    """The same for a program; what is open is null."""
    return {
        "needs": list(advice.needs),
        "intervals": advice.family,
        "blocks": advice.blocks,
        "baseline": advice.baseline,
        "platforms": [
            {**_plain(asdict(platform)), "guests": list(map(_with_ends, platform.guests))}
            for platform in advice.platforms
        ],
        "cautions": list(advice.cautions),
        "experiments": list(map(asdict, experiments)),
    }


def _with_ends(guests: Guests) -> dict[str, Any]:
    ends = {"at_least": guests.at_least, "not_with": guests.not_with, "beyond_what_was_measured": guests.beyond}
    document: dict[str, Any] = _plain(asdict(guests))
    return document | ends


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return list(map(_plain, value))
    if isinstance(value, Enum):
        return value.value[0] if isinstance(value.value, tuple) else str(value.value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def advice_lines(view: AdviceView) -> list[str]:
    """The answer in short: which platforms meet the need, which do not, and of which it is not known."""
    lines = [f"need: {view.need}"]
    for answer, rows in grouped(view.rows, lambda row: row.cells[0].main).items():
        lines.append(f"  {answer}: {', '.join(row.head for row in rows)}")
    return lines


def file_text(document: Mapping[str, Any]) -> str:
    """The text of a YAML file; if a name makes lines too long, or would steer a terminal, in more and plainer lines."""
    from rich.cells import cell_len

    usual = dump_yaml(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=None, width=_FOLDED)
    if usual == printable(usual) and max(map(cell_len, usual.splitlines())) <= _COLUMNS:
        return usual
    return dump_yaml(dict(document), sort_keys=False, default_flow_style=False, width=_EARLY)
