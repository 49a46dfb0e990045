"""``virtoll setup``: installs what a run needs on this host, or says what it is, and prepares the guest images."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from virtoll.cli.lab import prepare_outside
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

    As root by apt; elsewhere it says which packages these are. Exit code 2 when something has to be installed first.
    """
    needed = packages.needed(platform.machine(), platforms=platforms, tools=tools)
    if _has_apt():
        missing: Sequence[str] = packages.missing_packages([one.name for one in needed])
        if print_only:
            say(shlex.join(packages.install_command(missing)) if missing else "nothing is missing")
            return
        if missing and os.geteuid() != 0:
            raise UsageError(packages.missing_sentence(missing))
        if missing:
            _install(missing)
    else:
        lacking = packages.without_programs(needed)
        for line in _named(lacking) if lacking else ("nothing is missing",):
            say(line)
        if print_only:
            return
        if lacking:
            raise UsageError(
                "programs are missing and this host has no apt: install them as listed, then call it again"
            )
    # Of the debug image apt brings busybox, of the full one all tools.
    made = ["tiny", *(["debug"] if _has_apt() else []), *(["full"] if tools else [])]
    prepare_outside(*made, kernel=platform.machine() in packages.EMULATORS)
    if platforms:
        _build_gvisor()
    say("everything is there: 'virtoll doctor' says what works on this host")


def _has_apt() -> bool:
    return all(shutil.which(program) is not None for program in ("apt-get", "dpkg-query"))


def _install(missing: Sequence[str]) -> None:
    """By apt; once more after its lists were fetched, which may be missing or older than the mirror."""
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    command = packages.install_command(missing)
    say_on_stderr(f"installing {' '.join(missing)}")
    if subprocess.run(command, env=environment, check=False).returncode == 0:
        return
    for again in (["apt-get", "update"], command):
        code = subprocess.run(again, env=environment, check=False).returncode
        if code != 0:
            raise VirtollError(f"'{shlex.join(again)}' ended with {code}: see above, and call 'virtoll setup' again")


def _named(lacking: Sequence[tuple[packages.Package, tuple[str, ...]]]) -> Iterator[str]:
    """What is missing, a line each; then the command of this host's package manager, or all names."""
    yield "missing on this host:"
    width = max(len(", ".join(programs)) for _, programs in lacking)
    for package, programs in lacking:
        yield f"  {', '.join(programs):{width}}  {package.purpose} (Debian's package {package.name})"
    here = [name for name in packages.Names._fields if shutil.which(name) is not None]
    for manager in here or packages.Names._fields:
        names = dict.fromkeys(package.elsewhere._asdict()[manager] for package, _ in lacking)
        known = [name for name in names if name]
        verb = {"pacman": "-S", "apk": "add"}.get(manager, "install")
        if known:
            yield f"with {manager}: {manager} {verb} {' '.join(known)}"


def _build_gvisor() -> None:
    """gVisor, of which no package works, where the host has what builds it; else its platform is left out."""
    from virtoll.errors import ImageError
    from virtoll.image.third_party import prepare_runsc

    try:
        prepare_runsc()
    except ImageError as error:
        say_on_stderr(f"the platform runsc is left out: {error}")
