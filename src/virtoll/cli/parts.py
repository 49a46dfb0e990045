"""A part of a campaign: some blocks of an experiment, measured on this host. Main function: ``measure_part``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.cli.measuring import measure_into, resume_into
from virtoll.cli.output import is_quiet, say, say_on_stderr

if TYPE_CHECKING:
    from virtoll.experiment.model import Experiment


def measure_part(experiment: Experiment, block: str, into: Path) -> None:
    """Measure blocks into a folder of their own in the campaign's folder ``into``.

    ``block``: such as 3 or 3-5. What is complete is kept, and what was killed is continued.
    """
    from virtoll.campaign.parts import (
        ASIDE,
        asked_blocks,
        beginning,
        joined_campaign,
        part_name,
        part_of,
        refuse_undivided,
    )
    from virtoll.campaign.preview import needs_lab, plan_of
    from virtoll.hosts.nodes import on_its_nodes

    refuse_undivided(experiment)
    if experiment.testbed is not None and needs_lab(experiment):
        on_its_nodes(experiment.testbed)  # what is missing is told before a folder is made or set aside
    block_numbers = asked_blocks(block, experiment.blocks)
    part = part_of(experiment, plan_of(experiment), block_numbers)
    into = into.absolute()
    joined_campaign(into, experiment, part)
    folder = into / part_name(block_numbers)
    there = (folder / "manifest.json").exists()
    begins = beginning(folder, part, _agent_sha256(experiment))
    if begins == "done":
        say(f"{folder} is complete; nothing is measured")
        return
    if begins == "resume":
        resume_into(folder)
    else:
        if there:
            say_on_stderr(
                f"virtoll: another host, agent or Virtoll began {folder.name} and did not end it; it is now in "
                f"{into / ASIDE}, and begins anew here"
            )
        measure_into(experiment, folder, block_numbers)
    say(str(folder) if is_quiet() else f"part of campaign {part.campaign[:8]}: {folder}")


def _agent_sha256(experiment: Experiment) -> str | None:
    """Of the agent that this machine would measure with; None where all platforms are models."""
    from virtoll.campaign.preview import needs_lab

    if not needs_lab(experiment):
        return None
    import hashlib

    from virtoll.image.clone import usable_agent

    return hashlib.sha256(usable_agent().read_bytes()).hexdigest()
