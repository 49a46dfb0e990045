"""What each published number asks of a run: the share that it says, and what would be measured beside it. Pure.

`reference/rows.yaml` maps each of a paper's printed numbers to a comparison of a run's values (`model.Compared`), or
says why there is none. Main types: `Rows` (the file), `Then` (what the paper has) and `Question` (with what it asks).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal

from pydantic import Field

from virtoll.errors import UsageError
from virtoll.reference.published import PublishedValue, Relation, published_values, reference_yaml
from virtoll.stats.compared import Allowed, Compared, Strict
from virtoll.stats.sides import matches

Printed = Literal["value", "time", "change", "time-change", "share", "loss", "times"]
_SLOWER: Final = frozenset({"time", "time-change", "loss", "times"})  # a larger number is a smaller share
_TURNED: Final[Mapping[Relation, Relation]] = {"at_most": "at_least", "at_least": "at_most"}


class Selected(Strict):
    """Rows of `published.csv` with all that is asked for; of each column one text, or those that count."""

    source: str | list[str] | None = None
    platform: str | list[str] | None = None
    scenario: str | list[str] | None = None
    workload: str | list[str] | None = None
    metric: str | list[str] | None = None
    parameters: dict[str, str | list[str]] = Field(default_factory=dict)

    def holds(self, row: PublishedValue) -> bool:
        """Whether a row is one of them."""
        pairs = (
            (row.source, self.source),
            (row.platform, self.platform),
            (row.scenario, self.scenario),
            (row.workload, self.workload),
            (row.metric, self.metric),
            *((row.parameters.get(name), expected) for name, expected in self.parameters.items()),
        )
        return all(expected is None or matches(value, expected) for value, expected in pairs)


class Of(Strict):
    """Which number a row's is a share of, by what differs from the row's own."""

    platform: str | None = None
    scenario: str | None = None
    metric: str | None = None
    parameters: dict[str, str] = Field(default_factory=dict)


class Mapped(Strict):
    """Rows that a run can measure. `printed`: how a share follows from the number.

    `value` and `time`: with the number `of`. `change`, `time-change`: in percent of it. `share`: in percent. `loss`:
    the percent that are missing. `times`: so many times as long. `by`: for each text of a parameter, or of `scenario`,
    what a run's `where` has for it. `what`: in words, with the row's parameters in braces, and the end of its scenario
    as `load`. `source`: in the place of the rows' own. `how`: how the share is derived.
    """

    paper: str
    rows: Selected
    what: str
    source: str = ""
    words: str = ""
    how: str = ""
    printed: Printed = "value"
    of: Of | None = None
    by: dict[str, dict[str, dict[str, Allowed]]] = Field(default_factory=dict)
    now: Compared


class StatedInWords(Strict):
    """What a text says of a platform in words alone, and what would be measured beside it."""

    paper: str
    source: str
    platform: str
    what: str
    words: str
    now: Compared


class NotComparable(Strict):
    """Rows that have no counterpart in any run, with the reason."""

    paper: str
    rows: Selected
    why: str


class Rows(Strict):
    """The whole of `rows.yaml`."""

    mapped: list[Mapped]
    said: list[StatedInWords]
    not_comparable: list[NotComparable]


@dataclass(frozen=True)
class Then:
    """What a paper has: the share of performance (a range where several numbers say it; None: words alone).

    `relation`: what the text says of the share. `values`: the printed numbers, each with the one that it is a share of.
    """

    low: float | None
    high: float | None
    relation: Relation
    words: str
    notes: tuple[str, ...]
    values: tuple[tuple[PublishedValue, PublishedValue | None], ...]


@dataclass(frozen=True)
class Question:
    """One platform's number (or several that ask the same), where it stands, and what is compared for it in a run.

    `what`: in words. `how`: how the share is derived, where that is not plain. `now` is for all platforms: who stands
    for the paper's is asked of the run.
    """

    paper: str
    source: str
    platform: str
    what: str
    how: str
    then: Then
    now: Compared


@cache
def rows_file() -> Rows:
    """What `reference/rows.yaml` says."""
    document = reference_yaml("rows.yaml")
    del document["shared"]  # what the file itself refers to
    return Rows.model_validate(document)


@cache
def questions() -> tuple[Question, ...]:
    """All that the papers' numbers ask of a run, in the order of `rows.yaml` and of `published.csv`."""
    all_questions: list[Question] = []
    for mapped in rows_file().mapped:
        rows = [row for row in published_values() if row.paper == mapped.paper and mapped.rows.holds(row)]
        alike: dict[tuple[str, str], list[PublishedValue]] = {}
        for row in rows:
            alike.setdefault((row.platform, _asked(mapped, row).model_dump_json()), []).append(row)
        all_questions += [_question(mapped, group) for group in alike.values()]
    for statement in rows_file().said:
        then = Then(None, None, "equal", statement.words, (), ())
        source, platform, what = statement.source, statement.platform, statement.what
        all_questions.append(Question(statement.paper, source, platform, what, how="", then=then, now=statement.now))
    return tuple(all_questions)


def why_not_comparable(row: PublishedValue) -> str | None:
    """Why a number has no counterpart in any run; None where it has."""
    entries = (entry for entry in rows_file().not_comparable if entry.paper == row.paper)
    return next((entry.why for entry in entries if entry.rows.holds(row)), None)


def _question(mapped: Mapped, rows: Sequence[PublishedValue]) -> Question:
    pairs = [(row, _base(mapped, row)) for row in rows]
    shares = [_share(mapped.printed, row, base) for row, base in pairs]
    quoted = [*rows, *(base for row, base in pairs if base and base.scenario == row.scenario)]
    notes = tuple(dict.fromkeys(row.note for row in quoted if row.note))
    then = Then(min(shares), max(shares), _relation(mapped, pairs), mapped.words, notes, tuple(pairs))
    source = mapped.source or ", ".join(dict.fromkeys(row.source for row in rows))
    what = mapped.what.format(**rows[0].parameters, load=rows[0].scenario.rsplit("-", 1)[-1])
    now = _asked(mapped, rows[0])
    return Question(mapped.paper, source, rows[0].platform, what, how=mapped.how, then=then, now=now)


def _asked(mapped: Mapped, row: PublishedValue) -> Compared:
    """What is compared for a row: the entry's, with what the row's parameters and scenario are here."""
    where = dict(mapped.now.where)
    for name, texts in mapped.by.items():
        text = row.scenario if name == "scenario" else row.parameters.get(name)
        if text is None:
            continue
        if text not in texts:
            raise UsageError(f"rows.yaml: {row.paper}, {row.source}: {name} {text!r} is not in 'by'; add it")
        where |= texts[text]
    return mapped.now.model_copy(update={"where": where})


def _base(mapped: Mapped, row: PublishedValue) -> PublishedValue | None:
    """The number that a row's is a share of; `UsageError` where it is not one."""
    if mapped.of is None:
        return None
    key = (
        mapped.of.platform or row.platform,
        mapped.of.scenario or row.scenario,
        mapped.of.metric or row.metric,
        {**row.parameters, **mapped.of.parameters},
    )
    bases = [
        other
        for other in published_values()
        if (other.paper, other.workload) == (row.paper, row.workload)
        and (other.source == row.source or mapped.of.metric is None)
        and (other.platform, other.scenario, other.metric, dict(other.parameters)) == key
    ]
    if len(bases) != 1:
        raise UsageError(f"rows.yaml: {row.paper}, {row.source}, {row.platform}: 'of' finds {len(bases)} numbers")
    return bases[0]


def _share(printed: Printed, row: PublishedValue, base: PublishedValue | None) -> float:
    """Of performance: 1 is as fast as what it is relative to."""
    if printed in ("value", "time"):
        if base is None:
            raise UsageError(f"rows.yaml: {row.paper}, {row.source}: a {printed} needs 'of'")
        return row.value / base.value if printed == "value" else base.value / row.value
    part = row.value / 100
    shares: Mapping[str, float] = {
        "change": 1 + part,
        "time-change": 1 / (1 + part),
        "share": part,
        "loss": 1 - part,
        "times": 1 / row.value if row.value else 0.0,
    }
    return shares[printed]


def _relation(mapped: Mapped, pairs: Iterable[tuple[PublishedValue, PublishedValue | None]]) -> Relation:
    """What is said of the share: turned round where a larger number is a smaller share; of a bound's share `about`."""
    if any(base is not None and base.relation != "equal" for _, base in pairs):
        return "about"
    relations = {row.relation for row, _ in pairs}
    relation = relations.pop() if len(relations) == 1 else "about"
    return _TURNED.get(relation, relation) if mapped.printed in _SLOWER else relation
