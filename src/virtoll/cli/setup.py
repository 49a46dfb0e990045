"""``virtoll setup``: installs what a run needs on this host, or says what it is, and prepares the guest images."""

from __future__ import annotations

import os
import platform
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from virtoll.cli.lab import check_system, prepare_outside
from virtoll.cli.output import say, say_on_stderr
from virtoll.errors import UsageError, VirtollError
from virtoll.host import packages


def setup(
    platforms: Annotated[
        bool, typer.Option("--platforms", help="Also what every platform needs that this host can hold.")
    ] = False,
    tools: Annotated[
        bool, typer.Option("--tools", help="Also the image with the workloads' tools (a minute, 850 MB).")
    ] = False,
    print_only: Annotated[
        bool, typer.Option("--print", help="Only print what is missing and how to install it; change nothing.")
    ] = False,
) -> None:
    """Install what a run needs, and make the guest images.

    As root by apt; elsewhere it says which packages these are, and goes on with what is there. Exit code 2 when
    something has to be installed first without which nothing can be measured.
    """
    check_system()
    needed = packages.needed(platform.machine(), platforms=platforms, tools=tools)
    missing = _missing(needed)
    by_apt = packages.manager() == "apt"
    if print_only:
        for line in _how_to_install(missing):
            say(line)
        return
    if missing and by_apt and os.geteuid() == 0:
        _install([package.name for package in missing])
        # What apt's lists had only after they were fetched.
        if later := [package.name for package in _missing(needed) if package not in missing]:
            _install(later)
        missing = ()
    _refuse_or_name(missing, tools=tools)
    # Of the debug image apt brings busybox, of the full one all tools.
    made = ["tiny"]
    if by_apt:
        made.append("debug")
    if tools:
        made.append("full")
    prepare_outside(*made, kernel=_boots_machines(platforms=platforms))
    if platforms:
        _build_gvisor()
    done = "what needs none of these packages is there" if missing else "everything is there"
    say(f"{done}: 'virtoll doctor' says what works on this host")


def _missing(needed: Sequence[packages.Package]) -> tuple[packages.Package, ...]:
    """Those that dpkg does not know as installed; without dpkg those of which a program is not there."""
    if packages.manager() == "apt":
        names = packages.missing_packages([package.name for package in needed])
        return tuple(package for package in needed if package.name in names)
    return tuple(package for package, _ in packages.without_programs(needed))


def _refuse_or_name(missing: Sequence[packages.Package], *, tools: bool) -> None:
    """A ``UsageError`` where nothing can be measured without; what else is missing is named, and left out."""
    if not missing:
        return
    demanded = set(packages.TO_MEASURE)
    if tools:
        demanded.update(package.name for package in packages.FOR_TOOLS)
    first = [package.name for package in missing if package.name in demanded]
    if packages.manager() == "apt":
        sentence = packages.missing_sentence([package.name for package in missing])
        if first:
            raise UsageError(sentence)
        say(sentence)
    else:
        for line in _how_to_install(missing):
            say(line)
        if first:
            raise UsageError(
                f"this host lacks {' and '.join(first)}, and has no apt: install what is missing as listed, then call "
                "it again"
            )
    say(f"left out until then: {', '.join(dict.fromkeys(package.purpose for package in missing))}")


def _boots_machines(*, platforms: bool) -> bool:
    """Whether the guest kernel will be booted here: it is not fetched for containers alone."""
    emulator = packages.EMULATORS.get(platform.machine())
    return emulator is not None and (platforms or not packages.without_programs([emulator]))


def _install(missing: Sequence[str]) -> None:
    """By apt; after its lists were fetched where they are missing, or older than the mirror.

    What apt says of lists that are missing is no error of the user's, and is not shown.
    """
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = packages.install_command(missing)
    say_on_stderr(f"installing {' '.join(missing)}")
    simulated = subprocess.run([*command, "--simulate"], env=environment, capture_output=True, check=False)
    if simulated.returncode == 0 and subprocess.run(command, env=environment, check=False).returncode == 0:
        return
    for again in (["apt-get", "update"], command):
        code = subprocess.run(again, env=environment, check=False).returncode
        if code != 0:
            raise VirtollError(f"'{shlex.join(again)}' ended with {code}: see above, and call 'virtoll setup' again")


def _how_to_install(missing: Sequence[packages.Package]) -> Iterator[str]:
    """By apt the command alone; else what is missing, a line each, and the command of the host's package manager.

    Where that is none of those known here, the names for all of them.
    """
    kind = packages.manager()
    if not missing or kind == "apt":
        debian = [package.name for package in missing]
        yield shlex.join(packages.install_command(debian)) if missing else "nothing is missing"
        return
    yield "missing on this host:"
    lacking = packages.without_programs(missing)
    width = max(len(", ".join(programs)) for _, programs in lacking)
    for package, programs in lacking:
        yield f"  {', '.join(programs):{width}}  {package.purpose} (Debian's package {package.name})"
    for manager in packages.Names._fields if kind is None else (kind,):
        names, unknown = packages.names_for(manager, [package.name for package in missing])
        if names:
            yield f"with {manager}: {shlex.join(packages.command_of(manager, names))}"
        if unknown and kind is not None:
            yield f"by the name that it has here: {', '.join(unknown)}"


def _build_gvisor() -> None:
    """gVisor, of which no package works, where the host has what builds it; else its platform is left out."""
    from virtoll.errors import ImageError
    from virtoll.image.third_party import prepare_runsc

    try:
        prepare_runsc()
    except ImageError as error:
        say_on_stderr(f"the platform runsc is left out: {error}")
