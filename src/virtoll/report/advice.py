"""Advice in words for the page and the terminal, and as a document for a program. No numbers are computed here.

Main types: `AdviceView` and `Adviser`, who makes one of an analysis. That is the command line: it alone knows the
workloads that a need may name, and plans the experiments that would tell. A line is as long as what it says, and set in
by what it belongs to: whoever prints it folds it (`say_in_columns`).
"""

import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from virtoll import units
from virtoll.advise import Advice, Answer, Beside, Factor, Finding, Fit, Guests, Margin, PlatformAdvice, Statement
from virtoll.advise.meets import tightest_of
from virtoll.report import words
from virtoll.report.rows import Shown, TableRow
from virtoll.stats.analysis import Analysis

_NOTHING, _MANY = 0.01, 100  # times what is needed: beyond, it is said to be less or more than that
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
    many guests. `beside`: (platforms, lines) of guests side by side. `experiments`: (what it would tell, the text of
    its file, None: there is none). `document`: all of it for a program.
    """

    parts: tuple[str, ...]
    family_line: str
    rows: tuple[TableRow, ...]
    beside: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]
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
    found = [f"need: {' + '.join(advice.needs)}"]
    if len(advice.needs) > 1:
        found.append(_SEVERAL)
    found.append(_family(advice))
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in advice.platforms:
        name = f"{one.platform} (the baseline)" if one.platform == advice.baseline else one.platform
        alike.setdefault(tuple(_platform(one, several=len(advice.needs) > 1)), []).append(name)
    for (answer, *rest), platforms in alike.items():
        found += ["", f"{', '.join(platforms)}: {answer}", *rest]
    if advice.cautions:
        found += ["", "cautions of this run:"]
    for caution in advice.cautions:
        found.append(f"  {textwrap.shorten(caution, _CAUTION, placeholder=' ...')}")
    return found


def _family(advice: Advice) -> str:
    intervals = "1 interval" if advice.family == 1 else f"{advice.family} intervals"
    return f"{intervals} of 95 % taken together; {_counted(advice.blocks, 'block')} in the run"


def advice_view(advice: Advice, told: Sequence[AnsweringExperiment]) -> AdviceView:
    """The advice as the report prints it."""
    named = len(advice.needs) > 1
    return AdviceView(
        parts=advice.needs,
        family_line=_family(advice),
        rows=tuple(_row(one, named=named) for one in advice.platforms),
        beside=_gathered(advice),
        cautions=advice.cautions,
        experiments=tuple((experiment_line(one).removesuffix(":"), one.text) for one in told),
        document=advice_document(advice, told),
    )


def _gathered(advice: Advice) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """What is said of guests side by side, with all platforms that it is said of."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for one in advice.platforms:
        lines = tuple(line.strip() for each in one.beside for line in _beside(each))
        if lines:
            found[lines] = (*found.get(lines, ()), one.platform)
    return tuple((platforms, lines) for lines, platforms in found.items())


def _row(one: PlatformAdvice, *, named: bool) -> TableRow:
    """A platform: the whole need, each part alone with the margin that it is sorted by, and how many guests."""
    cells = [Shown(_answer(one.answer), f"{one.caveat}: it decides nothing" if one.caveat else "", _KINDS[one.answer])]
    for each in one.alone:
        tightest = each.tightest
        told = [] if tightest is None else [_evidence(tightest, one.caveat)]
        margin = "" if tightest is None else _margin(tightest)
        head = "; ".join(filter(None, (_answer(each.answer) if named else "", margin))) or _answer(each.answer)
        times = tightest.margin.times if tightest is not None and tightest.margin is not None else None
        cells.append(Shown(head, "\n".join(filter(None, (*told, each.reason))), value=times))
    many = [f"{f'{own.need}: ' if named else ''}{_guests(own)}" for own in one.guests]
    most = max((own.at_least or 0 for own in one.guests), default=None)
    cells.append(Shown("; ".join(many) or "–", kind="" if many else "missing", value=most))
    return TableRow(one.platform, tuple(cells))


def experiment_line(told: AnsweringExperiment) -> str:
    """What an experiment would answer; its text is to follow as it is."""
    if told.text is None:
        return f"not measured: {told.tells}; no experiment of this Virtoll can answer it: {told.note}"
    time = "" if told.seconds is None else f", about {units.time_to_come(max(told.seconds, 1.0))}"
    text = f"not measured or not decided: {told.tells}; this experiment would answer it{time}"
    return f"{text}{f' ({told.note})' if told.note else ''}:"


def _platform(one: PlatformAdvice, *, several: bool) -> list[str]:
    """The answer, and lines of what it rests on."""
    found = [f"{_answer(one.answer)}{f' ({one.caveat}: it decides nothing)' if one.caveat else ''}"]
    for statement in one.alone:
        found += _statement(statement, one.caveat, named=several)
    for beside in one.beside:
        found += _beside(beside)
    for guests in one.guests:
        found.append(f"  how many{f', {guests.need}' if several else ''}: {_guests(guests)}")
    return found


def _answer(answer: Answer) -> str:
    return "does not meet it" if answer is Answer.FAILS else str(answer)


def _statement(one: Statement, caveat: str | None, *, named: bool) -> list[str]:
    head = f"{one.need}: {_answer(one.answer)}" if named else ""
    tightest = one.tightest
    if tightest is None:
        return [f"  {head}: {one.reason}" if head else f"  {one.reason}"]
    margin = _margin(tightest)
    found = [f"  {', '.join(filter(None, (head, margin)))}"] if head or margin else []
    found.append(f"    {_evidence(tightest, caveat)}")
    if one.reason:
        found.append(f"    {one.reason}")
    if len(one.findings) > 1:
        found.append(f"    the tightest of {len(one.findings)} measured values; --json has all")
    return found


def _margin(found: Finding) -> str:
    """'2.8 times what is needed, at least 2.6': the end that speaks against the answer."""
    margin = found.margin
    if margin is None:
        return ""
    text = f"{'less than ' if found.too_much else ''}{_times(margin.times)} times what is needed"
    if found.answer is Answer.MEETS:
        return text if margin.at_least >= _MANY else f"{text}, at least {_times(margin.at_least)}"
    if found.answer is Answer.FAILS:
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


def _evidence(found: Finding, caveat: str | None) -> str:
    """'568 kframes/s of IP forwarding 64 B; 3 blocks, 15 trials', and what limits it."""
    bounded = found.bound.startswith("router") and "<" in found.bound
    told = "were too much for" if found.too_much else "within the bounds, of" if bounded else "of"
    value = "" if found.value is None else f"{_value(found.value, found.unit)} {told} "
    where = f", {found.under}" if found.under else ""
    bound = "" if found.bound.startswith("router") else f" ({found.bound})"
    rests_on = ([_counted(found.blocks, "block")] if found.blocks else []) + [_counted(found.trials, "trial")]
    text = f"{value}{found.task}{bound}{where}; {', '.join(rests_on)}"
    fit = _fit(found.fit) if found.fit is not None else ""
    more = [found.note, *((fit, found.reason) if found.value is not None else (found.reason, fit))]
    if found.caveat and found.caveat != caveat:
        more.append(found.caveat)
    if found.more_blocks is not None:
        more.append(f"{_counted(found.more_blocks, 'block')} more would decide it, were the estimate the truth")
    return "; ".join(filter(None, (text, *more)))


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


def _beside(one: Beside) -> list[str]:
    loads = " and ".join(one.loads)
    text = f"{one.need}, beside the load '{loads}' in the others' place: {_answer(one.answer)}"
    tightest = tightest_of(one.findings)
    if tightest is not None:
        text += f"; {'; '.join(filter(None, (_margin(tightest), _evidence(tightest, None))))}"
    told = "" if tightest is not None and one.reason == tightest.reason else one.reason
    head = f"  {text}{f'; {told}' if told else ''}"
    return [head, *(f"    {_factor(factor)}" for factor in one.factors)]


def _factor(one: Factor) -> str:
    if one.share is None:
        return f"{one.condition}: {one.why_not}"
    ends = "" if one.low is None or one.high is None else f" ({words.ends(one.low, one.high)})"
    error = "" if one.held_out is None else f"; blocks differ from the others' by up to {units.percent(one.held_out)}"
    return f"{one.condition}: keeps {words.share(one.share)} of what it does alone{ends}{error}" + (
        f"; as a factor it is not used: {one.why_not}" if one.why_not else ""
    )


def _guests(one: Guests) -> str:
    measured = f"measured with {_listed(str(step.guests) for step in one.steps)}"
    told = []
    if one.at_least is not None:
        told.append(f"at least {_counted(one.at_least, 'guest')} at once, each of them")
    if one.not_with is not None:
        told.append(f"not {_counted(one.not_with, 'guest')}")
    if one.by_model is not None:
        where = ", which is beyond what was measured" if one.beyond else ""
        told.append(f"{one.by_model} by the model{where}")
    if not told:
        first = one.steps[0].findings[0]
        told.append(f"cannot be said{f' ({one.caveat or first.reason})' if one.caveat or first.reason else ''}")
    more = [f"each takes {units.size(round(one.taken_bytes))} of the host's memory"] if one.taken_bytes else []
    more += [_fit(one.fit)] if one.fit is not None else []
    return "; ".join([*told, measured, *more])


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _listed(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def advice_document(advice: Advice, told: Sequence[AnsweringExperiment]) -> dict[str, Any]:
    """The same for a program; what is open is null."""
    return {
        "needs": list(advice.needs),
        "intervals": advice.family,
        "blocks": advice.blocks,
        "baseline": advice.baseline,
        "platforms": [
            {**_plain(asdict(one)), "guests": [_with_ends(each) for each in one.guests]} for one in advice.platforms
        ],
        "cautions": list(advice.cautions),
        "experiments": [asdict(one) for one in told],
    }


def _with_ends(one: Guests) -> dict[str, Any]:
    ends = {"at_least": one.at_least, "not_with": one.not_with, "beyond_what_was_measured": one.beyond}
    found: dict[str, Any] = _plain(asdict(one))
    return found | ends


def _plain(value: Any) -> Any:
    """As JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return value.value[0] if isinstance(value.value, tuple) else str(value.value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def advice_lines(view: AdviceView) -> list[str]:
    """The answer in short: which platforms meet the need, which do not, and of which it is not known."""
    by_answer: dict[str, list[str]] = {}
    for row in view.rows:
        by_answer.setdefault(row.cells[0].main, []).append(row.head)
    return [f"need: {view.need}", *(f"  {answer}: {', '.join(platforms)}" for answer, platforms in by_answer.items())]
