"""A report for a program: one JSON document, whose keys docs/report-json.md lists.

Its numbers are the analysis's and those of the CSV tables. What is missing is null and never zero; an end of an
interval that is open is null too, and a key beside it says so. Main function: `report_document`. Must not: compute a
statistic.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from virtoll.claims import Judged
from virtoll.report import words
from virtoll.report.advice import AdviceView
from virtoll.report.answer import not_known, notes, rankings
from virtoll.report.csv_table import CsvTable, record
from virtoll.report.fitness import fitness_document
from virtoll.report.gate import GateView
from virtoll.report.report_input import ReportInput
from virtoll.report.row_tables import MEDIANS, records_of
from virtoll.report.sections import SECTIONS
from virtoll.report.sections.claims.tables import claims_document
from virtoll.report.sections.cost.tables import COMPARISONS
from virtoll.report.sections.explanation.page import explanation_records
from virtoll.report.table import Column, of_task
from virtoll.stats.across_hosts import HostBlocks
from virtoll.stats.analysis import Analysis
from virtoll.stats.cautions import Warned
from virtoll.stats.compare import Comparison
from virtoll.stats.idle_programs import program_cautions
from virtoll.stats.ranking import Placed, Ranking
from virtoll.stats.remaining import block_seconds
from virtoll.stats.values import Task

SCHEMA: Final = "virtoll-report"
VERSION: Final = 1  # another one where a key goes, or means something else; new keys may come without

_TABLES: Final = ("far_rates", "isolation", "neighbours", "scale", "groups", "hosts", "host_variation")
"""Those of the report whose rows are in the document as well."""
_OF_TASK: Final[tuple[Column[Task], ...]] = of_task(lambda task: task)


def report_document(
    analysis: Analysis,
    ledger: Sequence[Judged],
    folder: Path,
    page: Path,
    damage: Sequence[str] | None,
    advice: AdviceView | None = None,
    *,
    gate: GateView | None = None,
) -> dict[str, Any]:
    """All of it; `damage`: what of the folder is not as it was when the run ended, None where it has no digests.

    `advice`: on a user's needs, `gate`: on the run's thresholds; None where there are none.
    """
    tables = {table.name: table.records() for table in _tables(analysis)}
    return {
        **_head(analysis),
        "run": _run(analysis, folder, page, damage),
        "notes": list(notes(analysis, damage or ())),
        "answer": list(map(partial(_ranking, analysis), rankings(analysis))),
        "not_known": _not_known(analysis),
        "fitness": fitness_document(analysis),
        "caveats": [{"platform": platform, "caveat": caveat} for platform, caveat in analysis.caveats.items()],
        "cautions": list(map(_caution, (*analysis.cautions, *_of_programs(analysis)))),
        "medians": records_of(MEDIANS, analysis),
        "comparisons": records_of(COMPARISONS, analysis),
        **{name: tables.get(name, []) for name in _TABLES},
        "explanations": explanation_records(analysis),
        "claims": claims_document(ledger),
        "advice": advice and dict(advice.document),
        "gate": gate and dict(gate.document),
    }


def _of_programs(analysis: Analysis) -> tuple[Warned, ...]:
    return program_cautions(analysis.tasks, analysis.data.trials, analysis.data.fitness)


def _caution(caution: Warned) -> dict[str, object]:
    kind = caution.caution
    return {"caution": kind.title, "concerns": caution.concerns, "meaning": kind.meaning, "advice": kind.advice}


def _tables(analysis: Analysis) -> Iterator[CsvTable]:
    """Those of `_TABLES` that the run has; the others, which may be large, are not made."""
    source = ReportInput(analysis)
    for section in SECTIONS:
        for table in section.tables:
            rows = table.csv(source) if table.name in _TABLES else None
            if rows is not None:
                yield rows


def ledger_document(analysis: Analysis, ledger: Sequence[Judged]) -> dict[str, Any]:
    """The same document of the claims alone."""
    return {**_head(analysis), "run": {"name": analysis.data.manifest.run}, "claims": claims_document(ledger)}


def _head(analysis: Analysis) -> dict[str, Any]:
    return {"schema": SCHEMA, "version": VERSION, "virtoll": analysis.data.manifest.virtoll}


def _run(analysis: Analysis, folder: Path, page: Path, damage: Sequence[str] | None) -> dict[str, Any]:
    manifest, state = analysis.data.manifest, analysis.data.state
    values = (*analysis.observations, *analysis.isolation.observations, *analysis.at_once.observations)
    whole = differences = None
    if damage is not None:
        whole, differences = not damage, list(damage)
    return {
        "name": manifest.run,
        "folder": str(folder),
        "page": str(page),
        "begun_realtime_ns": manifest.created_realtime_ns,
        "experiment": manifest.experiment.get("name"),
        "question": manifest.experiment.get("question"),
        "size": manifest.experiment.get("size"),
        "state": state.state,
        "state_reason": state.reason,
        "whole": whole,
        "differences": differences,
        "baseline": manifest.baseline,
        "baseline_measured": analysis.baseline is not None,
        "control": manifest.control,
        "platforms": list(analysis.platforms),
        "blocks": analysis.blocks,
        "part": manifest.part and manifest.part.to_json(),
        "merged": manifest.merged and manifest.merged.to_json(),
        "hosts": list(map(_host, analysis.across_hosts.hosts)),
        "extended_after": [extension.blocks for extension in manifest.extensions],
        "error_level": analysis.level,
        "trials_planned": sum(not trial.warm_up for trial in manifest.plan.trials),
        "trials_ended": len(analysis.data.every_trial),
        "values": len(values),
    }


def _host(host: HostBlocks) -> dict[str, object]:
    return {"name": host.name, "fingerprint": host.fingerprint, "blocks": [block + 1 for block in host.blocks]}


def _task(task: Task) -> dict[str, Any]:
    """Keys that name a task, as the CSV tables have them."""
    return {column.name: column.value(task) for column in _OF_TASK}


def _ranking(analysis: Analysis, ranking: Ranking) -> dict[str, Any]:
    placed = [_placed(analysis, ranking.task, placed) for placed in ranking.placed]
    return {**_task(ranking.task), "placed": placed, "unplaced": list(map(_unplaced, ranking.unplaced))}


def _unplaced(comparison: Comparison) -> dict[str, object]:
    return {
        "platform": comparison.platform,
        "verdict": str(comparison.verdict),
        "caveat": comparison.caveat,
        "reason": comparison.reason or None,
    }


def _placed(analysis: Analysis, task: Task, placed: Placed) -> dict[str, Any]:
    """A platform of a ranking; the interval of its share holds together with all others."""
    joint = placed.comparison.simultaneous if placed.comparison else None
    low, high = (joint.low, joint.high) if joint else (1.0, 1.0)
    if (placed.platform, task) in analysis.lower_bounds:
        high = math.inf
    return {
        "platform": placed.platform,
        "first_place": placed.first,
        "last_place": placed.last,
        "share": placed.comparison.share if placed.comparison else 1.0,
        **record(("share_low", "share_high"), (low, high)),
        **_verdict(placed.comparison),
        "generator_bound": analysis.generator_bound(placed.platform, task),
    }


def _verdict(comparison: Comparison | None) -> dict[str, Any]:
    """What is said of a comparison; None: it is the baseline."""
    if comparison is None:
        return {"verdict": "baseline", "at_least_factor": None, "margin_share": None, "words": "baseline"}
    return {
        "verdict": str(comparison.verdict),
        "at_least_factor": comparison.at_least,
        "margin_share": comparison.margin,
        "words": words.said(comparison).text,
    }


def _not_known(analysis: Analysis) -> list[dict[str, Any]]:
    """What more blocks would decide; null blocks: not even the most that were tried."""
    seconds = block_seconds(analysis.data.every_trial, analysis.data.fitness)
    unit = "hosts" if analysis.host_of else "blocks"
    rows = []
    for undecided in not_known(analysis):
        comparison, number = undecided.comparison, undecided.blocks
        more: dict[str, float | None] = {"more_blocks": None, "more_hosts": None, "more_seconds": None}
        more[f"more_{unit}"] = number
        if unit == "blocks" and number is not None and seconds is not None:
            more["more_seconds"] = number * seconds
        rows.append({"platform": comparison.platform, **_task(comparison.task), **more})
    return rows
