"""The JSON Schema of an experiment's file: what loads is valid, and what it refuses does not load."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft7Validator
from tests.support.commands import virtoll
from tests.support.examples import blocks
from tests.support.experiments import document, parsed
from tests.support.repository import load_tool

from virtoll.errors import UsageError
from virtoll.experiment.file import PlatformEntry
from virtoll.experiment.parse import presets
from virtoll.experiment.schema import SCHEMA_FILE
from virtoll.runfolder.yaml_file import read_text, read_yaml

tables: ModuleType = load_tool("tables")
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))
VALIDATOR = Draft7Validator(SCHEMA)
TESTBED = {
    "generator": [{"host": {"ssh": "user@one"}, "interfaces": ["a"]}, {"host": {"ssh": "two"}, "interfaces": ["a"]}],
    "sink": {"host": {"ssh": "user@one"}, "interfaces": ["b"]},
    "hypervisor": {"host": "local", "interfaces": ["c", "d", "e"]},
}


def faults(value: Any) -> list[str]:
    """What the schema says of a file's content: the keys that are wrong."""
    as_json = json.loads(json.dumps(value))  # whose keys are text, as JSON Schema has them
    return [error.json_path for error in VALIDATOR.iter_errors(as_json)]


def test_the_package_carries_what_the_models_say() -> None:
    assert tables.schema_text() == SCHEMA_FILE.read_text(encoding="utf-8"), "run 'make tables'"
    Draft7Validator.check_schema(SCHEMA)
    assert json.loads(virtoll("show", "schema").stdout) == SCHEMA


@pytest.mark.parametrize("path", sorted(presets().glob("*.yaml")), ids=lambda path: path.stem)
def test_a_preset_is_valid(path: Path) -> None:
    assert faults(read_yaml(read_text(path), str(path)).value) == []


def test_an_example_is_valid() -> None:
    examples = [one for one in blocks() if one.language == "yaml" and one.text.startswith("name:")]
    assert examples
    assert {one.name: faults(read_yaml(one.text, one.name).value) for one in examples} == {
        one.name: [] for one in examples
    }


RIGHT: dict[str, dict[str, Any]] = {
    "a size in bytes": {"guest": {"memory": 2**28}},
    "on and off": {"platforms": ["native", {"platform": "qemu-tcg", "vhost": [True, "off"]}]},
    "factors": {"platforms": ["native", {"platform": "netns", "limits": ["none", "cgroup"], "cpu_max": 0.5}]},
    "a size of its own": {"platforms": ["native", {"platform": "netns", "guest": {"vcpus": [1, 2], "memory": "1GiB"}}]},
    "a nested host": {"platforms": ["native", {"platform": "runc", "host": "nested:kvm"}]},
    "until decided": {"blocks": {"least": 3, "until": "decided"}},
    "a testbed": {"testbed": TESTBED, "workloads": [{"workload": "forward", "sources": 2}]},
    "neighbours": {"scenario": "neighbours", "neighbours": ["idle", {"load": ["light", "heavy"], "guests": 2}]},
    "scale": {"scenario": "scale", "scale": {"guests": [1, 2], "memory": {1: "1GiB", 2: "512MiB"}}},
    "sizes": {"workloads": None, "sizes": {"quick": {"workloads": ["superpi"]}, "paper": {"workloads": ["masr"]}}},
    "consolidation": {"scenario": "consolidation", "workloads": None, "consolidation": {"guests": 5}},
}


@pytest.mark.parametrize("changed", RIGHT.values(), ids=RIGHT)
def test_what_loads_is_valid(changed: dict[str, Any]) -> None:
    assert faults(document(**changed)) == []
    assert parsed(**changed).platforms


WRONG: dict[str, dict[str, Any]] = {
    "no question": {"question": None},
    "a misspelt key": {"block": 3},
    "no workloads": {"workloads": None},
    "an unknown platform": {"platforms": ["native", "kvm"]},
    "an unknown workload": {"workloads": [{"workload": "mysql"}]},
    "a parameter of another": {"platforms": ["native", {"platform": "netns", "nic": "e1000"}]},
    "a value that is not allowed": {"platforms": ["native", {"platform": "qemu-tcg", "nic": ["virtio-net", "virtio"]}]},
    "an empty factor": {"workloads": [{"workload": "superpi", "digits": []}]},
    "a number beyond its limit": {"workloads": [{"workload": "superpi", "digits": 1}]},
    "a size without a unit that there is": {"guest": {"memory": "256 megs"}},
    "too little memory": {"guest": {"memory": 1024}},
    "a text for a number": {"blocks": "many"},
    "an unknown load": {"scenario": "neighbours", "neighbours": [{"load": "some"}]},
    "a label with capitals": {"platforms": ["native", {"platform": "netns", "label": "Mine"}]},
    "an unknown host": {"platforms": ["native", {"platform": "netns", "host": "nested:bhyve"}]},
    "one size alone": {"sizes": {"quick": {"blocks": 3}}},
    "workloads in a consolidation series": {"scenario": "consolidation"},
}


@pytest.mark.parametrize("changed", WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_both(changed: dict[str, Any]) -> None:
    assert faults(document(**changed)) != []
    with pytest.raises(UsageError):
        parsed(**changed)


@pytest.mark.parametrize("key", PlatformEntry.model_fields)
def test_a_key_of_every_entry_is_one_that_a_file_may_have(key: str) -> None:
    with pytest.raises(UsageError) as wrong_value:
        parsed(platforms=[{"platform": "native", key: [[]]}])
    with pytest.raises(UsageError) as wrong_key:
        parsed(platforms=[{"platform": "native", f"{key}x": [[]]}])
    (value,), (name,) = wrong_value.value.problems, wrong_key.value.problems
    assert value.key.startswith(f"platforms[0].{key}")
    assert value.said != name.said.replace(name.key, value.key)
    assert faults(document(platforms=[{"platform": "native", key: [[]]}])) == ["$.platforms[0]"]
