"""The documentation's pages: their names, and the keys of a report's JSON that docs/report-json.md does not name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.support.repository import ROOT


def page_name(path: Path) -> str:
    """``docs/gate.md``: a page's path in the clone."""
    return str(path.relative_to(ROOT))


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
