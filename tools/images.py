#!/usr/bin/env python3
"""Draws the pictures of the documentation again, from the runs that the package carries and that of the tutorial.

`.venv/bin/python tools/images.py` writes each of `IMAGES` and `SCREENSHOTS` to `docs/images/`, and each of `LESSON` to
`docs/images/tutorial/`. What they show is told beside them: a picture of another run would tell something else. Pages
are shown by Debian's Chromium, which `make setup-dev` installs; a terminal is what the command prints to one. It
measures nothing.
"""

import os
import pty
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Final, NamedTuple

from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

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
# The run of the tutorial, in a folder for each number of blocks after which it was looked at.
LESSON_RUNS: Final = ROOT / "docs" / "tutorial" / "containers.tar.xz"
LESSON_FOLDER: Final = FOLDER / "tutorial"
_CHROMIUM: Final = "/usr/bin/chromium-headless-shell"
_SCREEN: Final = (1100, 1000)  # pixels: wide enough for the page's tables
_COLUMNS: Final = 88
_LINES: Final = 18  # of the terminal: the answer, before what is said of it
_COLOURS: Final = TerminalTheme(
    (255, 255, 255),
    (26, 26, 26),
    [(26, 26, 26), (168, 52, 0), (0, 103, 78), (122, 78, 0), (11, 98, 168), (120, 40, 120), (0, 95, 105), (90, 90, 90)],
)
# rich's own form asks for a font from elsewhere, which no browser loads for a picture.
_TERMINAL: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {terminal_width} {terminal_height}" role="img">
<title>A terminal: virtoll report latest, and the answer</title>
<style>
.{unique_id}-matrix {{ font-family: "Liberation Mono", "DejaVu Sans Mono", Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
<rect width="100%" height="100%" rx="8" fill="#ffffff" stroke="#b0b0b0" stroke-width="2"/>
<g class="{unique_id}-matrix" transform="translate(20 8) scale(0.96)">
{backgrounds}
{matrix}
</g>
</svg>
"""


class Shown(NamedTuple):
    """A picture of the tutorial: after how many blocks, and which figure; none: the page's first screen."""

    blocks: int
    figure: str = ""


LESSON: Final = {
    "answer.png": Shown(3),
    "cost.png": Shown(3, "cost"),
    "cost-extended.png": Shown(12, "cost"),
    "guests.png": Shown(12, "guests"),
}
TERMINAL: Final = "terminal.svg"


def main() -> None:
    """Draw all of them."""
    LESSON_FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        for run in dict.fromkeys([*(run for run, _ in IMAGES.values()), *SCREENSHOTS.values()]):
            unpack(RUNS / f"{run}.tar.xz", Path(scratch))
            build_report(Path(scratch) / run, Path(scratch) / "report")
            for image, (_, figure) in ((image, own) for image, own in IMAGES.items() if own[0] == run):
                drawn = Path(scratch) / "report" / "figures" / f"{figure}.svg"
                (FOLDER / image).write_text(drawn.read_text(encoding="utf-8"), encoding="utf-8")
            for image in (image for image, own in SCREENSHOTS.items() if own == run):
                with opened(Path(scratch) / "report" / "index.html", *_SCREEN) as page:
                    page.screenshot(path=FOLDER / image)
    draw_lesson()


def draw_lesson() -> None:
    """The pictures of the tutorial: of a terminal, and of the page."""
    with tempfile.TemporaryDirectory() as scratch:
        unpack(LESSON_RUNS, Path(scratch))
        runs = {blocks: lesson_run(Path(scratch), blocks) for blocks in {one.blocks for one in LESSON.values()}}
        (LESSON_FOLDER / TERMINAL).write_text(terminal(printed_to_a_terminal("report", str(runs[3]))), encoding="utf-8")
        for blocks, run in runs.items():
            build_report(run, run / "report")
            for image, one in ((image, one) for image, one in LESSON.items() if one.blocks == blocks):
                with opened(run / "report" / "index.html", 1200, 860) as page:
                    photograph(page, one.figure, LESSON_FOLDER / image)


def unpack(packed: Path, folder: Path) -> None:
    """A run of our own, as a folder."""
    with tarfile.open(packed) as archive:
        archive.extractall(folder)  # noqa: S202 - our own archive


def lesson_run(folder: Path, blocks: int) -> Path:
    """The tutorial's run after so many blocks, in the folder where it was unpacked."""
    (run,) = (folder / str(blocks)).iterdir()
    return run


@contextmanager
def opened(address: Path, width: int, height: int) -> Iterator[Page]:
    """A page in a window of this size in pixels, as a browser shows it in light colours."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        page.goto(address.as_uri())
        yield page
        browser.close()


def photograph(page: Page, figure: str, image: Path) -> None:
    """A figure that the page's scripts have drawn, with its caption; or the page's first screen."""
    if not figure:
        page.screenshot(path=image)
        return
    page.locator(f"#figure-{figure}").scroll_into_view_if_needed()
    page.wait_for_selector(f"#figure-{figure}.drawn .drawing", state="attached")
    page.locator(f"#figure-{figure}").screenshot(path=image)


def terminal(said: str) -> str:
    """The answer of what `virtoll report` printed to a terminal, colours too, as SVG with text in it."""
    typed = Text("$ virtoll report latest\n")
    lines = Text.from_ansi(said).split("\n")
    start = next(place for place, line in enumerate(lines) if line.plain.startswith("containers: "))
    # Whatever the terminal of whoever draws it can do.
    console = Console(record=True, width=_COLUMNS, file=StringIO(), color_system="truecolor", _environ={})
    console.print(typed + Text("\n").join(lines[start : start + _LINES]))
    return console.export_svg(theme=_COLOURS, code_format=_TERMINAL, unique_id="terminal")


def printed_to_a_terminal(*words: str) -> str:
    """What Virtoll prints where its output is a terminal of `_COLUMNS`, with its escapes."""
    ours, theirs = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    given = {"COLUMNS": str(_COLUMNS), "LINES": "40", "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-I", "-m", "virtoll", *words]
    with subprocess.Popen(command, env=environment | given, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        parts = []
        while part := _read(ours):
            parts.append(part)
        os.close(ours)
    if process.returncode != 0:
        raise SystemExit(f"virtoll {' '.join(words)} ended with {process.returncode}")
    return b"".join(parts).decode().replace("\r\n", "\n")


def _read(terminal_end: int) -> bytes:
    """The next bytes; none at the end, which Linux says by an error."""
    try:
        return os.read(terminal_end, 65536)
    except OSError:
        return b""


if __name__ == "__main__":
    main()
