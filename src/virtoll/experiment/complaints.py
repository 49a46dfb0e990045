"""What is wrong in an experiment's file, in words: all of it at once, each with its key and where that stands.

Main types: ``Gathered`` (keeps what one check raises, so that others follow). ``wrong`` makes an error of one key,
``validated`` those of a model, and ``located`` adds lines and columns at the end.
"""

from __future__ import annotations

import contextlib
import re
import typing
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from virtoll.errors import Problem, UsageError, complaint
from virtoll.experiment.describe import allowed_values, literal_values
from virtoll.experiment.file import ConsolidationFile, ExperimentFile
from virtoll.experiment.model import SIZE_LAYERS
from virtoll.experiment.near import choices, did_you_mean, near
from virtoll.runfolder.yaml_file import MOST_PROBLEMS, YamlText

Model = TypeVar("Model", bound=BaseModel)
Place = tuple[str | int, ...]

_PART = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
# Errors whose own words say more than the key's type does.
_TELLING = ("value_error", "extra_forbidden", "missing", "too_short", "string_too_short")
_BY_TYPE = re.compile(
    r"greater_than|less_than|multiple_of|(int|float|bool)_|byte_size|string_(type|pattern|too_long)|literal_error|finite"
)
"""Errors that say no more than the key's type does; its words say all of that."""
_TRIED = re.compile(r"(str|int|float|bool|constrained-\w+)$|\w+\[|\[key\]$")
_SCENARIOS = tuple(
    name
    for model in (ExperimentFile, ConsolidationFile)
    for name in literal_values(model.model_fields["scenario"].annotation)
)
_WHERE_LISTED = {"more_generators": "generator", "more_sinks": "sink"}


class Gathered:
    """What several checks raised; each follows the others, and ``finish`` raises all of it."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @contextlib.contextmanager
    def trying(self) -> Iterator[None]:
        """What is raised in it is kept."""
        try:
            yield
        except UsageError as error:
            self.keep(error)

    def keep(self, error: UsageError) -> None:
        """One more error, with all its problems."""
        self.problems += error.problems or [Problem("", str(error))]

    @property
    def keys(self) -> frozenset[str]:
        """The keys at the top of the file in which something is wrong."""
        return frozenset(str(problem.place[0]) for problem in self.problems if problem.place)

    def entries(self, key: str) -> frozenset[int] | None:
        """The numbers of the entries of a list, at the top of the file, that are wrong; None: the list itself is."""
        places = [problem.place for problem in self.problems if problem.place]
        if (key,) in places:
            return None
        return frozenset(int(parts[1]) for parts in places if parts[0] == key)

    def finish(self) -> None:
        """``UsageError`` of all that was kept; nothing where all is right."""
        if self.problems:
            raise UsageError.of(self.problems)


def place(key: str) -> Place:
    """The parts of a key that is written as in complaints, ``platforms[1].nic``; never of one that a user wrote."""
    return tuple(int(number) if number else name for number, name in _PART.findall(key))


def in_words(parts: Iterable[str | int]) -> str:
    """A key as it is written in complaints: ``platforms[1].nic``."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def wrong(path: Path, key: str, sentence: str, *under: str | int) -> UsageError:
    """An error of one key; ``path``: the file as complaints name it, ``under``: keys below it, as the user wrote them.

    Such a key may be made of brackets and dots.
    """
    parts = (*place(key), *under)
    named = in_words(parts)
    return UsageError.of([Problem(str(path), f"key '{named}': {sentence}", named, place=parts)])


def unknown_key(key: object, known: Iterable[str]) -> str:
    """That a key is not known, what was probably meant, and which there are."""
    names = list(known)
    return f"not known; {did_you_mean(near(key, names))}allowed keys: {', '.join(names)}"


def located(error: UsageError, text: YamlText, file: Path, size: str | None) -> UsageError:
    """The same, each problem with where it stands in the file, in its order, and the keys that are there twice.

    ``size``: which size was taken.
    """
    problems = [*text.twice, *(_placed(problem, text, file, size) for problem in error.problems)]
    return UsageError.of(sorted(problems, key=lambda problem: (problem.line or 0, problem.column or 0)))


def _placed(problem: Problem, text: YamlText, file: Path, size: str | None) -> Problem:
    parts = problem.place
    for name in SIZE_LAYERS.get(size or "", ()):
        inside = ("sizes", name, *problem.place)
        if text.depth(inside) - 2 >= max(text.depth(problem.place), 1):
            parts = inside
    unknown = problem.said.startswith(f"key '{problem.key}': not known")
    part = f"size {size}" if size is not None and problem.file != str(file) else ""
    placed = text.problem(parts, problem.said, problem.key, on_key=unknown, part=part)
    return replace(placed, file=str(file), place=parts)


def validated(model: type[Model], document: object, path: Path, where: str) -> Model:
    """The model of a part of the file, which stands at the key ``where``; else a problem for each of its keys."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise UsageError.of(list(islice(_problems(error, model, path, where), MOST_PROBLEMS))) from error


def _problems(error: ValidationError, model: type[BaseModel], path: Path, where: str) -> Iterator[Problem]:
    by_place: dict[Place, list[Any]] = {}
    of: dict[Place, tuple[FieldInfo | None, type[BaseModel]]] = {}
    for detail in error.errors(include_url=False):
        parts, field, owner = _resolved(model, detail["loc"], is_key=detail["type"] == "extra_forbidden")
        by_place.setdefault(parts, []).append(detail)
        of[parts] = field, owner
    unknown = [parts for parts, errors in by_place.items() if errors[0]["type"] == "extra_forbidden"][:MOST_PROBLEMS]
    for parts, errors in by_place.items():
        first = min(errors, key=lambda detail: detail["type"] not in _TELLING)
        field, owner = of[parts]
        whole = (*place(where), *parts)
        key = in_words(whole)
        if first["type"] == "missing":
            if any(other[:-1] == parts[:-1] and near(other[-1], [str(parts[-1])]) for other in unknown):
                continue  # it is there, misspelt, and told as that
            if field is not None and field.description:
                yield Problem(str(path), f"missing key '{key}': {field.description}", key, place=whole)
                continue
        sentence = _said(first, parts, field, owner)
        yield Problem(str(path), f"key '{key}': {sentence}" if whole else sentence, key, place=whole)


def _said(error: Any, parts: Place, field: FieldInfo | None, owner: type[BaseModel]) -> str:
    """What is wrong with one key, without the key."""
    if error["type"] == "extra_forbidden":
        return unknown_key(parts[-1], owner.model_fields)
    shown = complaint(error, "", "").rsplit(", got ", 1)[-1]
    if parts == ("scenario",):
        return f"{shown} is not known; {choices(error['input'], _SCENARIOS)}"
    if len(parts) == 2 and parts[0] in ("platforms", "workloads"):
        return f"a name or a mapping is allowed, got {shown}"
    if field is None or not _BY_TYPE.match(error["type"]):
        return complaint(error, "", "")
    if isinstance(parts[-1], int):  # one of a list
        inner = [kind for kind in typing.get_args(field.annotation) if kind is not Ellipsis]
        field = FieldInfo.from_annotation(inner[0]) if inner else field
    meant = near(error["input"], literal_values(field.annotation))
    if meant:
        likely = " or ".join(repr(value) for value in meant)
        return f"{shown} is not allowed; did you mean {likely}? allowed: {allowed_values(field)}"
    return f"must be {allowed_values(field)}, got {shown}"


def _resolved(
    model: type[BaseModel], location: tuple[int | str, ...], *, is_key: bool
) -> tuple[Place, FieldInfo | None, type[BaseModel]]:
    """A place of pydantic's without the names of types that it tried, its field, and the model that has that field.

    ``is_key``: its last part is a key of the file, although it may read as the name of a type.
    """
    parts: list[int | str] = []
    owner: type[BaseModel] = model
    field: FieldInfo | None = None
    inner: list[type[BaseModel]] = [model]
    last = len(location) - 1
    for number, part in enumerate(location):
        if isinstance(part, int):
            parts.append(part)
        elif inner and (part in inner[0].model_fields or (number == last and (is_key or not _TRIED.match(part)))):
            owner = inner[0]
            field = owner.model_fields.get(part)
            inner = _models(field.annotation) if field is not None else []
            parts.append(part)
        elif not inner and not _TRIED.match(part):
            parts.append(part)
    if len(parts) > 2 and parts[0] == "testbed" and parts[1] in _WHERE_LISTED and isinstance(parts[2], int):
        parts[1:3] = [_WHERE_LISTED[str(parts[1])], parts[2] + 1]  # taken apart before it was checked
    return tuple(parts), field, owner


def _models(annotation: Any) -> list[type[BaseModel]]:
    models: list[type[BaseModel]] = []
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        models.append(annotation)
    for argument in typing.get_args(annotation):
        models += _models(argument)
    return models
