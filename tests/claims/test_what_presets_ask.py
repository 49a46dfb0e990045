"""Each study's presets, in the papers' sizes, run what its numbers and figures ask of a run."""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pytest

from virtoll.claims.paper_figures import figures_of_study
from virtoll.claims.published_rows import questions
from virtoll.experiment.model import Experiment
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.plan import Trial, TrialSeconds, make_plan
from virtoll.experiment.selection import Selection
from virtoll.pipeline.preview import catalogue
from virtoll.reference.published import load_study, study_names
from virtoll.runfolder.conditions import ALONE
from virtoll.runfolder.records import MetricRecord
from virtoll.stats.compared import NOTHING, Against, Compared
from virtoll.stats.readings import VCPUS, Cell

# A plan has cells and no manifest: `sides_of`, which asks for both, is used by its parts.
from virtoll.stats.sides import _listed, _selected, _where_of_the_others
from virtoll.stats.values import Task

ANY = MetricRecord("any", "duration", "ns", better="lower", source="marks", title="Duration", resource="cpu")


def _attributes(experiment: Experiment, trial: Trial) -> dict[str, Any]:
    """What a test's `where` can name of a planned trial."""
    scale, beside = trial.scale, trial.condition
    size = {"guests": scale.guests if scale else 1, "vcpus": scale.vcpus if scale else experiment.vcpus}
    others: dict[str, Any] = {"neighbour_load": NOTHING}
    if beside is not None:
        others = {
            "neighbour_load": beside.load,
            "neighbour_guests": beside.guests,
            "neighbour_affinity": beside.affinity,
            "neighbour_rate_share": beside.rate_share,
        }
    given = trial.workload.parameters.model_dump(mode="json").items()
    return {**size, **{name: size["vcpus"] if value == VCPUS else value for name, value in given}, **others}


@cache
def _planned(study: str) -> tuple[Cell, ...]:
    """What all presets of a study run, whatever the platform."""
    found: dict[str, Cell] = {}
    for preset in load_study(study).presets:
        experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size="paper"))
        for trial in make_plan(experiment, lambda _choice, _platform: TrialSeconds(1.0)).trials:
            task = Task(trial.workload.workload, ANY, trial.workload.parameters.model_dump_json(), "")
            attributes = _attributes(experiment, trial)
            found[json.dumps([task.workload, attributes], sort_keys=True)] = Cell(
                "any", task, ALONE, attributes, {}, "ns"
            )
    return tuple(found.values())


def _asked(study: str) -> Iterator[tuple[str, Compared]]:
    for question in questions():
        if question.paper == study:
            yield f"{question.source}: {question.what}", question.now
    for figure in figures_of_study(study):
        yield from ((f"{figure.kind} {figure.number}: {part.shows}", part.now) for part in figure.parts)


def _runs(asked: Compared, planned: Sequence[Cell]) -> bool:
    """Whether both sides of a comparison are planned."""
    against = asked.against if isinstance(asked.against, Against) else Against(platforms="baseline")
    free = {*asked.where, *asked.ignoring, *against.where}
    own = [one for one in planned if one.task.workload in _listed(asked.workload)]
    others = [one for one in planned if one.task.workload in _listed(against.workload or asked.workload)]
    where = _where_of_the_others(asked.where, against.where)
    return bool(_selected(own, asked.where, free) and (asked.against is None or _selected(others, where, free)))


@pytest.mark.parametrize("study", study_names())
def test_the_presets_in_the_papers_size_run_all_that_is_asked_of_a_run(study: str) -> None:
    asked = dict(_asked(study))
    assert len(asked) > 10
    assert [what for what, one in asked.items() if not _runs(one, _planned(study))] == []
