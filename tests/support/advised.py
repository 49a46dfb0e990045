"""Advice on made-up runs whose truth is known, with what a test asks of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from tests.support.made_up_run import Made

from virtoll.advise import Advice, Answer, PlatformAdvice, Statement, advise, parse_needs
from virtoll.api.needs import known_workloads
from virtoll.experiment.parse import parse_experiment
from virtoll.pipeline.preview import catalogue, plan_of
from virtoll.pipeline.requirements import possible
from virtoll.report.advice import AnsweringExperiment, advice_document, all_advice_lines, experiment_line
from virtoll.stats.analysis import RunData, analyse

KNOWN = known_workloads()
HOSTS: Mapping[str, Mapping[str, Any]] = {"native": {}, "native-again": {}, "netns": {}, "runc": {}}
MEETS, FAILS, OPEN, NONE = Answer.MEETS, Answer.FAILS, Answer.OPEN, Answer.NOT_MEASURED


def advice_of(run: RunData, *needs: str) -> Advice:
    return advise(analyse(run), parse_needs(needs, KNOWN), KNOWN)


def told(advice: Advice) -> dict[str, Answer]:
    return {one.platform: one.answer for one in advice.platforms}


def of(advice: Advice, platform: str) -> PlatformAdvice:
    return next(one for one in advice.platforms if one.platform == platform)


def alone(advice: Advice, platform: str) -> Statement:
    (found,) = of(advice, platform).alone
    return found


def jobs(values: Mapping[str, float], **given: Any) -> list[Made]:
    return [Made(label, "superpi", value=value, **given) for label, value in values.items()]


def routers(rates: Mapping[str, float], size: int = 64, **given: Any) -> list[Made]:
    """Rates in frames/s."""
    return [Made(label, "forward", {"frame_size_bytes": size}, rate, **given) for label, rate in rates.items()]


def checked(advice: Advice) -> list[dict[str, Any]]:
    """The experiments of an advice, each of which this Virtoll can plan."""
    found = []
    for one in advice.missing:
        text = yaml.safe_dump(dict(one.document), sort_keys=False)
        experiment = parse_experiment(text, Path("advice.yaml"), catalogue())
        assert possible(plan_of(experiment), experiment).trials
        found.append(dict(one.document))
    return found


def printed(advice: Advice) -> str:
    """What a terminal shows before it is folded; the document is JSON."""
    shown = [AnsweringExperiment(one.tells, yaml.safe_dump(dict(one.document)), 60.0, "") for one in advice.missing]
    json.dumps(advice_document(advice, shown), allow_nan=False)
    return "\n".join([*all_advice_lines(advice), *map(experiment_line, shown)])


def flat(advice: Advice) -> str:
    """The same in one line."""
    return " ".join(printed(advice).split())


def law(n: int, sigma: float = 0.25, kappa: float = 0.005) -> float:
    """How long n guests at once, or a job on n CPUs, take by the scalability law, ns."""
    return 1e9 * (1 + sigma * (n - 1) + kappa * n * (n - 1))


def about(advice: Advice, platform: str) -> str:
    """What a terminal shows of a platform, in one line."""
    (found,) = (one for one in printed(advice).split("\n\n") if platform in re.split(r", | \(", one.partition(":")[0]))
    return " ".join(found.split())
