"""What a start of the command line imports: each module that it does without, every start would pay for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping

import pytest
from tests.support.commands import DEADLINE_SECONDS, environment
from tests.support.repository import ROOT

SLOW = frozenset({"numpy", "scipy", "vl_convert", "pyVmomi", "pyroute2", "qemu.qmp", "jinja2", "asyncio", "logging"})
BY_ITSELF = SLOW | {"pydantic", "rich", "virtoll.experiment.parse", "virtoll.campaign.pipeline"}
PROGRAM = """
import sys
from virtoll.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
sys.stderr.write("\\n".join(sys.modules))
"""


def imported_by(*arguments: str, changed: Mapping[str, str] | None = None) -> set[str]:
    """The modules that are imported when ``virtoll ARGUMENTS`` has done its work, in an interpreter of its own.

    Without runs, such as 'make demo' leaves here: a plan analyses the noise of an earlier run of its experiment.
    """
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
        env=environment(**{"VIRTOLL_RUNS": "/nonexistent", **(changed or {})}),
        cwd=ROOT,
    )
    assert finished.stdout
    found = set(finished.stderr.splitlines())
    assert "virtoll.cli" in found
    return found


@pytest.mark.parametrize("option", ["--version", "--help", "-h"])
def test_version_and_help_import_the_command_line_alone(option: str) -> None:
    assert imported_by(option) & BY_ITSELF == set()


@pytest.mark.parametrize("typed", ["virtoll pl", "virtoll plan qui", "virtoll run quick --platform qe"])
def test_what_a_shell_is_offered_imports_no_slow_library(typed: str) -> None:
    asked = {"_VIRTOLL_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    assert imported_by(changed=asked) & (SLOW | MEASURES) == set()


NAMED = {"virtoll.platforms.containers.native", "virtoll.platforms.qemu.driver", "virtoll.workloads.superpi"}
NOT_NAMED = {"virtoll.platforms.containers.docker", "virtoll.platforms.esxi.driver", "virtoll.workloads.povray"}
MEASURES = {"rich", "virtoll.campaign.pipeline", "virtoll.campaign.fleet", "virtoll.runfolder.records"}


def test_a_plan_imports_what_it_names_and_nothing_that_measures() -> None:
    found = imported_by("plan", "quick")
    assert found >= NAMED
    assert found & (NOT_NAMED | MEASURES) == set()


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["plan", "quick"], {"virtoll.platforms", "virtoll.workloads"}),
        (["plan", "quick", "--json"], {"virtoll.platforms", "virtoll.workloads"}),
        (["list", "platforms"], {"virtoll.platforms"}),
        (["list", "workloads"], {"virtoll.workloads"}),
        (["show", "platform", "runc"], {"virtoll.platforms"}),
        (["show", "workload", "superpi"], {"virtoll.workloads"}),
    ],
)
def test_what_measures_and_analyses_nothing_imports_no_slow_library(arguments: list[str], shown: set[str]) -> None:
    found = imported_by(*arguments)
    assert found >= shown
    assert found & SLOW == set()


def test_listing_runs_imports_no_platform() -> None:
    assert imported_by("list", "runs") & {"virtoll.platforms", "virtoll.workloads", "virtoll.experiment.parse"} == set()
