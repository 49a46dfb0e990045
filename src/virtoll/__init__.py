"""Virtoll: what a virtualisation platform costs against the bare host, on this machine.

From Python: ``virtoll.run(experiment)`` and ``virtoll.load(run)`` (docs/python.md). What is not in ``__all__`` is
internal, and may change with each version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from virtoll.version import __version__

if TYPE_CHECKING:
    from virtoll.cli import main as main
    from virtoll.cli.api import Run, Runs, load, load_all, run

__all__ = ["Run", "Runs", "__version__", "load", "load_all", "run"]


def __getattr__(name: str) -> Any:
    """The API and the command line, imported when asked for: everything imports this file first."""
    if name == "main":
        from virtoll.system.python import leave_current_directory

        leave_current_directory()
        from virtoll.cli import main

        return main
    if name in __all__:
        from virtoll.cli import api

        return getattr(api, name)
    raise AttributeError(f"module 'virtoll' has no attribute {name!r}")
