"""The short form of the campaign in emulated machines: what decides there is tried on what a machine said.

A machine itself boots in `python benches/survive machines` and `reboots` alone: Python starts slowly in emulation.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from benches.survive import emulated, machine_scripts, machines, reboots
from tests.support.facts import assert_facts, missing_facts


def line(number: int) -> bytes:
    return json.dumps({"trial": number}).encode() + b"\n"


@pytest.mark.parametrize(
    ("before", "now", "told", "wrong"),
    [
        (b"", b"", 0, None),
        (line(0), line(0) + line(1), 1, None),
        (line(0), line(0) + line(1) + b'{"tri', 1, None),
        (line(0) + b'{"tri', line(0) + line(1), 1, None),
        (line(0), line(0), 1, (1, 0)),
        (line(0) + line(1), line(0), 0, ("trials.jsonl",)),
        (line(0), line(0) + line(0), 1, ("twice", 0)),
    ],
)
def test_what_a_reboot_lost_is_named(before: bytes, now: bytes, told: int, wrong: tuple[str | int, ...] | None) -> None:
    found = reboots.checked(before, now, told)
    assert any(not missing_facts(one, *wrong) for one in found) if wrong else found == [], found


def superpi(platform: str, cpu: float, wall: float) -> dict[str, object]:
    return {"platform": platform, "workload": "superpi", "status": "ok", "cpu": [cpu, wall]}


def test_a_limit_is_judged_by_cpu_time_and_not_by_how_long_a_job_took() -> None:
    """An emulator's pace changes from job to job: one with half a CPU took 0.7 of the time of one with all of it."""
    held = [superpi("native", 1.9, 2.0), superpi("netns-half", 0.74, 1.4), superpi("runc-half", 0.9, 1.75)]
    assert_facts(machines.shares(held), "native 0.95", "netns-half 0.53", "runc-half 0.51")
    assert machines.not_held(held) == []
    for cpu, wall, facts in ((1.3, 1.4, ("1.30 s", "1.40 s")), (0.1, 0.2, ("0.20 s",))):
        (reason,) = machines.not_held([superpi("runc-half", cpu, wall)])
        assert_facts(reason, "runc-half", *facts)
    unknown: dict[str, object] = {"platform": "runc-half", "workload": "superpi", "status": "failed", "cpu": None}
    assert machines.shares([unknown]) == "not measured"


def test_cpu_time_is_that_of_all_of_a_guests_processes(tmp_path: Path) -> None:
    """As the program in a machine reads it from a run folder."""

    def reading(at: int, *times: int) -> dict[str, object]:
        rows = [{"cpu_ns": one, "children_user_ns": 0, "children_system_ns": 10**8} for one in times]
        return {"monotonic_ns": at, "processes": rows}

    spans = [{"before": reading(0, 0), "after": reading(10**9, 4 * 10**8, 10**8)}]
    row = {"trial": 0, "platform": "netns", "workload": "superpi", "status": "ok", "reason": None}
    rows = [{**row, "host_cpu": {"measured": spans}}, {**row, "host_cpu": None}]
    (tmp_path / "trials.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in rows), encoding="utf-8")
    command = [sys.executable, "-c", machine_scripts.PROGRAMS["told"], str(tmp_path)]
    told = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    assert [one["cpu"] for one in told] == [[0.6, 1.0], None]


def test_a_back_end_that_does_not_work_is_reported_with_its_reason() -> None:
    row = machines.Row("5.10", "debian-12", "5.10.0-32", wire={"live-frames": "Linux 5.18 is needed", "af-xdp": None})
    assert_facts(row.wire_text(), "5.10.0-32", "debian-12", "Linux 5.18 is needed")


def test_jobs_of_platforms_that_were_not_asked_for_are_left_out() -> None:
    asked = machines.Asked(labels=["runc-small"])
    assert asked.skipped() == ["runc-small:forward", "runc-small:superpi"]
    assert [machines.label_of(one) for one in asked.platforms(machines._PLATFORMS)] == ["native", "runc-small"]
    assert len(machines.Asked().platforms(machines._PLATFORMS)) == len(machines.LABELS)


def test_docker_s_client_is_a_package_of_newer_releases() -> None:
    assert "docker-cli" not in machines.packages_of("debian-12")
    assert {"docker.io", "docker-cli"} <= {*machines.packages_of("debian-13")} & {*machines.packages_of("debian-sid")}
    assert "docker.io" not in machines.packages_of("bare")


def test_the_scripts_of_a_machine_are_ones_that_a_shell_reads(tmp_path: Path) -> None:
    scripts = {name: text for one in (emulated, machine_scripts, reboots) for name, text in one.SCRIPTS.items()}
    for name, text in scripts.items():
        file = tmp_path / name
        file.write_text(text, encoding="utf-8")
        finished = subprocess.run(["bash", "-n", str(file)], capture_output=True, text=True, check=False)
        assert (finished.returncode, finished.stderr) == (0, ""), name
    for name, text in machine_scripts.PROGRAMS.items():
        compile(text, name, "exec")


def test_each_kernel_and_each_root_that_can_run_it_is_there_once() -> None:
    assert {kernel for kernel, _ in machines.PAIRS} == set(emulated.KERNELS)
    assert {root for _, root in machines.PAIRS} >= {"debian-12", "debian-13", "debian-sid", "bare"}
