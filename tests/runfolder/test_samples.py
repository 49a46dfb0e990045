"""The run folder: what is written can be read, a killed writer loses nothing finished, a full disk is survived."""

import errno
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import environment
from tests.support.facts import Command, refused
from tests.support.made_up_run import Made, made_up_run

from virtoll.errors import RunFolderError
from virtoll.runfolder import jsonlines
from virtoll.runfolder.records import CommandRecord, TrialRecord
from virtoll.runfolder.store import FORMAT, RunFolder, parse_record

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
        jsonlines.append(path, jsonlines.encode({"a": "b" * 100}))
    except StorageError as error:
        print(error)
        sys.exit(7)
"""
RUN = made_up_run({"native": {}}, [Made("native", "superpi", {"digits": 16}, value=1e9)], blocks=1)


def trial_json(number: int = 0) -> dict[str, Any]:
    """A trial as it is stored."""
    return {**RUN.trials[0].to_json(), "trial": number}


def trial(number: int = 0, **changed: Any) -> TrialRecord:
    return parse_record(TrialRecord, trial_json(number) | changed)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(tmp_path / "run", RUN.manifest)


def test_what_is_appended_is_read_back(folder: RunFolder) -> None:
    folder.append(trial())
    folder.append(CommandRecord(1, "guest é", ("a", "\u2028\r"), None))
    again = RunFolder.open(folder.path)
    assert again.manifest == folder.manifest
    assert again.trials() == (trial(),)
    assert again.commands()[0].argv == ("a", "\u2028\r")
    assert again.boots() == ()
    assert again.fitness() == ()


def test_the_latest_record_of_a_trial_counts(folder: RunFolder) -> None:
    folder.append(trial(0, status="failed", reason="the guest died"))
    folder.append(trial(1))
    folder.append(trial(0))
    assert [(record.trial, record.status) for record in folder.latest_trials()] == [(0, "ok"), (1, "ok")]
    assert folder.finished_trials() == {0, 1}
    assert len(folder.trials()) == 3


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_is_dropped_on_reading_and_cut_on_resuming(folder: RunFolder, cut: int) -> None:
    folder.append(trial(0))
    folder.append(trial(1))
    path = folder.path / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    assert folder.finished_trials() == {0}
    assert folder.repair().keys() == {"trials.jsonl"}
    assert folder.repair() == {}
    folder.append(trial(1))
    assert folder.finished_trials() == {0, 1}


def test_a_last_line_of_zeroes_is_torn(folder: RunFolder) -> None:
    folder.append(trial(0))
    with (folder.path / "trials.jsonl").open("ab") as file:
        file.write(b"\0" * 20 + b"\n")
    assert folder.finished_trials() == {0}
    assert folder.repair() == {"trials.jsonl": 21}


def test_damage_in_the_middle_is_not_passed_over(folder: RunFolder) -> None:
    folder.append(trial(0))
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
            folder.append(trial().replace(**changed))
    assert not (folder.path / "trials.jsonl").exists()


def test_json_that_is_no_record_is_refused() -> None:
    for record in (
        trial_json() | {"trial": "0"},
        {key: value for key, value in trial_json().items() if key != "points"},
        trial_json() | {"result": {"x": float("nan")}},
    ):
        with pytest.raises(RunFolderError):
            parse_record(TrialRecord, record)


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


def test_a_manifest_that_could_not_be_read_is_not_written(folder: RunFolder, tmp_path: Path) -> None:
    for value in (float("nan"), tmp_path):
        wrong = RUN.manifest.replace(agent={"build": value})
        with pytest.raises(RunFolderError):
            RunFolder.create(tmp_path / "new", wrong)
        assert not (tmp_path / "new").exists()
        with pytest.raises(RunFolderError):
            folder.extend(wrong)
    assert folder.state().state == "running"


def test_the_state_is_replaced(folder: RunFolder) -> None:
    assert folder.state().state == "running"
    folder.set_state("interrupted", "Ctrl-C")
    assert (folder.state().state, folder.state().reason) == ("interrupted", "Ctrl-C")
    assert sorted(path.name for path in folder.path.iterdir()) == ["evidence", "manifest.json", "state.json"]


def test_a_failed_append_takes_its_partial_line_back(folder: RunFolder) -> None:
    """A real short write: the process's file size limit stops the line in its middle, as a full disk does."""
    folder.append(trial(0))
    path = folder.path / "trials.jsonl"
    before = path.read_bytes()
    command = [sys.executable, "-c", APPENDS_TO_A_FULL_DISK, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    assert ended.returncode == 7, ended.stderr
    assert os.strerror(errno.EFBIG) in ended.stdout
    assert path.read_bytes() == before
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
    folder.append(trial(1))
    assert folder.finished_trials() == {0, 1}


def test_a_device_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    with refused(full, "link", error=RunFolderError):
        jsonlines.append(full, jsonlines.encode({"a": 1}))
