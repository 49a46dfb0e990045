"""``virtoll advise``: which platforms of a run meet a need. It makes the needs of options, and prints the advice."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtoll.cli.folders import find_run
from virtoll.cli.output import Json, print_json, say, say_in_columns
from virtoll.cli.runs import RunArgument, tell_damage
from virtoll.errors import UsageError
from virtoll.units import printable

if TYPE_CHECKING:
    from virtoll.advise import Known, Missing
    from virtoll.cli.advice_words import Told
    from virtoll.experiment.model import Parameters

NeedOption = Annotated[
    list[str] | None,
    typer.Option("--need", help="Such as 'router 64B 200kpps loss<0.1% + oltp p99<20ms'; repeatable."),
]
NeedsOption = Annotated[Path | None, typer.Option("--needs", help="A YAML file with a list of needs.")]
_FILE = Path("virtoll advise")
_MOST, _FOLDED, _EARLY = 80, 60, 30  # columns of an experiment's text, and those from which YAML folds it


def advise(
    run: RunArgument = "latest", *, need: NeedOption = None, needs: NeedsOption = None, as_json: Json = False
) -> None:
    """Print which platforms of a run meet a need, with what margin, and what experiment would tell the rest."""
    texts = [*(need or []), *(_read(needs) if needs is not None else [])]
    if not texts:
        raise UsageError("there is no need; give --need, such as --need 'router 64B 200kpps loss<0.1%'")
    folder = find_run(run)
    from virtoll.advise import advise as advised
    from virtoll.advise import parse_needs
    from virtoll.cli.advice_words import document, experiment_line, lines
    from virtoll.report import load_analysis

    known = known_workloads()
    try:
        parts = parse_needs(texts, known)
    except ValueError as error:
        raise UsageError(str(error)) from error
    advice = advised(load_analysis(folder), parts, known)
    told = [_told(one) for one in advice.missing]
    tell_damage(folder)
    if as_json:
        print_json(document(advice, told))
        return
    for line in lines(advice):
        say_in_columns(line)
    for each in told:
        say("")
        say_in_columns(experiment_line(each))
        if each.text is not None:
            say(each.text.rstrip())


def known_workloads() -> Known:
    """Every workload's figures and parameters, as a need may name them."""
    from virtoll.advise import Figure, Known, KnownWorkload
    from virtoll.platforms import EVERY_PLATFORM
    from virtoll.runfolder.frame_shape import FrameShape
    from virtoll.workloads import WORKLOADS

    return Known(
        workloads={
            name: KnownWorkload(
                figures=tuple(Figure(one.name, one.unit, one.better) for one in WORKLOADS[name].metrics),
                parameters=_usual(WORKLOADS[name].parameter_model),
                resource=WORKLOADS[name].resource,
                checked=functools.partial(_checked, WORKLOADS[name].parameter_model),
            )
            for name in WORKLOADS
        },
        platforms={name: _usual(EVERY_PLATFORM[name].parameter_model) for name in EVERY_PLATFORM},
        frames_per_second=lambda size, rate: FrameShape(frame_size_bytes=size).frames_per_second(rate),
    )


def _usual(model: type[Parameters]) -> dict[str, Any]:
    """Every parameter with its value where it is not given, as records have them; None: it must be given."""
    from pydantic_core import PydanticUndefined

    found = {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()}
    given = {name: value for name, value in found.items() if value is not PydanticUndefined}
    usual = model.model_construct(**given).model_dump(mode="json", include=set(given))
    return {name: usual.get(name) for name in found}


def _checked(model: type[Parameters], name: str, given: Any) -> Any:
    """A parameter's value as records have it, or its guest's; raises a ``ValueError`` in words."""
    from pydantic import BaseModel, ValidationError, create_model

    from virtoll.errors import complaint
    from virtoll.experiment.file import GuestSize

    of_guest = {"vcpus": "vcpus", "memory_bytes": "memory"}
    field = model.model_fields.get(name) or GuestSize.model_fields[of_guest[name]]
    alone: dict[str, Any] = {"value": (field.annotation, field)}
    kind: type[BaseModel] = create_model("Given", **alone)
    try:
        found = kind.model_validate({"value": given})
    except ValidationError as error:
        raise ValueError(complaint(error.errors(include_url=False)[0], "", "")) from error
    value: Any = found.model_dump(mode="json")["value"]
    if isinstance(given, bool) and not isinstance(value, bool):
        raise ValueError("a number is wanted")
    return value


def _read(path: Path) -> list[str]:
    """The needs of a file."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(
            f"{path}: cannot be read ({' '.join(str(error).split())}); give a YAML list of needs"
        ) from error
    if not isinstance(found, list) or not found or not all(isinstance(one, str) for one in found):
        raise UsageError(f"{path}: must be a list of needs, each a text such as 'oltp p99<20ms'")
    return found


def _told(missing: Missing) -> Told:
    """The experiment as the text of its file, checked as ``virtoll plan`` checks it, and how long it takes."""
    from virtoll.cli.advice_words import Told
    from virtoll.experiment.parse import parse_experiment
    from virtoll.run.preview import catalogue, estimate, plan_of
    from virtoll.run.requirements import possible, why_impossible

    text = file_text(missing.document)
    try:
        checked = parse_experiment(text, _FILE, catalogue())
        planned = plan_of(checked)
        held = possible(planned, checked)
    except UsageError as error:
        return Told(missing.tells, None, None, str(error))
    if not held.trials:
        return Told(missing.tells, None, None, str(why_impossible(planned.trials[0], checked)))
    return Told(missing.tells, text, estimate(held), missing.note)


def file_text(document: Mapping[str, Any]) -> str:
    """The text of a file; where a name makes lines too long, or would steer a terminal, in more and plainer lines."""
    import yaml
    from rich.cells import cell_len

    usual = yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, default_flow_style=None, width=_FOLDED)
    if usual == printable(usual) and max(map(cell_len, usual.splitlines())) <= _MOST:
        return usual
    return yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=False, width=_EARLY)
