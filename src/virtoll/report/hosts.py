"""The hosts of a merged run: notes, the page's section, rows for a program and CSV tables (`stats/across_hosts.py`).

No numbers are computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.csv_table import CsvTable, Row
from virtoll.report.rows import Shown, TableRow
from virtoll.runfolder.records import Manifest
from virtoll.stats.across_hosts import STAND_OUT_FROM, STAND_OUT_LEVEL, Deviation
from virtoll.stats.analysis import Analysis

_NAMED = 3  # of what a host stands out in, in a sentence
_UNKNOWN = Shown("–", kind="missing")


def campaign_lines(analysis: Analysis) -> list[str]:
    """Of a part, which blocks of a campaign it has; of a run that was merged, of which hosts, and what was left out."""
    manifest = analysis.data.manifest
    return [*_part_line(manifest), *_merged_lines(manifest), *hosts_lines(analysis)]


def _part_line(manifest: Manifest) -> list[str]:
    if manifest.part is None:
        return []
    own = [block + 1 for block in manifest.part.blocks]
    which = f"block {own[0]}" if len(own) == 1 else f"blocks {own[0]} to {own[-1]}"
    said = f"This is a part of campaign {manifest.part.campaign[:8]}: {which} of {manifest.part.of}."
    return [f"{said} 'virtoll campaign merge' makes one run of all parts."]


def _merged_lines(manifest: Manifest) -> list[str]:
    if manifest.merged is None:
        return []
    return [f"{one.rstrip('.')}." for one in (*manifest.merged.left_out, *manifest.merged.doubts)]


def hosts_lines(analysis: Analysis) -> list[str]:
    """What several hosts do to the verdicts, and which of them stand out; nothing in a run of one host."""
    if not analysis.host_of:
        return []
    found = analysis.across_hosts
    counted = "A host counts once in each verdict, however many blocks it has"
    lines = [f"This run is of {len(found.hosts)} hosts. {counted}, so that verdicts are of hosts like these."]
    for host in found.hosts:
        own = [one for one in found.flagged if one.host == host.name]
        if own:
            own.sort(key=lambda one: one.p_adjusted or 0.0)
            more = f", and {len(own) - _NAMED} more" if len(own) > _NAMED else ""
            lines.append(
                f"{host.name} stands out: {'; '.join(map(_deviation, own[:_NAMED]))}{more}. It is not left out; "
                f"'virtoll campaign merge --without-host {host.name}' does that."
            )
    return lines


def _deviation(one: Deviation) -> str:
    """'runc in Super Pi is 32 % slower there than on the others'."""
    factor = one.factor if one.factor >= 1 else 1 / one.factor
    what = f"{one.platform} in {one.task.label}" if one.platform is not None else f"the bare host in {one.task.label}"
    return f"{what} is {words.slowdown(factor)} {'faster' if one.factor >= 1 else 'slower'} there than on the others"


def hosts_context(analysis: Analysis) -> dict[str, Any]:
    """What ``hosts.html.j2`` prints; no rows in a run that was not merged."""
    found = analysis.across_hosts
    return {
        "hosts": [
            TableRow(
                host.name,
                (
                    Shown(host.fingerprint[:12]),
                    Shown(str(len(host.blocks)), ", ".join(units.block_ranges(host.blocks))),
                    *_apart([one for one in found.deviations if one.host == host.name]),
                ),
            )
            for host in found.hosts
        ],
        "variations": [
            TableRow(
                one.task.label,
                (Shown(one.platform), Shown(str(one.hosts)), _percent(one.between), _percent(one.within)),
            )
            for one in found.variations
        ],
        "several": bool(analysis.host_of),
        "flags": len(found.hosts) >= STAND_OUT_FROM,
        "stand_out_from": STAND_OUT_FROM,
        "stand_out_level": words.amount(STAND_OUT_LEVEL),
    }


def _apart(own: Sequence[Deviation]) -> tuple[Shown, Shown]:
    """How its ratios lie to the others', from the lowest to the highest, and what stands out."""
    ratios = [one.factor for one in own if one.platform is not None]
    spread = Shown(words.between(min(ratios), max(ratios))) if ratios else _UNKNOWN
    flagged = [one for one in own if one.flagged]
    told = Shown("; ".join(map(_deviation, flagged[:_NAMED])), kind="warn") if flagged else Shown("nothing")
    return spread, told


def _percent(deviation: float | None) -> Shown:
    return _UNKNOWN if deviation is None else Shown(words.amount(deviation), value=deviation)


def hosts_tables(analysis: Analysis) -> tuple[CsvTable, ...]:
    """One row a host and ratio or value of the bare host, and one a comparison; none in a run of one host."""
    found = analysis.across_hosts
    header = (
        "host",
        "fingerprint",
        "blocks",
        "platform",
        "workload",
        "parameters",
        "metric",
        "label",
        "factor",
        "p_adjusted",
        "stands_out",
    )
    known = {host.name: host for host in found.hosts}
    rows: list[Row] = [
        (
            one.host,
            known[one.host].fingerprint,
            len(known[one.host].blocks),
            one.platform,
            one.task.workload,
            one.task.parameters,
            one.task.metric.name,
            one.task.label,
            one.factor,
            one.p_adjusted,
            int(one.flagged),
        )
        for one in found.deviations
    ]
    varying: list[Row] = [
        (
            one.platform,
            one.task.workload,
            one.task.parameters,
            one.task.metric.name,
            one.task.label,
            one.hosts,
            one.between,
            one.within,
        )
        for one in found.variations
    ]
    tables = (
        CsvTable("hosts", header, tuple(rows)),
        CsvTable(
            "host_variation",
            (
                "platform",
                "workload",
                "parameters",
                "metric",
                "label",
                "hosts",
                "between_hosts_share",
                "between_blocks_share",
            ),
            tuple(varying),
        ),
    )
    return tuple(table for table in tables if table.rows)
