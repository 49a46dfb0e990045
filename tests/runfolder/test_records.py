"""Records as they are read: nothing that was stored is lost, and what a run has thousands of is held once."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support import synthetic_run
from tests.support.synthetic_run import Truth

from virtoll.runfolder.store import RunFolder, to_json
from virtoll.stats.values import canonical

UNKNOWN = "of_a_later_agent"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small run with the counters of every hop and of guests' processes."""
    return synthetic_run.write(
        tmp_path, Truth({"native": {}}, control=None, frame_sizes=(64,), wired=True, weighed=True)
    )


def with_unknown(value: Any) -> Any:
    """The same with a key that no record has in each object that has a key of a record."""
    if isinstance(value, dict):
        by_name = all(isinstance(one, int) for one in value.values())  # counters, or nothing
        return {name: with_unknown(one) for name, one in value.items()} | ({} if by_name else {UNKNOWN: 1})
    return [with_unknown(one) for one in value] if isinstance(value, list) else value


def test_what_no_field_declares_is_kept_wherever_it_stands(folder: Path) -> None:
    trials = folder / "trials.jsonl"
    stored = [with_unknown(json.loads(line)) for line in trials.read_text(encoding="utf-8").splitlines()]
    trials.write_text("".join(f"{json.dumps(one)}\n" for one in stored), encoding="utf-8")
    read = [to_json(one) for one in RunFolder.open(folder).trials()]
    assert any(one["points"] for one in stored)
    for value, before in zip(read, stored, strict=True):
        assert contains(value, before), value


def contains(value: Any, before: Any) -> bool:
    """Whether all that was there before is there, at its place; a record has its defaults besides."""
    if isinstance(before, dict):
        return all(name in value and contains(value[name], one) for name, one in before.items())
    if isinstance(before, list):
        return len(value) == len(before) and all(map(contains, value, before))
    return bool(value == before)


def test_a_record_that_was_read_is_stored_as_it_was(folder: Path, tmp_path: Path) -> None:
    run = RunFolder.open(folder)
    copy = RunFolder.create(tmp_path / "copy", run.manifest)
    for one in run.trials():
        copy.append_trial(one)
    assert copy.trials() == run.trials()
    assert list(map(to_json, copy.trials())) == list(map(to_json, run.trials()))


def test_equal_parameters_are_one_object_and_those_of_another_type_are_not(folder: Path) -> None:
    run = RunFolder.open(folder)
    parameters = [one.parameters for one in run.manifest.plan.trials] + [one.parameters for one in run.trials()]
    assert len({id(one) for one in parameters}) == len({canonical(one) for one in parameters}) > 1
    trials = folder / "trials.jsonl"
    first = json.loads(trials.read_text(encoding="utf-8").splitlines()[0])
    alike: list[object] = [1, 1.0, True, "1"]
    trials.write_text("".join(f"{json.dumps({**first, 'parameters': {'a': one}})}\n" for one in alike))
    assert [canonical(one.parameters) for one in run.trials()] == [json.dumps({"a": one}) for one in alike]
