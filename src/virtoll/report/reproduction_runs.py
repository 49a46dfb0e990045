"""A reproduced study as data: its runs, and what they say together.

Main types: `Reproduction`, `RunOf` and `PaperSize`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from virtoll.claims import Judged, ThenAndNow
from virtoll.claims.joined import Joined
from virtoll.claims.paper_figures import Mark
from virtoll.claims.paper_levels import Levels
from virtoll.claims.then_and_now import Correspondence
from virtoll.reference.published import Study
from virtoll.runfolder.records import Manifest, PlannedTrial, State
from virtoll.stats.fitness import FitnessLevel


@dataclass(frozen=True)
class PaperSize:
    """An experiment as the paper ran it: how often, in which guest, and each of its trials once."""

    blocks: int
    vcpus: int | None
    memory_bytes: int | None
    trials: tuple[PlannedTrial, ...]


@dataclass(frozen=True)
class RunOf:
    """One run. `name`: among the others; `counts`: trials by status; `damage`: what of its folder has changed.

    `figures`: what it measured of each figure of the paper, part by part, and `levels` of which values of each
    parameter; `sizes`: these by workload, which `titles` names. `fitness`: how far its host can be believed, in words,
    and `level` in one; `control`: the host against itself. `stands_for`: by label what of the paper a platform is in
    the place of; `standing`: by the paper's platform the labels that stand for it, and how.
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
    fitness: str
    level: FitnessLevel
    control: str
    levels: tuple[tuple[Levels, ...], ...]
    sizes: Mapping[str, Levels]
    titles: Mapping[str, str]
    stands_for: Mapping[str, str]
    standing: Mapping[str, Mapping[str, Correspondence]]

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
    """A study, its runs, and what they say together; `target`: the folder of its page.

    `paper`: the study's experiments as the paper ran them, by name.
    """

    study: Study
    runs: tuple[RunOf, ...]
    joined: tuple[Joined, ...]
    target: Path
    paper: Mapping[str, PaperSize]

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.target / "index.html"

    @property
    def missing(self) -> tuple[str, ...]:
        """The study's experiments that no run is of."""
        there = {run.experiment for run in self.runs}
        return tuple(preset for preset in self.study.presets if preset not in there)
