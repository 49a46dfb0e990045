"""Builds wheels of the files that git knows, in a folder of their own, so that the clone is not written to."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.repository import ROOT

_BESIDE = ("pyproject.toml", "setup.py", "LICENSE", "README.md", "crates/agent/LICENCES.txt")


def tracked(folder: str = "src/virtoll") -> list[str]:
    """The package's files as git has them, or those of another folder of the clone."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder]
    names = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return [name for name in names if (ROOT / name).is_file()]


def copy_source(folder: Path) -> Path:
    """Everything that a wheel is made of, but for the agent, in the new folder."""
    for name in (*_BESIDE, *tracked()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    return folder


def _environment(**changed: str) -> dict[str, str]:
    """This process's, without what the user set for a build."""
    return {key: value for key, value in os.environ.items() if not key.startswith("VIRTOLL_")} | changed


def build_wheel(
    source: Path,
    agent: Path,
    target: Path,
    *,
    umask: int = 0o022,
    manual: Path | None = None,
    way: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Builds the wheel of the source with this agent into the folder ``target``, as pip would.

    ``manual``: the folder whose manual pages it carries. ``way`` runs the build.
    """
    pages = {"VIRTOLL_MAN": str(manual)} if manual is not None else {}
    command = [sys.executable, "-c", "from setuptools import build_meta as b; import sys; b.build_wheel(sys.argv[1])"]
    return subprocess.run(
        [*way, *command, str(target)],
        cwd=source,
        env=_environment(VIRTOLL_AGENT=str(agent), SOURCE_DATE_EPOCH="1700000000", **pages),
        capture_output=True,
        text=True,
        umask=umask,
        check=False,
    )


def build_sdist(clone: Path, target: Path) -> Path:
    """Builds the source distribution of all files that git knows, copied into the new folder ``clone``."""
    for name in tracked("."):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, clone / name)
    command = [sys.executable, "-c", "from setuptools import build_meta as b; import sys; b.build_sdist(sys.argv[1])"]
    subprocess.run([*command, str(target)], cwd=clone, env=_environment(), capture_output=True, text=True, check=True)
    (made,) = target.iterdir()
    return made
