"""Records as they are read: nothing that was stored is lost, and what a run has thousands of is held once."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import synthetic_run
from tests.support.facts import refused
from tests.support.synthetic_run import Truth

from virtoll.errors import RunFolderError
from virtoll.runfolder.records import TrialRecord
from virtoll.runfolder.store import RunFolder, parse_record
from virtoll.stats.values import canonical


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small run with the counters of every hop and of guests' processes."""
    return synthetic_run.write(
        tmp_path, Truth({"native": {}}, control=None, frame_sizes=(64,), wired=True, weighed=True)
    )


def objects_in(value: Any) -> Iterator[dict[str, Any]]:
    """Each object that has the keys of a record, at every depth."""
    if isinstance(value, dict):
        by_name = all(isinstance(part, int) for part in value.values())  # counters, or nothing
        if not by_name:
            yield value
        for name, part in value.items():
            if name not in ("parameters", "result"):
                yield from objects_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from objects_in(part)


def test_a_key_that_no_field_declares_is_refused_wherever_it_stands(folder: Path) -> None:
    lines = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    trial = next(trial for trial in map(json.loads, lines) if trial["points"])
    places = list(objects_in(trial))
    assert len(places) > 20
    for place in places:
        place["of_a_later_agent"] = 1
        with refused("of_a_later_agent", error=RunFolderError):
            parse_record(TrialRecord, trial)
        del place["of_a_later_agent"]
    assert parse_record(TrialRecord, trial).to_json() == trial


def test_a_record_that_was_read_is_stored_as_it_was(folder: Path, tmp_path: Path) -> None:
    run = RunFolder.open(folder)
    copy = RunFolder.create(tmp_path / "copy", run.manifest)
    for one in run.trials():
        copy.append(one)
    assert copy.trials() == run.trials()


def test_equal_parameters_are_one_object_and_those_of_another_type_are_not(folder: Path) -> None:
    run = RunFolder.open(folder)
    parameters = [one.parameters for one in run.manifest.plan.trials] + [one.parameters for one in run.trials()]
    assert len({id(one) for one in parameters}) == len({canonical(one) for one in parameters}) > 1
    trials = folder / "trials.jsonl"
    first = json.loads(trials.read_text(encoding="utf-8").splitlines()[0])
    alike: list[object] = [1, 1.0, True, "1"]
    trials.write_text("".join(f"{json.dumps({**first, 'parameters': {'a': one}})}\n" for one in alike))
    assert [canonical(one.parameters) for one in run.trials()] == [json.dumps({"a": one}) for one in alike]
