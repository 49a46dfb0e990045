"""``virtoll`` in a child of this process, which has its modules already: hundreds of commands a minute on one core.

`virtoll` runs one command to its end. The child has its own standard output and error, and dies with its parent.
"""

from __future__ import annotations

import ctypes
import gc
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

BOUND_SECONDS: Final = 300
"""After which a command counts as hanging: a bound, and no expectation of any machine."""
_TOLD = re.compile(r"^(\d+)/\d+ block ", re.MULTILINE)
_PARENT_DIES = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Ended:
    """How a command ended; ``code``: negative for the signal that ended it."""

    code: int
    out: str
    err: str

    @property
    def finished(self) -> int:
        """How many trials it told as finished, those of before among them; 0 where it told none."""
        return max((int(one) for one in _TOLD.findall(self.out)), default=0)

    @property
    def sentence(self) -> str:
        """What it told on the standard error; the last line."""
        return (self.err.strip().splitlines() or [""])[-1]

    @property
    def complaint(self) -> str | None:
        """What is wrong with how it ended: a traceback, no sentence, several, an odd exit code; None: nothing."""
        lines = [line for line in self.err.splitlines() if line.startswith("virtoll: ")]
        if self.code < 0:
            return f"ended by signal {-self.code}"
        if "Traceback" in self.err:
            return f"a traceback: {self.sentence}"
        if self.code not in (0, 1, 2, 130):
            return f"exit code {self.code}"
        if self.code and len(lines) != 1:
            return f"{len(lines)} sentences: {self.err!r}"
        return None


def started(
    *arguments: str | Path, changed: Mapping[str, str] | None = None, work: Callable[[], None] | None = None
) -> tuple[int, int, int]:
    """Start ``virtoll ARGUMENTS``, or ``work`` in its place.

    The process, and the descriptors of its output and error, for `ended`.
    """
    out, err = (os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR, 0o600) for _ in range(2))
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _run([str(one) for one in arguments], {**(changed or {})}, out, err, work)
    return child, out, err


def ended(process: tuple[int, int, int]) -> Ended:
    """Wait for its end."""
    child, out, err = process
    _, status = os.waitpid(child, 0)
    texts = []
    for one in (out, err):
        texts.append(os.pread(one, os.fstat(one).st_size, 0).decode(errors="replace"))
        os.close(one)
    return Ended(os.waitstatus_to_exitcode(status), *texts)


def virtoll(*arguments: str | Path, changed: Mapping[str, str] | None = None) -> Ended:
    """Run ``virtoll ARGUMENTS`` to its end, with these variables besides."""
    return ended(started(*arguments, changed=changed))


def called(work: Callable[[], None]) -> Ended:
    """Do some work in a child, as a command is run."""
    return ended(started(work=work))


def warm(*arguments: str | Path) -> None:
    """Import once what the commands need; ``virtoll ARGUMENTS`` ends well here, so that its forks have all it makes."""
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    os.environ.update({"COLUMNS": "200", "NO_COLOR": "1"})
    import virtoll.cli.progress
    import virtoll.host.fingerprint
    import virtoll.host.fitness
    import virtoll.pipeline.drafts
    import virtoll.pipeline.execution
    import virtoll.pipeline.merge
    import virtoll.platforms.fake.driver
    import virtoll.report.build
    import virtoll.report.dataset.kept
    import virtoll.runfolder.records
    import virtoll.runfolder.unpacking
    import virtoll.workloads  # noqa: F401

    if arguments:  # not in a machine, which has no tests
        from tests.support.commands import output_of

        output_of(*arguments)
    keep_shared()


def keep_shared() -> None:
    """What is in memory stays shared with forks: one that collects garbage would copy all of it."""
    gc.collect()
    gc.freeze()


def _run(arguments: list[str], changed: Mapping[str, str], out: int, err: int, work: Callable[[], None] | None) -> None:
    """In the child: never returns."""
    code = 1
    try:
        _libc.prctl(_PARENT_DIES, signal.SIGKILL)
        signal.alarm(BOUND_SECONDS)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.update(changed)
        sys.argv = ["virtoll", *arguments]
        from virtoll.cli import main

        (work or main)()
        code = 0
    except SystemExit as asked:
        code = asked.code if isinstance(asked.code, int) else 0 if asked.code is None else 1
    except BaseException:  # noqa: BLE001 - as Python tells it at the top of a process
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
