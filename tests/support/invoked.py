"""Commands of the ``virtoll`` command line within this process: what they print, and how they refuse."""

from __future__ import annotations

from pathlib import Path

import typer.testing
from tests.support.facts import Fact, refused

from virtoll.cli import app


def done(*words: str | Path) -> str:
    """The standard output of a command that ends well."""
    result = typer.testing.CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def assert_command_refused(words: tuple[str | Path, ...], *facts: Fact) -> None:
    """A command refuses bad input, with exit code 2 and one line that has these facts."""
    with refused(*facts) as caught:
        done(*words)
    assert getattr(caught.value, "exit_code", None) == 2, caught.value
