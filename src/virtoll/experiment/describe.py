"""What a key of a file may be, in words: never a type of Python's, a pattern or a library's name. Pure.

Main types: ``Words`` (on a type whose form a pattern checks: the pattern in words), ``DefaultWords``,
``ParameterWords``.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ByteSize, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Words:
    """What a text must look like, in words that follow "must be": ``a PCI address such as 0000:01:00.0``."""

    text: str


@dataclass(frozen=True)
class DefaultWords:
    """What a key is without being given where that depends on the machine: ``q35, on aarch64 virt``."""

    text: str


@dataclass(frozen=True)
class ParameterWords:
    """One key for a person: its allowed values, what it is without being given, and what it is for."""

    name: str
    allowed: str
    default: str
    meaning: str


@dataclass
class _Limits:
    """The bounds of a number or a list, as pydantic's metadata has them."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    step: float | None = None
    fewest: int | None = None
    words: str | None = None

    def take(self, metadata: Sequence[object]) -> None:
        """What this metadata says of it."""
        names = {"ge": "least", "le": "most", "gt": "above", "lt": "below", "multiple_of": "step"}
        for constraint in metadata:
            if isinstance(constraint, FieldInfo):
                self.take(constraint.metadata)
            elif isinstance(constraint, Words):
                self.words = constraint.text
            elif dataclasses.is_dataclass(constraint) and not isinstance(constraint, type):
                values = {field.name: getattr(constraint, field.name) for field in dataclasses.fields(constraint)}
                for key, name in names.items():
                    if values.get(key) is not None:
                        setattr(self, name, values[key])
                if values.get("min_length") is not None:
                    self.fewest = values["min_length"]


def size_words(count: int) -> str:
    """A number of bytes as a file may have it, exactly: ``256MiB``, ``1500`` for 1500 bytes."""
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count and count % unit == 0:
            return f"{count // unit}{name}"
    return str(count)


def allowed_values(field: FieldInfo) -> str:
    """What a key may be, in words that follow "must be"."""
    limits = _Limits()
    limits.take(field.metadata)
    return _words(field.annotation, limits)


def number_range(field: FieldInfo) -> tuple[float, float]:
    """The least and the largest number that a key may have; without a limit, infinite."""
    limits = _Limits(least=-math.inf, most=math.inf)
    limits.take(field.metadata)
    return cast("float", limits.least), cast("float", limits.most)


def recorded_value(field: FieldInfo, value: Any) -> Any:
    """A value of a key as a run's records have it: a size in bytes; None if the key may not have it."""
    kind: Any = Annotated[field.annotation, field]
    adapter = TypeAdapter[Any](kind)
    try:
        return adapter.dump_python(adapter.validate_python(value), mode="json")
    except ValidationError:
        return None


def literal_values(annotation: Any) -> tuple[str, ...]:
    """The words that a key may have, where only some are allowed; empty for any other."""
    if typing.get_origin(annotation) is Annotated:
        return literal_values(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) is Literal:
        return tuple(str(value) for value in typing.get_args(annotation))
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return tuple(value for argument in typing.get_args(annotation) for value in literal_values(argument))
    return ()


def _words(annotation: Any, limits: _Limits) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        limits.take(inner[1:])
        return _words(inner[0], limits)
    if limits.words is not None:
        return limits.words
    if origin is Literal:
        return _either(list(map(repr, inner)))
    if origin in (typing.Union, types.UnionType):
        kinds = [kind for kind in inner if kind is not type(None)]
        if len(kinds) == 1:
            return _words(kinds[0], limits)
        return _either([_words(kind, _Limits()) for kind in kinds])
    if origin in (list, tuple):
        each = _words(inner[0], _Limits()) if inner else "values"
        fewest = f", at least {limits.fewest} of them" if limits.fewest else ""
        return f"a list, each {each}{fewest}"
    return "a mapping of keys" if origin is dict else _of_one(annotation, limits)


def _of_one(annotation: Any, limits: _Limits) -> str:
    if annotation is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "a mapping of keys"
    if annotation is bool:
        return "true or false"
    if annotation is ByteSize:
        return f"a size such as 256MiB{_range(limits, sizes=True)}"
    if annotation is int:
        return f"a whole number{_range(limits)}"
    if annotation is float:
        return f"a number{_range(limits)}"
    return "a text"


def _range(limits: _Limits, *, sizes: bool = False) -> str:
    def shown(number: float) -> str:
        if sizes:
            return size_words(int(number))
        exact = f"{int(number):,}" if number == int(number) else f"{number:,.15g}"
        return exact.replace(",", " " if number >= 1e4 else "")

    least, most, above, below = limits.least, limits.most, limits.above, limits.below
    if least is not None and most is not None:
        extent = f" from {shown(least)} to {shown(most)}"
    else:
        bounds = (("of at least", least), ("above", above), ("of at most", most), ("below", below))
        extent = " and".join(f" {words} {shown(number)}" for words, number in bounds if number is not None)
    step = f", a multiple of {shown(limits.step)}" if limits.step is not None else ""
    return extent + step


def _either(values: Sequence[str]) -> str:
    once = list(dict.fromkeys(values))
    return f"{', '.join(once[:-1])} or {once[-1]}" if len(once) > 1 else "".join(once)


def describe(model: type[BaseModel]) -> list[ParameterWords]:
    """Each key of a model, in order."""
    return [
        ParameterWords(key, allowed_values(field), _default(field), meaning(model, key))
        for key, field in model.model_fields.items()
    ]


def meaning(model: type[BaseModel], key: str) -> str:
    """What a key is for, in words; a model that changes what another allows need not say it again."""
    declared = (kind.model_fields.get(key) for kind in model.__mro__ if issubclass(kind, BaseModel))
    return next((field.description for field in declared if field is not None and field.description), "")


def describe_parameters(model: type[BaseModel]) -> dict[str, str]:
    """The same in one line each, for a program's table."""
    lines = {}
    for parameter in describe(model):
        lines[parameter.name] = f"{parameter.allowed} ({parameter.default})"
        if parameter.meaning:
            lines[parameter.name] += f": {parameter.meaning}"
    return lines


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    texts = [words.text for words in field.metadata if isinstance(words, DefaultWords)]
    if texts:
        return f"default {texts[0]}"
    value = field.get_default(call_default_factory=True, validated_data={})
    if value is None or value in ((), [], {}) or isinstance(value, BaseModel):
        return "not set"
    return f"default {value_words(field, value)}"


def value_words(field: FieldInfo, value: Any) -> str:
    """A key's value as a file has it."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and ByteSize in (field.annotation, *typing.get_args(field.annotation)):
        return size_words(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)
