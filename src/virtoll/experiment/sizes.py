"""The sizes of an experiment: one file that says how it is run quickly, and how its paper ran it.

``sizes: {quick: {...}, paper: {...}}``: what a size names stands in the place of the file's own key; ``guest`` is laid
over the file's, key by key. It works on the document as YAML gave it: what is in the keys is checked afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from virtoll.errors import UsageError
from virtoll.experiment.complaints import Gathered, unknown_key, wrong

SIZES: Final = ("quick", "paper")
SIZE_KEYS: Final = (
    "platforms",
    "workloads",
    "neighbours",
    "scale",
    "guest",
    "blocks",
    "rounds",
    "order",
    "boot",
    "summary",
    "skip",
)
"""The keys that a size may have."""
SIZES_MEANING: Final = "the experiment's sizes: keys that stand in place of the file's own, for each of both"


def at_size(document: dict[str, Any], size: str | None, path: Path) -> tuple[dict[str, Any], str | None]:
    """The document without ``sizes``, as it is at one of them, and which one that is; quick where none was asked for.

    A file without ``sizes`` has no size (None). ``UsageError`` names file, key and allowed values.
    """
    if "sizes" not in document:
        if size is not None:
            raise UsageError(
                f"{path}: has no key 'sizes', so there is no size {size!r}; leave out '--size', or add 'sizes' with "
                f"{' and '.join(SIZES)}"
            )
        return document, None
    sizes = document["sizes"]
    if not isinstance(sizes, dict) or set(sizes) != set(SIZES):
        raise wrong(path, "sizes", f"must be a mapping with the keys {' and '.join(SIZES)}")
    gathered = Gathered()
    for name, entry in sizes.items():
        with gathered.trying():
            _check(entry, f"sizes.{name}", path)
    gathered.finish()
    taken = SIZES[0] if size is None else size
    if taken not in SIZES:
        raise UsageError(f"{path}: there is no size {taken!r}; allowed: {', '.join(SIZES)}")
    base = {key: value for key, value in document.items() if key != "sizes"}
    changes = dict(sizes[taken] or {})
    if isinstance(base.get("guest"), dict) and isinstance(changes.get("guest"), dict):
        changes["guest"] = {**base["guest"], **changes["guest"]}
    return {**base, **changes}, taken


def _check(entry: object, where: str, path: Path) -> None:
    if entry is None:
        return  # an empty mapping, as YAML writes it
    if not isinstance(entry, dict):
        raise wrong(path, where, f"must be a mapping; allowed keys: {', '.join(SIZE_KEYS)}")
    gathered = Gathered()
    for key in entry:
        if key not in SIZE_KEYS:
            gathered.keep(wrong(path, where, unknown_key(key, SIZE_KEYS), key))
    gathered.finish()
