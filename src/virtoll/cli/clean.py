"""``virtoll clean --host``: what dead labs left in the products of a host, removed by their own commands or API.

Everything that a run makes there is named after its lab (``virtoll-`` and 12 hex digits). A lab lives as long as its
record is here, or as an agent of it runs there. Nothing of a living one, and nothing named otherwise, is touched.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from virtoll.errors import GuestError, UsageError
from virtoll.experiment.model import Experiment, Parameters, PlatformChoice
from virtoll.hosts.base import Host
from virtoll.hosts.base import run as run_there
from virtoll.hosts.ssh import SshHost
from virtoll.lab.inside import output_of
from virtoll.lab.residue import state_directory
from virtoll.platforms.base import Platform
from virtoll.platforms.host import CommandRunner

_LAB = re.compile(r"virtoll-[0-9a-f]{12}")  # anywhere in a command line


@dataclass(frozen=True)
class CommandHost:
    """A ``CommandRunner`` outside any lab. ``far`` None: this machine."""

    far: Host | None = None

    @property
    def name(self) -> str:
        """As messages name it."""
        return self.far.name if self.far is not None else "this machine"

    def run(self, argv: Sequence[str], role: str, deadline_seconds: float = 60.0, stdin: bytes | None = None) -> str:
        """Run a program there to its end; its output, or a ``GuestError``."""
        del role
        try:
            if self.far is not None:
                return run_there(self.far, argv, stdin or b"", deadline_seconds)
            finished = subprocess.run(
                list(argv), capture_output=True, input=stdin or b"", timeout=deadline_seconds, check=False
            )
            return output_of(argv, finished)
        except UsageError as error:
            raise GuestError(str(error)) from error
        except (OSError, subprocess.TimeoutExpired) as error:
            raise GuestError(f"{argv[0]}: {error}") from error


def host_to_clean(destination: str) -> CommandHost:
    """``local``, or a destination of ssh's; a ``UsageError`` when it cannot be reached."""
    if destination == "local":
        return CommandHost()
    host = CommandHost(SshHost(destination))
    try:
        host.run(["true"], "reach")
    except GuestError as error:
        raise UsageError(str(error).removeprefix("testbed: ")) from error
    return host


def living_labs(host: CommandRunner) -> frozenset[str]:
    """Ids of the labs that hold something there: recorded here, or with an agent that runs there."""
    here = {path.name for path in (state_directory() / "labs").glob("virtoll-*")}  # dead ones have been swept before
    try:
        processes = host.run(["ps", "axww"], "living labs")
    except GuestError:
        try:
            processes = host.run(["ps"], "living labs")
        except GuestError as error:
            raise UsageError(f"{host.name}: which runs still live there cannot be found out: {error}") from error
    return frozenset({*here, *_LAB.findall(processes)})


def is_experiment(destination: str) -> bool:
    """Whether ``--host`` was given an experiment's file, which has what a product's API is reached by."""
    return Path(destination).suffix in (".yaml", ".yml")


def by_api(experiment: Experiment, platforms: Mapping[str, type[Platform[Parameters]]]) -> list[PlatformChoice]:
    """An entry for each host of the experiment that is cleaned by its product's API; ``UsageError`` without any."""
    found: dict[tuple[str, str], PlatformChoice] = {}
    for choice in experiment.platforms:
        named = choice.parameters.model_fields_set  # without any it is no host yet
        if named and platforms[choice.platform].cleaned_by_api:
            where = choice.parameters.model_dump_json(include=set(choice.parameters.unlabelled))
            found.setdefault((choice.platform, where), choice)
    if not found:
        raise UsageError(
            f"{experiment.file}: names no host that is cleaned by its product's API (platform esxi); give 'local' or "
            "user@host of ssh's for the other products"
        )
    return list(found.values())


def clean_by_api(choices: Iterable[PlatformChoice], platforms: Mapping[str, type[Platform[Parameters]]]) -> list[str]:
    """Remove what dead labs left on these hosts; what was removed. A ``UsageError`` where one cannot be asked."""
    alive, removed = living_labs(CommandHost()), []
    for choice in choices:
        try:
            found = platforms[choice.platform].with_parameters(choice.parameters).remove_leftovers_by_api(alive)
        except GuestError as error:
            raise UsageError(f"{choice.platform}: {error}") from error
        removed += [f"{one} by the API of {choice.label}" for one in found]
    return removed


def clean_host(host: CommandRunner, platforms: Mapping[str, type[Platform[Parameters]]]) -> tuple[list[str], list[str]]:
    """Remove what dead labs left there; what was removed, and products that could not be asked, with the reason."""
    alive, removed, silent = living_labs(host), [], []
    for name, kind in platforms.items():
        try:
            removed += [f"{one} on {host.name}" for one in kind.remove_leftovers(host, alive)]
        except GuestError as error:
            silent.append(f"{name}: {error}")
    return removed, silent
