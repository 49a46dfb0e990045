"""The evidence of a run, for the page: its trials, host, methods and versions."""

import shlex
from collections.abc import Mapping
from typing import Any

from virtoll import units
from virtoll.report import headline, words
from virtoll.report.report_input import ReportInput
from virtoll.report.rows import Shown, TableRow
from virtoll.report.sections.cost.page import coverages
from virtoll.stats.analysis import Analysis
from virtoll.stats.detectable import Detectable
from virtoll.stats.fitness import FitnessReading
from virtoll.stats.values import title_of

_MOST_TRIALS = 8  # of one trouble by their numbers


def evidence_values(source: ReportInput) -> dict[str, Any]:
    """Failed trials, the host and its fitness, what the run can detect, and versions."""
    analysis = source.analysis
    intervals = (comparison.interval for comparison in analysis.comparisons)
    return {
        "troubles": _troubles(analysis),
        "findings": list(map(_finding_row, analysis.fitness.findings)),
        "host": _flat(analysis.data.manifest.host),
        "detectable": list(map(_detectable_row, analysis.detectable)),
        "methods": sorted({interval.method for interval in intervals if interval}),
        "coverages": coverages(analysis),
        "versions": _versions(analysis),
    }


def _detectable_row(detectable: Detectable) -> TableRow:
    return TableRow(
        title_of(detectable.metric),
        (
            Shown(detectable.family),
            Shown(detectable.metric.resource),
            Shown("primary" if detectable.metric.primary else "second"),
            Shown(words.smallest(detectable.factor)),
            Shown(words.joined(words.smallest(detectable.low), words.smallest(detectable.high))),
            Shown(str(detectable.count)),
        ),
    )


def _troubles(analysis: Analysis) -> list[TableRow]:
    """Trials that are not `ok` (or hold no value), gathered by platform, status and reason."""
    gathered: dict[tuple[str, str, str], list[str]] = {}
    for trial in analysis.data.every_trial:
        if trial.status != "ok":
            key = (trial.platform, trial.status, trial.reason or "no reason was stored")
            gathered.setdefault(key, []).append(f"{trial.trial} ({trial.workload})")
    by_number = {trial.trial: trial for trial in analysis.data.every_trial}
    for gap in (*analysis.gaps, *analysis.isolation.gaps, *analysis.at_once.gaps):
        trial = by_number[gap.trial]
        gathered.setdefault((trial.platform, "no value", gap.reason), []).append(f"{gap.trial} ({trial.workload})")
    return [
        TableRow(
            platform,
            (Shown(status), Shown(str(len(trials))), Shown(reason), Shown(words.first_of(trials, _MOST_TRIALS))),
        )
        for (platform, status, reason), trials in gathered.items()
    ]


def _finding_row(finding: FitnessReading) -> TableRow:
    limit = finding.threshold
    value = "not recorded" if finding.value is None else limit.show(finding.value)
    spoils = "–" if limit.unfit is None else limit.show(limit.unfit)
    kind = "missing" if finding.level is None else headline.level_class(finding.level)
    level = "–" if finding.level is None else str(finding.level)
    return TableRow(
        limit.name,
        (Shown(limit.meaning), Shown(value), Shown(limit.show(limit.degraded)), Shown(spoils), Shown(level, "", kind)),
    )


def _versions(analysis: Analysis) -> list[tuple[str, str]]:
    manifest = analysis.data.manifest
    image, agent = _flat(_shortened(manifest.image or {})), _flat(manifest.agent or {})
    rows = [
        ("run", manifest.run),
        ("virtoll", manifest.virtoll),
        ("run folder format", str(manifest.format)),
        ("command", shlex.join(manifest.command)),
        ("seed", str(manifest.plan.seed)),
        ("trials planned", str(len(manifest.plan.trials))),
    ]
    if manifest.anonymised is not None:
        how = "names of hosts, users and places are stand-ins, evidence is left out"
        rows.append(("anonymous", f"by Virtoll {manifest.anonymised.virtoll}: {how}"))
    rows += [(f"agent {name}", value) for name, value in agent]
    rows += [(f"image {name}", value) for name, value in image]
    return rows + [(f"pinning {name}", value) for name, value in _flat(manifest.pinning or {})]


def _shortened(image: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of an image with tools the packages that were asked for; the manifest has all others, and the licences."""
    tools = image.get("tools")
    if tools is None:
        return image
    versions = {name: tools["packages"].get(name) for name in tools["wanted"]}
    kept = {name: value for name, value in tools.items() if name not in ("packages", "licences", "wanted")}
    return {**image, "tools": {**kept, "packages": len(tools["packages"]), "package": versions}}


def _flat(block: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested JSON as (name, text) pairs, in order; sizes get their unit."""
    rows: list[tuple[str, str]] = []
    for key, value in block.items():
        name = f"{prefix}{key.replace('_', ' ')}"
        if isinstance(value, Mapping):
            rows += _flat(value, f"{name} ")
        elif key.endswith("bytes") and isinstance(value, int):
            rows.append((name.removesuffix(" bytes") or "size", f"{units.size(value)}"))
        elif value is not None:
            rows.append((name, ", ".join(map(str, value)) if isinstance(value, list) else str(value)))
    return rows
