"""The JSON Schema of a run folder's records, from the types that write and read them (docs/run-folder.md).

Main function: ``run_folder_schema``. Each file has a definition of its name: of a ``.jsonl`` file it is that of a line.
The schema itself is of the folder as an object, whose keys are the files and whose ``.jsonl`` files are lists. Keys
that no type knows are allowed, as readers allow them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from virtoll.runfolder import conditions, explain_records, guest_records, records, scale, traffic_records
from virtoll.runfolder.store import FORMAT

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
    "observed.jsonl": explain_records.ObservedTrial,
}
"""What a file holds, or each line of it; ``observed.jsonl`` is in ``explain/``."""

_DEFINITIONS: Final = "#/definitions/"
_MODE: Final[JsonSchemaMode] = "validation"


def run_folder_schema() -> Schema:
    """The schema of all files, of draft 2020-12, which knows lists with a type for each place."""
    kinds = {kind.__name__: kind for kind in FILES.values()}
    schemas, whole = TypeAdapter.json_schemas(
        [(name, _MODE, TypeAdapter(kind)) for name, kind in kinds.items()], ref_template=f"{_DEFINITIONS}{{model}}"
    )
    definitions = dict(whole["$defs"])
    for name in kinds:
        definitions.setdefault(name, schemas[name, _MODE])
    definitions |= {file: {"$ref": f"{_DEFINITIONS}{kind.__name__}"} for file, kind in FILES.items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A run folder of Virtoll, format {FORMAT}",
        "type": "object",
        "properties": {file: _content(file) for file in FILES},
        "required": ["manifest.json"],
        "definitions": {name: _plain(definition) for name, definition in sorted(definitions.items())},
    }


def _content(file: str) -> Schema:
    schema = {"$ref": f"{_DEFINITIONS}{file}"}
    return {"type": "array", "items": schema} if file.endswith(".jsonl") else schema


def _plain(node: Any) -> Any:
    """A part without pydantic's titles, which say each key once more."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: {name: _plain(part) for name, part in value.items()} if key == "properties" else _plain(value)
        for key, value in node.items()
        if key != "title"
    }
