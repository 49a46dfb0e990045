"""A run of every kind of real guest, and ``virtoll explain``: what guests certainly do is counted, or named."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support import experiments, machine
from tests.support.commands import virtoll
from tests.support.drawings import Blank, drawn_by
from tests.support.facts import assert_facts
from tests.support.guests import STARVED, right_or_disturbed
from tests.support.playground import kill_all, playground
from tests.support.real_run import measure_experiment, measuring

from virtoll.report import build_report
from virtoll.runfolder.explain_records import ObservedTrial
from virtoll.runfolder.store import RunFolder
from virtoll.runfolder.sums import differences
from virtoll.stats.explanation import per_unit

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(1800)]
PLATFORMS = ("native", "netns", "runc", "qemu-tcg")
PROCESSES = 211  # a prime number of children, in each job
SWEEP = {"sweep": "from-flat-out", "first_rate_frames_per_second": 2000, "rate_factor": 64}
FORWARD = {"workload": "forward", "frame_size_bytes": 64, "point_milliseconds": 200, "cpu_milliseconds": 0, **SWEEP}


# So small that it bites on a busy host, too, which itself leaves a guest little of a CPU.
HELD = [{"platform": name, "label": f"held-{name}", "cpu_max": 0.02} for name in ("native", "runc")]


def counts(observed: Sequence[ObservedTrial], workload: str) -> dict[str, dict[str, float]]:
    """By platform, what a job or a frame has."""
    return {one.platform: per_unit(one) for one in observed if one.workload == workload}


def counted_or_named(one: ObservedTrial, name: str) -> float | None:
    """A counter of a trial; where it is missing, it has a reason."""
    found = per_unit(one)
    assert (name in found) != (name in one.uncounted), (one.platform, name, one.uncounted)
    return found.get(name)


@pytest.fixture(scope="module")
def every_kind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with every kind of guest, two of which a quota holds back in a job that the others do not run."""
    folder = measure_experiment(
        tmp_path_factory.mktemp("every-kind"),
        platforms=[*PLATFORMS, *HELD],
        guest={"vcpus": 1, "memory": "128MiB"},
        blocks=1,
        baseline="native",
        workloads=[
            FORWARD,
            {"workload": "forkwait", "processes": PROCESSES},
            {"workload": "superpi", "digits": 30_000},
        ],
        skip=["held-*:for*", *(f"{name}:superpi" for name in PLATFORMS)],
    )
    return folder.path


def test_a_block_with_every_kind_of_guest_is_ok(every_kind: Path) -> None:
    folder = RunFolder.open(every_kind)
    wrong = [trial for trial in folder.trials() if not right_or_disturbed(trial)]
    assert [(trial.platform, trial.workload, trial.reason) for trial in wrong] == []
    assert len(folder.trials()) == 2 * len(PLATFORMS) + len(HELD)
    for trial in folder.trials():
        asked = [point.intended_rate_frames_per_second for point in trial.points or ()]
        assert not asked or asked[0] is None
        on_grid = {2000.0 * 64**step for step in range(24)}
        off_grid = set(asked[1:]) - on_grid
        assert len(off_grid) <= 1 + 4, "one between two of them, and at most four below the maximum"
        assert len(asked) == len(set(asked)) != 1, "flat out, and at least the one below the maximum"
    boots = folder.boots()
    assert {boot.status for boot in boots} == {"ok"}
    assert len(boots) == len({boot.boot for boot in boots}) == len(PLATFORMS) + len(HELD)
    assert len({boot.facts.agent_sha256 for boot in boots if boot.facts}) == 1
    assert folder.state().state == "complete"
    roles = {command.role for command in folder.commands()}
    assert {"network peer", "probe", "guest runc/0", "guest qemu-tcg/0"} <= roles


@dataclass(frozen=True)
class Explained:
    """A run whose first explanation was killed: what it left, what it kept, and what is there after two others.

    ``differences``: in the run folder, after the first and after the last.
    """

    run: Path
    left: list[str]
    kept: tuple[ObservedTrial, ...]
    observed: tuple[ObservedTrial, ...]
    differences: tuple[tuple[str, ...] | None, ...]
    document: dict[str, Any]


@pytest.fixture(scope="module")
def explained(every_kind: Path) -> Iterator[Explained]:
    """The run of every kind; the first explanation is killed after three trials at least."""
    with playground(root=True) as place:
        run = Path(shutil.copytree(every_kind, place.runs / "run"))
        explanations = RunFolder.open(run).explanations
        chosen = ("--only", "*:forkwait", "--platform", "native", "--platform", "netns")
        with place.start("explain", run, "--trials", "30", *chosen) as running:
            running.wait_until(lambda: len(explanations.observed()) >= 3, "three observed trials")
            seen = machine.family(running.process.pid)
            kill_all([one for one in seen.processes if one.pid == running.process.pid])
            running.process.wait()
            left, _ = place.settle(seen, running.token)
        kept, unlike = RunFolder.open(run).explanations.observed(), differences(run)
        again = virtoll("explain", run, "--trials", "2", *chosen)
        assert again.returncode == 0, again.stderr
        finished = virtoll("explain", run, "--trials", "1", "--json", "--only", "*:for*", "--only", "held-*:superpi")
        assert finished.returncode == 0, finished.stderr
        observed = RunFolder.open(run).explanations.observed()
        whole = (unlike, differences(run))
        yield Explained(run, left, kept, observed, whole, json.loads(finished.stdout))


def test_what_every_kind_of_guest_certainly_does_is_counted(explained: Explained) -> None:
    observed = [one for one in explained.observed if one.workload != "superpi"]
    assert {(one.platform, one.workload) for one in observed} == {
        (platform, workload) for platform in PLATFORMS for workload in ("forward", "forkwait")
    }
    counted = [one for one in observed if STARVED not in (one.reason or "")]
    assert [one.reason for one in counted if one.status != "ok"] == []
    for one in counted:
        assert one.cpus
        calls = counted_or_named(one, "system_calls")
        if one.workload == "forkwait" and one.platform != "qemu-tcg":
            assert per_unit(one)["minor_faults"] >= PROCESSES, "each child copies a page at least"
            assert calls is None or calls >= 2 * PROCESSES, "it is made, and waited for"
        if one.workload == "forward":
            assert one.jobs is None
            assert all(span.forwarded_frames for span in one.spans)
            switches = "kernel_thread_switches" in per_unit(one)
            unswitched = "kernel threads" in one.uncounted or _sent_by_peer(RunFolder.open(explained.run))
            assert switches or one.platform == "qemu-tcg" or unswitched
    translated = counts(observed, "forkwait")["qemu-tcg"]
    assert translated["translated_blocks"] > 0 or "translated_blocks" in _of(observed, "qemu-tcg").uncounted
    assert all(
        "translated_blocks" not in found for name, found in counts(observed, "forkwait").items() if name != "qemu-tcg"
    )
    assert any("qemu-tcg" in text for one in explained.document["explanations"] for text in one["sentences"])
    with drawn_by(Blank):
        page = build_report(explained.run).path
    assert '<section id="explanation" ' in page.read_text(encoding="utf-8")


def _of(observed: Sequence[ObservedTrial], platform: str) -> ObservedTrial:
    return next(one for one in observed if one.platform == platform and one.workload == "forkwait")


def _sent_by_peer(folder: RunFolder) -> bool:
    """Whether no thread of the kernel's receives for the guests of this host: then the sender's core does."""
    return any(boot.forwarding is not None and boot.forwarding.means is None for boot in folder.boots())


def test_a_quota_that_bites_is_counted(explained: Explained) -> None:
    held = [one for one in explained.observed if one.workload == "superpi"]
    assert {one.platform for one in held} == {one["label"] for one in HELD}
    for one in held:
        found = per_unit(one)
        if one.status == "ok" and "throttling" not in one.uncounted:
            assert found["throttled_periods"] > 0
            assert found["throttled_ns"] > 0


def test_an_ordinary_user_is_told_what_needs_root() -> None:
    with playground(root=False) as place:
        workloads = [{"workload": "forkwait", "processes": PROCESSES}]
        guest = {"vcpus": 1, "memory": "128MiB"}
        arguments, measured = measuring(experiments.write(place.runs, blocks=1, guest=guest, workloads=workloads))
        run = place.run(*arguments)
        assert run.process.returncode == 0, run.said
        explained = place.run("explain", measured, "--trials", "1")
        assert explained.process.returncode == 0, explained.said
        observed = RunFolder.open(measured).explanations.observed()
        assert {(one.platform, one.status) for one in observed} == {("native", "ok"), ("netns", "ok")}
        for one in observed:
            assert per_unit(one)["minor_faults"] >= PROCESSES, "its own processes need no right"
            assert "system_calls" not in per_unit(one)
            assert "root" in one.uncounted["system_calls"]
        assert_facts(explained.said, "root")


def test_a_kill_in_the_middle_keeps_what_was_observed_and_leaves_nothing(explained: Explained) -> None:
    assert not explained.left, "\n".join(explained.left)
    assert len(explained.kept) >= 3
    assert explained.differences == ((), ())
    assert explained.observed[: len(explained.kept)] == explained.kept
    assert {(one.platform, one.repetition) for one in explained.observed} >= {
        (name, number) for name in ("native", "netns") for number in (0, 1)
    }
