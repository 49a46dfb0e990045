"""Records of campaigns in the manifest, as frozen dataclasses: which blocks a part has, and what a merged run is of.

Field by field as docs/run-folder.md gives them. Blocks count from 0. No behaviour lives here but the map of blocks to
hosts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator

from virtoll.runfolder import free_form


@dataclass(frozen=True)
class CampaignRecord:
    """The `campaign.json` beside the parts: written by the first that measured blocks into that folder."""

    campaign: str
    experiment: str
    blocks: int
    created_realtime_ns: int


@dataclass(frozen=True)
class PartRecord:
    """A run folder that has some blocks of a campaign: the campaign's id (sha256), and which of how many blocks."""

    campaign: str
    blocks: tuple[int, ...]
    of: int


@dataclass(frozen=True)
class HostRecord:
    """One host of a merged run: its stand-in name (`host-1`), its block as in `Manifest.host`, the blocks it measured.

    A host that was left out keeps its name, which no other host gets.
    """

    name: str
    host: Annotated[dict[str, Any], AfterValidator(free_form.host)]
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class MergedPart:
    """A part that a merged run was made of, and which of its blocks were taken."""

    run: str
    host: str
    blocks: tuple[int, ...]
    created_realtime_ns: int


@dataclass(frozen=True)
class MergedRecord:
    """What a merged run was made of; what was left out and what is doubtful of it are sentences."""

    campaign: str
    parts: tuple[MergedPart, ...]
    missing: tuple[int, ...] = ()
    left_out: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()


def host_of_block(hosts: Sequence[HostRecord]) -> dict[int, str]:
    """The stand-in name of the host that measured each block."""
    return {block: host.name for host in hosts for block in host.blocks}
