#!/usr/bin/env python3
"""Draws the pictures of the documentation again, from the runs that the package carries.

`.venv/bin/python tools/images.py` writes each of `IMAGES` to `docs/images/`. What they show is told beside them: a
figure of another run than the table above it would tell something else. `SCREENSHOTS` are the first screens of reports
in Debian's Chromium, which `make setup-dev` installs. It measures nothing.
"""

import tarfile
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright

from virtoll.report import build_report

ROOT: Final = Path(__file__).resolve().parent.parent
RUNS: Final = ROOT / "src" / "virtoll" / "reference" / "runs"
FOLDER: Final = ROOT / "docs" / "images"
# The file below `FOLDER`: the run, and the name of its figure.
IMAGES: Final = {
    "schlosser2011-listed-rates.svg": ("schlosser2011", "listed_rates"),
    "mattos2012-guests.svg": ("mattos2012", "guests"),
}
# The file below `FOLDER`: the run whose page's first screen it shows.
SCREENSHOTS: Final = {"report.png": "schlosser2011"}
_CHROMIUM: Final = "/usr/bin/chromium-headless-shell"
_SCREEN: Final = (1100, 1000)  # pixels: wide enough for the page's tables


def main() -> None:
    """Draw all of them."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for run in dict.fromkeys([*(run for run, _ in IMAGES.values()), *SCREENSHOTS.values()]):
            with tarfile.open(RUNS / f"{run}.tar.xz") as packed:
                packed.extractall(scratch)  # noqa: S202 - our own archive
            build_report(Path(scratch) / run, Path(scratch) / "report")
            for image, (_, figure) in ((image, own) for image, own in IMAGES.items() if own[0] == run):
                drawn = Path(scratch) / "report" / "figures" / f"{figure}.svg"
                (FOLDER / image).write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")
            for image in (image for image, own in SCREENSHOTS.items() if own == run):
                photograph(Path(scratch) / "report" / "index.html", FOLDER / image)


def photograph(page: Path, image: Path) -> None:
    """The first screen of a page, as a browser shows it in light colours."""
    width, height = _SCREEN
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        opened.goto(page.as_uri())
        opened.screenshot(path=image)
        browser.close()


if __name__ == "__main__":
    main()
