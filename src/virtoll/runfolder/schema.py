"""The JSON Schema of a run folder's records, from the types that write and read them (docs/run-folder.md).

Main function: ``run_folder_schema``. Each file has a definition of its name: of a ``.jsonl`` file it is that of a line.
The schema itself is of the folder as an object, whose keys are the files and whose ``.jsonl`` files are lists. Keys
that no type knows are allowed, as readers allow them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from pydantic import AliasChoices, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaMode

from virtoll.runfolder import conditions, explain_records, guest_records, records, scale, traffic_records

Schema = dict[str, Any]

SCHEMA_FILE: Final = Path(__file__).with_name("run-folder.schema.json")
"""The schema of this Virtoll's run folders, which the package carries ('make tables' writes it)."""

FILES: Final[Mapping[str, type[Any]]] = {
    "manifest.json": records.Manifest,
    "state.json": records.State,
    "trials.jsonl": records.TrialRecord,
    "boots.jsonl": records.BootRecord,
    "commands.jsonl": records.CommandRecord,
    "fitness.jsonl": records.FitnessRecord,
    "calibration.jsonl": traffic_records.CalibrationRecord,
    "footprints.jsonl": guest_records.FootprintRecord,
    "sizing.jsonl": records.SizingRecord,
    "looks.jsonl": records.LookRecord,
    "maxima.jsonl": conditions.MaximumRecord,
    "groups.jsonl": scale.GroupRecord,
    "consolidation.jsonl": guest_records.ConsolidationRecord,
    "density.jsonl": guest_records.ConsolidationRecord,
    "observed.jsonl": explain_records.ObservedTrial,
}
"""What a file holds, or each line of it; ``observed.jsonl`` is in ``explain/``, ``density.jsonl`` of Virtoll 0.1.0."""

_DEFINITIONS: Final = "#/definitions/"
_MODE: Final[JsonSchemaMode] = "validation"


def run_folder_schema() -> Schema:
    """The schema of all files, of draft 2020-12, which knows lists with a type for each place."""
    kinds = {kind.__name__: kind for kind in FILES.values()}
    found, whole = TypeAdapter.json_schemas(
        [(name, _MODE, TypeAdapter(kind)) for name, kind in kinds.items()], ref_template=f"{_DEFINITIONS}{{model}}"
    )
    definitions = dict(whole["$defs"])
    for name in kinds:
        definitions.setdefault(name, found[name, _MODE])
    for module in (records, traffic_records, guest_records, conditions, scale, explain_records):
        for name, kind in vars(module).items():
            if name in definitions and isinstance(kind, type):
                _with_older_names(definitions[name], kind)
    definitions |= {file: {"$ref": f"{_DEFINITIONS}{kind.__name__}"} for file, kind in FILES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A run folder of Virtoll, format 1",
        "type": "object",
        "properties": {file: _content(file) for file in FILES},
        "required": ["manifest.json"],
        "definitions": {name: _plain(one) for name, one in sorted(definitions.items())},
    }


def _content(file: str) -> Schema:
    own = {"$ref": f"{_DEFINITIONS}{file}"}
    return {"type": "array", "items": own} if file.endswith(".jsonl") else own


def _with_older_names(definition: Schema, kind: type[Any]) -> None:
    """Allow the names that a key had in an older Virtoll; one that must be there may be there under any of them."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        names = _names(hints[field.name])
        if len(names) < 2:
            continue
        first, *others = names
        definition["properties"] |= dict.fromkeys(others, definition["properties"][first])
        if first in definition.get("required", ()):
            definition["required"].remove(first)
            definition.setdefault("allOf", []).append({"anyOf": [{"required": [name]} for name in names]})


def _names(hint: Any) -> list[str]:
    """The names of a key, the present one first; none where it has only one."""
    for one in get_args(hint)[1:]:
        if isinstance(one, FieldInfo) and isinstance(one.validation_alias, AliasChoices):
            return list(dict.fromkeys(str(choice) for choice in one.validation_alias.choices))
    return []


def _plain(node: Any) -> Any:
    """A part without pydantic's titles, which say each key once more."""
    if isinstance(node, list):
        return [_plain(one) for one in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _plain(one) for name, one in value.items()} if key == "properties" else _plain(value)
        for key, value in node.items()
        if key != "title"
    }
