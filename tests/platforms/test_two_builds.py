"""Two builds of a runtime in one run with real guests: each side starts its own, and a changed one is refused."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from tests.support import experiments
from tests.support.commands import in_process, virtoll
from tests.support.facts import assert_facts, assert_refused
from tests.support.guests import right_or_disturbed
from tests.support.present import present
from tests.support.real_run import measure_experiment

from virtoll.runfolder.store import RunFolder

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.timeout(600)]


def wrapper(folder: Path, program: str) -> Path:
    """A program that notes each start of it in ``started.txt``, and is the real one then."""
    real = shutil.which(program)
    assert real is not None, f"{program} is needed to run containers at all ('virtoll setup')"
    folder.mkdir()
    file = folder / program
    file.write_text(f'#!/bin/sh\necho "$@" >> {folder}/started.txt\nexec {real} "$@"\n')
    file.chmod(0o755)
    return file


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_another_build_of_runc_is_measured_beside_the_hosts_own(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = experiments.write(
        tmp_path,
        platforms=["native", "native-again", "netns", "runc"],
        blocks=1,
        guest={"memory": "128MiB"},
        workloads=[{"workload": "forkwait", "processes": 100}],
    )
    build, run = wrapper(tmp_path / "build", "runc"), tmp_path / "run"
    ended = in_process("run", file, "--against", build.parent, "--into", run, runs=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert_facts(capfd.readouterr().out, "netns")  # the lab's own process says it
    folder = RunFolder.open(run)
    assert [(trial.platform, trial.reason) for trial in folder.trials() if trial.status != "ok"] == []
    assert {boot.boot for boot in folder.boots()} == {"native/0", "native-again/0", "runc/0", "runc.b/0"}
    record = present(folder.manifest.against)
    assert (record.settings, record.pairs) == ((str(build.parent),), (("runc", "runc.b"),))
    assert record.programs == {"a": {"runc": digest(Path(shutil.which("runc") or ""))}, "b": {"runc": digest(build)}}
    started = [line for line in (build.parent / "started.txt").read_text().splitlines() if " run --bundle " in line]
    assert [line.split()[-1] for line in started if line.endswith("-0")] == ["runc.b-0"]
    own = next(one.argv for one in folder.commands() if one.role == "guest runc.b/0" and "--bundle" in one.argv)
    other = next(one.argv for one in folder.commands() if one.role == "guest runc/0" and "--bundle" in one.argv)
    assert own[own.index("--root") + 1] != other[other.index("--root") + 1], "their state is apart"

    build.write_text(f"{build.read_text()}# changed\n")
    assert_refused(virtoll("extend", run, "--blocks", "+1", runs=tmp_path), "runc", "side B", "SHA-256")


@pytest.mark.skipif(shutil.which("crun") is None, reason="needs crun: it is the other runtime")
def test_another_runtime_is_measured_beside_the_first(tmp_path: Path) -> None:
    folder = measure_experiment(
        tmp_path,
        platforms=["native", {"platform": "oci", "runtime": "runc", "label": "container"}],
        blocks=1,
        guest={"memory": "128MiB"},
        workloads=[{"workload": "forkwait", "processes": 100}],
        against=["runtime=crun"],
    )
    versions = {one.label: str(one.version).split()[0] for one in folder.manifest.platforms}
    assert {label: versions[label] for label in ("container", "container.b")} == {
        "container": "runc",
        "container.b": "crun",
    }
    assert [trial.reason for trial in folder.trials() if not right_or_disturbed(trial)] == []
