"""``virtoll gate``: whether a run keeps to its thresholds, as an exit code, which ``run`` ends with too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from virtoll.api.folders import find_run
from virtoll.cli import options
from virtoll.cli.loading import thresholds_of
from virtoll.cli.output import Json, is_quiet, print_json, say_in_columns
from virtoll.errors import ThresholdMissed, ThresholdNotTold, UsageError

if TYPE_CHECKING:
    from virtoll.advise.gate import Gate, Threshold
    from virtoll.report import ReportResult


def gate(
    run: options.Run = "latest",
    *,
    fail_if: options.FailIf = None,
    allow_unknown: options.AllowUnknown = False,
    as_json: Json = False,
) -> None:
    """Judge a run by its thresholds.

    The exit code is 0 where all are met, 3 where one is missed, and 4 where the run cannot tell.
    """
    folder = find_run(run)
    thresholds = thresholds_of(folder, fail_if or [])
    from virtoll.advise.gate import judge_gate
    from virtoll.report import gate_document, load_analysis
    from virtoll.runfolder.store import RunFolder
    from virtoll.runfolder.sums import differences

    if not thresholds and RunFolder.open(folder).manifest.control is None:
        raise UsageError(
            f"{folder}: there is no threshold and no A/A control; give --fail-if, such as "
            "--fail-if 'runc:forward 64B slowdown>1.5x', or 'thresholds' in an experiment"
        )
    judged = judge_gate(load_analysis(folder), thresholds, differences(folder) or ())
    if as_json:
        print_json(gate_document(judged))
    else:
        tell(judged)
    leave_by(judged, allow_unknown)


def tell(judged: Gate) -> None:
    """Print each threshold's outcome."""
    from virtoll.report import gate_lines, gate_view

    for line in gate_lines(gate_view(judged)):
        say_in_columns(line)


def leave_by(judged: Gate, allow_unknown: bool) -> None:
    """End with 3 where a threshold is missed, with 4 where the run cannot tell and that is not allowed."""
    from virtoll.advise.gate import Outcome

    missed, unknown, every = judged.count(Outcome.MISSED), judged.count(Outcome.UNKNOWN), len(judged.checks)
    if judged.outcome is Outcome.MISSED:
        raise ThresholdMissed(f"{missed} of {every} thresholds missed; 'virtoll report' has the whole comparison")
    if judged.outcome is Outcome.UNKNOWN and not allow_unknown:
        what = f"the run cannot tell whether {unknown} of {every} thresholds are met" if unknown else judged.doubts[0]
        more = "measure more blocks"
        if judged.more_blocks is not None and judged.extendable is not None:
            more = f"'virtoll extend {judged.extendable} --blocks +{judged.more_blocks}' measures more blocks"
        raise ThresholdNotTold(f"{what}; {more}, or give --allow-unknown")


def judge(built: ReportResult, thresholds: Sequence[Threshold], allow_unknown: bool) -> None:
    """Say what a run says of its thresholds, and end with the exit code of that; nothing where there are none."""
    if not thresholds:
        return
    from virtoll.advise.gate import judge_gate

    judged = judge_gate(built.analysis, thresholds, built.damage or ())
    if not is_quiet():
        tell(judged)
    leave_by(judged, allow_unknown)
