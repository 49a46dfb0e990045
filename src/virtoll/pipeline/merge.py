"""Parts of a campaign as one run folder, which has each planned trial exactly once.

``merge`` is the whole of it: the parts that stand together (`candidates`), each block from one of them, the records as
they are stored there, and a manifest that says which host measured which block. It is made beside its place and takes
it at once, so that a kill leaves the old run or the new one. It must not measure anything, and changes no part.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from virtoll.errors import RunFolderError, UsageError
from virtoll.pipeline.candidates import Part, Refused, alike, found_parts, not_whole
from virtoll.pipeline.parts import blocks_words, campaign_id, only_blocks
from virtoll.pipeline.preview import plan_of, planned_trial
from virtoll.pipeline.stored import plan_difference, stored_experiment
from virtoll.runfolder import jsonlines
from virtoll.runfolder.campaign_records import HostRecord, MergedPart, MergedRecord
from virtoll.runfolder.packing import PLAIN_NAME
from virtoll.runfolder.placing import placed, remove_emptied
from virtoll.runfolder.plain import entries, open_appended, place, reader
from virtoll.runfolder.records import BootRecord, FitnessRecord, Manifest, PlanRecord, TrialRecord
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import SUMS, listed, write_sums
from virtoll.runfolder.taken_over import WRITER
from virtoll.runfolder.writer import writing
from virtoll.version import __version__

if TYPE_CHECKING:
    from virtoll.experiment.plan import Plan


@dataclass(frozen=True)
class Allowed:
    """What a user allows to be left out.

    ``partial``: blocks that are missing, and parts that are damaged or unlike the others. ``without``: hosts, by their
    stand-in names.
    """

    partial: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Merged:
    """The run's folder, of how many blocks and hosts it is, which blocks are missing, and sentences to be told."""

    folder: Path
    of: int
    missing: tuple[int, ...]
    hosts: int
    remarks: tuple[str, ...]

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return self.of - len(self.missing)


@dataclass
class _Choice:
    """Of the parts that may be taken: which one each block is from, the hosts' names by fingerprint, what is told."""

    parts: Sequence[Part]
    source: dict[int, Part] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def sources(self) -> list[Part]:
        """The parts of which blocks are taken, by their first block."""
        taken = {id(part) for part in self.source.values()}
        used = [part for part in self.parts if id(part) in taken]
        return sorted(used, key=lambda part: (min(part.record.blocks), part.path.name))

    def blocks_of(self, part: Part) -> tuple[int, ...]:
        """Which blocks are taken of a part."""
        return tuple(block for block in part.record.blocks if self.source.get(block) is part)


def merge(
    folders: Sequence[Path],
    place: Callable[[str, str], Path],
    command: Sequence[str],
    allowed: Allowed = Allowed(),
    *,
    now_ns: int | None = None,
) -> Merged:
    """Make one run of the parts in these folders, or make it anew.

    ``place``: where the run goes, by the experiment's name and the campaign's id. ``now_ns``: when it is, by this
    machine's clock. UsageError, and nothing has changed, where parts are damaged, unlike or missing that were not
    allowed to be; where the place holds something else, or another process merges into it.
    """
    parts, damaged = found_parts(folders, now_ns)
    taken, unlike = alike(parts)
    _refuse(damaged, allowed, "restore it, or leave it out with --partial")
    _refuse(unlike, allowed, "measure those blocks on a host like the others, or leave it out with --partial")
    if not taken:
        raise UsageError(f"no part is whole: {damaged[0].reason}")
    plan = _whole_plan(taken[0])
    choice = _chosen(taken, allowed, [refused.reason for refused in (*damaged, *unlike)])
    blocks = range(taken[0].record.of)
    missing = tuple(block for block in blocks if block not in choice.source)
    _refuse_missing(missing, choice, allowed)
    if not choice.source:
        raise UsageError(
            "no block is whole, so there is nothing to merge; 'virtoll campaign block' goes on with a part"
        )
    first = taken[0].manifest
    name = str(first.experiment["name"])
    if not PLAIN_NAME.fullmatch(name):
        raise RunFolderError(f"{taken[0].path}/manifest.json: the experiment's name {name!r} is none; restore it")
    target = place(name, taken[0].record.campaign).absolute()
    with writing(target):
        _refuse_taken_place(target, taken[0].record.campaign, [part.path for part in taken])
        with placed(target) as new:
            doubts = _write(new, _head(plan, choice, missing).replace(run=target.name, command=tuple(command)), choice)
    remove_emptied(target)
    hosts = {part.fingerprint for part in choice.sources()}
    return Merged(target, len(blocks), missing, len(hosts), (*choice.left_out, *doubts))


def _refuse(refused: Sequence[Refused], allowed: Allowed, remedy: str) -> None:
    if refused and not allowed.partial:
        more = f" ({len(refused) - 1} more are not right)" if len(refused) > 1 else ""
        raise UsageError(f"{refused[0].reason.rstrip('.')}; {remedy}{more}")


def _whole_plan(part: Part) -> Plan:
    """The campaign's plan; UsageError where this Virtoll makes another one of it."""
    experiment = stored_experiment(part.manifest)
    plan = plan_of(experiment)
    difference = plan_difference(part.manifest.plan.trials, only_blocks(plan, part.record.blocks).trials)
    if difference is None and campaign_id(experiment, plan) != part.record.campaign:
        difference = "its text, choice, seed or plan is not what its campaign began with"
    if difference is not None:
        raise UsageError(
            f"{part.path}: {difference}; merge with the Virtoll that measured the parts "
            f"({part.manifest.virtoll}, and this is {__version__})"
        )
    return plan


def _chosen(parts: Sequence[Part], allowed: Allowed, left_out: Iterable[str]) -> _Choice:
    """Each block from the part that ended it first, one with a doubtful clock last; of parts that did not end, none
    but with `partial`. Hosts have their names by their first block, those that are left out too.
    """
    choice = _Choice(parts, left_out=list(left_out))
    for part in sorted(parts, key=lambda part: (min(part.record.blocks), part.path.name)):
        choice.names.setdefault(part.fingerprint, f"host-{len(choice.names) + 1}")
    for name in allowed.without:
        if name not in choice.names.values():
            raise UsageError(f"--without-host {name}: there is no such host; choose one of: {_listed(choice.names)}")
    for name in dict.fromkeys(allowed.without):
        blocks = {block for part in parts if choice.names[part.fingerprint] == name for block in part.record.blocks}
        choice.left_out.append(f"{name} was left out on request, with {blocks_words(blocks)}")
    by_block: dict[int, list[Part]] = {}
    for part in parts:
        if choice.names[part.fingerprint] in allowed.without or not (part.ended or allowed.partial):
            continue
        for block in part.whole:
            by_block.setdefault(block, []).append(part)
        if not part.ended:
            choice.left_out.append(not_whole(part))
    _settle(choice, by_block)
    return choice


def _settle(choice: _Choice, by_block: Mapping[int, Sequence[Part]]) -> None:
    """Take each block from the best of the parts that hold it; the others are left out."""
    for block, holders in sorted(by_block.items()):
        best, *others = sorted(
            holders, key=lambda part: (bool(part.doubt), not part.ended, part.whole[block], part.path.name)
        )
        choice.source[block] = best
        for other in others:
            choice.left_out.append(
                f"{blocks_words([block])} of {_where(other)} is left out: {_where(best)} ended it first"
            )


def _where(part: Part) -> str:
    """A part by its folder, and the one that this is in: two parts of one block have one name."""
    return f"{part.path.parent.name}/{part.path.name}"


def _listed(names: Mapping[str, str]) -> str:
    return ", ".join(names.values())


def _refuse_missing(missing: Sequence[int], choice: _Choice, allowed: Allowed) -> None:
    """UsageError for blocks that no part has whole, but those of hosts that were left out on request."""
    excused = {
        block
        for part in choice.parts
        if choice.names[part.fingerprint] in allowed.without
        for block in part.record.blocks
    }
    unexcused = [block for block in missing if block not in excused]
    if unexcused and not allowed.partial:
        begun = [
            not_whole(part) for part in choice.parts if not part.ended and set(part.record.blocks) & set(unexcused)
        ]
        why = f" ({'; '.join(begun)})" if begun else ""
        are = "is" if len(unexcused) == 1 else "are"
        raise UsageError(
            f"{blocks_words(unexcused)} of {choice.parts[0].record.of} {are} missing{why}; measure with "
            "'virtoll campaign block', or merge what there is with --partial"
        )


def _refuse_taken_place(target: Path, campaign: str, parts: Collection[Path]) -> None:
    """UsageError where the place holds anything but an earlier merge of this campaign."""
    if not (target / "manifest.json").exists():
        if any(path.name != WRITER for path in target.iterdir()):
            raise UsageError(f"{target} holds other files; give another folder with --into")
        return
    other = sorted(path.name for path in target.iterdir() if not _is_of_a_run(path)) or _not_made(target)
    if other:
        raise UsageError(f"{target} holds {other[0]}, which is no part of a run; move it away, or give another --into")
    merged = RunFolder.open(target).manifest.merged
    if target.resolve() in parts or merged is None or merged.campaign != campaign:
        raise UsageError(f"{target} holds another run than this campaign's; give another folder with --into")


def _is_of_a_run(path: Path) -> bool:
    """Whether an entry of a merged run's folder is made anew with it, or was left of that."""
    known = ("manifest.json", "state.json", SUMS, WRITER, "evidence", "report")
    return path.name.removesuffix(".new") in known or path.suffix == ".jsonl" or path.name.startswith(".report")


def _not_made(target: Path) -> list[str]:
    """The files of a merged run's evidence and report that Virtoll did not make: a new merge would remove them."""
    made = {*listed(target), f"{_REPORT}/{SUMS}", *(f"{_REPORT}/{name}" for name in listed(target / _REPORT))}
    return [
        name
        for name, status in entries(target)
        if name.startswith((f"{_REPORT}/", "evidence/")) and not stat.S_ISDIR(status.st_mode) and name not in made
    ]


_REPORT: Final = "report"
_BY_BLOCK: Final = ("trials", "boots", "footprints", "groups")
"""Files whose lines say of which block they are."""


def _head(plan: Plan, choice: _Choice, missing: tuple[int, ...]) -> Manifest:
    """The manifest of the merged run: that of the first part, with the whole plan, all hosts, and what was merged."""
    sources = choice.sources()
    first, seconds = sources[0].manifest, [part.manifest.plan.estimated_seconds for part in sources]
    known = [duration for duration in seconds if duration is not None]
    return first.replace(
        created_realtime_ns=min(part.manifest.created_realtime_ns for part in sources),
        plan=PlanRecord(
            plan.seed, sum(known) if len(known) == len(seconds) else None, tuple(map(planned_trial, plan.trials))
        ),
        part=None,
        nodes=None,
        merged=MergedRecord(
            campaign=sources[0].record.campaign,
            parts=tuple(
                MergedPart(
                    run=part.manifest.run,
                    host=choice.names[part.fingerprint],
                    blocks=choice.blocks_of(part),
                    created_realtime_ns=part.manifest.created_realtime_ns,
                    nodes=part.manifest.nodes,
                )
                for part in sources
            ),
            missing=missing,
            left_out=tuple(choice.left_out),
            doubts=tuple(part.doubt for part in sources if part.doubt),
        ),
        hosts=_hosts(choice),
    )


def _write(new: Path, manifest: Manifest, choice: _Choice) -> list[str]:
    """The merged run into a new folder; what is doubtful of it, a sentence each."""
    folder = RunFolder.create(new, manifest)
    for part in choice.sources():
        _copy(part, folder, choice.blocks_of(part))
    merged = folder.manifest.merged
    if merged is not None and merged.missing:
        are = "is" if len(merged.missing) == 1 else "are"
        folder.set_state("interrupted", f"{blocks_words(merged.missing)} of {choice.parts[0].record.of} {are} missing")
        write_sums(folder.path)  # it is made anew, and never goes on
    else:
        folder.set_state("complete", None)
    return [part.doubt for part in choice.sources() if part.doubt]


def _hosts(choice: _Choice) -> tuple[HostRecord, ...]:
    hosts: dict[str, HostRecord] = {}
    blocks: dict[str, list[int]] = {}
    for part in choice.sources():
        name = choice.names[part.fingerprint]
        hosts.setdefault(name, HostRecord(name, part.manifest.host, ()))
        blocks.setdefault(name, []).extend(choice.blocks_of(part))
    return tuple(host.replace(blocks=tuple(sorted(blocks[name]))) for name, host in hosts.items())


def _copy(part: Part, folder: RunFolder, blocks: Collection[int]) -> None:
    """A part's records of these blocks, line by line as they are, and its evidence."""
    source = RunFolder(part.path, part.manifest)
    numbers = {trial.trial for trial in part.manifest.plan.trials if trial.block in blocks}
    readers: dict[str, Sequence[Any]] = {
        "trials": source.trials(),
        "boots": source.boots(),
        "footprints": source.footprints(),
        "groups": source.groups(),
        "commands": source.commands(),
        "calibration": source.calibrations(),
        "sizing": source.sizings(),
        "maxima": source.maxima(),
        "fitness": source.fitness(),
    }
    kept: list[TrialRecord | BootRecord] = []
    for name, records in readers.items():
        lines = [line for _, line in jsonlines.read(part.path / f"{name}.jsonl")]
        if len(lines) != len(records):
            raise RunFolderError(
                f"{part.path}/{name}.jsonl: it changes while it is read; merge again when it has ended."
            )
        taken = []
        for record, line in zip(records, lines, strict=True):
            if name in _BY_BLOCK and record.block not in blocks:
                continue
            if name == "fitness" and not _is_of(record, numbers):
                continue
            taken.append(line + b"\n")
            if name in ("trials", "boots"):
                kept.append(record)
        if taken:
            with place(folder.path / f"{name}.jsonl") as at, os.fdopen(open_appended(at), "ab") as file:
                file.writelines(taken)
    _copy_evidence(part.path, folder.path, {path for record in kept for path in record.evidence})


def _is_of(record: FitnessRecord, trials: Collection[int]) -> bool:
    """Whether a sample is of these trials; one before the first trial is of all."""
    return record.after_trial is None or record.after_trial in trials


def _copy_evidence(source: Path, target: Path, named: Collection[str]) -> None:
    """Its folders of evidence; what no record names has the part's name before its own, since others have it too."""
    known = {path.split("/")[1] for path in named if path.count("/") > 1}
    if not (source / "evidence").is_dir():
        return
    for name, status in entries(source / "evidence"):
        first, *below = name.split("/")
        to = target.joinpath("evidence", first if first in known else f"{source.name}-{first}", *below)
        if stat.S_ISDIR(status.st_mode):
            jsonlines.make_folder(to, target)
            continue
        with reader(source / "evidence" / name, source) as file:
            jsonlines.write_bytes(to, file.read(), target)
