"""Records of campaigns in the manifest: which blocks a part has, and what a merged run is of.

Field by field as docs/run-folder.md gives them. Blocks count from 0. No behaviour lives here but the map of blocks to
hosts.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from virtoll.runfolder import free_form
from virtoll.runfolder.moments import LAST_MOMENT_NS
from virtoll.runfolder.record import Record

Moment = Annotated[int, msgspec.Meta(ge=0, le=LAST_MOMENT_NS)]
"""A time of CLOCK_REALTIME in ns."""


class CampaignRecord(Record):
    """The `campaign.json` beside the parts: written by the first that measured blocks into that folder."""

    campaign: str
    experiment: str
    blocks: int
    created_realtime_ns: Moment


class SubmissionRecord(Record):
    """The `slurm/submission.json` beside the parts: how a campaign is given to Slurm.

    ``selection``: JSON of an experiment's `Selection`. ``time``, ``partition`` and ``account``: as sbatch takes them;
    None: not given. ``options``: further arguments of sbatch. ``blocks_per_task``: None: as few as an array allows.
    ``wired``: the features that wired nodes share, and ``labels`` those that say which of them is what.
    """

    nodes: int
    selection: dict[str, Any]
    blocks_per_task: int | None = None
    time: str | None = None
    partition: str | None = None
    account: str | None = None
    options: tuple[str, ...] = ()
    wired: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()


class ArrayRecord(Record):
    """One `slurm/array-N.json`: an array job by its name, and the first and the last block of each task, from 0.

    ``job``: Slurm's number of it; None: it was not submitted yet, or whoever submitted it was killed.
    """

    name: str
    tasks: tuple[tuple[int, int], ...]
    job: str | None = None


class PartRecord(Record):
    """A run folder that has some blocks of a campaign: the campaign's id (sha256), and which of how many blocks."""

    campaign: str
    blocks: tuple[int, ...]
    of: int


class HostRecord(Record):
    """One host of a merged run: its stand-in name (`host-1`), its block as in `Manifest.host`, the blocks it measured.

    A host that was left out keeps its name, which no other host gets.
    """

    name: str
    host: dict[str, Any]
    blocks: tuple[int, ...]

    def __post_init__(self) -> None:
        free_form.check("host", self.host, free_form.Host)


class MergedPart(Record):
    """A part that a merged run was made of, which blocks of it were taken, and its `Manifest.nodes`."""

    run: str
    host: str
    blocks: tuple[int, ...]
    created_realtime_ns: Moment
    nodes: dict[str, str] | None = None


class MergedRecord(Record):
    """What a merged run was made of; what was left out and what is doubtful of it are sentences."""

    campaign: str
    parts: tuple[MergedPart, ...]
    missing: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def host_of_block(hosts: Sequence[HostRecord]) -> dict[int, str]:
    """The stand-in name of the host that measured each block."""
    return {block: host.name for host in hosts for block in host.blocks}
