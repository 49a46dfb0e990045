"""The ``virtoll`` command line as a process, the way a person starts it, or in this process."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

from tests.support import failures
from tests.support.repository import ROOT

from virtoll.cli import main, output
from virtoll.host import packages

VIRTOLL = (sys.executable, "-m", "virtoll")
_WISHES = {"FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "SUDO_USER"}
READERS = frozenset(
    {"advise", "claims", "compare", "dataset", "explain", "export", "gate", "history", "list", "pack", "plan", "query"}
    | {"report", "runs", "schema", "show", "unpack", "--help", "--version"}
)
"""Commands that start no guest, ask nobody, and change nothing but the files that they are to write."""
DEADLINE_SECONDS = 1200.0
"""For a whole campaign or a doctor that tries everything: a bound on a hang, and no expectation of any machine."""


def environment(**changed: str) -> dict[str, str]:
    """The environment of a ``virtoll`` process: wide plain output, no colours, and no wishes of who runs the tests."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("VIRTOLL_") or key == "VIRTOLL_CACHE"}
    plain = {"COLUMNS": "200", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "PYTHONPATH": str(ROOT / "src")}
    wishes = {key for key in kept if key in _WISHES or key.startswith("PYTHON")}
    return {key: value for key, value in kept.items() if key not in wishes} | plain | changed


def with_mounts(mounts: Sequence[str], *argv: str) -> list[str]:
    """``argv`` behind a mount namespace of its own, in which these commands have changed the mounts."""
    script = " && ".join([*mounts, 'exec "$@"'])
    return ["unshare", "--mount", "--propagation", "private", "--", "sh", "-c", script, "sh", *argv]


def around_the_clone(covers: Sequence[str], keep: str | Path) -> list[str]:
    """These mounts, one of which covers the clone, and the clone in its place again; ``keep`` holds it meanwhile."""
    return [
        f"mount --bind {ROOT} {keep}",
        *covers,
        f"(umask 022 && mkdir -p {ROOT})",
        f"mount --bind {keep} {ROOT}",
    ]


def opening_mounts(keep: str | Path) -> list[str]:
    """Mounts that let others than root into a clone that lies below a closed folder, as ``mktemp -d`` makes them.

    That folder is covered by an open one that holds the clone alone. None where the way is open.
    """
    closed = next((at for at in reversed(ROOT.parents) if not at.stat().st_mode & stat.S_IXOTH), None)
    return around_the_clone([f"mount -t tmpfs -o mode=755 none {closed}"], keep) if closed is not None else []


def virtoll(
    *arguments: str | Path,
    runs: Path | None = None,
    stdin: bytes = b"",
    changed: Mapping[str, str] | None = None,
    way: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run ``virtoll ARGUMENTS`` to its end; ``runs`` is its runs folder, ``way`` a command that runs it elsewhere.

    A command that only reads runs in this process, unless it gets an input or must be started in another way: a new
    Python costs as much as most of what it is to do.
    """
    words = [str(argument) for argument in arguments]
    if words and words[0] in READERS and not (way or stdin or _needs_start(changed or {})):
        return in_process(*words, runs=runs, changed=changed)
    where = {"VIRTOLL_RUNS": str(runs)} if runs is not None else {}
    _note(words, runs)
    finished = subprocess.run(
        [*way, *VIRTOLL, *words],
        capture_output=True,
        input=stdin,
        timeout=DEADLINE_SECONDS,
        env=environment(**where, **(changed or {})),
        cwd=ROOT,
        check=False,
    )
    failures.note_end(finished.returncode, (finished.stderr or finished.stdout).decode())
    return subprocess.CompletedProcess(
        finished.args, finished.returncode, finished.stdout.decode(), finished.stderr.decode()
    )


def in_process(
    *arguments: str | Path, runs: Path | None = None, changed: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What ``virtoll ARGUMENTS`` answers in this process: for commands that enter no lab and ask nobody.

    The environment and the streams are as ``virtoll`` has them, and afterwards as before; the folder stays.
    Programs are found in a PATH of ``changed`` alone.
    """
    where = {"VIRTOLL_RUNS": str(runs)} if runs is not None else {}
    words = ["virtoll", *map(str, arguments)]
    _note(words[1:], runs)
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    changed = changed or {}
    with (
        mock.patch.dict(os.environ, environment(**where, **changed), clear=True),
        mock.patch.object(packages, "SYSTEM_FOLDERS", () if "PATH" in changed else packages.SYSTEM_FOLDERS),
        mock.patch.object(sys, "argv", words),
        mock.patch.object(sys, "stdin", io.StringIO()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        output.console.cache_clear()  # it keeps the width of COLUMNS
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            output.console.cache_clear()
    failures.note_end(code, _written(err) or _written(out))
    return subprocess.CompletedProcess(
        words, code if isinstance(code, int) else int(bool(code)), _written(out), _written(err)
    )


def output_of(*arguments: str | Path) -> str:
    """The standard output of a command that ends well, in this process."""
    finished = in_process(*arguments)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def _note(words: Sequence[str], runs: Path | None) -> None:
    """The command, the runs folder, and the run folder that is named for a new run."""
    failures.note_command(["virtoll", *words])
    into = [Path(folder) for option, folder in itertools.pairwise(words) if option == "--into"]
    for place in (*filter(None, [runs]), *into):
        failures.note_place(place)


def _written(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


def _needs_start(changed: Mapping[str, str]) -> bool:
    """Whether one of these variables is read when a process starts."""
    return any(name.startswith(("HOME", "LANG", "LC_", "LD_", "PYTHON", "TZ", "XDG")) for name in changed)
