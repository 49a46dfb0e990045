"""Commands on this host: ``virtoll doctor``, ``clean``, ``shell`` and ``wire``."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from virtoll.api.folders import kept_tables
from virtoll.cli import complete
from virtoll.cli.lab import check_lab, check_system, prepare_outside, require_lab
from virtoll.cli.loading import load
from virtoll.cli.output import Json, Verbose, new_console, print_json, say, say_progress, tell_on_stderr
from virtoll.errors import UsageError

if TYPE_CHECKING:
    from virtoll.cli.doctor import Diagnosis
    from virtoll.experiment.model import PlatformChoice


def doctor(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PLATFORM",
            help="Only these platforms, by name or label; with --tune: which of governor,turbo,aslr,irq,smt.",
            autocompletion=complete.platforms,
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
    *,
    noise: Annotated[
        bool,
        typer.Option("--noise", help="Read for 10 s whether the distance of this machine's CPUs changes."),
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Say what works on this host, and how to mend the rest.

    It starts a guest of each platform; one that is named is tried alone. With --tune it makes the host quieter.
    With --noise it only reads how far its CPUs are from each other.

    Exit code 0 when the bare host and a namespace can be compared, or when each platform that is named works; else 1,
    also when --reset could not put back everything.
    """
    del verbose
    if noise and (names or tune or reset or dry_run):
        raise UsageError("doctor: --noise stands alone; leave the platforms and the other options out")
    if tune or reset or dry_run:
        from virtoll.cli.doctor_tuning import change

        settings = ",".join(names) if names else None
        raise typer.Exit(change(settings, tune=tune, reset=reset, dry_run=dry_run, as_json=as_json))
    check_system()
    if noise:
        from virtoll.cli.doctor_noise import tell_noise

        tell_noise(as_json=as_json)
        return
    sys.exit(_diagnose(tuple(names or ()), as_json=as_json))


def _diagnose(asked_for: tuple[str, ...], *, as_json: bool) -> int:
    """Look at the host, and try these platforms in a lab; the exit code."""
    from virtoll.cli.doctor import Diagnosis, chosen, host_checks, needs_kernel

    choices = chosen(asked_for)
    checks = tuple(host_checks())
    if any(check.blocks for check in checks):
        _show_diagnosis(Diagnosis(checks, (), (), asked_for), as_json)
        return 1
    from virtoll.cli.doctor_hypervisors import hypervisor_checks, this_machine
    from virtoll.cli.doctor_unprivileged import asked
    from virtoll.host.tuning import for_the_lab
    from virtoll.lab.launch import run_in_lab

    hypervisors = json.dumps([asdict(finding) for finding in hypervisor_checks(this_machine())])
    _say_how_long(choices, say_progress if as_json or asked_for else tell_on_stderr)
    prepare_outside("tiny", kernel=needs_kernel(choices))
    with asked(asked_for) as descriptor:
        arguments = ["in-lab-doctor", "--hypervisors", hypervisors, *(["--json"] if as_json else [])]
        if descriptor is not None:
            arguments += ["--unprivileged", str(descriptor)]
        descriptors = () if descriptor is None else (descriptor,)
        return run_in_lab([*arguments, "--", *asked_for], for_the_lab(), descriptors=descriptors)


def _say_how_long(choices: Sequence[PlatformChoice], tell: Callable[[str], None]) -> None:
    """For a person who waits, or reads a log: a guest of each is started, and those that hang have their deadline."""
    from virtoll.platforms import EVERY_PLATFORM
    from virtoll.units import nanoseconds

    seconds = sum(1 + EVERY_PLATFORM[choice.platform].boot_seconds for choice in choices)
    what = f"{len(choices)} platforms" if len(choices) > 1 else choices[0].label
    tell(f"trying {what} by starting guests: up to about {nanoseconds(seconds * 1e9)}, more where a guest hangs")


def clean(
    cache: Annotated[
        bool,
        typer.Option(
            "--cache", help="Remove the cache too: guest images, packed runs, and tables of runs. They are made anew."
        ),
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
        shutil.rmtree(kept_tables(), ignore_errors=True)
        removed.append(str(default_cache().home))
    for path in removed:
        say(f"removed {path}")
    if not removed:
        say("nothing to remove")


def _products(hosts: list[str]) -> Callable[[], list[str]]:
    """What cleans the products of these hosts and returns what it removed; all hosts are checked here, before."""
    from virtoll.cli.clean import by_api, clean_by_api, clean_host, host_to_clean, is_experiment
    from virtoll.platforms import PLATFORMS

    there = [host_to_clean(name) for name in hosts if not is_experiment(name)]
    interfaces = [choice for name in hosts if is_experiment(name) for choice in by_api(load(name), PLATFORMS)]

    def clean_products() -> list[str]:
        removed = []
        for host in there:
            leftovers, silent = clean_host(host, PLATFORMS)
            removed += leftovers
            for reported in silent:
                say(f"not asked on {host.name}: {reported}")
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


def in_lab_doctor(
    names: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    as_json: Json = False,
    unprivileged: int | None = None,
    hypervisors: str = "[]",
) -> None:
    """``doctor``, in its lab: ``unprivileged``, the descriptor to read an ordinary user's answers from."""
    require_lab()
    from virtoll.cli.doctor import Diagnosis, chosen, host_checks, settled, try_platforms
    from virtoll.cli.doctor_hypervisors import HypervisorFinding
    from virtoll.cli.progress import waiting

    asked_for = tuple(names or ())
    findings = [HypervisorFinding(**row) for row in json.loads(hypervisors)]
    with waiting(new_console(to_stderr=True)) as say_what:
        tried = try_platforms(chosen(asked_for), say_what, unprivileged)
    diagnosis = Diagnosis(tuple(host_checks()), *settled(findings, tried), asked_for)
    _show_diagnosis(diagnosis, as_json)
    raise typer.Exit(0 if diagnosis.works else 1)


def in_lab_shell(platform: str) -> None:
    """``shell``, in its lab."""
    require_lab()
    from virtoll.cli.shell import interact

    raise typer.Exit(interact(platform))


def _show_diagnosis(diagnosis: Diagnosis, as_json: bool) -> None:
    from virtoll.cli.doctor_page import show_diagnosis

    if as_json:
        print_json(diagnosis.as_document())
    else:
        show_diagnosis(diagnosis)
