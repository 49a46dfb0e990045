"""What a test may ask of a message: its facts, and not its sentence.

A fact is what stays when somebody writes the sentence anew: a name, a key, a number with its unit, a path, a value that
was allowed or refused, the command that is the remedy. The words around the facts and their order are free.
A text that must stay as it is (help, a generated page) is a snapshot: see ``CONTRIBUTING.md``.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from virtoll.errors import VirtollError

Fact = str | int | float | Path
LONGEST_FACT_WORDS = 4


class Command(str):
    """A command as a message names it. It may have any number of words."""

    __slots__ = ()


def missing_facts(text: str, *facts: Fact) -> list[str]:
    """The facts that do not stand in ``text``, whatever its line breaks.

    A number is found as a whole number: 12 is in ``12 s``, and not in ``112``, ``12.5`` or ``v12``.
    """
    joined = " ".join(text.split())
    return [str(fact) for fact in facts if not _stands_in(fact, joined)]


def assert_facts(text: str, *facts: Fact) -> None:
    """``text`` has each of these facts."""
    missing = missing_facts(text, *facts)
    assert not missing, f"these facts are missing: {missing}\nin: {text}"


@contextlib.contextmanager
def refused(
    *facts: Fact, error: type[Exception] = VirtollError, without: tuple[Fact, ...] = ()
) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """The block raises ``error``, whose message is one line with these facts and ``without`` those."""
    with pytest.raises(error) as caught:
        yield caught
    text = str(caught.value)
    assert "\n" not in text, f"a message is one line: {text}"
    assert_facts(text, *facts)
    unwanted = sorted({str(fact) for fact in without} - set(missing_facts(text, *without)))
    assert not unwanted, f"these facts do not belong there: {unwanted}\nin: {text}"


def assert_refused(result: subprocess.CompletedProcess[str], *facts: Fact, code: int = 2) -> None:
    """A command ended with ``code``, printed no traceback, and its standard error has these facts."""
    assert result.returncode == code, f"it ended with {result.returncode}:\n{result.stdout}\n{result.stderr}"
    assert "Traceback" not in result.stderr, result.stderr
    assert_facts(result.stderr, *facts)


def _stands_in(fact: Fact, text: str) -> bool:
    words = str(fact).split()
    if isinstance(fact, str) and not isinstance(fact, Command) and len(words) > LONGEST_FACT_WORDS:
        raise ValueError(f"{fact!r} is a sentence and no fact: assert its names and numbers")
    looked_for = re.escape(" ".join(words))
    if not words[0][0].isalnum() and not words[-1][-1].isalnum():
        return re.search(looked_for, text) is not None
    before = r"(?<![\w])" if words[0][0].isalnum() else ""
    before += r"(?<!\d\.)" if words[0][0].isdigit() else ""
    after = r"(?![\w])" if words[-1][-1].isalnum() else ""
    after += r"(?!\.\d)" if words[-1][-1].isdigit() else ""
    return re.search(f"{before}{looked_for}{after}", text) is not None
