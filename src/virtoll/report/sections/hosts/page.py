"""The hosts of a merged run for the page (`stats/across_hosts.py`). No numbers are computed here."""

from collections.abc import Sequence
from typing import Any

from virtoll import units
from virtoll.report import words
from virtoll.report.campaign_lines import deviations_words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import UNKNOWN, Shown, TableRow
from virtoll.stats.across_hosts import STAND_OUT_FROM, STAND_OUT_LEVEL, Deviation, HostBlocks, Variation


def hosts_values(source: ReportInput) -> dict[str, Any] | None:
    """What the template prints; None if the run was not merged."""
    across = source.analysis.across_hosts
    if not across.hosts:
        return None
    return {
        "rows": [_host_row(host, across.deviations) for host in across.hosts],
        "variations": list(map(_variation_row, across.variations)),
        "several": bool(source.analysis.host_of),
        "flags": len(across.hosts) >= STAND_OUT_FROM,
        "stand_out_from": STAND_OUT_FROM,
        "stand_out_level": words.amount(STAND_OUT_LEVEL),
    }


def _host_row(host: HostBlocks, deviations: Sequence[Deviation]) -> TableRow:
    blocks = Shown(str(len(host.blocks)), ", ".join(units.block_ranges(host.blocks)))
    of_host = [deviation for deviation in deviations if deviation.host == host.name]
    return TableRow(host.name, (Shown(host.fingerprint[:12]), blocks, _spread(of_host), _standing_out(of_host)))


def _spread(deviations: Sequence[Deviation]) -> Shown:
    """How a host's ratios lie to the others', from the lowest to the highest."""
    ratios = [deviation.factor for deviation in deviations if deviation.platform is not None]
    return Shown(words.between(min(ratios), max(ratios))) if ratios else UNKNOWN


def _standing_out(deviations: Sequence[Deviation]) -> Shown:
    flagged = [deviation for deviation in deviations if deviation.flagged]
    return Shown(deviations_words(flagged), kind="warn") if flagged else Shown("nothing")


def _variation_row(variation: Variation) -> TableRow:
    hosts = Shown(str(variation.hosts))
    shares = (_percent(variation.between), _percent(variation.within))
    return TableRow(variation.task.label, (Shown(variation.platform), hosts, *shares))


def _percent(deviation: float | None) -> Shown:
    return UNKNOWN if deviation is None else Shown(words.amount(deviation), value=deviation)
