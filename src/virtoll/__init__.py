"""Virtoll: what a virtualisation platform costs against the bare host, on this machine.

From Python: ``virtoll.run(experiment)`` and ``virtoll.load(run)`` (docs/python.md). What is not in ``__all__`` is
internal, and may change with each version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from virtoll.version import __version__

if TYPE_CHECKING:
    from virtoll.api.loaded import Run, load
    from virtoll.api.measured import run
    from virtoll.api.tables import Runs, load_all
    from virtoll.cli import main as main

__all__ = ["Run", "Runs", "__version__", "load", "load_all", "run"]
_MODULES = {"Run": "loaded", "Runs": "tables", "load": "loaded", "load_all": "tables", "run": "measured"}


def __getattr__(name: str) -> Any:
    """The API and the command line, imported when they are first used: everything imports this file first."""
    if name == "main":
        from virtoll.system.python import leave_current_directory

        leave_current_directory()
        from virtoll.cli import main

        return main
    if name in _MODULES:
        from importlib import import_module

        return getattr(import_module(f"virtoll.api.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'virtoll' has no attribute {name!r}")
