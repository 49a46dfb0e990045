"""``virtoll nested``: build, bring up, list, look into, and end nested hosts."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from virtoll.cli import complete
from virtoll.cli.groups import Cli
from virtoll.cli.lab import check_lab
from virtoll.cli.output import say, show_table
from virtoll.errors import UsageError
from virtoll.units import utc

app = Cli(help="Emulated hypervisor hosts for trying a product by hand.")

Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND", help="xen, xen-hvm, xen-pci, kvm or virtualbox.", autocompletion=complete.nested_hosts
    ),
]


@app.command()
def build(kind: Kind) -> None:
    """Make a nested host's files in the cache, and start nothing.

    A run that needs one does so too.
    """
    _build(kind)


@app.command()
def up(kind: Kind) -> None:
    """Boot a nested host that stays up until 'down'.

    Runs boot their own.
    """
    from virtoll.image import prepare_image
    from virtoll.pipeline import interactive_nested

    _build(kind)
    prepare_image("tiny", kernel=True, progress=say)
    nested_host = interactive_nested.start(kind)
    say(
        f"nested host {kind} is up (lab {nested_host.lab_id}, process {nested_host.pid}); "
        f"look into it: virtoll nested shell {kind}"
    )


@app.command()
def down(
    kind: Annotated[
        str | None,
        typer.Argument(
            metavar="KIND", help="xen, xen-hvm, xen-pci, kvm or virtualbox.", autocompletion=complete.nested_hosts
        ),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that are up.")] = False,
) -> None:
    """End a nested host with all that is on it."""
    from virtoll.pipeline import interactive_nested

    if everything == (kind is not None):
        raise UsageError("name one kind of nested host, or give --all; 'virtoll nested list' shows what is up")
    for nested_host in interactive_nested.held() if kind is None else [interactive_nested.find(kind)]:
        interactive_nested.end(nested_host)
        say(f"nested host {nested_host.kind} is down")


@app.command("list")
def list_nested_hosts(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List the kinds, which of them are built, and what is up."""
    from virtoll.errors import ImageError
    from virtoll.nested import NESTED_HOSTS, prepare_nested_host
    from virtoll.pipeline import interactive_nested

    running = {nested_host.kind: nested_host for nested_host in interactive_nested.held()}
    rows = []
    for name, kind in NESTED_HOSTS.items():
        try:
            prepare_nested_host(kind, offline=True)
            built = True
        except ImageError:
            built = False
        nested_host = running.get(name)
        rows.append(
            {
                "kind": name,
                "title": kind.title,
                "built": built,
                "up": nested_host is not None,
                **({} if nested_host is None else nested_host.as_row()),
            }
        )
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
        return
    lines = []
    for row in rows:
        since = row.get("since")
        words = f"{utc(int(float(str(since)) * 1e9)):%Y-%m-%d %H:%M:%S} UTC" if since else "-"
        lines.append(
            {
                "kind": row["kind"],
                "what it is": row["title"],
                "built": row["built"],
                "up since": words,
                "process": row.get("pid", "-"),
            }
        )
    show_table(lines)


@app.command(context_settings={"ignore_unknown_options": True})
def shell(
    kind: Kind,
    argv: Annotated[
        list[str] | None, typer.Argument(metavar="PROGRAM", help="A program to run there instead of a shell.")
    ] = None,
) -> None:
    """Open a shell on a nested host that is up, or run a program.

    The program is given after '--'; its exit code is returned.
    """
    import subprocess

    from virtoll.pipeline import interactive_nested

    nested_host = interactive_nested.find(kind)
    words = interactive_nested.command(nested_host, argv or [], terminal=not argv and sys.stdin.isatty())
    sys.exit(subprocess.run(words, check=False).returncode)


@app.command(hidden=True)
def hold(kind: Kind) -> None:
    """What 'up' leaves in the background: first outside a lab, then in it."""
    from virtoll.lab.launch import inside_lab, run_in_lab
    from virtoll.pipeline import interactive_nested

    interactive_nested.known_kind(kind)
    if inside_lab() is None:
        check_lab()
        with interactive_nested.only_one(kind):
            sys.exit(run_in_lab(["nested", "hold", kind]))
    interactive_nested.hold(kind)


def _build(kind: str) -> None:
    from virtoll.nested import NESTED_HOSTS, prepare_nested_host
    from virtoll.pipeline import interactive_nested

    prepare_nested_host(NESTED_HOSTS[interactive_nested.known_kind(kind)], progress=say)
