"""``virtoll selftest``: known faults are put in, measured, and must be found."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import new_folder
from virtoll.cli import complete
from virtoll.cli.lab import check_lab, prepare_outside
from virtoll.cli.output import Json, Verbose, print_json, say, say_on_stderr, show
from virtoll.errors import StorageError, UsageError

if TYPE_CHECKING:
    from virtoll.selftest.findings import Finding


def selftest(
    *,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CHECK",
            help="Only this check: cpu, clock, kernel-clock, path, link, disk, facts, nothing. Repeatable.",
            autocompletion=complete.checks,
        ),
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="Fewer faults and trials: a minute or two.")] = False,
    into: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Where runs and table go; below 'runs' when not given.")
    ] = None,
    verbose: Verbose = False,
    as_json: Json = False,
) -> None:
    """Put known faults into real guests, and say which are found.

    They are measured as any guest is measured.

    Exit code 1 when one was missed, or when none could be tested.
    """
    from virtoll.runfolder.jsonlines import write_whole
    from virtoll.selftest.experiments import EXPERIMENTS
    from virtoll.selftest.table import csv_text, document, passed, rows, summary

    del verbose  # its callback has set what this process and those below it do
    unknown = [name for name in only or () if name not in EXPERIMENTS]
    if unknown:
        raise UsageError(f"--only: there is no check {unknown[0]!r}; choose of: {', '.join(EXPERIMENTS)}")
    check_lab()
    prepare_outside("tiny", kernel=False)
    folder = new_folder("selftest", into)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty; give another folder with --into")
    findings: list[Finding] = []
    for name in (experiment for experiment in EXPERIMENTS if not only or experiment in only):
        findings += _measured(name, folder, short=short)
    table = folder / "selftest.csv"
    try:
        write_whole(table, csv_text(findings))
    except OSError as error:
        raise StorageError(f"{table}: cannot be written ({error.strerror}); free the disk") from error
    if as_json:
        print_json({**document(findings), "folder": str(folder)})
    else:
        show(rows(findings), as_json=False)
        say(f"{summary(findings)}; runs and table: {folder}")
    if not passed(findings):
        raise typer.Exit(1)


def _measured(name: str, folder: Path, *, short: bool) -> list[Finding]:
    """One check: its experiment as a file, its run beside it, and what its analysis shows."""
    from virtoll.host.tuning import for_the_lab
    from virtoll.lab.launch import run_in_lab
    from virtoll.report import load_analysis
    from virtoll.runfolder.jsonlines import replace_text
    from virtoll.runfolder.yaml_file import dump_yaml
    from virtoll.selftest.checks import findings
    from virtoll.selftest.experiments import EXPERIMENTS

    file, run = folder / f"{name}.yaml", folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(file, dump_yaml(EXPERIMENTS[name](short), sort_keys=False))
    except OSError as error:
        raise StorageError(f"{file}: cannot be written ({error.strerror}); give another folder with --into") from error
    say_on_stderr(f"selftest: {name}")
    with _output_to_stderr():
        code = run_in_lab(["in-lab-run", str(file), str(run), "{}"], for_the_lab(), ())
    if code != 0:
        raise typer.Exit(code)
    return findings(name, load_analysis(run), short=short)


@contextlib.contextmanager
def _output_to_stderr() -> Iterator[None]:
    """What runs within has no part in the standard output: that is the table's."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)
