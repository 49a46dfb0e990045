"""The ``virtoll`` command line in this process, where a process of its own is not the point."""

from __future__ import annotations

import contextlib
import io
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from virtoll import cli
from virtoll.cli.output import console


def virtoll_here(*arguments: str | Path, runs: Path = Path("/nonexistent/runs")) -> CompletedProcess[str]:
    """Run one command; an error that is none of Virtoll's own passes through."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with pytest.MonkeyPatch.context() as changed, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        changed.setattr(sys, "argv", ["virtoll", *map(str, arguments)])
        for name, value in {"VIRTOLL_RUNS": str(runs), "COLUMNS": "200", "NO_COLOR": "1"}.items():
            changed.setenv(name, value)
        console.cache_clear()  # it asks for a terminal once
        try:
            cli.main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        finally:
            console.cache_clear()
    return CompletedProcess(sys.argv, code, out.getvalue(), err.getvalue())
