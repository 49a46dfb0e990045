"""Bare Debian roots, and programs that run in them: kernel, network and caches are this machine's."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import ModuleType

from tests.support.repository import load_tool

from virtoll.image import default_cache

fresh: ModuleType = load_tool("fresh")
GIVEN = ("python3", "python3-venv", "runc")
HOME = Path("/root")


def run_in(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Runs a program of the root as its root user, in the home there."""
    return subprocess.run(
        fresh.command_in(root, argv, HOME, {}),
        env={**fresh.environment(), "VIRTOLL_CACHE": str(default_cache().home), "PIP_CACHE_DIR": str(_pip_cache())},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def done_in(root: Path, *argv: str) -> str:
    """What a program of the root, which must succeed, writes to its standard output."""
    finished = run_in(root, *argv)
    assert finished.returncode == 0, (argv, finished.stdout[-2000:], finished.stderr[-2000:])
    return finished.stdout


def bare(folder: Path, suite: str) -> Path:
    """A bare Debian with ``GIVEN``, which reaches the package index as this machine does."""
    fresh.make_root(folder, suite, GIVEN)
    fresh.trust_authorities(folder)
    return folder


def unpacked(folder: Path, suite: str, *packages: str) -> Path:
    """The files of such a Debian and of some packages: its programs run, and apt is of no use."""
    fresh.make_root(folder, suite, [*GIVEN, "apt", *packages], configured=False)
    fresh.trust_authorities(folder)
    return folder


def _pip_cache() -> Path:
    """Where pip keeps what it downloaded: only the first of all tests needs the network for it."""
    folder = Path(os.environ.get("PIP_CACHE_DIR", "~/.cache/pip")).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
