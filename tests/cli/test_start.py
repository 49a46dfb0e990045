"""What a start of the command line imports: each module that it does without, every start would pay for."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

from tests.support.commands import DEADLINE_SECONDS, environment
from tests.support.repository import ROOT

SLOW = frozenset({"numpy", "scipy", "vl_convert", "pyVmomi", "pyroute2", "qemu.qmp", "jinja2", "asyncio", "logging"})
BY_ITSELF = SLOW | {"pydantic", "rich", "virtoll.experiment.parse", "virtoll.pipeline.execution"}
NAMED = {"virtoll.platforms.containers.native", "virtoll.platforms.qemu.driver", "virtoll.workloads.superpi"}
NOT_NAMED = {"virtoll.platforms.containers.docker", "virtoll.platforms.esxi.driver", "virtoll.workloads.povray"}
MEASURES = {"rich", "virtoll.pipeline.execution", "virtoll.pipeline.fleet"}
KNOWN = {"virtoll.platforms", "virtoll.workloads", "virtoll.experiment.parse"}
PROGRAM = """
import json, os, sys
from virtoll.cli import main
for changed, *words in json.loads(sys.argv[1]):
    os.environ.update(changed)
    sys.argv = ["virtoll", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, (words, end.code)
    sys.stderr.write(json.dumps([*sys.modules]) + "\\n")
"""


def imported_by(*commands: str, typed: Sequence[str] = ()) -> list[set[str]]:
    """What is imported once each command has done its work, one after the other in an interpreter of their own.

    ``typed``: what a shell asks about, before the commands. There are no runs, such as 'make demo' leaves here: a plan
    analyses the noise of an earlier run of its experiment.
    """
    asked: list[list[object]] = [
        [{"_VIRTOLL_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(line.count(" "))}]
        for line in typed
    ]
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([*asked, *([{}, *line.split()] for line in commands)])],
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_SECONDS,
        env=environment(VIRTOLL_RUNS="/nonexistent"),
        cwd=ROOT,
    )
    assert finished.stdout
    found = [set(json.loads(line)) for line in finished.stderr.splitlines()]
    assert len(found) == len(typed) + len(commands)
    assert all("virtoll.cli" in modules for modules in found)
    return found


def test_version_help_and_runs_import_what_they_need_alone() -> None:
    *helping, listing = imported_by("--version", "--help", "-h", "list runs")
    for modules in helping:
        assert modules & BY_ITSELF == set()
    assert listing & KNOWN == set()


def test_what_a_shell_is_offered_imports_no_slow_library() -> None:
    for modules in imported_by(typed=("virtoll pl", "virtoll plan qui", "virtoll run quick --platform qe")):
        assert modules & (SLOW | MEASURES) == set()


def test_what_measures_and_analyses_nothing_imports_no_slow_library() -> None:
    """A plan imports what it names and nothing that measures."""
    plan, *others = imported_by(
        *("plan quick", "plan quick --json", "show workload superpi", "list workloads", "show platform runc"),
        "list platforms",
    )
    assert plan >= NAMED | {"virtoll.platforms", "virtoll.workloads"}
    assert plan & (NOT_NAMED | MEASURES) == set()
    for modules in (plan, *others):
        assert modules & SLOW == set()
