"""What the studies published: numbers, and the studies that an experiment may name, read from `reference/`.

Main types: `Study` (one paper as an experiment can be set beside it), `PublishedValue` (one printed number). The claims
are in `claims`.
The files are part of the package; `reference/README.md` says where they come from. Nothing here judges or computes but
the ratio of two published numbers.
"""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from virtoll.errors import UsageError

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
    """One of a paper's platforms. `called`: what ours that stand for it are called; `family`: of its successors."""

    key: str
    name: str
    version: str
    called: tuple[str, ...]
    family: str | None


@dataclass(frozen=True)
class PublishedShare:
    """A platform's largest forwarding rate as a share of its own bare host's: a range (None: words alone)."""

    platform: str
    frame_size_bytes: int
    low: float | None
    high: float | None
    words: str
    source: str


@dataclass(frozen=True)
class Study:
    """One paper; `shares` are ratios of its own numbers, `how_derived` says of which."""

    name: str
    title: str
    citation: str
    hardware: str
    workload: str
    baseline: str
    platforms: tuple[StudyPlatform, ...]
    shares: tuple[PublishedShare, ...]
    how_derived: str
    values: tuple[PublishedValue, ...]

    def share(self, platform: str, frame_size_bytes: int) -> PublishedShare | None:
        """What the paper has on a platform at a frame size and one source, or None where it has drawings alone."""
        wanted = (platform, frame_size_bytes)
        return next((one for one in self.shares if (one.platform, one.frame_size_bytes) == wanted), None)


def study_names() -> tuple[str, ...]:
    """The studies that an experiment may name."""
    return tuple(_studies())


@cache
def load_study(name: str) -> Study:
    """One study with its numbers and claims; UsageError where it is not known."""
    if name not in _studies():
        raise UsageError(f"study {name!r} is not known; choose one of: {', '.join(study_names())}")
    given = _studies()[name]
    values = tuple(value for value in published_values() if value.paper == name)
    derived = given["derived"]
    return Study(
        name=name,
        title=given["title"],
        citation=given["citation"],
        hardware=given["hardware"],
        workload=given["workload"],
        baseline=given["baseline"],
        platforms=tuple(
            StudyPlatform(key, one["name"], one["version"], tuple(one["called"]), one.get("family"))
            for key, one in given["platforms"].items()
        ),
        shares=(*_derived(derived, given, values), *_said(given["said"])),
        how_derived=f"{derived['frame_size_bytes']} B, {derived['source']}: {derived['how']}",
        values=values,
    )


@cache
def published_values() -> tuple[PublishedValue, ...]:
    """Every number of `published.csv`, in its order."""
    return read_values(_text("published.csv"))


def read_values(text: str) -> tuple[PublishedValue, ...]:
    """The numbers of a text in the form of `published.csv`.

    UsageError where a relation is not known, or a line has a cell too many (an unquoted comma) or too few.
    """
    rows = csv.DictReader(io.StringIO(text))
    return tuple(_value(row, rows.line_num) for row in rows)


def _value(row: Mapping[str | None, Any], line: int) -> PublishedValue:
    if None in row or None in row.values():
        raise UsageError(f"published.csv, line {line}: cells and columns differ in number; quote a cell with a comma")
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
    for one in RELATIONS:
        if one == text:
            return one
    allowed = ", ".join(RELATIONS)
    raise UsageError(f"published.csv, line {line}: relation {text!r} is not known; choose one of: {allowed}")


def _derived(
    given: Mapping[str, Any], study: Mapping[str, Any], values: tuple[PublishedValue, ...]
) -> list[PublishedShare]:
    """Ratios to the baseline's number in the same table row: the range over all rows."""
    own = [one for one in values if one.metric == given["metric"] and one.scenario in given["scenarios"]]
    rows = {(one.platform, one.scenario, tuple(one.parameters.items())): one.value for one in own}
    shares = []
    for platform in study["platforms"]:
        ratios = [
            value / rows[study["baseline"], scenario, parameters]
            for (whose, scenario, parameters), value in rows.items()
            if whose == platform
        ]
        if ratios:
            size, source = given["frame_size_bytes"], given["source"]
            shares.append(PublishedShare(platform, size, min(ratios), max(ratios), "", source))
    return shares


def _said(given: list[dict[str, Any]]) -> list[PublishedShare]:
    return [
        PublishedShare(
            platform, one["frame_size_bytes"], one.get("share"), one.get("share"), one["words"], one["source"]
        )
        for one in given
        for platform in one["platforms"]
    ]


@cache
def _studies() -> dict[str, dict[str, Any]]:
    studies: dict[str, dict[str, Any]] = yaml.safe_load(_text("studies.yaml"))
    return studies


def _text(name: str) -> str:
    return files("virtoll").joinpath("reference", name).read_text(encoding="utf-8")
