"""A reproduced study as data: its runs, and what they say together. Main types: `Reproduction`, `RunOf`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from virtoll.claims import Judged, ThenAndNow
from virtoll.claims.joined import Joined
from virtoll.claims.paper_figures import Mark
from virtoll.reference.published import Study
from virtoll.runfolder.records import Manifest, State


@dataclass(frozen=True)
class RunOf:
    """One run. `name`: among the others; `counts`: trials by status; `damage`: what of its folder has changed.

    `figures`: what it measured of each figure of the paper, part by part.
    """

    name: str
    folder: Path
    manifest: Manifest
    state: State
    blocks: str
    counts: tuple[tuple[str, int], ...]
    damage: tuple[str, ...]
    ledger: tuple[Judged, ...]
    then_and_now: ThenAndNow
    figures: tuple[tuple[tuple[Mark, ...], ...], ...]

    @property
    def experiment(self) -> str:
        """Which experiment it measured."""
        return str(self.manifest.experiment["name"])

    @property
    def host(self) -> str:
        """What tells its host from others."""
        return str(self.manifest.host["fingerprint"])


@dataclass(frozen=True)
class Reproduction:
    """A study, its runs, and what they say together; `target`: the folder of its page."""

    study: Study
    runs: tuple[RunOf, ...]
    joined: tuple[Joined, ...]
    target: Path

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.target / "index.html"

    @property
    def missing(self) -> tuple[str, ...]:
        """The study's experiments that no run is of."""
        there = {run.experiment for run in self.runs}
        return tuple(preset for preset in self.study.presets if preset not in there)
