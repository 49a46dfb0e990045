"""What works here for an ordinary user, found out by being one: ``virtoll doctor`` again, as nobody.

Main type: ``WithoutRoot``. ``asked`` starts it beside root's own, ``answer`` reads what it said. Root's image cache is
only read; nothing is made that outlives the process, which the kernel ends with this one.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from tempfile import gettempdir
from typing import Any

from virtoll.errors import remedy_for
from virtoll.image import default_cache
from virtoll.system.python import isolated

VERSION = 2
"""Of what ``doctor --json`` prints."""
_NOBODY = 65534
_KEPT = ("PATH", "LANG", "LC_ALL")
_DEADLINE_SECONDS = 400.0
_MOST_BYTES = 4 << 20  # any process of nobody's may write into the answer


@dataclass(frozen=True)
class WithoutRoot:
    """Whether a platform works for an ordinary user; None: nobody could find out, for that reason."""

    works: bool | None
    reason: str | None = None
    remedy: str = ""


NOT_ASKED = WithoutRoot(None, "nobody was asked")


def is_host_root() -> bool:
    """Whether this process is the host's own root: only it can become somebody else."""
    whole = Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", "4294967295"]
    return whole and os.geteuid() == 0


@contextlib.contextmanager
def asked(names: Sequence[str]) -> Iterator[int | None]:
    """A file descriptor from which ``answer`` can be read, while it lasts; None where this is no root.

    ``names``: the platforms; all without names.
    """
    if not is_host_root():
        yield None
        return
    with subprocess.Popen(
        command(names), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/"
    ) as process:
        try:
            yield process.stdout.fileno() if process.stdout else None
        finally:
            process.kill()


def command(names: Sequence[str] = (), user: int = _NOBODY) -> list[str]:
    """``virtoll doctor --json`` as this user, with no rights, no groups and no home."""
    kept = [f"{key}={value}" for key in _KEPT if (value := os.environ.get(key)) is not None]
    # Other processes of nobody's may make folders of foreseeable names first.
    places = [f"VIRTOLL_CACHE={default_cache().home}", f"VIRTOLL_STATE={gettempdir()}/virtoll-{token_hex(8)}"]
    become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig", "KILL", "--"]
    clean = ["env", "--ignore-environment", *kept, *places, "HOME=/nonexistent", "NO_COLOR=1"]
    return [*become, *clean, *isolated("virtoll", "doctor", "--json", "--", *names)]


def answer(descriptor: int) -> dict[str, WithoutRoot] | WithoutRoot:
    """What an ordinary user found out of each platform; or why he could not even ask."""
    output, deadline = b"", time.monotonic() + _DEADLINE_SECONDS
    while True:
        readable, _, _ = select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))
        if not readable:
            return WithoutRoot(
                None, f"nobody did not answer within {_DEADLINE_SECONDS:g} s", "try again when it is quiet"
            )
        chunk = os.read(descriptor, 1 << 16)
        if not chunk or len(output) > _MOST_BYTES:
            return parse(output.decode(errors="replace"), (Path(sys.executable), Path(__file__)))
        output += chunk


def parse(output: str, installed: Iterable[Path] = ()) -> dict[str, WithoutRoot] | WithoutRoot:
    """As ``answer``, from all that was said; ``installed``: files without which it cannot speak at all."""
    with contextlib.suppress(ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return _read(json.loads(output[output.index("{") :]))
    closed = next((folder for file in installed if (folder := closed_folder(file)) is not None), None)
    if closed is not None:
        why = f"nobody may not look into {closed}, where this Virtoll is"
        return WithoutRoot(None, why, remedy_for("for all users"))
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if lines and "Traceback (most recent call last):" in lines:  # it was started, and failed by itself
        return WithoutRoot(None, lines[-1], "report this as a defect of Virtoll")
    return WithoutRoot(None, lines[-1] if lines else "nobody could not start it", "see that all users can start it")


def _read(document: dict[str, Any]) -> dict[str, WithoutRoot] | WithoutRoot:
    if document.get("version") != VERSION:
        raise ValueError("another Virtoll answered")
    if document["platforms"]:
        return {str(row["platform"]): _row(row) for row in document["platforms"]}
    bad = [check for check in document["host"] if not check["good"]]
    reasons = "; ".join(check["found"] for check in bad)
    return WithoutRoot(False, reasons or "no platform was tried", bad[0]["remedy"] if bad else "")


def _row(row: dict[str, Any]) -> WithoutRoot:
    reason = None if row["reason"] is None else str(row["reason"])
    return WithoutRoot(bool(row["available"]), reason, str(row["remedy"]))


def closed_folder(file: Path) -> Path | None:
    """The uppermost folder on the way to a file, as named and as it really is, that others may not enter."""
    for path in (file, file.resolve()):
        for folder in reversed(path.parents):
            if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
                return folder
    return None
