"""What each item of the four papers has come to, as drivers and the runs that the package carries say.

`tools/studies.yaml` lists the items, and `tools/tables.py` writes them into docs/studies.md. Main types: `Item` (a row)
and `State` (complete, in part, never measured, discontinued). An item has one witness: the driver of a platform, or
what a carried run must have measured.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from virtoll.platforms import EVERY_PLATFORM
from virtoll.stats.compared import Allowed
from virtoll.stats.sides import matches

ITEMS: Final = Path(__file__).with_name("studies.yaml")
RUNS: Final = Path(__file__).resolve().parent.parent / "src" / "virtoll" / "reference" / "runs"
TITLES: Final = {
    "schlosser2011": "Schlosser 2011",
    "mattos2012": "Mattos 2012",
    "suresh2014": "Suresh 2014",
    "camargos2008": "Camargos 2008",
}


class State(StrEnum):
    """What an item has come to."""

    COMPLETE = "complete"
    IN_PART = "in part"
    NEVER_MEASURED = "never measured"
    DISCONTINUED = "discontinued"


class Measured(BaseModel):
    """What a run of `preset` (None: of the study's own) must have; any valid trial if nothing is asked for."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preset: str | None = None
    workload: str | None = None
    where: dict[str, Allowed] = Field(default_factory=dict)
    experiment: dict[str, Allowed] = Field(default_factory=dict)


class Item(BaseModel):
    """One item of a paper. `here`: what Virtoll has for it; `note`: what must be known of that.

    `lacking`: something of it is not there. `drawing`: nothing of it can be run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    item: str
    here: str
    note: str = "–"
    platform: str | None = None
    run: Measured | None = None
    lacking: bool = False
    drawing: bool = False
    discontinued: bool = False

    @model_validator(mode="after")
    def _has_one_witness(self) -> Self:
        if [self.platform is not None, self.run is not None, self.drawing, self.discontinued].count(True) != 1:
            raise ValueError(f"{self.item}: give one of 'platform', 'run', 'drawing' and 'discontinued'")
        return self


@cache
def items() -> Mapping[str, tuple[Item, ...]]:
    """The items of each study, in the papers' order."""
    document = yaml.safe_load(ITEMS.read_text(encoding="utf-8"))
    return {study: tuple(map(Item.model_validate, rows)) for study, rows in document.items()}


def state_of(study: str, item: Item) -> State | None:
    """What an item has come to; None of a drawing."""
    if item.drawing:
        return None
    if item.discontinued:
        return State.DISCONTINUED
    if not _is_measured(study, item):
        return State.NEVER_MEASURED
    return State.IN_PART if item.lacking else State.COMPLETE


def _is_measured(study: str, item: Item) -> bool:
    """Whether a machine has given a number of it: a driver that meets its product, or a run that has such a trial."""
    if item.platform is not None:
        return EVERY_PLATFORM[item.platform].validation == "real"
    if item.run is None:
        raise ValueError(f"{item.item}: has no witness")
    packed = RUNS / f"{item.run.preset or study}.tar.xz"
    if not packed.is_file():
        return False
    manifest, trials = _records(packed)
    if not _fits(manifest["experiment"], item.run.experiment):
        return False
    for trial in trials:
        if item.run.workload in (None, trial["workload"]) and _fits(_attributes(trial, manifest), item.run.where):
            return True
    return False


def _fits(attributes: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    return all(matches(attributes.get(key), value) for key, value in conditions.items())


def _attributes(trial: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Of a trial what `where` can name, as `virtoll.stats.readings` has it."""
    attributes = {"guests": 1, **manifest["experiment"]["guest"], **(trial["scale"] or {}), **trial["parameters"]}
    for key, value in (trial["condition"] or {}).items():
        attributes[f"neighbour_{key}"] = value
    return attributes


@cache
def _records(packed: Path) -> tuple[dict[str, Any], tuple[dict[str, Any], ...]]:
    """The manifest and the valid trials of a run that the package carries."""
    manifest: dict[str, Any] = {}
    trials: list[dict[str, Any]] = []
    with tarfile.open(packed) as archive:
        for member in archive:
            stream = archive.extractfile(member)
            if stream is None:
                continue
            if Path(member.name).name == "manifest.json":
                manifest = json.load(stream)
            elif Path(member.name).name == "trials.jsonl":
                trials += filter(_is_valid, map(json.loads, stream))
    return manifest, tuple(trials)


def _is_valid(trial: Mapping[str, Any]) -> bool:
    return bool(trial["status"] == "ok" and not trial["warm_up"])


def rows(study: str) -> Iterable[tuple[str, str, str, str]]:
    """The rows of a study's table."""
    for item in items()[study]:
        yield item.item, item.here, state_of(study, item) or "–", item.note


def counts() -> Iterable[tuple[str, ...]]:
    """How many items of each study, and of all, have come to each state."""
    total = dict.fromkeys(State, 0)
    for study, title in TITLES.items():
        states = [state_of(study, item) for item in items()[study]]
        for state in State:
            total[state] += states.count(state)
        yield f"[{title}](#{title.lower().replace(' ', '-')})", *(str(states.count(state)) for state in State)
    yield "all", *map(str, total.values())
