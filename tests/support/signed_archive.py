"""A small archive of Debian packages that is signed, and what a mirror may do to a copy of it.

``tests/recorded/apt`` holds it: one package, its list, and that list signed by ``ours.gpg`` and by another key, and
for a week of 2023 by ``expired.gpg``.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.support.repository import ROOT

from virtoll.image import Recipe

ARCHIVE = ROOT / "tests" / "recorded" / "apt"


def copy_archive(folder: Path) -> Path:
    """A copy that is signed by our key, and may be damaged."""
    shutil.copytree(ARCHIVE, folder)
    shutil.copyfile(folder / "InRelease.ours", folder / "InRelease")
    return folder


def recipe_of(archive: Path, source: str | None = None) -> Recipe:
    """The archive's one package by mmdebstrap; ``source``: apt's line for it."""
    line = source or f"deb [signed-by={archive}/ours.gpg] copy:{archive} ./"
    return Recipe("test", ("word",), variant="custom", source=line, mode="chrootless")
