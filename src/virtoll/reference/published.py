"""What the studies published: numbers, and the studies that an experiment may name, read from `reference/`.

Main types: `Study` (one paper), `PublishedValue` (one printed number). Their claims, and what of a run stands beside
the numbers, are in `claims`. The files are part of the package; `reference/README.md` says where they come from.
Nothing here judges or computes.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml


Relation = Literal["equal", "at_most", "at_least", "about"]
RELATIONS: tuple[Relation, ...] = get_args(Relation)


@dataclass(frozen=True)
class PublishedValue:
    """One printed number: where it stands, of what, and under which parameters (as printed, such as ``frame``).

    `value`: in `unit`, the paper's own. `relation`: by the text the metric is that, at most that ("up to"), at least or
    about that. `note`: empty, or what a reader must know of it; `reference/README.md` has the words it begins with.
    """

    paper: str
    source: str
    platform: str
    scenario: str
    workload: str
    parameters: Mapping[str, str]
    metric: str
    unit: str
    value: float
    relation: Relation
    note: str


@dataclass(frozen=True)
class StudyPlatform:
    """One of a paper's platforms; `ours` and `successors` are filters as claims have them.

    `ours`: what of a run is the same product. `successors`: where it is history, what is of its kind today; None: there
    is none. `written`: what an experiment's `stands_for` calls it.
    """

    key: str
    name: str
    version: str
    written: str
    ours: tuple[Mapping[str, Any], ...]
    successors: Mapping[str, Any] | None


@dataclass(frozen=True)
class Study:
    """One paper: its host in words, its name of the bare host (`baseline`), its platforms and printed numbers.

    `question`: what it asks, in our words. `presets`: the experiments that repeat it, by name.
    `short`: how a line names it, by its first author and year.
    """

    name: str
    title: str
    question: str
    presets: tuple[str, ...]
    short: str
    citation: str
    hardware: str
    baseline: str
    platforms: tuple[StudyPlatform, ...]
    values: tuple[PublishedValue, ...]

    def platform(self, key: str) -> StudyPlatform:
        """One of its platforms; `KeyError` where it has none of that name."""
        return {platform.key: platform for platform in self.platforms}[key]


def study_names() -> tuple[str, ...]:
    """The studies that an experiment may name."""
    return tuple(_studies())


@cache
def load_study(name: str) -> Study:
    """One study with its numbers; KeyError if there is no such study."""
    study = _studies()[name]
    return Study(
        name=name,
        title=study["title"],
        question=study["question"],
        presets=tuple(study["presets"]),
        short=study["short"],
        citation=study["citation"],
        hardware=study["hardware"],
        baseline=study["baseline"],
        platforms=tuple(
            StudyPlatform(
                key, platform["name"], platform["version"], platform["written"], tuple(platform["ours"]), platform.get("successors")
            )
            for key, platform in study["platforms"].items()
        ),
        values=tuple(value for value in published_values() if value.paper == name),
    )


@cache
def published_values() -> tuple[PublishedValue, ...]:
    """Every number of `published.csv`, in its order."""
    return read_values(_text("published.csv"))


def read_values(text: str) -> tuple[PublishedValue, ...]:
    """The numbers of a text in the form of `published.csv`.

    ValueError where a relation is not known, or a line has a cell too many (an unquoted comma) or too few.
    """
    rows = csv.DictReader(io.StringIO(text))
    return tuple(_value(row, rows.line_num) for row in rows)


def _value(row: Mapping[str | None, Any], line: int) -> PublishedValue:
    if None in row or None in row.values():
        raise ValueError(f"published.csv, line {line}: cells and columns differ in number; quote a cell with a comma")
    return PublishedValue(
        paper=row["paper"],
        source=row["source"],
        platform=row["platform"],
        scenario=row["scenario"],
        workload=row["workload"],
        parameters=dict(part.split("=", 1) for part in row["parameters"].split(";") if part),
        metric=row["metric"],
        unit=row["unit"],
        value=float(row["value"]),
        relation=_relation(row["relation"], line),
        note=row["note"],
    )


def _relation(text: str, line: int) -> Relation:
    for relation in RELATIONS:
        if relation == text:
            return relation
    allowed = ", ".join(RELATIONS)
    raise ValueError(f"published.csv, line {line}: relation {text!r} is not known; choose one of: {allowed}")


@cache
def _studies() -> dict[str, dict[str, Any]]:
    studies: dict[str, dict[str, Any]] = reference_yaml("studies.yaml")
    return studies


def reference_yaml(name: str) -> Any:
    """What a YAML file of `reference/` says; read by libyaml where PyYAML has it, which is ten times as fast."""
    text = _text(name)
    return yaml.load(text, Loader=yaml.CSafeLoader) if yaml.__with_libyaml__ else yaml.safe_load(text)


def _text(name: str) -> str:
    return files("virtoll").joinpath("reference", name).read_text(encoding="utf-8")
