"""The JSON Schema of run folders: what is recorded is valid, line by line, and what readers refuse is not."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.support import synthetic_run
from tests.support.commands import virtoll
from tests.support.facts import assert_refused
from tests.support.repository import ROOT, load_tool

from virtoll.errors import RunFolderError
from virtoll.reference import __file__ as reference
from virtoll.runfolder import store
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.schema import FILES, SCHEMA_FILE
from virtoll.runfolder.store import parse_record

tables: ModuleType = load_tool("tables")
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
RECORDED = [
    *sorted((ROOT / "tests" / "recorded" / "runs").glob("*.tar.xz")),
    *sorted((Path(reference).parent / "runs").glob("*.tar.xz")),
]
MOST_LINES = 40  # of a file: the lines of one are alike, and each is of kilobytes


@cache
def validator(file: str) -> Draft202012Validator:
    """That of a file, or of a line of it."""
    return Draft202012Validator({"$ref": f"#/definitions/{file}", "definitions": SCHEMA["definitions"]})


def faults(file: str, value: Any) -> list[str]:
    """What the schema says of a record: the keys that are wrong."""
    return [error.json_path for error in validator(file).iter_errors(json.loads(json.dumps(value)))]


def documents(run: Path) -> Iterator[tuple[str, Any]]:
    """What a run folder and its explanations hold: each file of JSON, and lines of each other one from all over it."""
    for path in sorted([*run.glob("*.json"), *run.glob("*.jsonl"), *run.glob("explain/*.jsonl")]):
        if path.suffix == ".json":
            yield path.name, json.loads(path.read_text(encoding="utf-8"))
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for line in lines[:: max(1, len(lines) // MOST_LINES)]:
            yield path.name, json.loads(line)


def test_the_package_carries_what_the_records_say() -> None:
    assert tables.run_schema_text() == SCHEMA_FILE.read_text(encoding="utf-8"), "run 'make tables'"
    Draft202012Validator.check_schema(SCHEMA)
    assert json.loads(virtoll("show", "schema", "run-folder").stdout) == SCHEMA


def test_another_schema_is_refused() -> None:
    result = virtoll("show", "schema", "folder")
    assert_refused(result, "'folder'", "experiment", "run-folder")
    assert result.stdout == ""


def test_every_file_of_records_is_in_the_schema() -> None:
    assert {*store.LINES, "manifest.json", "state.json"} == set(FILES)
    assert set(SCHEMA["properties"]) == set(FILES) <= set(SCHEMA["definitions"])


@pytest.mark.parametrize("packed", RECORDED, ids=lambda path: path.name)
def test_a_recorded_run_is_valid(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(packed) as archive:
        archive.extractall(tmp_path)
    found = list(documents(tmp_path / packed.name.removesuffix(".tar.xz")))
    assert {"manifest.json", "state.json"} < {name for name, _ in found}
    assert [(name, wrong) for name, value in found if (wrong := faults(name, value))] == []


def test_a_whole_folder_is_valid_as_one_object() -> None:
    manifest, lines = synthetic_run.records(synthetic_run.Truth(costs={"native": {}, "runc": {}}, blocks=1))
    folder: dict[str, Any] = {"manifest.json": manifest, **{f"{name}.jsonl": own for name, own in lines.items()}}
    whole = Draft202012Validator(SCHEMA)
    assert [error.json_path for error in whole.iter_errors(json.loads(json.dumps(folder)))] == []
    folder["trials.jsonl"][3]["status"] = "great"
    assert [error.json_path for error in whole.iter_errors(json.loads(json.dumps(folder)))] == [
        "$['trials.jsonl'][3].status"
    ]


WRONG: dict[str, dict[str, Any]] = {
    "a status that there is not": {"status": "great"},
    "a text for a number": {"trial": "17"},
    "a number for a text": {"platform": 17},
    "no repeats": {"repeats": 0},
    "a point that is none": {"points": [{}]},
    "a clock without marks' keys": {"clock": {"method": "icmp"}},
    "a list for an object": {"parameters": []},
}


@pytest.fixture(scope="module")
def trial() -> dict[str, Any]:
    """A trial as it is stored."""
    _, lines = synthetic_run.records(synthetic_run.Truth(costs={"native": {}, "runc": {}}, blocks=1))
    return dict(lines["trials"][0])


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_both(trial: dict[str, Any], changed: dict[str, Any]) -> None:
    assert faults("trials.jsonl", trial) == []
    parse_record(TrialRecord, trial)
    assert faults("trials.jsonl", {**trial, **changed}) != []
    with pytest.raises(RunFolderError):
        parse_record(TrialRecord, {**trial, **changed})


@pytest.mark.parametrize("key", ["trial", "status", "parameters", "evidence"])
def test_a_key_that_is_missing_is_refused_by_both(trial: dict[str, Any], key: str) -> None:
    without = {name: value for name, value in trial.items() if name != key}
    assert faults("trials.jsonl", without) == ["$"]
    with pytest.raises(RunFolderError):
        parse_record(TrialRecord, without)
