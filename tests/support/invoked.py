"""Commands of the ``virtoll`` command line within this process: what they print, and how they refuse."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import typer.testing
from tests.support.facts import Fact, refused

from virtoll.cli import app, main


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


def in_process(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """``virtoll WORDS`` to its end, as a process of its own ends: with its exit code and both its outputs."""
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(one, encoding="utf-8", write_through=True) for one in written)
    code: object = 0
    argv = ["virtoll", *map(str, words)]
    wide = mock.patch.dict(os.environ, {"COLUMNS": "200", "NO_COLOR": "1"})
    with wide, mock.patch.object(sys, "argv", argv), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
    assert isinstance(code, int)
    return subprocess.CompletedProcess(argv, code, *(one.getvalue().decode() for one in written))
