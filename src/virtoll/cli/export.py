"""``virtoll export``: a run for other programs, in a format of ``report.exchange``, or its tables as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from virtoll.api.folders import find_run
from virtoll.cli import options
from virtoll.cli.loading import thresholds_of
from virtoll.cli.output import say, write_out
from virtoll.cli.verify import tell_damage
from virtoll.errors import StorageError, UsageError

_PARQUET: Final = "parquet"
_STANDARD_OUTPUT: Final = "-"
_FORMAT: Final = "Such as junit, markdown, bencher, openmetrics or parquet; docs/gate.md lists them."
FormatOption = Annotated[str | None, typer.Option("--format", metavar="FORMAT", help=_FORMAT)]


def export(
    run: options.Run = "latest",
    *,
    form: FormatOption = None,
    parquet: Annotated[
        bool,
        typer.Option("--parquet", help="The same as --format parquet: typed tables in a folder (docs/dataset.md)."),
    ] = False,
    output: Annotated[
        str,
        typer.Option("--output", help="A file, and for parquet a folder; '-' is the standard output.", metavar="FILE"),
    ] = _STANDARD_OUTPUT,
    fail_if: options.FailIf = None,
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
    if parquet and form not in (None, _PARQUET):
        raise UsageError(f"--parquet is --format {_PARQUET}; leave --format {form} out, or --parquet")
    if parquet or form == _PARQUET:
        if fail_if or allow_unknown:
            raise UsageError(f"--fail-if and --allow-unknown: not of {_PARQUET}, which judges nothing; leave them out")
        _export_tables(find_run(run), output)
        return
    from virtoll.report.exchange import FORMATS, Exchanged

    if form is None:
        raise UsageError(f"--format is missing; give one of: {', '.join((*FORMATS, _PARQUET))}")
    if form not in FORMATS:
        raise UsageError(f"--format {form}: not known; choose one of: {', '.join((*FORMATS, _PARQUET))}")
    folder = find_run(run)
    thresholds = thresholds_of(folder, fail_if or ())
    from virtoll.advise.gate import judge_gate
    from virtoll.report import gate_view, load_analysis
    from virtoll.runfolder.jsonlines import write_whole
    from virtoll.runfolder.sums import differences

    analysis, damage = load_analysis(folder), differences(folder) or ()
    tell_damage(folder)
    gate = gate_view(judge_gate(analysis, thresholds, damage)) if thresholds else None
    text = FORMATS[form](Exchanged(analysis, gate, damage, allow_unknown))
    if output == _STANDARD_OUTPUT:
        write_out(text)
        return
    try:
        write_whole(Path(output), text)
    except OSError as error:
        raise StorageError(f"cannot write {output}: {error.strerror or error}. Give another file.") from error


def _export_tables(folder: Path, output: str) -> None:
    """The tables of the dataset, a file each."""
    if output == _STANDARD_OUTPUT:
        raise UsageError("--output FOLDER is missing: parquet is several files; give a folder, also one with others")
    if Path(output).exists() and not Path(output).is_dir():
        raise UsageError(f"--output {output}: is a file, and parquet is several; give a folder")
    from virtoll.report.build import load
    from virtoll.report.dataset import arrow
    from virtoll.runfolder.damage import damage_told

    tell_damage(folder)
    with damage_told(folder):
        written = arrow.export(load(folder), Path(output))
    for path in written:
        say(str(path))
