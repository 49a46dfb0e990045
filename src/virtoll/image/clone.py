"""What is built or kept in the clone of the repository that the package runs from."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

_MARKS = ("Cargo.toml", "crates", "tools")  # what a clone of the repository has at its top


def built_agent() -> Path:
    """Where ``make agent`` puts the agent of this clone; whether it is there is the caller's to ask."""
    return _top() / "build" / "virtoll-agent"


def simulator_source() -> Path:
    """The source of the ESXi simulator."""
    return _top() / "tools" / "vcsim"


@cache
def _top() -> Path:
    """The clone that holds the package; the package itself where it was installed apart from any."""
    package = Path(str(files("virtoll")))
    return next((one for one in package.parents if all((one / mark).exists() for mark in _MARKS)), package)
