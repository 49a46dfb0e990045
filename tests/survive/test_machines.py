"""The short form of the campaign in emulated machines: what decides there is tried on what a machine said.

A machine itself boots in `python benches/survive machines` and `reboots` alone: Python starts slowly in emulation.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from benches.survive import emulated, machines, reboots

INSIDE_LAB = False


def line(number: int) -> bytes:
    return json.dumps({"trial": number}).encode() + b"\n"


@pytest.mark.parametrize(
    ("before", "now", "told", "wrong"),
    [
        (b"", b"", 0, None),
        (line(0), line(0) + line(1), 1, None),
        (line(0), line(0) + line(1) + b'{"tri', 1, None),
        (line(0) + b'{"tri', line(0) + line(1), 1, None),
        (line(0), line(0), 1, "1 trials were told as finished, and 0 came to the disk"),
        (line(0) + line(1), line(0), 0, "does not begin as it was"),
        (line(0), line(0) + line(0), 1, "a trial is there twice"),
    ],
)
def test_what_a_reboot_lost_is_told(before: bytes, now: bytes, told: int, wrong: str | None) -> None:
    found = reboots.checked(before, now, told)
    assert any(wrong in one for one in found) if wrong else found == [], found


def test_a_limit_is_told_as_a_factor_of_the_host() -> None:
    trials: list[dict[str, object]] = [
        {"platform": "native", "workload": "superpi", "status": "ok", "seconds": 2.0},
        {"platform": "netns-half", "workload": "superpi", "status": "ok", "seconds": 4.2},
        {"platform": "runc-half", "workload": "superpi", "status": "failed", "seconds": None},
        {"platform": "crun", "workload": "superpi", "status": "ok", "seconds": 2.0},
    ]
    assert machines.shares(trials) == "netns-half 2.1"
    assert machines.shares(trials[1:]) == "not measured"


def test_the_scripts_of_a_machine_are_ones_that_a_shell_reads(tmp_path: Path) -> None:
    scripts = {name: text for one in (emulated, machines, reboots) for name, text in one.SCRIPTS.items()}
    for name, text in scripts.items():
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        finished = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True, check=False)
        assert (finished.returncode, finished.stderr) == (0, ""), name


def test_each_kernel_and_each_root_that_can_run_it_is_there_once() -> None:
    assert {kernel for kernel, _ in machines.PAIRS} == set(emulated.KERNELS)
    assert {root for _, root in machines.PAIRS} >= {"debian-12", "debian-13", "debian-sid", "bare"}
