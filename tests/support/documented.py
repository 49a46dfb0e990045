"""What docs/report-json.md says of a report's JSON: which keys of a document it does not name."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.repository import ROOT


def undocumented_keys(document: object) -> set[str]:
    """Keys at any depth that the page does not name; it says once for all what `_open` after one means."""
    text = (ROOT / "docs" / "report-json.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z0-9_]+)`", text))
    return {key for key in _keys(document) if not key.endswith("_open")} - named


def _keys(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        yield from (key for one in value.values() for key in _keys(one))
    elif isinstance(value, list):
        yield from (key for one in value for key in _keys(one))
