"""``virtoll watch``: a run that goes on, followed without a byte being written; and what ``report --watch`` waits by.

Main functions: ``watch``, ``grown``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from virtoll.api.folders import find_run
from virtoll.cli import options
from virtoll.cli.output import say
from virtoll.errors import RunFolderError

if TYPE_CHECKING:
    from virtoll.cli.progress import Names

_WATCH_SECONDS = 1


def watch(
    run: options.Folder = "latest",
) -> None:
    """Follow a run that goes on: a line for each trial that ends. Writes nothing."""
    from virtoll.cli.progress import Names
    from virtoll.runfolder.jsonlines import read
    from virtoll.runfolder.overview import overview

    folder = find_run(run)
    names = Names(folder)
    trials = folder / "trials.jsonl"
    at = sum(len(line) + 1 for _, line in read(trials))
    begun = overview(folder)
    say(f"{folder}: {begun.state}, {begun.finished} of {begun.planned} trials")
    if begun.state == "running":
        for _ in grown(folder, _WATCH_SECONDS):
            at = _tell(trials, at, folder, names)
        _tell(trials, at, folder, names)
        ended = overview(folder)
        say(f"{folder}: {ended.state}, {ended.finished} of {ended.planned} trials")
    if overview(folder).state in ("killed", "interrupted"):
        say(f"continue it: virtoll resume {folder}")


def grown(folder: Path, seconds: float) -> Iterator[None]:
    """Once at once, and then whenever the records have grown, while a process writes them; looked at so often."""
    from virtoll.runfolder.overview import state_now

    seen = None
    while state_now(folder) == "running":
        size = sum(path.stat().st_size for path in folder.glob("*.jsonl"))
        if size != seen:
            yield
            seen = size
        time.sleep(seconds)


def _tell(trials: Path, at: int, folder: Path, names: Names) -> int:
    """A line for each whole record from this byte on; the byte after them."""
    from virtoll.runfolder.jsonlines import loads
    from virtoll.runfolder.overview import overview

    if not trials.exists():
        return at
    with trials.open("rb") as file:
        file.seek(at)
        data = file.read()
    whole = data[: data.rfind(b"\n") + 1]
    lines = whole.splitlines()
    if lines:
        now = overview(folder)
        for line in lines:
            try:
                record = loads(line)
                reason = f" ({record['reason']})" if record["reason"] else ""
                work = names.work(record["workload"], record["parameters"])
                say(f"block {record['block'] + 1} {record['platform']}, {work}: {record['status']}{reason}")
            except (ValueError, KeyError, TypeError) as error:
                raise RunFolderError(f"{trials}: a trial's record is damaged ({error!r}); restore it.") from error
        say(f"{now.finished} of {now.planned} trials")
    return at + len(whole)
