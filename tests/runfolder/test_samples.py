"""The run folder: what is written can be read, a killed writer loses nothing finished, a full disk is survived."""

import errno
import json
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import environment
from tests.support.facts import Command, refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.errors import RunFolderError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.records import CommandRecord, TrialRecord
from virtoll.runfolder.store import FORMAT, RunFolder, parse_record, to_json

APPENDS_TO_A_FULL_DISK = """if True:
    import resource, signal, sys
    from pathlib import Path
    from virtoll.errors import StorageError
    from virtoll.runfolder import jsonlines
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    path = Path(sys.argv[1])
    limit = path.stat().st_size + 10
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        jsonlines.append(path, {"a": "b" * 100})
    except StorageError as error:
        print(error)
        sys.exit(7)
"""
RUN = made_up_run({"native": {}}, [Made("native", "superpi", {"digits": 16}, value=1e9)], blocks=1)


def trial_json(number: int = 0) -> dict[str, Any]:
    """A trial as it is stored."""
    return {**to_json(RUN.trials[0]), "trial": number}


def trial(number: int = 0, **changed: Any) -> TrialRecord:
    return parse_record(TrialRecord, trial_json(number) | changed)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", RUN.manifest)


def test_what_is_appended_is_read_back(folder: RunFolder) -> None:
    folder.append_trial(trial())
    folder.append_command(CommandRecord(1, "guest é", ("a", "\u2028\r"), None))
    again = RunFolder.open(folder.path)
    assert again.manifest == folder.manifest
    assert again.trials() == (trial(),)
    assert again.commands()[0].argv == ("a", "\u2028\r")
    assert again.boots() == ()
    assert again.fitness() == ()


def test_the_latest_record_of_a_trial_counts(folder: RunFolder) -> None:
    folder.append_trial(trial(0, status="failed", reason="the guest died"))
    folder.append_trial(trial(1))
    folder.append_trial(trial(0))
    assert [(record.trial, record.status) for record in folder.latest_trials()] == [(0, "ok"), (1, "ok")]
    assert folder.finished_trials() == {0, 1}
    assert len(folder.trials()) == 3


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_is_dropped_on_reading_and_cut_on_resuming(folder: RunFolder, cut: int) -> None:
    folder.append_trial(trial(0))
    folder.append_trial(trial(1))
    path = folder.path / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert folder.finished_trials() == {0}
    assert folder.repair().keys() == {"trials.jsonl"}
    assert folder.repair() == {}
    folder.append_trial(trial(1))
    assert folder.finished_trials() == {0, 1}


def test_a_last_line_of_zeroes_is_torn(folder: RunFolder) -> None:
    folder.append_trial(trial(0))
    with (folder.path / "trials.jsonl").open("ab") as file:
        file.write(b"\0" * 20 + b"\n")
    assert folder.finished_trials() == {0}
    assert folder.repair() == {"trials.jsonl": 21}


def test_damage_in_the_middle_is_not_passed_over(folder: RunFolder) -> None:
    folder.append_trial(trial(0))
    path = folder.path / "trials.jsonl"
    path.write_bytes(b'{"trial": 0}\n' + path.read_bytes())
    with refused(path, "line 1", "block", error=RunFolderError):
        folder.trials()


def test_a_record_that_could_not_be_read_is_not_written(folder: RunFolder) -> None:
    changes: tuple[dict[str, Any], ...] = (
        {"trial": "0"},
        {"status": "fine"},
        {"points": ({"backend": "af-packet"},)},
        {"result": {"x": float("nan")}},
        {"result": {"x": folder.path}},
    )
    for changed in changes:
        with pytest.raises(RunFolderError):
            folder.append_trial(replace(trial(), **changed))
    assert not (folder.path / "trials.jsonl").exists()


def test_json_that_is_no_record_is_refused() -> None:
    for record in (
        trial_json() | {"trial": "0"},
        {key: value for key, value in trial_json().items() if key != "points"},
        trial_json() | {"result": {"x": float("nan")}},
    ):
        with pytest.raises(RunFolderError):
            parse_record(TrialRecord, record)


def test_what_an_agent_reports_without_a_field_for_it_is_stored(folder: RunFolder) -> None:
    """Nothing is dropped before it is stored: the keys and values are those that the agent and the workload gave."""
    source = {"source": 0, "intended_frames": 2, "offered_frames": 2, "unsent_frames": 0, "cpus_ran_on": [1]}
    sink: dict[str, object] = {
        "source": 0,
        "forwarded_frames": 2,
        "duplicate_frames": 0,
        "reordered_frames": 0,
        "lost_frames": 0,
    }
    point = {
        "intended_rate_frames_per_second": None,
        "duration_ns": 5,
        "frame_size_bytes": 64,
        "backend": "af-packet",
        "sources": [source | {"start_monotonic_ns": 1, "end_monotonic_ns": 2}],
        "sink": {
            "per_source": [sink | {"first_received_monotonic_ns": 1, "last_received_monotonic_ns": None, "ttl": 63}],
            "foreign_frames": 0,
            "late_trial_frames": 0,
            "kernel_dropped_frames": None,
            "drained": True,
            "ring": {"frames": 4096},
        },
        "interfaces": [{"name": "p0in0", "queues": [1, 2]}],
    }
    check = {"value": [1], "expected": None, "ok": True, "rounds": 3}
    clock = {
        "method": "icmp",
        "marks": {"start_ns": 1, "end_ns": 2, "sequence": 7},
        "channel_marks": None,
        "realtime_step_ns": 0,
        "path_delay_before_ns": [1],
        "path_delay_after_ns": [],
        "error_estimate_ns": 1,
        "guest": None,
        "source": "tsc",
    }
    given = trial_json() | {"points": [point], "check": check, "clock": clock, "result": {"figures": {"x": [1.5]}}}
    folder.append_trial(parse_record(TrialRecord, given))
    stored = json.loads((folder.path / "trials.jsonl").read_text())
    assert lacking(given, stored) == []
    assert to_json(folder.trials()[0]) == stored, "and what is read can be written again"


def lacking(given: object, stored: object, where: str = "") -> list[str]:
    """Where a value of the first is not in the second."""
    if isinstance(given, dict) and isinstance(stored, dict):
        return [each for key in given for each in lacking(given[key], stored.get(key, "no key"), f"{where}.{key}")]
    if isinstance(given, list) and isinstance(stored, list) and len(given) == len(stored):
        pairs = enumerate(zip(given, stored, strict=True))
        return [each for number, (one, other) in pairs for each in lacking(one, other, f"{where}[{number}]")]
    return [] if given == stored else [where]


def test_another_format_is_refused(folder: RunFolder) -> None:
    path = folder.path / "manifest.json"
    path.write_text(json.dumps({"format": FORMAT - 1}))
    with refused(folder.path, f"format {FORMAT - 1}", FORMAT, error=RunFolderError):
        RunFolder.open(folder.path)
    path.write_text("[]")
    with refused(path, "JSON", error=RunFolderError):
        RunFolder.open(folder.path)


def test_no_run_and_a_run_already_there(folder: RunFolder, tmp_path: Path) -> None:
    with refused(tmp_path, Command("virtoll list runs"), error=RunFolderError):
        RunFolder.open(tmp_path)
    with refused(folder.path, Command(f"virtoll resume {folder.path}"), error=RunFolderError):
        RunFolder.create(folder.path, RUN.manifest)


def test_the_state_is_replaced(folder: RunFolder) -> None:
    assert folder.state().state == "running"
    folder.set_state("interrupted", "Ctrl-C")
    assert (folder.state().state, folder.state().reason) == ("interrupted", "Ctrl-C")
    assert sorted(path.name for path in folder.path.iterdir()) == ["evidence", "manifest.json", "state.json"]


def test_a_failed_append_takes_its_partial_line_back(folder: RunFolder) -> None:
    """A real short write: the process's file size limit stops the line in its middle, as a full disk does."""
    folder.append_trial(trial(0))
    path = folder.path / "trials.jsonl"
    before = path.read_bytes()
    command = [sys.executable, "-c", APPENDS_TO_A_FULL_DISK, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert ended.returncode == 7, ended.stderr
    assert os.strerror(errno.EFBIG) in ended.stdout
    assert path.read_bytes() == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    folder.append_trial(trial(1))
    assert folder.finished_trials() == {0, 1}


def test_a_device_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with refused(full, "link", error=RunFolderError):
        jsonlines.append(full, {"a": 1})
