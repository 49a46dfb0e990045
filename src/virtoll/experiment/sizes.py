"""The sizes of an experiment: one file that says how it is run quickly, as its paper ran it, and over larger grids.

``sizes: {quick: {...}, paper: {...}, full: {...}}``: what a size names stands in the place of the file's own key;
``guest`` is laid over the file's, key by key. ``full`` may be left out, and is laid over ``paper``. It works on the
document as YAML gave it: what is in the keys is checked afterwards.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from virtoll.errors import UsageError
from virtoll.experiment.complaints import Gathered, unknown_key, wrong
from virtoll.experiment.model import SIZE_LAYERS

Document = dict[str, Any]
NEEDED: Final = ("quick", "paper")
"""The sizes that each file with sizes has."""
SIZES: Final = tuple(SIZE_LAYERS)
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
SIZES_MEANING: Final = "the experiment's sizes: keys in place of the file's own, those of `full` in place of `paper`'s"


def at_size(document: Document, size: str | None, path: Path) -> tuple[Document, str | None]:
    """The document without ``sizes``, as it is at one of them, and which one that is; quick where none was asked for.

    A file without ``sizes`` has no size (None). ``UsageError`` names file, key and allowed values.
    """
    if "sizes" not in document:
        if size is not None:
            raise UsageError(
                f"{path}: has no key 'sizes', so there is no size {size!r}; leave out '--size', or add 'sizes' with "
                f"{' and '.join(NEEDED)}"
            )
        return document, None
    sizes = document["sizes"]
    if not isinstance(sizes, dict) or set(sizes) | {"full"} != set(SIZES):
        raise wrong(path, "sizes", f"must be a mapping with the keys {' and '.join(NEEDED)}, and 'full' if you like")
    gathered = Gathered()
    for name, entry in sizes.items():
        with gathered.trying():
            _check(entry, f"sizes.{name}", path)
    gathered.finish()
    taken = SIZES[0] if size is None else size
    if taken not in sizes:
        raise UsageError(f"{path}: there is no size {taken!r}; allowed: {', '.join(sizes)}")
    base = {key: value for key, value in document.items() if key != "sizes"}
    for layer in SIZE_LAYERS[taken]:
        base = _laid_over(base, sizes[layer])
    return base, taken


def _laid_over(base: Document, size: Document | None) -> Document:
    """The document with a size's keys in place of its own."""
    changes = dict(size or {})
    if isinstance(base.get("guest"), dict) and isinstance(changes.get("guest"), dict):
        changes["guest"] = {**base["guest"], **changes["guest"]}
    return {**base, **changes}


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
