"""What each item of the four papers has come to, as drivers and the runs that the package carries say.

`tools/studies.yaml` lists the items, and `tools/tables.py` writes them into docs/studies.md. Main types: `Item` (a row)
and `State` (complete, in part, never measured, discontinued). An item has one witness: the driver of a platform, or
what a carried run must have measured.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from virtoll.platforms import EVERY_PLATFORM
from virtoll.report import Analysis, load_analysis
from virtoll.stats.compared import Allowed, Reading
from virtoll.stats.readings import cells_of
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
    """What a run of `preset` (None: of the study's own) must have; any value if nothing is asked for."""

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
    analysis = carried_run(packed)
    if not _fits(analysis.data.manifest.experiment, item.run.experiment):
        return False
    for cell in cells_of(analysis, Reading.VALUE):
        if item.run.workload in (None, cell.task.workload) and _fits(cell.attributes, item.run.where):
            return True
    return False


def _fits(attributes: Mapping[str, Any], conditions: Mapping[str, Any]) -> bool:
    return all(matches(attributes.get(key), value) for key, value in conditions.items())


@cache
def carried_run(packed: Path) -> Analysis:
    """The analysis of a run that the package carries."""
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(packed) as archive:
        archive.extractall(scratch)  # noqa: S202 - our own archive
        return load_analysis(Path(scratch) / packed.name.removesuffix(".tar.xz"))


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
