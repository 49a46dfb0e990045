"""`make test-quick`: which tests come first, and which are left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import PurePath

import pytest
from tests.support import quick
from tests.support.commands import environment
from tests.support.repository import ROOT


@pytest.mark.parametrize(
    ("changed", "test", "distance"),
    [
        ("src/virtoll/stats/bounds.py", "stats/test_bounds.py", 0),
        ("src/virtoll/stats/bounds.py", "stats/test_drift.py", 1),
        ("src/virtoll/stats/bounds.py", "agent/test_lines.py", 2),
        ("src/virtoll/workloads/bonnie.py", "workloads/test_bonnie.py", 0),
        ("tests/agent/test_lines.py", "agent/test_lines.py", 0),
        ("tests/agent/test_lines.py", "agent/test_pi.py", 1),
        ("docs/index.md", "agent/test_pi.py", 2),
    ],
)
def test_what_tests_the_change_comes_first(changed: str, test: str, distance: int) -> None:
    assert quick.distance(ROOT / "tests" / test, frozenset({PurePath(changed)})) == distance


def test_labs_and_long_tests_are_left_out() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--quick",
        "--collect-only",
        "-q",
        "tests/agent",
        "tests/lab/test_inside.py",
    ]
    listed = subprocess.run(command, cwd=ROOT, env=environment(), capture_output=True, text=True, check=True).stdout
    assert "tests/agent/test_lines.py" in listed
    assert "test_inside.py" not in listed
