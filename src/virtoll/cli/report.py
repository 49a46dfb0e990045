"""``virtoll report``: a run's report on its page and the terminal, written once or whenever trials have ended."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import FoundRun, found_run
from virtoll.cli import options
from virtoll.cli.claims import own_claims
from virtoll.cli.loading import thresholds_of
from virtoll.cli.output import (
    Json,
    Quiet,
    columns,
    console,
    is_quiet,
    print_json,
    say,
    say_in_columns,
    say_on_stderr,
    say_page,
    say_progress,
    show_page,
    tell_on_stderr,
)
from virtoll.cli.watch import grown

if TYPE_CHECKING:
    from virtoll.report import ReportResult

_WATCH_SECONDS = 5


def report(
    run: options.Run = "latest",
    *,
    claims: options.Claims = None,
    need: options.Need = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Write it anew whenever trials have ended, until the run has.")
    ] = False,
    open_page: options.Open = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the report of a run again.

    It is one HTML page, with figures as SVG and PDF, and tables as CSV. That of a packed run is beside its archive.
    """
    del quiet
    location = found_run(run)
    if watch and location.archive is None:
        _watch(location.folder, claims or [], need or [])
    write_report(location, claims=claims or [], needs=need or [], as_json=as_json, open_page=open_page)


def _watch(folder: Path, claims: Sequence[Path], needs: Sequence[str]) -> None:
    """Write the report while the run goes on: at once, and then whenever its records have grown."""
    from virtoll.api.needs import adviser_of
    from virtoll.report import build_report
    from virtoll.runfolder.overview import state_now

    claim_list, adviser, thresholds = own_claims(claims), adviser_of(folder, needs), thresholds_of(folder)
    for _ in grown(folder, _WATCH_SECONDS):
        built = build_report(
            folder, claims=claim_list, renewed_seconds=_WATCH_SECONDS, adviser=adviser, thresholds=thresholds
        )
        done = len({record.trial for record in built.analysis.data.every_trial})
        tell_on_stderr(f"{done} of {len(built.analysis.data.manifest.plan.trials)} trials: {built.path}")
    if state_now(folder) == "killed":
        say_on_stderr(f"virtoll: this run was killed, and nothing more comes; continue it: virtoll resume {folder}")


def write_report(
    location: FoundRun,
    *,
    claims: Sequence[Path] = (),
    needs: Sequence[str] = (),
    as_json: bool = False,
    gated: bool = False,
    open_page: bool = False,
) -> ReportResult:
    """Write a report and print its first screen, or its path alone, or all of it as JSON; what was made.

    `gated`: a gate is told after it.
    """
    from virtoll.api.needs import adviser_of
    from virtoll.report import (
        advice_lines,
        answer_terminal,
        at_once_terminal,
        build_report,
        consolidation_lines,
        counts_line,
        gate_lines,
        isolation_terminal,
        report_document,
    )

    folder = location.folder
    claim_list, adviser, thresholds = own_claims(claims), adviser_of(folder, needs), thresholds_of(folder)
    say_progress("writing the report ...")
    built = build_report(folder, location.report, claim_list, adviser=adviser, thresholds=thresholds)
    analysis, damage = built.analysis, built.damage
    if open_page:
        show_page(built.path)
    if as_json:
        print_json(
            report_document(analysis, built.ledger, location.given, built.path, damage, built.advice, gate=built.gate)
        )
        return built
    if is_quiet():
        say(str(built.path))
        return built
    width = columns()
    if analysis.at_once.points:
        shown = at_once_terminal(analysis, width, damage or ())
    else:
        shown = [*answer_terminal(analysis, width, damage or ()), *isolation_terminal(analysis, width)]
    for part in shown:
        console().print(part, width=width)
    for line in ["", *gate_lines(built.gate), ""] if built.gate is not None and not gated else ():
        say_in_columns(line)
    for line in ["", *advice_lines(built.advice), ""] if built.advice is not None else ():
        say_in_columns(line)
    for line in consolidation_lines(analysis):
        say_in_columns(line)
    if built.ledger:
        say_in_columns(f"claims: {counts_line(built.ledger)} 'virtoll claims' has them")
    say_page("report: ", built.path)
    return built
