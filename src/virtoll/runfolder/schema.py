"""The JSON Schema of a run folder's records, from the types that write and read them (docs/run-folder.md).

Main function: ``run_folder_schema``. Each file has a definition of its name: of a ``.jsonl`` file it is that of a line.
The schema itself is of the folder as an object, whose keys are the files and whose ``.jsonl`` files are lists.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from virtoll.runfolder.record import Record
from virtoll.runfolder.records import Manifest, State
from virtoll.runfolder.store import FORMAT, LINES

Schema = dict[str, Any]

SCHEMA_FILE: Final = Path(__file__).with_name("run-folder.schema.json")
"""The schema of this Virtoll's run folders, which the package carries ('make tables' writes it)."""

FILES: Final[Mapping[str, type[Record]]] = {"manifest.json": Manifest, "state.json": State, **LINES}
"""What a file holds, or each of its lines."""

_DEFINITIONS: Final = "#/definitions/"


def run_folder_schema() -> Schema:
    """The schema of all files, of draft 2020-12, which knows lists with a type for each place."""
    kinds = tuple(FILES.values())
    _, definitions = msgspec.json.schema_components(kinds, ref_template=f"{_DEFINITIONS}{{name}}")
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
    """A part without titles, which say each key once more."""
    if isinstance(node, list):
        return [_plain(part) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _plain(part) for name, part in value.items()}
        elif key != "title":
            plain[key] = _plain(value)
    return plain
