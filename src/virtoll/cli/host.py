"""Commands on this host: ``virtoll doctor``, ``clean``, ``shell`` and ``wire``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from virtoll.cli import complete
from virtoll.cli.lab import check_lab, prepare_outside, require_lab
from virtoll.cli.output import Json, print_json, say, show
from virtoll.cli.plan import load


def doctor(
    settings: Annotated[
        str | None,
        typer.Argument(
            metavar="SETTINGS", help="With --tune: which of governor,turbo,aslr,irq,smt; all when not given."
        ),
    ] = None,
    tune: Annotated[
        bool,
        typer.Option("--tune", help="As root: set CPU governor, turbo, ASLR, interrupts and SMT for measurements."),
    ] = False,
    reset: Annotated[
        bool, typer.Option("--reset", help="As root: put back exactly what --tune found, also after a crash.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --tune or --reset: show what would be done, and change nothing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what works on this host, and how to mend the rest.

    With --tune it makes the host quieter for measurements.

    Exit code 1 when nothing can be measured, or when --reset could not put back everything.
    """
    if tune or reset or dry_run or settings is not None:
        from virtoll.cli.doctor_tuning import change

        raise typer.Exit(change(settings, tune=tune, reset=reset, dry_run=dry_run, as_json=as_json))
    from virtoll.cli.doctor import host_checks, hypervisors_here

    checks, hypervisors = host_checks(), hypervisors_here()
    if any(check.blocks for check in checks):
        _show_checks(checks, hypervisors, [], as_json)
        raise typer.Exit(1)
    from virtoll.cli.doctor_unprivileged import asked
    from virtoll.host.tuning import for_the_lab
    from virtoll.lab.launch import run_in_lab

    prepare_outside("tiny", kernel=True)
    with asked() as descriptor:
        arguments = ["in-lab-doctor", "--hypervisors", json.dumps(hypervisors), *(["--json"] if as_json else [])]
        if descriptor is not None:
            arguments += ["--unprivileged", str(descriptor)]
        code = run_in_lab(arguments, for_the_lab(), descriptors=() if descriptor is None else (descriptor,))
    sys.exit(code)


def clean(
    cache: Annotated[
        bool, typer.Option("--cache", help="Remove the image cache too; the next run builds it anew.")
    ] = False,
    host: Annotated[
        list[str] | None,
        typer.Option(
            "--host",
            metavar="HOST",
            help="Also what they left in the products there: 'local', user@host of ssh's, or an experiment's file for "
            "the ESXi hosts that it names.",
        ),
    ] = None,
) -> None:
    """Remove leftovers of killed runs (normally none). Results are never deleted."""
    from virtoll.image import default_cache
    from virtoll.lab.launch import sweep_dead_labs

    clean_products = _products(host) if host else None
    removed = [*sweep_dead_labs(), *map(str, default_cache().sweep())]
    if clean_products is not None:
        removed += clean_products()
    if cache:
        default_cache().clear()
        removed.append(str(default_cache().home))
    for path in removed:
        say(f"removed {path}")
    if not removed:
        say("nothing to remove")


def _products(hosts: list[str]) -> Callable[[], list[str]]:
    """What cleans the products of these hosts and returns what it removed; all hosts are checked here, before."""
    from virtoll.cli.clean import by_api, clean_by_api, clean_host, host_to_clean, is_experiment
    from virtoll.platforms import PLATFORMS

    there = [host_to_clean(one) for one in hosts if not is_experiment(one)]
    interfaces = [choice for one in hosts if is_experiment(one) for choice in by_api(load(one), PLATFORMS)]

    def clean_products() -> list[str]:
        removed = []
        for one in there:
            found, silent = clean_host(one, PLATFORMS)
            removed += found
            for reported in silent:
                say(f"not asked on {one.name}: {reported}")
        return removed + clean_by_api(interfaces, PLATFORMS)

    return clean_products


def shell(
    platform: Annotated[
        str,
        typer.Argument(
            metavar="PLATFORM",
            help="A platform, with parameters as NAME or NAME:key=value,key=value.",
            autocompletion=complete.platforms,
        ),
    ],
) -> None:
    """Open a shell (busybox) in a guest, for debugging."""
    from virtoll.cli.shell import parse_platform
    from virtoll.lab.launch import run_in_lab
    from virtoll.platforms import platform_of

    choice = parse_platform(platform)
    prepare_outside("debug", kernel=platform_of(choice).needs_kernel)
    check_lab()
    sys.exit(run_in_lab(["in-lab-shell", platform]))


def wire(context: typer.Context) -> None:
    """Send, receive or calibrate: generator and sink alone.

    All arguments go to the agent's own command line: see 'virtoll wire --help'.
    """
    from virtoll.image.clone import usable_agent

    agent = usable_agent()
    sys.stdout.flush()
    os.execv(agent, [str(agent), "wire", *context.args])  # noqa: S606 - the agent becomes this process


def in_lab_doctor(as_json: Json = False, unprivileged: int | None = None, hypervisors: str = "[]") -> None:
    """``doctor``, in its lab: ``unprivileged``, the descriptor to read an ordinary user's answers from."""
    require_lab()
    from virtoll.cli.doctor import host_checks, platform_checks

    checks, platforms = host_checks(), platform_checks(unprivileged)
    _show_checks(checks, json.loads(hypervisors), platforms, as_json)
    raise typer.Exit(0 if any(row["available"] for row in platforms if row["platform"] != "fake") else 1)


def in_lab_shell(platform: str) -> None:
    """``shell``, in its lab."""
    require_lab()
    from virtoll.cli.shell import interact

    raise typer.Exit(interact(platform))


def _show_checks(
    checks: list[Any], hypervisors: list[dict[str, Any]], platforms: list[dict[str, Any]], as_json: bool
) -> None:
    host = [check.as_row() for check in checks]
    if as_json:
        print_json({"host": host, "hypervisors": hypervisors, "platforms": platforms})
        return
    for rows in (host, hypervisors, platforms):
        if rows:
            show(rows, False)
