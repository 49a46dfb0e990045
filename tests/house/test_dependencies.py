"""What is declared in pyproject.toml is imported somewhere, and what is imported is declared."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path

from tests.support.repository import ROOT

MODULES = {  # where a package's module has another name than the package
    "MLRsearch": "MLRsearch",
    "PyYAML": "yaml",
    "pyvmomi": "pyVmomi",
    "qemu.qmp": "qemu",
    "vl-convert-python": "vl_convert",
}
BESIDE = {"pyVim", "pydantic_core", "markupsafe"}  # what pyvmomi, pydantic and jinja2 bring, and say to import


def imported(paths: Iterable[Path]) -> set[str]:
    """The first names of all modules that these files import, anywhere in them."""
    found = set()
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    return found - set(sys.stdlib_module_names) - {"virtoll"}


def test_what_is_declared_is_imported_and_what_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [
        one for name, own in project["optional-dependencies"].items() if name not in {"build", "dev"} for one in own
    ]
    names = [re.split(r"[<>=\[; ]", one)[0] for one in [*project["dependencies"], *extras]]
    declared = {MODULES.get(name, name) for name in names if name != "virtoll"}
    assert imported((ROOT / "src" / "virtoll").rglob("*.py")) - BESIDE == declared


def test_each_declared_package_is_explained() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    text = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8")
    names = [re.split(r"[<>=\[; ]", one)[0] for one in project["dependencies"]]
    assert [name for name in names if not re.search(rf"^\| {re.escape(name)} \|", text, re.MULTILINE)] == []
