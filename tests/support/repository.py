"""Where the repository is, what it holds for tests, and its tools as modules."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests" / "recorded"
"""Exchanges, listings and runs that were recorded once."""


def load_tool(name: str) -> ModuleType:
    """A program of tools/ as a module: it is not part of the package."""
    specification = importlib.util.spec_from_file_location(f"virtoll_{name}", ROOT / "tools" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module
