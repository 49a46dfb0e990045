"""Tables of papers' claims: in each row what a made-up run measures, and what it says of a claim.

    M07
    yes other tables do not count: routes xen 0:300,1000:150,10000:149 | finds xen=149/150
    no(yes no) by zeros: image native 11 xen 13.75 + zeros spread=0.1 native 38 xen 38 | finds image xen; zeros xen

A claim's id heads its rows; what is indented continues a row. A row begins with the outcome of the claim, with that of
each of its tests if they differ, and with why. After the colon come words of the paper's table (`Word`). Each has its
options (a field of `Made`, or a parameter of the workload), then platforms with their values. Several values of one
platform stand under keys; without a key each stands under its place, from 0, and `-` is a gap.

After a bar: `finds` has the ratios that each test must find, and semicolons between the tests. Either a platform has
numbers (`xen=149/150,2*3/7`; `xen=`: it is shown without a ratio), or a word stands before its platforms: their share
of native's performance by that word, or of another's (`kvm/virtualbox`). A lone `-`: the test finds nothing.
`lacks`: what was not measured, as its reason must say. `generator`: frames/s of generator and sink with nothing
between. `others`: what every second block measures instead. `nested`: platforms that ran in a guest of KVM.
"""

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from tests.support.made_up_run import Made, made_up_run

from virtoll.claims import Claim, Outcome
from virtoll.stats.analysis import RunData
from virtoll.workloads import WORKLOADS

YES, NO, UNSEEN, OPEN, NONE = Outcome
NESTED = {"host": "nested kvm", "caveat": "nested: functional only"}
_OUTCOMES = {"yes": YES, "no": NO, "unseen": UNSEEN, "unsure": OPEN, "nothing": NONE}
_ROW = re.compile(r"(yes|no|unseen|unsure|nothing)\b(?:\((.*?)\))?([^:]*): (.*)", re.DOTALL)
_FIELDS = {one.name for one in fields(Made)}
Values = Mapping[str, float]


def possible_outcomes(claim: Claim) -> set[Outcome]:
    """All that a run may say of a claim: what is said to exist is not refuted."""
    exists = all(test.holds_for == "any" for test in claim.tests)
    return {YES, UNSEEN if exists else NO, OPEN, NONE}


_Measured = dict[str, dict[str, dict[str, float]]]  # by word, platform and key


@dataclass(frozen=True)
class Word:
    """What a row measures by one word: a workload, in `unit`; `by`: what each key of its values changes.

    What is changed is a field of `Made` or else a parameter.
    """

    workload: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    unit: float = 1e9
    by: Callable[[str], Mapping[str, Any]] = lambda _: {}

    def made(self, label: str, values: Values, options: Mapping[str, Any]) -> list[Made]:
        """What one platform measures."""
        plain = Made(label, self.workload, self.parameters)
        return [
            changed(replace(plain, value=value * self.unit), {**self.by(key), **options})
            for key, value in values.items()
        ]

    @property
    def more_is_better(self) -> bool:
        return WORKLOADS[self.workload].metrics[0].better == "higher"


def changed(made: Made, options: Mapping[str, Any]) -> Made:
    """The same with other fields and parameters."""
    parameters = {name: value for name, value in options.items() if name not in _FIELDS}
    own = {name: value for name, value in options.items() if name in _FIELDS}
    return replace(made, parameters={**made.parameters, **parameters}, **own)


@dataclass(frozen=True)
class ClaimCase:
    """One row. `tests`: the outcome of each test. `found`: by test and platform the ratios that must be found."""

    claim: str
    outcome: Outcome
    why: str
    measured: Sequence[Made]
    tests: tuple[Outcome, ...] = ()
    found: tuple[Mapping[str, tuple[float, ...]], ...] = ()
    lacks: str = ""
    generator: float | None = None
    others: Sequence[Made] = ()
    changed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Such as M02-refuted-by-a-part."""
        return "-".join([self.claim, *self.outcome.split(), *self.why.split()])

    def outcomes(self, tests: int) -> tuple[Outcome, ...]:
        """Those of a claim with so many tests."""
        return self.tests or (self.outcome,) * tests

    def run(self, platforms: Mapping[str, Mapping[str, Any]], **given: Any) -> RunData:
        """What analysis takes; `platforms`: those of the paper's table by label."""
        labels = ["native", *(one.platform for one in self.measured)]
        labels += [one.condition.platform for one in self.measured if one.condition and one.condition.platform]
        entries = {label: {**platforms[label], **self.changed.get(label, {})} for label in labels}
        given = {"calibrated_rate": self.generator, **given}
        run = made_up_run(entries, self.measured, **given)
        if not self.others:
            return run
        other = made_up_run(entries, self.others, **given)
        return replace(
            run,
            trials=tuple((one, two)[one.block % 2] for one, two in zip(run.trials, other.trials, strict=True)),
            with_neighbours=tuple(
                (one, two)[one.block % 2] for one, two in zip(run.with_neighbours, other.with_neighbours, strict=True)
            ),
        )


def cases(table: str, words: Mapping[str, Word], spread: float = 0.01) -> list[ClaimCase]:
    """The rows of a paper's table; `spread`: where a row says nothing else."""
    claim, rows = "", []
    for line in re.split(r"\n(?! )", table.strip()):
        if re.fullmatch(r"[A-Z]\d\d", line):
            claim = line
        elif line:
            rows.append(_row(claim, " ".join(line.split()), words, spread))
    return rows


def _row(claim: str, text: str, words: Mapping[str, Word], spread: float) -> ClaimCase:
    match = _ROW.fullmatch(text)
    assert match is not None, text
    outcome, tests, why, body = match.groups()
    measured, *more = body.split(" | ")
    made, values = measures(measured, words, spread)
    case = ClaimCase(
        claim, _OUTCOMES[outcome], why.strip(), made, tests=tuple(_OUTCOMES[one] for one in (tests or "").split())
    )
    for name, _, value in (one.partition(" ") for one in more):
        match name:
            case "finds":
                found = tuple(_found(one, values, words) for one in value.split(";"))
                case = replace(case, found=found)
            case "lacks":
                case = replace(case, lacks=value)
            case "generator":
                case = replace(case, generator=float(value))
            case "others":
                case = replace(case, others=measures(value, words, spread)[0])
            case "nested":
                case = replace(case, changed=dict.fromkeys(value.split(), NESTED))
            case _:
                raise ValueError(f"{claim}, {case.why}: no row has {name!r}")
    return case


def measures(text: str, words: Mapping[str, Word], spread: float = 0.01) -> tuple[list[Made], _Measured]:
    """What is measured, and its values: those with other options stand under other keys."""
    made: list[Made] = []
    values: _Measured = {}
    for part in text.split(" + "):
        name, *rest = part.split()
        given = (one.partition("=") for one in rest if "=" in one)
        options = {"spread": spread, **{key: _option(value) for key, _, value in given}}
        pairs = [one for one in rest if "=" not in one]
        for label, listed in zip(pairs[::2], pairs[1::2], strict=True):
            own = _values(listed)
            kept = values.setdefault(name, {}).setdefault(label, {})
            kept |= {f"{key} {sorted(options.items())}": value for key, value in own.items()}
            made += words[name].made(label, own, options)
    return made, values


def _option(text: str) -> Any:
    """A number, several of them, or a word."""
    if "," in text:
        return tuple(float(one) for one in text.split(","))
    if text in ("yes", "no"):
        return text == "yes"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _values(text: str) -> Values:
    """`1:150,2:140`, or `150,-,140`."""
    listed = [(str(place), one) for place, one in enumerate(text.split(",")) if one != "-"]
    return {
        key: float(value) for key, value in (tuple(one.split(":")) if ":" in one else (at, one) for at, one in listed)
    }


def _found(text: str, values: _Measured, words: Mapping[str, Word]) -> dict[str, tuple[float, ...]]:
    """Numbers of a platform, or those of a word for each of the platforms that follow it."""
    found: dict[str, tuple[float, ...]] = {}
    word = ""
    for part in shlex.split(text):
        label, told, numbers = part.partition("=")
        if told:
            found[label] = tuple(_number(one) for one in numbers.split(",") if one)
        elif part in words:
            word = part
        elif part != "-":
            found[label] = _shares(values[word], label, more_is_better=words[word].more_is_better)
    return found


def _shares(values: Mapping[str, Values], label: str, *, more_is_better: bool) -> tuple[float, ...]:
    """Of a platform in the performance of another, such as `kvm/xen`, or of native."""
    name, _, base = label.partition("/")
    own, other = values[name], values[base or "native"]
    pairs = [(own[key], other[key]) for key in own if key in other]
    return tuple(mine / theirs if more_is_better else theirs / mine for mine, theirs in pairs)


def _number(text: str) -> float:
    """Such as 4*85/400."""
    first, *others = text.split("/")
    return math.prod(map(float, first.split("*"))) / math.prod(map(float, others))
