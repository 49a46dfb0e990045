"""Campaigns by blocks: which blocks of an experiment's plan a run folder has, so that several hosts share a campaign.

The block is the unit of distribution, because every ratio is made inside a block on one host. A part has the plan of
the whole campaign, reduced to its blocks: trials keep their numbers and their order.

Main functions: ``asked_blocks``, ``part_of``, ``only_blocks``, ``joined_campaign`` (the parts' folder), ``beginning``
(what a task that comes to a part's folder has to do), ``set_aside``. It must not measure anything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from virtoll import units
from virtoll.errors import RunFolderError, StorageError, UsageError
from virtoll.host.fingerprint import describe_host
from virtoll.hosts.nodes import node_words
from virtoll.pipeline.preview import plan_of, planned_trial
from virtoll.runfolder import jsonlines
from virtoll.runfolder.campaign_records import CampaignRecord, PartRecord
from virtoll.runfolder.opened import read_whole
from virtoll.runfolder.overview import state_now
from virtoll.runfolder.store import RunFolder, parse_record
from virtoll.runfolder.sums import differences
from virtoll.runfolder.writer import writing
from virtoll.version import __version__

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment
    from virtoll.experiment.plan import Plan
CAMPAIGN_FILE: Final = "campaign.json"
ASIDE: Final = "aside"
"""The folder beside the parts that holds those which another host began and did not end."""
_ASKED = re.compile(r"([1-9][0-9]{0,5})(?:-([1-9][0-9]{0,5}))?")

Beginning = Literal["new", "resume", "done"]


def refuse_undivided(experiment: Experiment) -> None:
    """UsageError where an experiment's blocks cannot be measured apart from each other."""
    where = experiment.file
    if experiment.consolidation is not None:
        raise UsageError(f"{where}: it counts idle guests, and has no blocks; measure it with 'virtoll run'")
    if experiment.order == "paper":
        raise UsageError(
            f"{where}: key 'order': paper has each platform's repetitions in one boot, and they cannot be divided; "
            "measure it with 'virtoll run', or give it 'order: randomised'"
        )
    if experiment.looks is not None:
        raise UsageError(
            f"{where}: blocks are added until all is decided, which a part cannot tell; give the number with --blocks "
            "and leave 'until' out"
        )


def asked_blocks(text: str, blocks: int) -> tuple[int, ...]:
    """The blocks of ``3`` or ``3-5``, from 0; UsageError for anything else, and for one that the plan has not."""
    match = _ASKED.fullmatch(text)
    if match is None:
        raise UsageError(f"--block {text!r}: give a block's number, or the first and the last, such as 3-5")
    first, last = int(match[1]), int(match[2] or match[1])
    if not first <= last <= blocks:
        raise UsageError(f"--block {text}: the experiment has blocks 1 to {blocks}; give some of them, in order")
    return tuple(range(first - 1, last))


def block_numbers(blocks: Collection[int]) -> str:
    """Blocks as a person counts them, from 1: '3', '1 to 4 and 7', '2, 5 to 6 and 9'."""
    ranges = units.block_ranges(blocks)
    return " and ".join(filter(None, (", ".join(ranges[:-1]), *ranges[-1:])))


def blocks_words(blocks: Collection[int]) -> str:
    """The same with the noun: 'block 3', 'blocks 1 to 4 and 7'."""
    return f"block{'' if len(blocks) == 1 else 's'} {block_numbers(blocks)}"


def only_blocks(plan: Plan, blocks: Collection[int]) -> Plan:
    """The plan's trials of these blocks, with their numbers and in their order."""
    return replace(plan, trials=tuple(trial for trial in plan.trials if trial.block in blocks))


def campaign_id(experiment: Experiment, plan: Plan) -> str:
    """What makes two parts those of one campaign: sha256 of the text, what was chosen of it, seed, blocks and plan."""
    chosen = {**experiment.selection.as_record(), "blocks": experiment.blocks, "seed": experiment.seed}
    digest = hashlib.sha256(json.dumps([experiment.text, chosen], sort_keys=True).encode())
    for trial in plan.trials:
        digest.update(json.dumps(planned_trial(trial).to_json(), sort_keys=True).encode())
    return digest.hexdigest()


def part_of(experiment: Experiment, plan: Plan, blocks: tuple[int, ...]) -> PartRecord:
    """The part that has these blocks of the whole plan."""
    return PartRecord(campaign_id(experiment, plan), blocks, experiment.blocks)


def part_name(blocks: tuple[int, ...]) -> str:
    """The name of its folder: ``block-3``, ``blocks-3-5``."""
    first, last = blocks[0] + 1, blocks[-1] + 1
    return f"block-{first}" if first == last else f"blocks-{first}-{last}"


def part_plan(experiment: Experiment, part: PartRecord | None) -> Plan:
    """The plan of a run: all of its experiment's, or a part's."""
    plan = plan_of(experiment)
    return plan if part is None else only_blocks(plan, part.blocks)


def joined_campaign(folder: Path, experiment: Experiment, part: PartRecord) -> None:
    """Make the folder of parts a campaign's where it is none yet; UsageError where it is another campaign's.

    Of several that begin at once one writes the file, and the others read it. StorageError where it cannot be written.
    """
    file = folder / CAMPAIGN_FILE
    draft = folder / f".{CAMPAIGN_FILE}.{os.getpid()}-{os.urandom(4).hex()}"
    record = CampaignRecord(part.campaign, experiment.name, part.of, time.time_ns())
    try:
        jsonlines.make_folder(folder)
        if not file.exists():
            jsonlines.write_bytes(draft, jsonlines.encode(record.to_json()))
            with suppress(FileExistsError):
                os.link(draft, file, follow_symlinks=False)
            jsonlines.sync_directory(folder)
    except OSError as error:
        raise StorageError(
            f"cannot write {file}: {error.strerror or error}. Give another folder with --into."
        ) from error
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    refuse_other_campaign(folder, part)


def refuse_other_campaign(folder: Path, part: PartRecord) -> None:
    """UsageError where a folder of parts is another campaign's than this part's."""
    there = read_campaign(folder / CAMPAIGN_FILE)
    if there is not None and there.campaign != part.campaign:
        raise UsageError(
            f"{folder} has another campaign: of {there.experiment} with {there.blocks} blocks, and its text, choice, "
            "seed or plan is not this one's; give another folder with --into"
        )


def read_campaign(file: Path) -> CampaignRecord | None:
    """What a ``campaign.json`` says; None where there is none. RunFolderError where it is damaged."""
    document = json_object(file, "remove it")
    return parse_record(CampaignRecord, document) if document is not None else None


def json_object(file: Path, remedy: str) -> dict[str, object] | None:
    """What a file beside the parts holds; None where there is none. RunFolderError, which ends in the remedy."""
    try:
        document = jsonlines.loads(read_whole(file))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{file} is damaged or cannot be read ({error}); {remedy}.") from error
    if not isinstance(document, dict):
        raise RunFolderError(f"{file} is damaged: it is no JSON object; {remedy}.")
    return document


def beginning(folder: Path, part: PartRecord, agent_sha256: str | None) -> Beginning:
    """What is to be done about a part whose folder may be there already; UsageError where it holds something else.

    ``agent_sha256``: this machine's agent, None for models alone. A part that ended is ``done``. One that did not is
    resumed on the same host with the same agent, Virtoll and nodes; elsewhere it is set aside here, and begins anew.
    """
    if not (folder / "manifest.json").exists():
        return "new"
    manifest = RunFolder.open(folder).manifest
    if manifest.part != part:
        raise UsageError(f"{folder} holds another run than this part of the campaign; give another folder with --into")
    changed = differences(folder)
    if state_now(folder) == "complete" and changed is not None:  # without digests its very end is missing
        if changed:
            raise UsageError(
                f"{folder} is not as it was when the part ended: {'; '.join(changed)}; move it away, and begin again"
            )
        return "done"
    here = describe_host()["fingerprint"]
    then = manifest.host["fingerprint"], (manifest.agent or {}).get("sha256"), manifest.virtoll
    nodes = manifest.nodes or {}
    if then == (here, agent_sha256, __version__) and nodes == node_words(nodes):
        return "resume"
    set_aside(folder)
    return "new"


def set_aside(folder: Path) -> Path:
    """Move a part's folder into ``aside`` beside it, which `merge` does not look into; where it is now.

    RunFolderError where a process writes it.
    """
    aside_folder = folder.parent / ASIDE
    with writing(folder):
        to = aside_folder
        try:
            jsonlines.make_folder(aside_folder)
            number = 1
            while (to := aside_folder / f"{folder.name}.{number}").exists():
                number += 1
            folder.rename(to)
            jsonlines.sync_directory(aside_folder)
            jsonlines.sync_directory(folder.parent)
        except OSError as error:
            raise StorageError(f"cannot move {folder} to {to}: {error.strerror or error}. Move it away.") from error
    return to
