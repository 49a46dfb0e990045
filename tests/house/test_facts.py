"""The helper that asks a message for its facts finds them, and nothing that only looks like them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.support.facts import Command, assert_refused, missing_facts, refused

from virtoll.errors import UsageError, VirtollError

TEXT = "virtoll: x.yaml, line 12: key 'blocks' is 2.5,\nbut must be at least 3; run 'virtoll show forward'"


def fail(error: VirtollError) -> None:
    raise error


def test_facts_are_found_whatever_stands_around_them() -> None:
    facts = ("x.yaml", 12, "'blocks'", "blocks", 2.5, 3, Path("x.yaml"), Command("virtoll show forward"), "is 2.5, but")
    assert missing_facts(TEXT, *facts) == []


@pytest.mark.parametrize("fact", [1, 2, 5, 2.0, "block", "line 1", ".yam", "y.yaml", "show forwards", "'block'"])
def test_a_part_of_a_word_or_number_is_no_fact(fact: str | float) -> None:
    assert missing_facts(TEXT, fact) == [str(fact)]


def test_a_sentence_is_no_fact() -> None:
    with pytest.raises(ValueError, match="sentence"):
        missing_facts(TEXT, "but must be at least 3")


def test_a_refusal_is_of_its_class_and_one_line() -> None:
    with refused("x.yaml", error=UsageError, without=("y.yaml",)):
        fail(UsageError("x.yaml is not there"))
    with pytest.raises(AssertionError, match="one line"), refused("x.yaml"):
        fail(VirtollError("x.yaml\nis not there"))
    with pytest.raises(AssertionError, match="do not belong"), refused("x.yaml", without=("y.yaml",)):
        fail(VirtollError("x.yaml and y.yaml"))
    with pytest.raises(AssertionError, match="missing"), refused("z.yaml"):
        fail(VirtollError("x.yaml and y.yaml"))


@pytest.mark.parametrize(
    ("code", "error"), [(1, "virtoll: x.yaml"), (2, "virtoll: y.yaml"), (2, "Traceback\nKeyError: 'x.yaml'")]
)
def test_a_command_that_ends_otherwise_was_not_refused(code: int, error: str) -> None:
    assert_refused(subprocess.CompletedProcess((), 2, "", "virtoll: x.yaml"), "x.yaml")
    with pytest.raises(AssertionError):
        assert_refused(subprocess.CompletedProcess((), code, "", error), "x.yaml")
