"""Then and now: the papers' numbers beside what one run measured of the same, share of performance by share. Pure.

The papers' hosts are gone, so that only shares stand beside each other, each of its own host's. Main types:
`PublishedAnswer` (one question with its answers), `Now` (one platform of the run) and `ThenAndNow` (of a whole run).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from virtoll.claims.published_rows import Question, questions, why_not_comparable
from virtoll.reference.published import Study, StudyPlatform, load_study, study_names
from virtoll.runfolder.records import Manifest
from virtoll.stats.analysis import Analysis
from virtoll.stats.compared import Compared, PlatformFilter
from virtoll.stats.ratios import Ratio, Ratios
from virtoll.stats.sides import is_wanted


class Correspondence(StrEnum):
    """How a platform of a run stands for a paper's, the nearest first."""

    BARE_HOST = "the bare host"
    PRODUCT = "the product"
    SUCCESSOR = "its successor in kind"
    IN_PLACE = "here in its place"

    @property
    def short(self) -> str:
        """For a legend; empty for what is the paper's own."""
        return {Correspondence.SUCCESSOR: "successor", Correspondence.IN_PLACE: "in its place"}.get(self, "")


@dataclass(frozen=True)
class Now:
    """One platform of the run beside a paper's."""

    ratio: Ratio
    standing: Correspondence


@dataclass(frozen=True)
class PublishedAnswer:
    """One question of a paper's numbers, and the run's answers. `platform`: None for the paper's bare host."""

    study: Study
    platform: StudyPlatform | None
    question: Question
    nows: tuple[Now, ...]


@dataclass(frozen=True)
class ThenAndNow:
    """What of all studies stands beside a run.

    `study`: the one that its experiment names, None where it names none. `untold`: how many of that study's printed
    numbers have no counterpart here, by reason.
    """

    study: Study | None = None
    rows: tuple[PublishedAnswer, ...] = ()
    untold: Mapping[str, int] = field(default_factory=dict)

    def of(self, study: str) -> tuple[PublishedAnswer, ...]:
        """The rows of one study."""
        return tuple(row for row in self.rows if row.study.name == study)


NO_PAPER = ThenAndNow()


def study_of(analysis: Analysis) -> Study | None:
    """The study that the run's experiment names; None if it names none."""
    named = analysis.data.manifest.experiment.get("study")
    return load_study(named) if named in study_names() else None


def then_and_now(analysis: Analysis, ratios: Ratios | None = None) -> ThenAndNow:
    """All published numbers of which the run measured the same, in the order of `reference/rows.yaml`.

    `ratios`: the run's, where they are there already.
    """
    study = study_of(analysis)
    asking = _Asking(analysis, ratios or Ratios(analysis))
    rows: list[PublishedAnswer] = []
    untold: dict[str, int] = {}
    for question in questions():
        answer = asking.beside(question)
        if isinstance(answer, PublishedAnswer):
            rows.append(answer)
        elif study is not None and question.paper == study.name and question.then.values:
            untold[answer] = untold.get(answer, 0) + len(question.then.values)
    for value in study.values if study is not None else ():
        why = why_not_comparable(value)
        if why is not None:
            untold[f"not to be compared: {why}"] = untold.get(f"not to be compared: {why}", 0) + 1
    return ThenAndNow(study, tuple(rows), untold)


def standing_for(platform: StudyPlatform, manifest: Manifest) -> dict[str, Correspondence]:
    """The run's platforms that stand for a paper's, by label, and how.

    Its own product in another form, such as with another kind of NIC, never stands for it.
    """
    ours = [PlatformFilter.model_validate(product) for product in platform.ours]
    products = {product["product"] for product in platform.ours}
    successors = None if platform.successors is None else PlatformFilter.model_validate(platform.successors)
    standings: dict[str, Correspondence] = {}
    for entry in manifest.platforms:
        if any(is_wanted(entry.label, product, manifest) for product in ours):
            standings[entry.label] = Correspondence.PRODUCT
        elif entry.platform in products or entry.label in (manifest.baseline, manifest.control):
            continue
        elif successors is not None and is_wanted(entry.label, successors, manifest):
            standings[entry.label] = Correspondence.SUCCESSOR
        elif platform.written in (entry.stands_for or ""):
            standings[entry.label] = Correspondence.IN_PLACE
    return standings


class _Asking:
    """The questions to one run; what several of them compare is compared once."""

    def __init__(self, analysis: Analysis, ratios: Ratios) -> None:
        self._manifest = analysis.data.manifest
        self._ratios = ratios
        self._workloads = {task.workload for task in analysis.tasks}
        self._known: dict[str, list[Ratio] | str] = {}

    def beside(self, question: Question) -> PublishedAnswer | str:
        """The answers of those that stand nearest to the paper's platform; a text says why there are none."""
        study = load_study(question.paper)
        if question.platform == study.baseline:
            ratios = self._measured(question.now, None)
            if isinstance(ratios, str):
                return ratios
            return PublishedAnswer(
                study, None, question, tuple(Now(ratio, Correspondence.BARE_HOST) for ratio in ratios)
            )
        platform = study.platform(question.platform)
        standing = standing_for(platform, self._manifest)
        if not standing:
            return f"no platform of this run stands for {platform.name}"
        ratios = self._measured(question.now, tuple(standing))
        if isinstance(ratios, str):
            return ratios
        nearest = min((standing[ratio.platform] for ratio in ratios), key=list(Correspondence).index)
        nows = tuple(Now(ratio, nearest) for ratio in ratios if standing[ratio.platform] is nearest)
        return PublishedAnswer(study, platform, question, nows)

    def _measured(self, compared: Compared, labels: tuple[str, ...] | None) -> list[Ratio] | str:
        """The ratios that have a value, of these labels (None: of the bare host); else why there is none."""
        if not self._workloads.intersection(compared.workloads):
            return f"the run has no value of {' or '.join(compared.workloads)}"
        platforms = "baseline" if labels is None else PlatformFilter(label=list(labels))
        narrowed = compared.model_copy(update={"platforms": platforms})
        key = json.dumps([labels, compared.model_dump_json()])
        if key not in self._known:
            self._known[key] = self._compare(narrowed)
        return self._known[key]

    def _compare(self, compared: Compared) -> list[Ratio] | str:
        sides = self._ratios.sides(compared)
        if isinstance(sides, str):
            return sides
        ratios = [self._ratios.ratio(compared, side, 1, value=compared.against is None) for side in sides]
        measured = [ratio for ratio in ratios if ratio.estimate is not None]
        return sorted(measured, key=self._place) or ratios[0].reason

    def _place(self, ratio: Ratio) -> tuple[int, list[tuple[int, str]]]:
        """In the order of the run's platforms, and then of the numbers in the words of what was done."""
        words = re.findall(r"[0-9]+|[^0-9]+", f"{ratio.task} {ratio.under}")
        numbered = [(int(part), "") if part.isdecimal() else (0, part) for part in words]
        return [platform.label for platform in self._manifest.platforms].index(ratio.platform), numbered
