"""The base of every record of a run folder and every message of an agent: one definition writes, reads and checks it.

Main type: ``Record``. A class declares its keys as annotations, with a default if a key may be missing. Values are
checked when JSON is read, strictly: no text is a number, and a key that no field declares is an error at every depth.
Raises ``msgspec.ValidationError``, which names the place (``$.clock.marks.start_ns``).
"""

from __future__ import annotations

import json
from typing import Any, Self, dataclass_transform

import msgspec


@dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,))  # for mypy: subclasses are frozen too
class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Fields in the order in which they are written; a field without a value is None, never zero."""

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object; ValueError for a number that JSON has not (NaN, infinity)."""
        document: dict[str, Any] = json.loads(json.dumps(msgspec.to_builtins(self), allow_nan=False))
        return document

    @classmethod
    def from_json(cls, document: object) -> Self:
        """The record that a JSON object describes."""
        return msgspec.convert(document, cls)

    def replace(self, **changes: Any) -> Self:
        """The same record with other values for some fields."""
        return msgspec.structs.replace(self, **changes)

    @classmethod
    def from_record(cls, other: Record, **changes: Any) -> Self:
        """A record of this type with the fields of ``other``, and other values for some of them."""
        return cls(**{**msgspec.structs.asdict(other), **changes})
