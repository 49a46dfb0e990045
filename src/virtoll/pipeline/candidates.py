"""The parts of a campaign as `merge` finds them: which are whole, which may stand together, and what is doubtful.

Main types: ``Part`` (a run folder that was read), ``Refused`` (one that may not be merged, and why). Main functions:
``found_parts``, ``alike`` (parts of one campaign, one Virtoll and one class of hosts, and the others), ``clock_doubt``.
Reads only.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from virtoll.errors import RunFolderError, UsageError
from virtoll.pipeline.parts import CAMPAIGN_FILE, blocks_words, read_campaign
from virtoll.platforms import PLATFORMS
from virtoll.runfolder.campaign_records import PartRecord
from virtoll.runfolder.plain import refuse_unplain
from virtoll.runfolder.records import FitnessRecord, Manifest, PlannedTrial, TrialRecord
from virtoll.runfolder.store import FINISHED, RunFolder
from virtoll.runfolder.sums import SUMS, differences
from virtoll.runfolder.writer import is_written

MEMORY_TOLERANCE: Final = 0.02
"""By how much the memory of hosts of one class may differ: firmware keeps a little of equal modules for itself."""
CLOCK_TOLERANCE_NS: Final = 5_000_000_000
"""How far clocks of hosts may be apart before one of them is called wrong."""
STEP_NS: Final = 1_000_000_000
"""A step of the realtime clock that is told."""
_CLASS = ("kernel", "cpu_model", "cpus", "hypervisor", "clock_source", "timer_hz", "os", "root", "tuned")


@dataclass(frozen=True)
class Part:
    """A part that was read: ``whole``: of its blocks those with each planned trial, and when their last one ended, ns.

    ``ended``: the part is complete. ``doubt``: why its clock is not believed, a sentence; empty: it is.
    """

    path: Path
    manifest: Manifest
    record: PartRecord
    ended: bool
    whole: Mapping[int, int]
    doubt: str = ""

    @property
    def fingerprint(self) -> str:
        """Of the host that measured it."""
        return str(self.manifest.host["fingerprint"])


@dataclass(frozen=True)
class Refused:
    """A part that is not taken, and why, in one sentence that names it."""

    path: Path
    reason: str


def found_parts(folders: Sequence[Path], now_ns: int | None = None) -> tuple[list[Part], list[Refused]]:
    """The parts that folders are or hold, and those that are damaged; UsageError where there is none.

    ``now_ns``: when it is, by this machine's clock.
    """
    paths, created = _paths(folders)
    parts, refused = [], []
    for path in paths:
        try:
            part = _read(path, created, time.time_ns() if now_ns is None else now_ns)
        except RunFolderError as error:
            refused.append(Refused(path, str(error)))
            continue
        if part is not None:
            parts.append(part)
    if not parts and not refused:
        raise UsageError(
            f"{', '.join(map(str, folders))}: there is no part of a campaign; 'virtoll campaign block' measures one"
        )
    return parts, refused


def _paths(folders: Sequence[Path]) -> tuple[list[Path], int | None]:
    """The parts' folders, each once, and when the campaign was created as far as a ``campaign.json`` says."""
    paths: dict[Path, None] = {}
    created = []
    for folder in folders:
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder; give a campaign's folder, or the folders of its parts")
        inside = (folder / "manifest.json").exists()
        part_folders = [folder] if inside else sorted(path for path in folder.iterdir() if _may_be_part(path))
        paths |= dict.fromkeys(path.resolve() for path in part_folders)
        there = read_campaign((folder.parent if inside else folder) / CAMPAIGN_FILE)
        if there is not None:
            created.append(there.created_realtime_ns)
    return list(paths), min(created, default=None)


def _may_be_part(path: Path) -> bool:
    """A run's folder; one without its manifest that has trials is damaged, and is told."""
    if path.name.startswith(".") or not path.is_dir() or path.is_symlink():
        return False
    return any((path / name).exists() for name in ("manifest.json", "trials.jsonl"))


def _read(path: Path, created_ns: int | None, now_ns: int) -> Part | None:
    """One part; None for a run that was merged. RunFolderError where it is damaged, or no part."""
    refuse_unplain(path)
    folder = RunFolder.open(path)
    manifest = folder.manifest
    if manifest.merged is not None:
        return None
    if manifest.part is None:
        raise RunFolderError(f"{path} is a run of its own, and no part of a campaign.")
    ended = folder.state().state == "complete"
    changed = differences(path) if ended else ()
    if changed is None:
        raise RunFolderError(f"{path} has no {SUMS}, which the end of a part writes: restore it.")
    if changed:
        raise RunFolderError(f"{path} is not as it was when the part ended: {'; '.join(changed)}.")
    if not ended and is_written(path):
        return Part(path, manifest, manifest.part, ended, {})
    trials = folder.trials()
    _refuse_foreign(path, manifest, trials)
    doubt = clock_doubt(path.name, manifest, trials, folder.fitness(), created_ns=created_ns, now_ns=now_ns)
    return Part(path, manifest, manifest.part, ended, _whole_blocks(manifest, trials), doubt)


def _refuse_foreign(path: Path, manifest: Manifest, trials: Iterable[TrialRecord]) -> None:
    planned = {trial.trial: trial for trial in manifest.plan.trials}
    for trial in trials:
        planned_trial = planned.get(trial.trial)
        if planned_trial is None or _what(planned_trial) != _what(trial):
            raise RunFolderError(f"{path}/trials.jsonl: trial {trial.trial} is not the one of the part's plan.")


def _what(trial: PlannedTrial | TrialRecord) -> tuple[object, ...]:
    return (
        trial.platform,
        trial.workload,
        trial.block,
        trial.parameters,
        trial.round,
        trial.warm_up,
        trial.condition,
        trial.scale,
    )


def _whole_blocks(manifest: Manifest, trials: Iterable[TrialRecord]) -> dict[int, int]:
    """The blocks of which each planned trial has a record, and when the last of them ended, ns."""
    latest = {trial.trial: trial for trial in trials if trial.status in FINISHED}
    blocks: dict[int, list[TrialRecord | None]] = {}
    for planned in manifest.plan.trials:
        blocks.setdefault(planned.block, []).append(latest.get(planned.trial))
    return {
        block: max((record.ended_realtime_ns or 0 for record in records if record is not None), default=0)
        for block, records in blocks.items()
        if all(record is not None for record in records)
    }


def clock_doubt(
    name: str,
    manifest: Manifest,
    trials: Sequence[TrialRecord],
    fitness: Sequence[FitnessRecord],
    *,
    created_ns: int | None,
    now_ns: int,
) -> str:
    """Why the clock of the host that measured a part is not believed, in one sentence; empty: nothing shows it.

    ``created_ns``: when the campaign was, None: not known.
    """
    times = [moment for trial in trials for moment in (trial.started_realtime_ns, trial.ended_realtime_ns) if moment]
    times.append(manifest.created_realtime_ns)
    if created_ns is not None and min(times) < created_ns - CLOCK_TOLERANCE_NS:
        early = (created_ns - min(times)) / 1e9
        return f"{name}: the clock of its host was wrong: it began {early:.0f} s before the campaign was created"
    if max(times) > now_ns + CLOCK_TOLERANCE_NS:
        late = (max(times) - now_ns) / 1e9
        return f"{name}: the clock of its host was wrong: it ended {late:.0f} s from now"
    step = max((abs(trial.clock.realtime_step_ns) for trial in trials if trial.clock is not None), default=0)
    for before, after in pairwise(fitness):
        passed = after.monotonic_ns - before.monotonic_ns
        if after.after_trial is not None and passed > 0:  # else another process began, perhaps after a reboot
            step = max(step, abs(after.realtime_ns - before.realtime_ns - passed))
    if step >= STEP_NS:
        return f"{name}: the clock of its host was wrong: it was stepped by {step / 1e9:.1f} s while the part ran"
    return ""


def alike(parts: Sequence[Part]) -> tuple[list[Part], list[Refused]]:
    """The parts that may stand together, and the others with what differs.

    They are of one campaign, Virtoll, agent and image, and their hosts of one class. The most blocks decide which; of
    as many, the first block. Memory may differ by ``MEMORY_TOLERANCE`` from the median of these.
    """
    if not parts:
        return [], []
    groups: dict[str, list[Part]] = {}
    for part in parts:
        groups.setdefault(json.dumps(_identity(part), sort_keys=True, default=str), []).append(part)
    ranked = sorted(
        groups.values(), key=lambda group: (-len({b for part in group for b in part.record.blocks}), _first(group))
    )
    taken, *others = ranked
    refused = [Refused(part.path, _unlike(taken[0], part)) for group in others for part in group]
    known = [memory for part in taken if (memory := part.manifest.host.get("memory_bytes"))]
    usual = statistics.median_low(known) if known else None
    for part in list(taken):
        memory = part.manifest.host.get("memory_bytes")
        if usual and (not memory or abs(memory - usual) > MEMORY_TOLERANCE * usual):
            taken.remove(part)
            memory_words = "not known" if not memory else f"{memory} bytes"
            refused.append(
                Refused(
                    part.path,
                    f"{part.path.name}: its host has another memory than the others: {memory_words}, and not within "
                    f"{MEMORY_TOLERANCE * 100:.0f} % of {usual} bytes",
                )
            )
    return taken, refused


def _first(parts: Sequence[Part]) -> int:
    return min(block for part in parts for block in part.record.blocks)


def _identity(part: Part) -> dict[str, Any]:
    """What must be equal, by its name in words, in the order in which it is told."""
    manifest, image = part.manifest, part.manifest.image or {}
    host = manifest.host
    packages = {"libc6", *(name for platform in manifest.platforms for name in _packages(platform.platform))}
    versions = {name: version for name, version in (host.get("packages") or {}).items() if name in packages}
    return {
        "Virtoll": manifest.virtoll,
        "campaign": part.record.campaign[:12],
        "build of the agent": (manifest.agent or {}).get("sha256"),
        "image": [image.get("digest"), (image.get("tools") or {}).get("digest")],
        "guest kernel": (image.get("kernel") or {}).get("sha256"),
        "smallest image": (image.get("smallest") or {}).get("digest"),
        **{f"host's {name.replace('_', ' ')}": host.get(name) for name in _CLASS},
        "host's mitigations": host.get("mitigations"),
        "host's packages": versions,
        "pinning": manifest.pinning,
        "testbed": manifest.testbed,
        "nested hosts": manifest.nested,
        "platforms": {
            platform.label: platform.version if platform.available else "not available"
            for platform in manifest.platforms
        },
        "programs of two builds": _programs(manifest),
        "metrics": [metric.to_json() for metric in manifest.metrics],
    }


def _programs(manifest: Manifest) -> dict[str, str]:
    """The SHA-256 of each program of both builds, where a part measured two."""
    if manifest.against is None:
        return {}
    sides = manifest.against.programs.items()
    return {f"{name} of side {side.upper()}": digest for side, programs in sides for name, digest in programs.items()}


def _packages(platform: str) -> Sequence[str]:
    return tuple(PLATFORMS[platform].packages) if platform in PLATFORMS else ()


def _unlike(usual: Part, other: Part) -> str:
    """What of a part differs first from those that are taken, in one sentence."""
    theirs, identity = _identity(usual), _identity(other)
    name = next(key for key in theirs if identity[key] != theirs[key])
    was, now = theirs[name], identity[name]
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        key = next(entry for entry in sorted({*was, *now}) if was.get(entry) != now.get(entry))
        name, was, now = f"{name}: {key}", was.get(key), now.get(key)
    return f"{other.path.name}: {name} differs: {_shown(now)}, and {_shown(was)} in {usual.path.name}"


def _shown(value: object) -> str:
    if isinstance(value, list | tuple):
        return " and ".join(map(_shown, value))
    text = str(value) if value is not None else "none"
    return text if len(text) <= 60 else f"{text[:57]}..."


def not_whole(part: Part) -> str:
    """Why blocks of a part that did not end are missing, in one sentence."""
    left = [block for block in part.record.blocks if block not in part.whole]
    what = f"{part.path.name} did not end"
    return f"{what}: {blocks_words(left)} {'is' if len(left) == 1 else 'are'} not whole" if left else what
