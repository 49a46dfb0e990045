"""``virtoll export``: a run for other programs, in a format of ``report.exchange``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from virtoll.cli.folders import find_run
from virtoll.cli.gate import FailIfOption, judge_of
from virtoll.cli.runs import RunArgument, tell_damage
from virtoll.errors import StorageError, UsageError


def export(
    run: RunArgument = "latest",
    *,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="Such as junit, markdown, bencher or openmetrics; docs/gate.md lists all.",
        ),
    ],
    output: Annotated[str, typer.Option("--output", help="A file; '-' is the standard output.", metavar="FILE")] = "-",
    fail_if: FailIfOption = None,
    allow_unknown: Annotated[
        bool,
        typer.Option(
            "--allow-unknown", help="In junit, a threshold of which the run cannot tell is skipped, and no error."
        ),
    ] = False,
) -> None:
    """Write a run as other programs read it.

    For checks, comments and dashboards. The exit code judges nothing.
    """
    from virtoll.report.exchange import FORMATS, Exchanged

    if form not in FORMATS:
        raise UsageError(f"--format {form}: not known; choose one of: {', '.join(FORMATS)}")
    folder = find_run(run)
    judge = judge_of(folder, fail_if or ())
    from virtoll.report import load_analysis
    from virtoll.runfolder.sums import differences

    analysis, damage = load_analysis(folder), differences(folder) or ()
    tell_damage(folder)
    gate = judge(analysis, damage) if judge is not None else None
    text = FORMATS[form](Exchanged(analysis, gate, damage, allow_unknown))
    if output == "-":
        sys.stdout.write(text)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        raise StorageError(f"cannot write {output}: {error.strerror or error}. Give another file.") from error
