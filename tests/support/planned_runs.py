"""Runs of what a preset plans, without measuring: which of a paper's claims they could answer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.support.made_up_run import Made, made_up_run

from virtoll.claims import published_claims
from virtoll.experiment.parse import find_experiment, load_experiment
from virtoll.experiment.plan import Trial
from virtoll.experiment.selection import Selection
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.stats.analysis import RunData, analyse
from virtoll.stats.ratios import Ratios
from virtoll.workloads import WORKLOADS

Platforms = Mapping[str, Mapping[str, Any]]
NEIGHBOURS = (2e4, 1e4)  # frames/s into a guest that forwards next to another, and out of it


def planned_run(
    preset: str,
    size: str | None,
    platforms: Platforms | None = None,
    *,
    stands_for: Mapping[str, str] | None = None,
    workloads: frozenset[str],
) -> RunData:
    """One block of a preset's plan, of these workloads alone: every platform measures the same.

    `platforms`: these measure all of it, and not the preset's own. `stands_for`: by a kind of the preset's platforms
    which of `platforms` measures what is planned for it.
    """
    experiment = load_experiment(find_experiment(preset), catalogue(), Selection(size=size))
    own = {
        choice.label: {"platform": choice.platform, "parameters": choice.parameters.model_dump(mode="json")}
        for choice in experiment.platforms
    }

    def labels(trial: Trial) -> list[str]:
        if stands_for is not None:
            label = stands_for.get(trial.platform.platform)
            return [] if label is None else [label]
        return [trial.platform.label] if platforms is None else list(platforms)

    trials = [one for one in plan_of(replace(experiment, blocks=1)).trials if one.workload.workload in workloads]
    asked = {(label, one.workload, one.condition, one.scale): one for one in trials for label in labels(one)}
    measured = [_made(label, trial) for (label, *_), trial in asked.items()]
    used = {made.platform for made in measured}
    entries = {label: entry for label, entry in (platforms or own).items() if label in used}
    guest = {"vcpus": experiment.vcpus, "memory_bytes": experiment.memory_bytes, "marks": "icmp"}
    return made_up_run(entries, measured, blocks=1, experiment={"guest": guest})


def _made(label: str, trial: Trial) -> Made:
    name = trial.workload.workload
    forwards = trial.condition is not None and trial.condition.rate_share is not None
    return Made(
        label,
        name,
        trial.workload.parameters.model_dump(mode="json", exclude_unset=True),
        1e4,
        {metric.name: 1e8 for metric in WORKLOADS[name].metrics[1:] if metric.source == "figures"},
        condition=trial.condition,
        scale=trial.scale,
        neighbour=NEIGHBOURS if forwards else None,
    )


def every_test(paper: str) -> set[tuple[str, int]]:
    """Each claim's id with the number of each of its tests, from 0."""
    return {
        (claim.id, place) for claim in published_claims() if claim.paper == paper for place in range(len(claim.tests))
    }


def answered(
    paper: str,
    preset: str,
    size: str | None,
    platforms: Platforms | None = None,
    stands_for: Mapping[str, str] | None = None,
) -> set[tuple[str, int]]:
    """The tests of a paper's claims for which a run of the preset's plan has each value that they ask for."""
    claims = [claim for claim in published_claims() if claim.paper == paper]
    named = [test.workload for claim in claims for test in claim.tests]
    workloads = frozenset(name for one in named for name in ([one] if isinstance(one, str) else one or WORKLOADS))
    run = planned_run(preset, size, platforms, stands_for=stands_for, workloads=workloads)
    ratios = Ratios(analyse(run))
    tests = {(claim.id, place): test for claim in claims for place, test in enumerate(claim.tests)}
    sides = {name: ratios.sides(test) for name, test in tests.items()}
    return {
        name
        for name, compared in sides.items()
        if not isinstance(compared, str)
        and not ratios.missing(tests[name], compared, any_platform=tests[name].holds_for == "any")
    }
