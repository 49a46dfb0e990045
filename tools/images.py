#!/usr/bin/env python3
"""Draws the pictures of the documentation again, from the runs that the package carries.

`.venv/bin/python tools/images.py` writes each of `IMAGES` to `docs/images/`. What they show is told beside them: a
figure of another run than the table above it would tell something else. It measures nothing.
"""

import tarfile
import tempfile
from pathlib import Path
from typing import Final

from virtoll.report import build_report

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "src" / "virtoll" / "reference" / "runs"
FOLDER: Final = ROOT / "docs" / "images"
# The file below `FOLDER`: the run, and the name of its figure.
IMAGES: Final = {
    "schlosser2011-listed-rates.svg": ("schlosser2011", "listed_rates"),
    "mattos2012-guests.svg": ("mattos2012", "guests"),
}


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for run in dict.fromkeys(run for run, _ in IMAGES.values()):
            with tarfile.open(RUNS / f"{run}.tar.xz") as packed:
                packed.extractall(scratch)  # noqa: S202 - our own archive
            build_report(Path(scratch) / run, Path(scratch) / "report")
            for image, (_, figure) in ((image, own) for image, own in IMAGES.items() if own[0] == run):
                drawn = Path(scratch) / "report" / "figures" / f"{figure}.svg"
                (FOLDER / image).write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")


if __name__ == "__main__":
    main()
