"""Tests that run inside a lab: a module that says ``INSIDE_LAB = True`` is run there, once, as a whole.

Outside, each test of such a module is replaced by its report from inside: one pytest for the module, in the very
namespaces that ``virtoll.lab.launch`` makes, with the very mounts that ``virtoll.lab.init`` makes. When the outer
process dies the kernel ends the inner one and all its guests, as it does with any lab.

The module may also have ``LAB_SECONDS_PER_TEST``, where its tests take longer than others', and
``needed_testbeds(items)``, the kinds of nested testbeds that the chosen tests need. Any module may have
``is_extended(item)``: whether a test is of its long form alone, which CI does not run.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import REPOSITORY, environment

from virtoll.image import prepare_image
from virtoll.lab import residue
from virtoll.lab.init import prepare_mounts
from virtoll.lab.launch import LAB_VARIABLE, _namespace_command, inside_lab, probe_namespaces
from virtoll.nested import prepare_testbed

REPORTS_VARIABLE = "VIRTOLL_TEST_REPORTS"
DEADLINE_SECONDS, SECONDS_PER_TEST = 180.0, 5.0
_reports: dict[Path, dict[str, list[dict[str, Any]]]] = {}
_said: dict[str, str] = {}


def belongs_inside(item: pytest.Item) -> bool:
    """Whether a test is of a module that runs in a lab."""
    return bool(getattr(getattr(item, "module", None), "INSIDE_LAB", False))


def runs_elsewhere(item: pytest.Item) -> bool:
    """Whether this process only reports what a test did in a lab."""
    return belongs_inside(item) and inside_lab() is None


def replay(item: pytest.Item, nextitem: pytest.Item | None) -> bool:
    """Outside: report what the test did inside. False where the test is to run as it is."""
    if not runs_elsewhere(item):
        return False
    if item.path not in _reports:
        same = [other for other in item.session.items if other.path == item.path]
        module = getattr(item, "module", None)
        for kind in getattr(module, "needed_testbeds", lambda _: ())(same):
            prepare_testbed(kind)
        seconds = getattr(module, "LAB_SECONDS_PER_TEST", SECONDS_PER_TEST)
        _reports[item.path] = _run_inside([other.nodeid for other in same], item.config, seconds)
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for stored in _reports[item.path].get(item.nodeid, [_lost(item)]):
        report = item.config.hook.pytest_report_from_serializable(config=item.config, data=stored)
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    item.session._setupstate.teardown_exact(nextitem)  # folders that the test before had in common with this one
    return True


def keep(report: pytest.TestReport, config: pytest.Config) -> None:
    """Inside: hand a report out."""
    if (file := os.environ.get(REPORTS_VARIABLE)) and inside_lab() is not None:
        stored = config.hook.pytest_report_to_serializable(config=config, report=report)
        with Path(file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(stored) + "\n")


def _run_inside(nodeids: list[str], config: pytest.Config, seconds_per_test: float) -> dict[str, list[dict[str, Any]]]:
    reason = probe_namespaces()
    if reason is not None:
        pytest.skip(reason)
    for name in ("tiny", "debug"):
        prepare_image(name)  # there is no way to a package mirror from inside
    with _lab() as lab_id, tempfile.NamedTemporaryFile(suffix=".jsonl", dir="/var/tmp") as file:
        variables = environment(**{LAB_VARIABLE: lab_id, REPORTS_VARIABLE: file.name})
        # The runner stands in the place of ``virtoll.lab.init``, and is known by that name: see ``inside_lab``.
        runner = [sys.executable, "-m", "tests.support.inside", "virtoll.lab.init"]
        command = [*_namespace_command(), *runner, "-q", "-m", "inside", *nodeids]  # chosen outside
        if durations := config.getoption("durations", None):
            command.append(f"--durations={durations}")
        deadline = DEADLINE_SECONDS + seconds_per_test * len(nodeids)
        try:
            said = subprocess.run(
                command, env=variables, cwd=REPOSITORY, timeout=deadline, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            ).stdout  # fmt: skip
        except subprocess.TimeoutExpired as error:
            said = error.stdout or b""
        _said.update(dict.fromkeys(nodeids, said.decode(errors="replace")[-4000:]))
        found: dict[str, list[dict[str, Any]]] = {}
        for line in Path(file.name).read_text(encoding="utf-8").splitlines():
            stored = json.loads(line)
            if isinstance(stored["longrepr"], list):  # a skip's place and reason: JSON has no tuples
                stored["longrepr"] = tuple(stored["longrepr"])
            found.setdefault(stored["nodeid"], []).append(stored)
        return found


@contextlib.contextmanager
def _lab() -> Iterator[str]:
    """A lab's record, swept at the end: cgroup folders."""
    record, lock = residue.create_record()
    try:
        yield record.lab_id
    finally:
        os.close(lock)
        residue.sweep(record)


def _lost(item: pytest.Item) -> dict[str, Any]:
    """A failed report for a test of which nothing was heard."""
    text = f"nothing was heard of it before the deadline, or the lab ended:\n{_said[item.nodeid]}"
    report = pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call")
    stored: dict[str, Any] = item.config.hook.pytest_report_to_serializable(config=item.config, report=report)
    return stored


if __name__ == "__main__":
    prepare_mounts()
    sys.exit(pytest.main([*sys.argv[2:], "-p", "no:cacheprovider", "--basetemp", "/run/virtoll/tmp/pytest"]))
