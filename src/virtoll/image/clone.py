"""Where the agent is that this Virtoll works with, and what else is kept in the clone that the package runs from.

Main functions: ``built_agent`` (where it should be) and ``usable_agent`` (the same, looked at).
"""

from __future__ import annotations

import os
import platform
from importlib.resources import files
from pathlib import Path

from virtoll.errors import AgentUnusable, clone_folder, remedy_for
from virtoll.image.elf import MACHINES, read_head

AGENT_VARIABLE = "VIRTOLL_AGENT"
PACKAGED = Path("bin") / "virtoll-agent"
"""Where a wheel's agent is in the package."""


def built_agent() -> Path:
    """Where the agent is: what ``$VIRTOLL_AGENT`` names, else the clone's, else the one that the wheel brought."""
    if named := os.environ.get(AGENT_VARIABLE):
        return Path(named).absolute()
    clone = clone_folder()
    return _package() / PACKAGED if clone is None else clone / "build" / "virtoll-agent"


def usable_agent() -> Path:
    """The same, where it can run here.

    ``AgentUnusable`` in one sentence: it is missing, of another machine, or may not be executed.
    """
    agent = built_agent()
    remedy = f"unset {AGENT_VARIABLE}, which names it"
    if AGENT_VARIABLE not in os.environ:
        remedy = remedy_for("agent")
        if platform.machine() not in MACHINES.values():
            known = " and ".join(MACHINES.values())
            raise AgentUnusable(
                f"the agent is made for {known}, and this is {platform.machine()}; measure on one of those"
            )
    if not agent.is_file():
        raise AgentUnusable(f"the agent {agent} is missing; {remedy}")
    head = read_head(agent.read_bytes())
    if head is None:
        raise AgentUnusable(f"the agent {agent} is no 64-bit program of Linux; {remedy}")
    if head.machine != platform.machine():
        raise AgentUnusable(f"the agent {agent} is for {head.machine}, and this is {platform.machine()}; {remedy}")
    if os.statvfs(agent).f_flag & os.ST_NOEXEC:
        raise AgentUnusable(
            f"the agent {agent} is on a file system that is mounted noexec; mount it without, or let "
            f"{AGENT_VARIABLE} name a copy elsewhere"
        )
    if not os.access(agent, os.X_OK):
        raise AgentUnusable(f"the agent {agent} may not be executed; chmod 0755 {agent}")
    return agent


def tool_source(name: str) -> Path:
    """The folder of a Go program's source or pins, which a clone alone has."""
    return (clone_folder() or _package()) / "tools" / name


def _package() -> Path:
    return Path(str(files("virtoll")))
