"""`run`: an experiment measured by a process of its own, so that a notebook's is never moved into a lab."""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from virtoll.api.folders import new_folder
from virtoll.api.loaded import Run, load
from virtoll.errors import Interrupted, ThresholdMissed, ThresholdNotTold, UsageError, VirtollError
from virtoll.system.python import isolated

_KINDS: Final = {error.exit_code: error for error in (UsageError, Interrupted)}
_ENDED: Final = (0, ThresholdMissed.exit_code, ThresholdNotTold.exit_code)
_SIGN: Final = "virtoll: "


def run(
    experiment: str | Path,
    *,
    into: str | Path | None = None,
    size: str | None = None,
    platforms: Sequence[str] = (),
    workloads: Sequence[str] = (),
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    until: str | None = None,
    against: Sequence[str | Path] = (),
    progress: Callable[[str], None] | None = None,
) -> Run:
    """Measure an experiment as ``virtoll run`` does, with its report, and return the run when it has ended.

    ``experiment``: a preset's name or a YAML file's path. ``into``: the run's folder; a new one in the runs folder
    when None. The other options are the command's. ``progress``: called with each line that the command prints, such
    as ``print``; None: nothing is shown. Raises ``VirtollError``, or the kind of it that the command's exit code
    stands for, with the sentence that the command prints; ``Interrupted`` where it was interrupted. A run that misses
    a threshold has ended too, and is returned.
    """
    folder = new_folder(Path(experiment).stem, Path(into) if into is not None else None)
    words = isolated("virtoll", "run", f"--into={folder}", unbuffered=True)
    words += [f"--{key}={value}" for key, value in (("size", size), ("until", until)) if value is not None]
    filters = (("platform", platforms), ("workload", workloads), ("only", only), ("skip", skip))
    for key, values in (*filters, ("against", against)):
        words += [f"--{key}={value}" for value in values]
    with tempfile.TemporaryFile() as complaints:
        code = _ended([*words, "--", str(experiment)], complaints.fileno(), progress or (lambda _: None))
        complaints.seek(0)
        lines = complaints.read().decode(errors="replace").splitlines()
    if code not in _ENDED:
        sentence = next((line.removeprefix(_SIGN) for line in reversed(lines) if line.startswith(_SIGN)), "")
        raise _KINDS.get(code, VirtollError)(
            sentence or f"the measuring process ended with {code}: {lines[-1] if lines else 'it said nothing'}"
        )
    return load(folder)


def _ended(words: Sequence[str], complaints: int, progress: Callable[[str], None]) -> int:
    """The exit code of a command whose lines are told to ``progress``; what stops us interrupts it, once.

    It is in a session of its own: a terminal's interrupt reaches us alone, and we pass it on.
    """
    with subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints, start_new_session=True
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                progress(line.decode(errors="replace").rstrip("\n"))
            return process.wait()
        except KeyboardInterrupt:
            _interrupt(process)
            return process.wait()
        except BaseException:
            _interrupt(process)
            process.wait()
            raise


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """As ctrl-c does; what it still prints is read, so that it can end."""
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    if process.stdout is not None:
        process.stdout.read()
