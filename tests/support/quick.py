"""``pytest --quick``: the unit tests that a change most likely breaks come first, and after 65 s no other begins.

A change is what differs from the last commit, or that commit itself where nothing does. First come the test modules
that import a changed module or are changed themselves, then those of the same rooms, then all others.
"""

from __future__ import annotations

import functools
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path, PurePath

import pytest
from tests.support import inside
from tests.support.repository import ROOT

SECONDS = 65.0
"""No test begins so long after this module was imported; ending takes some seconds more."""
_BEGIN = time.monotonic()
_NO_UNIT = ("slow", "lab", "network", "extended", "nested", "root")
_SUPPORT_OF_LONG_TESTS = ("tests.support.browsing", "tests.support.commands", "tests.support.playground")


def choose(items: list[pytest.Item]) -> list[pytest.Item]:
    """Order ``items`` by what they have to do with the change; return those that are no unit tests."""
    left_out = [item for item in items if not _is_unit_test(item)]
    chosen = [item for item in items if _is_unit_test(item)]
    changed = changed_files()
    items[:] = sorted(chosen, key=lambda item: distance(item.path, changed))
    return left_out


def changed_files() -> frozenset[PurePath]:
    """Paths from the repository's top of what differs from the last commit, or else of what that commit changed."""
    uncommitted = _git("diff", "--name-only", "HEAD") | _git("ls-files", "--others", "--exclude-standard")
    return uncommitted or _git("diff", "--name-only", "HEAD~1")


def distance(test_file: Path, changed: frozenset[PurePath]) -> int:
    """0: it tests a changed module; 1: it is of a changed room; 2: it is of another room."""
    path = test_file.relative_to(ROOT)
    modules = {_module(file) for file in changed if file.parts[:2] == ("src", "virtoll")}
    if path in changed or any(_imports(_text(test_file), module) for module in modules):
        return 0
    rooms = {file.parts[2] for file in changed if file.parts[:2] == ("src", "virtoll")}
    rooms |= {file.parts[1] for file in changed if file.parts[0] == "tests"}
    return 1 if path.parts[1] in rooms else 2


def skip_if_late() -> None:
    """Skip the test that is about to begin if there is no time left."""
    if time.monotonic() > _BEGIN + SECONDS:
        pytest.skip(f"no time left: it would begin after {SECONDS:g} s")


def _is_unit_test(item: pytest.Item) -> bool:
    if inside.belongs_inside(item) or any(item.get_closest_marker(name) is not None for name in _NO_UNIT):
        return False
    text = _text(item.path)
    return not any(name in text or _as_import(name) in text for name in _SUPPORT_OF_LONG_TESTS)


def _imports(text: str, module: str) -> bool:
    """Whether the text imports from this module, or the module from its package."""
    package, _, name = module.rpartition(".")
    names = rf"(?:\([^)]*|[^(\n]*)\b{name}\b"
    return f"{module} import" in text or re.search(rf"from {package} import {names}", text) is not None


def _as_import(name: str) -> str:
    folder, _, module = name.rpartition(".")
    return f"from {folder} import {module}\n"


@functools.cache
def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def _module(file: PurePath) -> str:
    parts: Sequence[str] = file.with_suffix("").parts[1:]
    return ".".join(parts).removesuffix(".__init__")


def _git(*arguments: str) -> frozenset[PurePath]:
    listed = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return frozenset(map(PurePath, listed.stdout.splitlines()))
