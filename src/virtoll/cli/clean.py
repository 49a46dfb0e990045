"""``virtoll clean --host``: what dead labs left in the products of a host, removed by their own commands or API.

Everything that a run makes there is named after its lab (``virtoll-`` and 12 hex digits). A lab lives as long as its
record is here, or as an agent of it runs there. Nothing of a living one, and nothing named otherwise, is touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from virtoll.errors import GuestError, UsageError
from virtoll.experiment.model import Experiment, Parameters, PlatformChoice
from virtoll.experiment.topology import HostAddress
from virtoll.hosts import open_host, remote_data
from virtoll.hosts.base import CommandRunner, as_usage_error
from virtoll.lab.residue import record_folders
from virtoll.platforms.base import Platform

_LAB = re.compile(r"virtoll-[0-9a-f]{12}")  # anywhere in a command line


def host_to_clean(destination: str) -> CommandRunner:
    """``local``, or a destination of ssh's; a ``UsageError`` when it cannot be reached."""
    if destination == "local":
        return open_host(HostAddress(local=True))
    try:
        address = HostAddress(ssh=destination)
    except ValidationError as error:
        raise UsageError(
            f"--host: '{destination}' is neither 'local' nor a destination of ssh's; give user@host"
        ) from error
    with as_usage_error():
        host = open_host(address)
        host.run(["true"], "reach")
    return host


def living_labs(host: CommandRunner) -> frozenset[str]:
    """Ids of the labs that hold something there: recorded here, or with an agent that runs there."""
    here = {folder.name for folder in record_folders()}  # dead ones have been swept before
    try:
        processes = host.run(["ps", "axww"], "living labs")
    except GuestError:
        with as_usage_error(f"{host.name}: which runs still live there cannot be found out: "):
            processes = host.run(["ps"], "living labs")
    return frozenset({*here, *_LAB.findall(processes)})


def is_experiment(destination: str) -> bool:
    """Whether ``--host`` was given an experiment's file, which has what a product's API is reached by."""
    return Path(destination).suffix in (".yaml", ".yml")


def by_api(experiment: Experiment, platforms: Mapping[str, type[Platform[Parameters]]]) -> list[PlatformChoice]:
    """An entry for each host of the experiment that is cleaned by its product's API; ``UsageError`` without any."""
    choices: dict[tuple[str, str], PlatformChoice] = {}
    for choice in experiment.platforms:
        named = choice.parameters.model_fields_set  # without any it is no host yet
        if named and platforms[choice.platform].cleaned_by_api:
            where = choice.parameters.model_dump_json(include=set(choice.parameters.unlabelled))
            choices.setdefault((choice.platform, where), choice)
    if not choices:
        raise UsageError(
            f"{experiment.file}: names no host that is cleaned by its product's API (platform esxi); give 'local' or "
            "user@host of ssh's for the other products"
        )
    return list(choices.values())


def clean_by_api(choices: Iterable[PlatformChoice], platforms: Mapping[str, type[Platform[Parameters]]]) -> list[str]:
    """Remove what dead labs left on these hosts; what was removed. A ``UsageError`` where one cannot be asked."""
    alive, removed = living_labs(host_to_clean("local")), []
    for choice in choices:
        with as_usage_error(f"{choice.platform}: "):
            leftovers = platforms[choice.platform].with_parameters(choice.parameters).remove_leftovers_by_api(alive)
        removed += [f"{leftover} by the API of {choice.label}" for leftover in leftovers]
    return removed


def clean_host(host: CommandRunner, platforms: Mapping[str, type[Platform[Parameters]]]) -> tuple[list[str], list[str]]:
    """Remove what dead labs left there; what was removed, and products that could not be asked, with the reason."""
    alive, removed, silent = living_labs(host), [], []
    for name, kind in platforms.items():
        try:
            removed += [f"{leftover} on {host.name}" for leftover in kind.remove_leftovers(host, alive)]
        except GuestError as error:
            silent.append(f"{name}: {error}")
    try:  # after the products' guests, which may have them mounted
        removed += [f"{leftover} on {host.name}" for leftover in remote_data.remove_leftovers(host, alive)]
    except GuestError as error:
        silent.append(f"data directories: {error}")
    return removed, silent
