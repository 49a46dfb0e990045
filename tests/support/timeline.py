"""When each test ran, where, and how much CPU time it took: one line of JSON a phase, for ``tools/timeline.py``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

FILE_VARIABLE = "VIRTOLL_TEST_TIMELINE"
"""The file that gets a line for each phase of each test."""
LAB_NUMBER_VARIABLE = "VIRTOLL_TEST_LAB_NUMBER"
_CPU, _LANE = "cpu_seconds", "lane"


class Timeline:
    """Measures each phase in the process that runs it, and writes it in the process that reports it."""

    def __init__(self) -> None:
        self._used = _cpu_seconds()
        self._file = os.environ.get(FILE_VARIABLE)

    def measure(self, report: pytest.TestReport) -> None:
        """Add to a new report the CPU seconds since the last one, of this process and its ended children."""
        used = _cpu_seconds()
        lab = os.environ.get(LAB_NUMBER_VARIABLE)
        lane = f"lab {lab}" if lab else os.environ.get("PYTEST_XDIST_WORKER", "main")
        report.user_properties += [(_CPU, round(used - self._used, 3)), (_LANE, lane)]
        self._used = used

    def write(self, report: pytest.TestReport) -> None:
        """Write a report's line if a file is asked for."""
        properties = dict(report.user_properties)
        if self._file is None or _CPU not in properties:
            return
        line = {
            "test": report.nodeid,
            "phase": report.when,
            "outcome": report.outcome,
            "start": report.start,
            "stop": report.stop,
            _CPU: properties[_CPU],
            _LANE: properties[_LANE],
        }
        with Path(self._file).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
