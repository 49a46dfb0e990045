"""Who is stopped while it is measured is found, and who lost a process to the kernel's memory killer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support import experiments, machine
from tests.support.facts import assert_facts, missing_facts
from tests.support.model_runs import run

from virtoll.errors import GuestDied
from virtoll.lab import residue
from virtoll.lab.cgroups import Group, Limits, MemoryKills, detect, make_group
from virtoll.lab.inside import wait_until
from virtoll.pipeline import live_guest, standstill
from virtoll.workloads.base import Bench, Measurement
from virtoll.workloads.superpi import SuperPi

REAL = Path("/proc")
IS_STOPPED = standstill.is_stopped  # one test counts how often it is called
JOB = {"workload": "superpi", "digits": 1000}
MIB = 2**20
HOG = (
    "import os, sys; open('/proc/self/oom_score_adj', 'w').write('1000');"
    "[open(name, 'w').write('0') for name in sys.argv[1:]]; kept = [bytearray(1 << 20) for _ in range(256)]"
)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """One that waits."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as waiting:
        yield waiting
        os.kill(waiting.pid, signal.SIGCONT)
        waiting.communicate()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop it; it stands still when this returns."""
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: IS_STOPPED(process.pid), machine.END_SECONDS, "its stop")


def test_a_process_that_was_stopped_is_found(process: subprocess.Popen[bytes]) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as other:
        with standstill.watched([process.pid, other.pid, 2**22 + 1]) as found:
            assert found == set()
            stop(process)
            wait_until(lambda: bool(found), machine.END_SECONDS, "that it is found")
            os.kill(process.pid, signal.SIGCONT)
        assert found == {process.pid}, "also when it goes on"
        other.communicate()


def test_a_stop_before_and_after_is_none_meanwhile(process: subprocess.Popen[bytes]) -> None:
    stop(process)
    os.kill(process.pid, signal.SIGCONT)
    with standstill.watched([process.pid]) as found:
        pass
    stop(process)
    assert found == set()


def test_a_trial_whose_guest_was_stopped_fails_with_that_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: subprocess.Popen[bytes]
) -> None:
    """The guest, a model, has a real process here, which is stopped in its first trial and looked at twice."""
    looks: list[int] = []
    measured = SuperPi.measure

    def counted(pid: int) -> bool:
        looks.append(pid)
        return IS_STOPPED(pid)

    def stopped_once(job: SuperPi, bench: Bench) -> Measurement:
        if not looks:
            stop(process)
            wait_until(lambda: len(looks) >= 3, machine.END_SECONDS, "that it is looked at")
            os.kill(process.pid, signal.SIGCONT)
        return measured(job, bench)

    monkeypatch.setattr(live_guest, "_pids", lambda _: (process.pid,))  # a model has no process of its own
    monkeypatch.setattr(SuperPi, "measure", stopped_once)
    with monkeypatch.context() as counting:
        counting.setattr(standstill, "is_stopped", counted)
        first, second = run(tmp_path / "run", platforms=[experiments.fake("model")], workloads=[JOB]).trials()
    assert (first.status, second.status) == ("failed", "ok")
    assert_facts(first.reason or "", "SIGSTOP")


@pytest.fixture
def group() -> Iterator[Group]:
    """A cgroup as of a guest with little memory."""
    if "memory" not in detect().controllers:
        pytest.skip("this host has no memory controller")
    record, lock = residue.create_record()
    made = make_group(record.lab_id, "guest", Limits(memory_bytes=64 * MIB))
    yield made
    made.remove()
    os.close(lock)
    residue.sweep(record)


def out_of_memory(group: Group) -> None:
    """A process more in the group that takes more than it has; the kernel kills it."""
    files = map(str, group.process_files)
    assert subprocess.run([sys.executable, "-c", HOG, *files], check=False).returncode == -signal.SIGKILL


@pytest.mark.root
@pytest.mark.parametrize("dies", [False, True])
def test_a_trial_whose_guest_lost_a_process_for_want_of_memory_fails(
    dies: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, process: subprocess.Popen[bytes], group: Group
) -> None:
    """The guest, a model, has a real process in a real cgroup; another one of it is killed, with which it may die."""
    for file in group.process_files:
        file.write_text(str(process.pid), encoding="ascii")
    (folder, before), *others = MemoryKills.of([process.pid, process.pid]).counts.items()
    assert (folder.name, before, others) == ("guest", 0, [])
    trials: list[int] = []
    measured = SuperPi.measure

    def starved_once(job: SuperPi, bench: Bench) -> Measurement:
        if not trials:
            out_of_memory(group)
        trials.append(len(trials))
        if dies and len(trials) == 1:
            raise GuestDied("model/0 ended while it was needed")
        return measured(job, bench)

    monkeypatch.setattr(live_guest, "_pids", lambda _: (process.pid, 2**22 + 1))  # a model has none of its own
    monkeypatch.setattr(SuperPi, "measure", starved_once)
    first, second = run(tmp_path / "run", platforms=[experiments.fake("model")], workloads=[JOB]).trials()
    assert (first.status, second.status) == ("failed", "ok"), "what was lost before a trial is not its own"
    assert_facts(first.reason or "", "kernel killed", "memory", 1)
    assert missing_facts(first.reason or "", "model/0 ended") == ([] if dies else ["model/0 ended"])
    assert MemoryKills.of([process.pid]).counts == {folder: 1}


@pytest.mark.root
def test_in_a_shared_group_a_guest_lost_only_its_own_processes(process: subprocess.Popen[bytes], group: Group) -> None:
    """As of two machines without limits, which are where the controller is."""
    for file in group.process_files:
        file.write_text(str(process.pid), encoding="ascii")
    own = MemoryKills.of([process.pid])
    (folder,) = own.counts
    shared = replace(own, shared=folder)
    out_of_memory(group)
    assert (own.since(), shared.since()) == (1, 0), "another one was killed"
    process.kill()
    wait_until(lambda: shared.since() == 1, machine.END_SECONDS, "that its process has ended")
    assert own.shared is not None
    assert own.shared != folder


def test_who_is_traced_stands_still_as_it_works(tmp_path: Path) -> None:
    """User-Mode Linux and gVisor do so with their guests' processes."""
    for state, tracer, stopped in (
        ("T (stopped)", 0, True),
        ("T (stopped)", 7, False),
        ("t (tracing stop)", 7, False),
        ("S (sleeping)", 0, False),
    ):
        folder = tmp_path / f"{len(list(tmp_path.iterdir())) + 1}"
        folder.mkdir()
        (folder / "status").write_text(f"Name:\tx\nState:\t{state}\nTracerPid:\t{tracer}\nUid:\t0\n")
        assert standstill.is_stopped(int(folder.name), tmp_path) is stopped
    assert not standstill.is_stopped(99, tmp_path)
    assert not standstill.is_stopped(os.getpid(), REAL)
