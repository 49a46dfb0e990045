"""A user's needs: what they may name, how they are checked, and who advises on them.

Main functions: `parts_of` and `needs_of` (checked), `adviser_of` (for a run's report) and `experiments_of`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtoll.errors import UsageError

if TYPE_CHECKING:
    from virtoll.advise import Advice, Known, Missing
    from virtoll.advise.need import Part
    from virtoll.experiment.model import Parameters
    from virtoll.report import AdviceView, Adviser, Analysis
    from virtoll.report.advice import AnsweringExperiment

_FILE = Path("virtoll advise")


def parts_of(texts: Sequence[str], where: str = "", known: Known | None = None) -> tuple[Part, ...]:
    """The parts of needs; UsageError that begins with ``where`` and names the need that cannot be understood."""
    from virtoll.advise import parse_needs

    try:
        return parse_needs(texts, known or known_workloads())
    except ValueError as error:
        raise UsageError(f"{where}{error}") from error


def needs_of(folder: Path, needs: Sequence[str] = ()) -> tuple[Part, ...]:
    """The parts of what is given, or else of what a run's experiment asks; none where neither is there."""
    if needs:
        return parts_of(needs)
    from virtoll.runfolder.store import RunFolder

    texts = RunFolder.open(folder).manifest.experiment.get("needs") or ()
    return parts_of(texts, f"{folder}/manifest.json: experiment.needs: ") if texts else ()


def adviser_of(folder: Path, needs: Sequence[str] = ()) -> Adviser | None:
    """Who says in a run's report which platforms meet the needs; None where there are none."""
    parts = needs_of(folder, needs)
    if not parts:
        return None
    from virtoll.advise import advise
    from virtoll.report.advice import advice_view

    known = known_workloads()

    def adviser(analysis: Analysis) -> AdviceView:
        advice = advise(analysis, parts, known)
        return advice_view(advice, experiments_of(advice))

    return adviser


def experiments_of(advice: Advice) -> list[AnsweringExperiment]:
    """The experiments that would answer what a run does not, each checked as ``virtoll plan`` checks it."""
    return [_answering(gap) for gap in advice.missing]


def known_workloads() -> Known:
    """Every workload's figures and parameters, as a need may name them."""
    from virtoll.advise import Figure, Known, KnownWorkload
    from virtoll.pipeline.preview import catalogue, measured_by
    from virtoll.runfolder.frame_shape import FrameShape

    names, workloads = catalogue(), {}
    for name, model in names.workloads.items():
        resource, metrics = measured_by(name)
        workloads[name] = KnownWorkload(
            figures=tuple(Figure(metric.name, metric.unit, metric.better) for metric in metrics),
            parameters=_usual(model),
            resource=resource,
            checked=functools.partial(_checked, model),
        )
    return Known(
        workloads=workloads,
        platforms={name: _usual(model) for name, model in names.platforms.items()},
        frames_per_second=lambda size, rate: FrameShape(frame_size_bytes=size).frames_per_second(rate),
    )


def _usual(model: type[Parameters]) -> dict[str, Any]:
    """Every parameter with its value where it is not given, as records have them; None: it must be given."""
    usual = model.model_construct().model_dump(mode="json")
    return {name: usual.get(name) for name in model.model_fields}


def _checked(model: type[Parameters], name: str, need_value: Any) -> Any:
    """A parameter's value as records have it, or its guest's; raises a ``ValueError`` in words."""
    from pydantic import BaseModel, ValidationError, create_model

    from virtoll.errors import complaint
    from virtoll.experiment.file import GuestSize

    of_guest = {"vcpus": "vcpus", "memory_bytes": "memory"}
    field = model.model_fields.get(name) or GuestSize.model_fields[of_guest[name]]
    alone: dict[str, Any] = {"value": (field.annotation, field)}
    kind: type[BaseModel] = create_model("Given", **alone)
    try:
        parsed = kind.model_validate({"value": need_value})
    except ValidationError as error:
        raise ValueError(complaint(error.errors(include_url=False)[0], "", "")) from error
    value: Any = parsed.model_dump(mode="json")["value"]
    if isinstance(need_value, bool) and not isinstance(value, bool):
        raise ValueError("a number is wanted")
    return value


def _answering(missing: Missing) -> AnsweringExperiment:
    """The experiment as the text of its file, checked as ``virtoll plan`` checks it, and how long it takes."""
    from virtoll.experiment.parse import parse_experiment
    from virtoll.pipeline.preview import catalogue, estimate, plan_of
    from virtoll.pipeline.requirements import possible, why_impossible
    from virtoll.report.advice import AnsweringExperiment, file_text

    text = file_text(missing.document)
    try:
        checked = parse_experiment(text, _FILE, catalogue())
        planned = plan_of(checked)
        held = possible(planned, checked)
    except UsageError as error:
        return AnsweringExperiment(missing.tells, None, None, str(error))
    if not held.trials:
        return AnsweringExperiment(missing.tells, None, None, str(why_impossible(planned.trials[0], checked)))
    return AnsweringExperiment(missing.tells, text, estimate(held), missing.note)
