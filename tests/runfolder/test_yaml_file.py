"""How the words of a user's YAML file are read: as YAML 1.2 has them, and none becomes something that nobody wrote."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.support import experiments
from tests.support.experiments import fake

from virtoll.errors import UsageError
from virtoll.experiment.parse import load_experiment
from virtoll.pipeline.preview import catalogue
from virtoll.runfolder.yaml_file import dump_yaml, load_yaml, parse_yaml

TEXTS = ("1:30:00", "1:30.5", "0b11", "0o8", "yes", "No", "on", "OFF", "y", "2026-11-27", "2026-11-27T10:00:00Z", "=")
NUMBERS = {
    "010": 10,
    "0o17": 15,
    "0x1F": 31,
    "+12": 12,
    "-3": -3,
    "1e3": 1000.0,
    "12e03": 12000.0,
    ".5": 0.5,
    "1.": 1.0,
}
OTHERS = {"true": True, "FALSE": False, "null": None, "~": None, "": None, "256M": "256M", "1_000": "1_000"}


@pytest.mark.parametrize(("word", "value"), [*((one, one) for one in TEXTS), *NUMBERS.items(), *OTHERS.items()])
def test_a_word_is_what_the_core_schema_says(word: str, value: object) -> None:
    found = parse_yaml(f"{word or 'key'}: {word}" if word else "key:", "x.yaml")
    assert list(found.values()) == [value]
    assert type(next(iter(found.values()))) is type(value)


def test_aliases_and_merged_keys_are_as_ever() -> None:
    assert parse_yaml("a: &a {b: 1}\nc: {<<: *a, d: 2}", "x.yaml")["c"] == {"b": 1, "d": 2}


@pytest.mark.parametrize("word", [*TEXTS, *NUMBERS, *OTHERS, "1_0", "<<", "1e3 "])
def test_a_text_that_is_written_is_the_same_text_for_every_reader(word: str) -> None:
    written = dump_yaml({"key": word})
    assert load_yaml(written) == yaml.safe_load(written) == {"key": word}


@pytest.mark.parametrize("word", ["1:30:00", "2026-11-27", "yes", "0b11"])
def test_no_such_word_is_a_number_of_blocks(word: str, tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model")
    text = "".join(line for line in file.read_text(encoding="utf-8").splitlines(keepends=True) if "blocks:" not in line)
    file.write_text(f"{text}blocks: {word}\n", encoding="utf-8")
    with pytest.raises(UsageError) as refused:
        load_experiment(file, catalogue())
    assert [one.key for one in refused.value.problems] == ["blocks"]
    assert word in refused.value.problems[0].said


@pytest.mark.parametrize(("word", "blocks"), [("010", 10), ("0x10", 16), ("1e1", 10)])
def test_a_number_of_blocks_may_be_written_as_any_number(word: str, blocks: int, tmp_path: Path) -> None:
    file = experiments.write(tmp_path, platforms=[fake("model"), fake("other")], baseline="model", blocks=2)
    file.write_text(file.read_text(encoding="utf-8").replace("blocks: 2", f"blocks: {word}"), encoding="utf-8")
    assert load_experiment(file, catalogue()).blocks == blocks
