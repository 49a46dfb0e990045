"""``virtoll validation``: what contract tests and runs show of each platform, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from virtoll.api.folders import find_run
from virtoll.cli import complete
from virtoll.cli.output import write_out
from virtoll.errors import UsageError

_MOST_TESTS_BYTES = 64 << 20


def validation(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN", help="Runs: folders, names, or 'latest'.", autocompletion=complete.runs),
    ],
    tests: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="JUnit XML of the contract tests ('pytest --junitxml FILE'). Repeatable."),
    ] = None,
) -> None:
    """Print a Markdown table of functional evidence.

    For each platform: contract tests passed, trials, and what else runs show, whatever its speed.
    """
    from virtoll.platforms import PLATFORMS
    from virtoll.report import load_analysis, read_tests, validation_table

    tested = [kind for path in tests or () for kind in read_tests(_text_of(path), str(path))]
    known = {name: kind.validation for name, kind in PLATFORMS.items() if kind.needs_lab}
    for line in validation_table([load_analysis(find_run(run)) for run in runs], tested, known):
        write_out(line + "\n")


def _text_of(path: Path) -> str:
    from virtoll.runfolder.opened import read_whole

    try:
        return read_whole(path, _MOST_TESTS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read ({error}); give a file that 'pytest --junitxml' wrote") from error
