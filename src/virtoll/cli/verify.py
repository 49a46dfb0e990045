"""``virtoll verify``: whether a finished run's files are unchanged; other commands warn by it."""

from __future__ import annotations

import sys
from pathlib import Path

from virtoll.api.folders import found_run
from virtoll.cli import options
from virtoll.cli.output import Json, print_json, say, say_on_stderr
from virtoll.errors import UsageError


def verify(run: options.Run = "latest", as_json: Json = False) -> None:
    """Check that a finished run's files are unchanged.

    Exit code 1 where they are not.
    """
    from virtoll.runfolder.sums import SUMS, differences, unchecked

    there = found_run(run)
    name, folder = there.given, there.folder
    changed = differences(folder)
    if changed is None:
        raise UsageError(f"{name} has no {SUMS}: its run did not end; 'virtoll resume {name}' ends it")
    if as_json:
        print_json({"run": str(name), "whole": not changed, "differences": changed})
    for line in () if as_json else changed or (f"{name} is as it was when the run ended",):
        say(line)
    for line in unchecked(folder):
        say_on_stderr(f"virtoll: {line}")
    if changed:
        sys.exit(1)


def tell_damage(folder: Path) -> None:
    """Say on the standard error what of a finished run is not as it was: whatever follows rests on it."""
    from virtoll.report import damage_line
    from virtoll.runfolder.sums import differences

    damage = differences(folder)
    if damage:
        say_on_stderr(f"virtoll: {damage_line(damage)}")
