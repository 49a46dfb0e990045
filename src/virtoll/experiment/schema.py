"""The JSON Schema of an experiment's file, for editors and for other programs, from the models that check the file.

Main type: ``Kind`` (a platform or a workload as an experiment names it). ``experiment_schema`` makes it, of draft 7,
which all editors know. It says the form of each key; what keys say together is checked by ``parse.py`` alone. Pure.
"""

from __future__ import annotations

import typing
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ByteSize
from pydantic.fields import FieldInfo

from virtoll.experiment.describe import DefaultWords, meaning, size_words
from virtoll.experiment.entries import wants_list
from virtoll.experiment.file import (
    ConsolidationFile,
    ExperimentFile,
    NeighboursEntry,
    OwnSize,
    PlatformEntry,
    UntilDecided,
)
from virtoll.experiment.model import Parameters
from virtoll.experiment.sizes import NEEDED, SIZE_KEYS, SIZES, SIZES_MEANING

Schema = dict[str, Any]

SCHEMA_FILE: Final = Path(__file__).with_name("experiment.schema.json")
"""The schema of this Virtoll's platforms and workloads, which the package carries ('make tables' writes it)."""

_DEFINITIONS: Final = "#/definitions/"
_SIZE: Final = r"^\s*\d*\.?\d+\s*([kKmMgGtTpPeE]?[iI]?([bB]|[bB][iI][tT]))?\s*$"
# Bounds of a type that JSON Schema has not, by the names that pydantic leaves them.
_BOUNDS: Final = {"ge": "minimum", "le": "maximum", "gt": "exclusiveMinimum", "lt": "exclusiveMaximum"}
_DROPPED: Final = frozenset({"title", "multiple_of"})
_NOT_SET: Final[tuple[object, ...]] = (None, (), [], {})


@dataclass(frozen=True)
class Kind:
    """A platform or a workload: what it is, in a few words, and the model of its parameters."""

    about: str
    parameters: type[Parameters]


def experiment_schema(platforms: Mapping[str, Kind], workloads: Mapping[str, Kind]) -> Schema:
    """The schema of an experiment's file that names these."""
    definitions: Schema = {}
    named = {"platforms": _ref("platforms"), "workloads": _ref("workloads")}
    experiment = _object(ExperimentFile, definitions, replaced={**named, "neighbours": _ref("neighbours")})
    properties = experiment["properties"]
    blocks = properties["blocks"]
    texts = {key: blocks.pop(key) for key in ("description", "default")}
    properties["blocks"] = {**texts, "anyOf": [blocks, _object(UntilDecided, definitions)]}
    part = {key: _ref(f"experiment/properties/{key}") for key in SIZE_KEYS}
    size = {"type": ["object", "null"], "additionalProperties": False, "properties": part}
    sizes = {"type": "object", "additionalProperties": False, "required": list(NEEDED)}
    properties["sizes"] = {"description": SIZES_MEANING, **sizes, "properties": dict.fromkeys(SIZES, _ref("size"))}
    experiment["required"] = ["name", "question"]
    experiment["anyOf"] = [{"required": ["platforms", "workloads"]}, {"required": ["sizes"]}]
    definitions |= {
        "experiment": experiment,
        "size": size,
        "consolidation": _object(ConsolidationFile, definitions, replaced={"platforms": _ref("platforms")}),
        "entry": _platform_entry(definitions),
        "platforms": _list_of("platform", platforms, definitions, tuple(PlatformEntry.model_fields)),
        "workloads": _list_of("workload", workloads, definitions),
        "neighbours": _neighbours(definitions),
    }
    scenario = {"properties": {"scenario": {"const": "consolidation"}}, "required": ["scenario"]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "An experiment of Virtoll",
        "type": "object",
        "if": scenario,
        "then": _ref("consolidation"),
        "else": _ref("experiment"),
        "definitions": definitions,
    }


def _ref(name: str) -> Schema:
    return {"$ref": f"{_DEFINITIONS}{name}"}


def _list_of(key: str, kinds: Mapping[str, Kind], definitions: Schema, common: Sequence[str] = ()) -> Schema:
    """A list whose entries are names, or mappings of a name and parameters, each of which may be a list of values.

    ``common``: keys of every entry besides, which are those of ``entry``.
    """
    shared = {name: _ref(f"entry/properties/{name}") for name in common}
    entries: list[Schema] = [{"enum": list(kinds)}]
    for name, kind in kinds.items():
        entry = _object(kind.parameters, definitions, factors=kind.parameters.model_fields)
        entry["description"] = kind.about
        entry["properties"] = {key: {"const": name, "description": kind.about}, **entry["properties"], **shared}
        entry["required"] = [key]
        entries.append(entry)
    return {"type": "array", "minItems": 1, "items": {"anyOf": entries}}


def _platform_entry(definitions: Schema) -> Schema:
    """What every platform's entry may say, whose own size may be a factor."""
    entry = _object(PlatformEntry, definitions)
    size = _object(OwnSize, definitions, factors=OwnSize.model_fields)
    entry["properties"]["guest"]["anyOf"] = [size, {"type": "null"}]
    definitions.pop("OwnSize")
    return entry


def _neighbours(definitions: Schema) -> Schema:
    entry = _object(NeighboursEntry, definitions, factors=NeighboursEntry.model_fields)
    load = entry["properties"]["load"]["anyOf"][0]
    return {"type": ["array", "null"], "items": {"anyOf": [load, entry]}}


def _object(
    model: type[BaseModel], definitions: Schema, *, factors: Collection[str] = (), replaced: Mapping[str, Schema] = {}
) -> Schema:
    """A model as a mapping; what it refers to is put into ``definitions``.

    ``factors``: keys that may have several values in a list. ``replaced``: keys whose form is written here.
    """
    whole = model.model_json_schema(ref_template=f"{_DEFINITIONS}{{model}}")
    for name, definition in whole.pop("$defs", {}).items():
        definitions[name] = _plain(definition)
    properties = {}
    for key, field in model.model_fields.items():
        node = replaced.get(key) or _plain(whole["properties"][key])
        node = {name: value for name, value in node.items() if name not in ("description", "default")}
        if key in factors and not wants_list(model, key):
            node = {"anyOf": [*_alternatives(node), {"type": "array", "minItems": 1, "items": node}]}
        properties[key] = {"description": meaning(model, key), **_default(field), **node}
    required = whole.get("required", [])
    return {"type": "object", "additionalProperties": False, "properties": properties, "required": required}


def _alternatives(schema: Schema) -> list[Schema]:
    return list(schema["anyOf"]) if schema.keys() == {"anyOf"} else [schema]


def _default(field: FieldInfo) -> Schema:
    """A key's default, as a file would have it; empty where there is none, or where it depends on the machine."""
    if field.is_required() or any(isinstance(entry, DefaultWords) for entry in field.metadata):
        return {}
    value = field.get_default(call_default_factory=True, validated_data={})
    if value in _NOT_SET or isinstance(value, BaseModel):
        return {}
    size = isinstance(value, int) and ByteSize in (field.annotation, *typing.get_args(field.annotation))
    return {"default": size_words(value) if size else value}


def _plain(node: Any) -> Any:
    """A part of pydantic's schema without its titles, and with sizes and bounds as JSON Schema has them."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    return dict(_pairs(node))


def _pairs(node: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if key == "properties":
            yield key, {name: _plain(part) for name, part in value.items()}
        elif key == "description" and "properties" in node:
            continue  # a model's docstring, which is for who reads the code
        elif key == "pattern" and value == ByteSize.byte_string_pattern:
            yield key, _SIZE
        elif key in _BOUNDS:
            yield _BOUNDS[key], value
        elif key not in _DROPPED and (key != "default" or value not in _NOT_SET):
            yield key, _plain(value)
